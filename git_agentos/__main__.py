"""`python -m git_agentos` is `git-agentos`."""

from git_agentos.cli.entry import main

main()
