"""The Python part of the git hooks, which the scripts in `hooks/` at the top of this project start.

    entry.py             a hook's name -> the function for it
    git_command.py       the git command that called a hook, and its agent
    judges.py            core.fsmonitor, reference-transaction, pre-commit, pre-rebase, pre-merge-commit, pre-push
    decision.py          assess a command, enforce the decision, record what was allowed: common to all judges
    pending.py           post-commit, post-checkout, post-merge, post-rewrite: records what the scripts noted;
                         publish: appends what hooks created while git had locked all refs
    recorders.py         the checkpoints that hooks create; new-worktree, stash
    user_hooks_cache.py  a cache of where the user's own hooks are, for the scripts
    shim.py              decides for the shim
    output.py            messages on stderr, results on stdout

They run inside users' git commands. They use only the standard library until something must be saved; everything else
is imported where it is used. A hook's exit code is one of those below; any other is a failure, which the script handles
(`decide` in `hooks/guard.sh`).
"""

from __future__ import annotations

from git_agentos.util.named_tuple import NamedTuple

CONTINUE, STOP, FAILED = 0, 3, 70


class HookCall(NamedTuple):
    """How git called a hook: `pid` is the git process, `args` are the hook's arguments."""

    pid: int
    args: tuple[str, ...]
