"""Who may decide for an agent: grant and deny, and whatever else waits for the one who runs it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from git_agentos.errors import PolicyError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.guard.approval import terminal as terminals
from git_agentos.guard.identity import ILL_FORMED, Identity

_FOR_SCRIPTS = (
    "git config --global agentos.approvalKey FILE, a file that agents cannot read, and once git agentos guard confirm"
    " in a terminal"
)


def require(
    who: Identity,
    location: Location,
    *,
    terminal: int | None,
    key_file: str | None,
    what: str,
    since: float | None = None,
) -> str:
    """Refuse (PolicyError) where `who` may not decide in the repository of `location`; how the right is shown.

    An agent never may. A person does at a terminal (`terminal` is its descriptor) that was not made by an agent, or by
    a key: `key_file` (agentos.approvalKey) is a file outside of every worktree and of the repository, has something in
    it, and can be read. `since` is when what is decided about was asked for.
    """
    if who.agent is not None:
        raise refusal(who, what)
    why = "stdin is none" if terminal is None else terminals.problem(terminal, location, since=since)
    if why is None:
        return "terminal"
    if key_file is None:
        if terminal is None:
            raise PolicyError(f"{what} takes a terminal, and {why}", f"for scripts: {_FOR_SCRIPTS}")
        raise PolicyError(
            f"{what} takes a person's terminal, and it cannot be seen that this is one: {why}",
            f"use one that a login (ssh, console) or the desktop has opened, or a key: {_FOR_SCRIPTS}",
        )
    _check(key_file, location, what)
    return "key"


def refusal(who: Identity, what: str) -> PolicyError:
    """What an agent is told that would decide for agents; `what` is for people: `granting`."""
    by = {
        "environment": "AGENTOS_AGENT_ID is set",
        "ill-formed": "AGENTOS_AGENT_ID is set, and is no agent id",
        "worktree": "this is an agent's worktree",
        "ancestor": "a process above this one is an agent's",
        "as": "--as says so",
    }[who.source]
    name = "an agent" if who.agent == ILL_FORMED else f"agent '{who.agent}'"
    return PolicyError(
        f"{what} is not for agents, and this is {name}: {by}",
        "whoever runs the agents decides, in a terminal of their own, outside of the agents' worktrees",
    )


def _check(key_file: str, location: Location, what: str) -> None:
    def refuse(why: str) -> PolicyError:
        return PolicyError(f"{what} takes a terminal or a key: agentos.approvalKey '{key_file}' {why}")

    if not os.path.isabs(key_file):
        raise refuse("is not an absolute path")
    path = os.path.realpath(key_file)
    for place in _places(location):
        if path == place or path.startswith(place.rstrip(os.sep) + os.sep):
            raise refuse(f"is inside of '{place}', where agents can write")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise refuse(f"cannot be read: {(error.strerror or '').lower()}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not os.read(descriptor, 1):
            raise refuse("is empty, or not a file")
    except OSError as error:
        raise refuse(f"cannot be read: {(error.strerror or '').lower()}") from None
    finally:
        os.close(descriptor)


def _places(location: Location) -> Sequence[str]:
    """Every worktree of the repository, and the repository."""
    found = [location.root, location.common_dir]
    if os.path.basename(location.common_dir) == ".git":
        found.append(os.path.dirname(location.common_dir))
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        root = worktrees.root_or_none(git_dir)
        if root is not None:
            found.append(os.path.realpath(root))
    return found
