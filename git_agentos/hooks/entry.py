"""A hook's name -> the function for it, and the one boundary for its errors."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence

from git_agentos.errors import AgentosError
from git_agentos.hooks import talk
from git_agentos.hooks.called import Called

GO_ON, STOP, FAILED = 0, 3, 70

_HOMES = {
    "fsmonitor": "files",
    "unlock": "files",
    "reference-transaction": "refs",
    "pre-commit": "gates",
    "pre-rebase": "gates",
    "pre-merge-commit": "gates",
    "pre-push": "gates",
    "post-commit": "record",
    "post-checkout": "record",
    "post-merge": "record",
    "post-rewrite": "record",
    "new-worktree": "record",
    "stash": "record",
    "refresh": "chain",
}


def main(argv: Sequence[str]) -> int:
    """Run the hook `argv[0]`: the exit code. What follows are the pid of the git that called, and what git gave the
    hook; `shim` has arguments of its own."""
    if argv and argv[0] == "shim":
        from git_agentos.hooks import shim

        return shim.main(list(argv[1:]))
    if len(argv) < 2 or argv[0] not in _HOMES or not argv[1].isdigit():
        talk.tell("git-agentos: this is what git hooks start: hook NAME GIT-PID [ARG...]")
        return 2
    try:
        home = importlib.import_module(f"git_agentos.hooks.{_HOMES[argv[0]]}")
        function: Callable[[Called], int] = getattr(home, argv[0].replace("-", "_"))
        return function(Called(int(argv[1]), tuple(argv[2:])))
    except (AgentosError, OSError) as error:
        talk.tell(f"git-agentos: {argv[0]}: {error}")
        if isinstance(error, AgentosError) and error.hint:
            talk.tell(f"  {error.hint}")
    except Exception as error:  # noqa: BLE001 - the boundary: a hook has nobody above it to tell
        # Inside of somebody's git command: what cannot be decided is told, and who can mend it is pointed at.
        talk.tell(f"git-agentos: {argv[0]}: a bug: {type(error).__name__}: {error} (git agentos doctor)")
    return _failed(argv[0], int(argv[1]))


def _failed(name: str, pid: int) -> int:
    """What cannot be decided is stopped for an agent, also where only we can see that it is one."""
    if name.startswith(("post-", "new-worktree", "refresh", "stash", "unlock")):
        return FAILED
    from git_agentos.guard import identity

    if identity.identify(os.environ, os.environ.get("GIT_DIR") or ".git", pid).agent is None:
        return FAILED
    talk.tell("git-agentos: stopped: the guard cannot decide about this command, and an agent's does not run then")
    return STOP
