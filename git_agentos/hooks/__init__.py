"""What the git hooks do in Python: the entry points of the scripts in `hooks/` at the top of this project.

    entry.py             a hook's name -> the function for it
    git_command.py       the git command that called a hook, and who gave it
    judges.py            core.fsmonitor, reference-transaction, pre-commit, pre-rebase, pre-merge-commit, pre-push
    decision.py          assess, enforce, record what was allowed: what all judges do
    allowed.py           which git processes were allowed, for the scripts to see
    pending.py           post-commit, post-checkout, post-merge, post-rewrite: what the scripts noted is recorded
    notes.py             the notes that these scripts write
    recorders.py         the checkpoints that hooks create; new-worktree, stash
    user_hooks_cache.py  where the user's own hooks are, for the scripts to see
    shim.py              the shim's question
    output.py            messages on stderr, answers on stdout

They run inside of other people's git commands. Standard library only until something must be saved: everything else is
imported where it is used. A hook's exit code is one of those below; any other is a failure, and the script decides what
that means (`decide` in `hooks/guard.sh`).
"""

from __future__ import annotations

from typing import NamedTuple

CONTINUE, STOP, FAILED = 0, 3, 70


class HookCall(NamedTuple):
    """How git called a hook: `pid` is the git process, `args` are the hook's arguments."""

    pid: int
    args: tuple[str, ...]
