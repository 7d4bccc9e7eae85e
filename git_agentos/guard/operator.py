"""Deciding for agents: whether the caller may do that, and where their approval requests are."""

from __future__ import annotations

import contextlib
import os
import sys

from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.guard.approval import authority, documents
from git_agentos.guard.approval.documents import Store
from git_agentos.guard.configuration import settings


def require_operator(location: Location, agent: str | None, action: str, *, since: float | None = None) -> str:
    """How the caller has shown that it may decide for agents; PolicyError if it has not.

    `agent` is the id that it acts as, if it has named one; `action` is for the message (`granting`); `since` is when
    the request was made that is decided.
    """
    key_file = settings.read(location.root, os.environ).approval_key
    who = authorize.current(agent)
    return authority.require_person(who, location, terminal=_terminal(), key_file=key_file, what=action, since=since)


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
