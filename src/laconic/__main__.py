"""Run the command line: `python -m laconic`."""

from laconic.cli.main import main

main()
