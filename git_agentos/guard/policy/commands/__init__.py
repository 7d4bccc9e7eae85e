"""One module for each group of git subcommands: what a command line of it would do."""
