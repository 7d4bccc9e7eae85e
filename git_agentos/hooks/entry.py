"""Running a hook by its name. All errors of hooks are handled here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence

from git_agentos.errors import AgentosError
from git_agentos.hooks import FAILED, STOP, HookCall, output

_MODULES = {
    "fsmonitor": "judges",
    "unlock": "judges",
    "reference-transaction": "judges",
    "pre-commit": "judges",
    "pre-rebase": "judges",
    "pre-merge-commit": "judges",
    "pre-push": "judges",
    "post-commit": "pending",
    "post-checkout": "pending",
    "post-merge": "pending",
    "post-rewrite": "pending",
    "publish": "pending",
    "new-worktree": "recorders",
    "stash": "recorders",
    "refresh": "user_hooks_cache",
}


def main(argv: Sequence[str]) -> int:
    """Run the hook `argv[0]`; returns the exit code. The other arguments are the pid of the calling git, and the hook's
    own; `shim` has only arguments of its own."""
    if argv and argv[0] == "shim":
        from git_agentos.hooks import shim

        return shim.main(list(argv[1:]))
    if len(argv) < 2 or argv[0] not in _MODULES or not argv[1].isdigit():
        output.to_stderr("git-agentos: usage: git-agentos hook NAME GIT-PID [ARG...] (git hooks start it)")
        return 2
    try:
        module = importlib.import_module(f"git_agentos.hooks.{_MODULES[argv[0]]}")
        function: Callable[[HookCall], int] = getattr(module, argv[0].replace("-", "_"))
        return function(HookCall(int(argv[1]), tuple(argv[2:])))
    except (AgentosError, OSError) as error:
        output.to_stderr(f"git-agentos: {argv[0]}: {error}")
        if isinstance(error, AgentosError) and error.hint:
            output.to_stderr(f"  {error.hint}")
    except Exception as error:  # noqa: BLE001 - the boundary: nothing above a hook reports errors
        output.to_stderr(f"git-agentos: {argv[0]}: a bug: {type(error).__name__}: {error} (git agentos doctor)")
    return _failed(argv[0], int(argv[1]))


def _failed(name: str, pid: int) -> int:
    """The exit code of a hook that failed: an agent's command is stopped, even if the script did not detect the
    agent."""
    if name.startswith(("post-", "new-worktree", "publish", "refresh", "stash", "unlock")):
        return FAILED
    from git_agentos.guard import identity

    if identity.identify(os.environ, os.environ.get("GIT_DIR") or ".git", pid).agent is None:
        return FAILED
    output.to_stderr("git-agentos: stopped: the guard failed, and an agent's command needs its decision")
    return STOP
