"""What `git agentos init` sets up in a repository, and takes back: hooks, adapters of harnesses, the watch daemon.

    commands.py     the way in: set up, take back
    layers.py       what is protected from what, each looked at
    suggestions.py  what new worktrees will need, by the lock files of the project
    harnesses.py    the harnesses of this machine, and whether each asks the guard here: for `doctor`

Nothing is installed here that `hooks install`, `guard integrate` and `watch start` do not install as well: their
functions are called. What was there before is in the record (`guard.setup.init_record`).
"""
