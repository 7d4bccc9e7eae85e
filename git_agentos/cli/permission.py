"""What an agent needs approval for, wherever it calls it from, and what only whoever runs the agents decides."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from git_agentos.errors import PolicyError

if TYPE_CHECKING:
    from git_agentos.cli.common import Invocation
    from git_agentos.git.location import Location


def ask(run: Invocation, *words: str) -> None:
    """Go on where `git agentos WORDS` may be run by who calls it; else a PolicyError says why not."""
    from git_agentos.guard import identity

    where = os.path.abspath(run.directory)
    who = identity.who(os.environ, identity.git_dir_of(where), os.getpid(), run.agent)
    if who.agent is None:
        return
    from git_agentos.guard import enforce, judge, settings
    from git_agentos.guard.call import Call

    call = Call(("git", "agentos", *words), where, os.environ)
    known = settings.read(where, os.environ)
    judgement = judge.judge(call, who, known)
    verdict = enforce.enforce(call, judgement, who, layer="shim", pid=os.getpid(), settings=known)
    if not verdict.run:
        first, *rest = (line.strip().removeprefix("git-agentos: ") for line in verdict.message.splitlines())
        if who.how in ("worktree", "ancestor"):
            rest.append("who works in an agent's worktree counts as that agent; others do this from outside of it")
        raise PolicyError(first, "\n".join(rest))


def ask_unless_own(run: Invocation, run_id: str | None, *words: str) -> None:
    """As `ask`, for what an agent may do to the run in whose worktree it stands itself, and to no other.

    Where it stands is this process's folder: `-C` would make every run its own.
    """
    from git_agentos.guard import identity

    here = identity.git_dir_of(os.getcwd())
    own = identity.recorded(here) if here is not None else None
    there = identity.git_dir_of(os.path.abspath(run.directory))
    wanted = f"run-{run_id}" if run_id is not None else identity.recorded(there) if there is not None else None
    if wanted is None or wanted != own:
        ask(run, *words)


def require(run: Invocation, location: Location, what: str) -> str:
    """How the right to decide for agents is shown; a PolicyError where an agent asks, or nobody who could be a person.

    `what` is for people: `granting`.
    """
    from git_agentos.guard import identity, settings
    from git_agentos.guard.approval import authority

    who = identity.who(os.environ, identity.git_dir_of(os.getcwd()), os.getpid(), run.agent)
    known = settings.read(location.root, os.environ)
    terminal = sys.stdin is not None and sys.stdin.isatty()
    return authority.require(who, location, terminal=terminal, key_file=known.approval_key, what=what)
