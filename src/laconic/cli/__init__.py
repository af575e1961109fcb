"""The command line: one verb or family of verbs per file, with the tables and progress bars that they show."""
