from laconic.cli import main

main()
