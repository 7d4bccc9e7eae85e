"""What keeps harnesses that were integrated in a worktree from asking the guard: for `doctor` and `guard status`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.guard import harness
from git_agentos.guard.harness import contact, integration, requirements

MISSING, UNREAD, WITHOUT_EXEC = "missing", "unread", "without-exec"


class Trouble(NamedTuple):
    """`kind` says what is wrong: our hooks are MISSING, UNREAD, or the harness runs WITHOUT_EXEC though it should."""

    kind: str
    message: str
    hint: str | None = None
    fixed: bool = False


def examine(location: Location, environment: Mapping[str, str], *, fix: bool) -> Iterator[Trouble]:
    """Settings that lack our hooks, or that the harness does not read; with `fix`, our hooks are put back."""
    for name, path in list(integration.missing(location.root, environment)):
        yield _missing(name, path, location.root, environment, fix=fix)
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in harness.NAMES:
        settings = next((each for each in _files(name, location.root, home) if each is not None), None)
        if settings is None:
            continue
        for need in requirements.needs(name, location.root, settings, environment):
            yield Trouble(UNREAD, f"{name} does not ask the guard here: {need}")
        yield from _overrides(name, location)


def _files(name: str, root: str, home: str) -> Iterator[str | None]:
    """The settings that have our hooks: those of the worktree, else the user's."""
    for top, user in ((root, False), (home, True)):
        paths = harness.settings_paths(name, top, user=user)
        yield paths[0] if all(map(harness.asks, paths)) else None


def _missing(name: str, path: str, root: str, environment: Mapping[str, str], *, fix: bool) -> Trouble:
    message = f"our hooks are not in '{path}' any more: {name} does not ask the guard"
    if fix:
        try:
            integration.add(name, root, environment)
            return Trouble(MISSING, message, fixed=True)
        except AgentosError as error:
            return Trouble(MISSING, f"{message}; {error.message}", error.hint)
    hint = f"git agentos doctor --fix, or git agentos guard integrate {name} --remove if that is meant"
    return Trouble(MISSING, message, hint)


def _overrides(name: str, location: Location) -> Iterator[Trouble]:
    """A harness whose shell switches the guard off inside git, and that does not run below `guard exec`."""
    if not hasattr(harness.module(name), "OVERRIDES_GIT"):
        return
    asked = contact.last(name, location.git_dir)
    if asked is None or not asked.below_exec:
        how = "has not asked the guard here yet" if asked is None else "was not started by 'git agentos guard exec'"
        message = f"{name} switches the guard off inside git and {how}: only commands that its hook sees are guarded"
        yield Trouble(WITHOUT_EXEC, message, f"git agentos guard exec -- {name}")
