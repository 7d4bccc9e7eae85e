"""Deciding for agents: who may grant and deny requests, confirm settings, accept runs and approve workflows; and where
the requests are."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Sequence

from git_agentos.config import NO_DECISIONS
from git_agentos.errors import PolicyError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.guard.approval import documents
from git_agentos.guard.approval import terminal as terminals
from git_agentos.guard.approval.documents import Store
from git_agentos.guard.configuration import settings
from git_agentos.guard.paths import is_below

_ALLOWS = "git agentos ui --web --allow-approvals"
_FOR_SCRIPTS = (
    "git config --global agentos.approvalKey FILE, a file that agents cannot read, and once git agentos guard confirm"
    " in a terminal"
)


def require_operator(location: Location, agent: str | None, action: str, *, since: float | None = None) -> str:
    """Check that the caller may decide in the repository of `location`: `terminal` or `key`, by which that is known;
    else PolicyError.

    An agent may not. A person needs a terminal as stdin that no agent has created, or a key: agentos.approvalKey is a
    readable file that is not empty, outside of the repository and its worktrees.
    `agent` is the id that the caller acts as, if it has named one; `since` is the time of the request that is decided
    about; `action` is for messages: `granting`.
    """
    if os.environ.get(NO_DECISIONS):
        raise PolicyError(f"{action} is not allowed in this browser", f"'{_ALLOWS}' allows it there")
    key_file = settings.read(location.root, os.environ).approval_key
    who = authorize.current(agent)
    if who.agent is not None:
        raise authorize.refusal(who, action)
    terminal = _terminal()
    problem = "stdin is none" if terminal is None else terminals.problem(terminal, location, since=since)
    if problem is None:
        return "terminal"
    if key_file is None:
        if terminal is None:
            raise PolicyError(f"{action} takes a terminal, and {problem}", f"for scripts: {_FOR_SCRIPTS}")
        raise PolicyError(
            f"{action} takes a person's terminal, and this may not be one: {problem}",
            f"use one that a login (ssh, console) or the desktop has opened, or a key: {_FOR_SCRIPTS}",
        )
    _check_key_file(key_file, location, action)
    return "key"


def approval_store(location: Location, *, create: bool) -> Store:
    """The approval requests of a repository."""
    expiry = settings.read(location.root, os.environ).approval_expiry
    return documents.open_store(location.common_dir, os.environ, expiry=expiry, create=create)


def _terminal() -> int | None:
    """The descriptor of stdin if it is a terminal."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) else None
    return None


def _check_key_file(key_file: str, location: Location, what: str) -> None:
    def refuse(why: str) -> PolicyError:
        return PolicyError(f"{what} takes a terminal or a key: agentos.approvalKey '{key_file}' {why}")

    if not os.path.isabs(key_file):
        raise refuse("is not an absolute path")
    path = os.path.realpath(key_file)
    for folder in _repository_folders(location):
        if is_below(path, folder):
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
