"""What keeps integrated harnesses from calling our hook in a worktree: for `doctor` and `guard status`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.guard.harness import contact, integration, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES

MISSING, UNREAD, WITHOUT_EXEC = "missing", "unread", "without-exec"


class Trouble(NamedTuple):
    """`kind` says what is wrong: our hooks are MISSING, UNREAD, or the harness runs WITHOUT_EXEC though it should."""

    kind: str
    message: str
    hint: str | None = None
    fixed: bool = False


def examine(location: Location, environment: Mapping[str, str], *, fix: bool) -> Iterator[Trouble]:
    """Settings that lack our hooks, or that the harness does not read; with `fix`, our hooks are added again."""
    for name, path in list(integration.missing(location.root, environment)):
        yield _missing(name, path, location.root, environment, fix=fix)
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in HARNESSES:
        settings = settings_files.effective(name, location.root, home)
        if settings is None:
            continue
        for requirement in requirements.unmet(name, location.root, settings, environment):
            yield Trouble(UNREAD, f"{name} does not ask the guard here: {requirement}")
        yield from _override(name, location)


def _missing(name: str, path: str, root: str, environment: Mapping[str, str], *, fix: bool) -> Trouble:
    message = f"our hooks are no longer in '{path}': {name} does not ask the guard"
    if fix:
        try:
            integration.add(name, root, environment)
            return Trouble(MISSING, message, fixed=True)
        except AgentosError as error:
            return Trouble(MISSING, f"{message}; {error.message}", error.hint)
    hint = f"git agentos doctor --fix, or git agentos guard integrate {name} --remove if they are not wanted"
    return Trouble(MISSING, message, hint)


def _override(name: str, location: Location) -> Iterator[Trouble]:
    """A harness whose shell switches the guard off inside git, and that does not run below `guard exec`."""
    if not HARNESSES[name].override_variable:
        return
    last = contact.last(name, location.git_dir)
    if last is None or not last.below_exec:
        state = "has not asked the guard here yet" if last is None else "was not started by 'git agentos guard exec'"
        message = f"{name} switches the guard off inside git and {state}: only commands that its hook sees are guarded"
        yield Trouble(WITHOUT_EXEC, message, f"git agentos guard exec -- {name}")
