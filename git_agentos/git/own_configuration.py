"""Settings that are read only from the user's own configuration: system, global, the repository's `config`, and, where
that is said, the command line. Never from a file that a repository could contain: not from a worktree's
`config.worktree`, which agents can write, and not from a file inside of a worktree that the configuration includes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_agentos.errors import ConfigurationError
from git_agentos.git import process, worktrees
from git_agentos.git.location import Location

_SCOPES = ("system", "global", "local")
_COMMAND_LINE = "command"


def users_value(location: Location, key: str) -> str | None:
    """The value of a key in the system's and the user's own files alone; None if it has none there. What is set
    elsewhere does not count."""
    found = None
    for scope, origin, text in _values(location, key):
        if scope in _SCOPES[:2] and worktrees.is_trusted_config_origin(origin, location.root, location.common_dir):
            found = text
    return found or None


def value(location: Location, key: str, hint: str, *, command_line: bool = False) -> str | None:
    """The value of a key, None if it has none; ConfigurationError, with `hint`, if it was set in a place from which it
    is not taken. With `command_line`, `git -c` counts as well."""
    found = values(location, key, hint, command_line=command_line)
    return (found[-1] if found else None) or None


def values(location: Location, key: str, hint: str, *, command_line: bool = False) -> list[str]:
    """The same for a key that can have several values: all of them, in their order."""
    scopes = (*_SCOPES, _COMMAND_LINE) if command_line else _SCOPES
    found: list[str] = []
    for scope, origin, text in _values(location, key):
        trusted = worktrees.is_trusted_config_origin(origin, location.root, location.common_dir)
        if scope not in scopes or not trusted:
            where = origin.removeprefix("file:")
            raise ConfigurationError(f"'{key}' is set in '{where}', which is not your own configuration", hint)
        found.append(text)
    return found


def _values(location: Location, key: str) -> Iterator[tuple[str, str, str]]:
    """Scope, origin and text of each value of a key."""
    args = ["config", "--null", "--show-scope", "--show-origin", "--get-all", key]
    out = process.run(args, cwd=location.root, env=location.environment(), neutral_config=False, ok=(0, 1))
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    for n in range(0, len(fields) - 2, 3):
        yield fields[n], fields[n + 1], fields[n + 2]
