"""What keeps integrated harnesses from calling our hook in a worktree: for `doctor` and `guard status`."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping

from git_agentos.findings import Finding, Fixable, fixable
from git_agentos.git.location import Location
from git_agentos.guard.harness import contact, integration, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES


def examine(location: Location, environment: Mapping[str, str]) -> Iterator[Finding | Fixable]:
    """Settings that lack our hooks, or that the harness does not read, and harnesses that should run below `guard
    exec`."""
    for name, path in list(integration.missing(location.root, environment)):
        message = f"our hooks are no longer in '{path}': {name} does not ask the guard"
        hint = f"git agentos doctor --fix, or git agentos guard integrate {name} --remove if they are not wanted"
        add = functools.partial(_add_again, name, location.root, environment)
        yield fixable("harness-missing", "warning", message, add, hint)
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in HARNESSES:
        settings = settings_files.effective(name, location.root, home)
        if settings is None:
            continue
        for requirement in requirements.unmet(name, location.root, settings, environment):
            yield Finding("harness-unread", "warning", f"{name} does not ask the guard here: {requirement}")
        yield from _override(name, location)


def _add_again(name: str, root: str, environment: Mapping[str, str]) -> str:
    integration.add(name, root, environment)
    return ""


def _override(name: str, location: Location) -> Iterator[Finding]:
    """A harness whose shell switches the guard off inside git, and that does not run below `guard exec`."""
    if not HARNESSES[name].override_variable:
        return
    last = contact.last(name, location.git_dir)
    if last is None or not last.below_exec:
        state = "has not asked the guard here yet" if last is None else "was not started by 'git agentos guard exec'"
        message = f"{name} switches the guard off inside git and {state}: only commands that its hook sees are guarded"
        yield Finding("harness-without-exec", "info", message, f"git agentos guard exec -- {name}")
