"""Who may decide for agents: grant and deny requests, confirm settings, accept runs, approve workflows."""

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


def require_person(
    who: Identity,
    location: Location,
    *,
    terminal: int | None,
    key_file: str | None,
    what: str,
    since: float | None = None,
) -> str:
    """Check that `who` may decide in the repository of `location`: `terminal` or `key`, by which that is known; else
    PolicyError.

    An agent may not. A person needs a terminal (`terminal` is its descriptor) that no agent has created, or a key:
    `key_file` (agentos.approvalKey) is a readable file that is not empty, outside of the repository and its worktrees.
    `since` is the time of the request that is decided about. `what` is for messages: `granting`.
    """
    if who.agent is not None:
        raise refusal(who, what)
    problem = "stdin is none" if terminal is None else terminals.problem(terminal, location, since=since)
    if problem is None:
        return "terminal"
    if key_file is None:
        if terminal is None:
            raise PolicyError(f"{what} takes a terminal, and {problem}", f"for scripts: {_FOR_SCRIPTS}")
        raise PolicyError(
            f"{what} takes a person's terminal, and this may not be one: {problem}",
            f"use one that a login (ssh, console) or the desktop has opened, or a key: {_FOR_SCRIPTS}",
        )
    _check_key_file(key_file, location, what)
    return "key"


def refusal(who: Identity, what: str) -> PolicyError:
    """The error for an agent that would decide; `what` is for messages: `granting`."""
    by = {
        "environment": "AGENTOS_AGENT_ID is set",
        "ill-formed": "AGENTOS_AGENT_ID is set, and is not an agent id",
        "worktree": "this is an agent's worktree",
        "ancestor": "a process above this one is an agent's",
        "as": "--as names it",
    }[who.source]
    name = "an agent" if who.agent == ILL_FORMED else f"agent '{who.agent}'"
    return PolicyError(
        f"{what} is not for agents, and this is {name}: {by}",
        "the person who runs the agents decides, in a separate terminal, outside of the agents' worktrees",
    )


def _check_key_file(key_file: str, location: Location, what: str) -> None:
    def refuse(why: str) -> PolicyError:
        return PolicyError(f"{what} takes a terminal or a key: agentos.approvalKey '{key_file}' {why}")

    if not os.path.isabs(key_file):
        raise refuse("is not an absolute path")
    path = os.path.realpath(key_file)
    for folder in _repository_folders(location):
        if path == folder or path.startswith(folder.rstrip(os.sep) + os.sep):
            raise refuse(f"is inside of '{folder}', where agents can write")
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


def _repository_folders(location: Location) -> Sequence[str]:
    """The folders of all worktrees, and of the repository."""
    folders = [location.root, location.common_dir]
    if os.path.basename(location.common_dir) == ".git":
        folders.append(os.path.dirname(location.common_dir))
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        root = worktrees.root_or_none(git_dir)
        if root is not None:
            folders.append(os.path.realpath(root))
    return folders
