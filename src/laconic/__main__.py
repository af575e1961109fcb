from laconic.cli.main import main

main()
