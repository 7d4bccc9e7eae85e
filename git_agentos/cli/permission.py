"""Commands that change the guard itself: an agent needs approval for them, wherever it calls them from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from git_agentos.errors import PolicyError

if TYPE_CHECKING:
    from git_agentos.cli.common import Invocation


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
