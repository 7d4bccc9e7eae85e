"""`python -m git_agentos` is `git-agentos`."""

import sys

# `python -m` searches the current directory for modules first, which is a repository: its `queue.py` is not ours.
if not sys.flags.safe_path:
    del sys.path[0]

from git_agentos.launch import main

main()
