"""Who asks: an agent or a person.

An agent is who says so (`AGENTOS_AGENT_ID`, `--as`), who stands in a managed worktree, and whatever runs below such a
process or below `guard exec`. Nobody stops being an agent by unsetting a variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from git_agentos import config
from git_agentos.errors import UsageError
from git_agentos.git import gitfile
from git_agentos.guard import ancestry
from git_agentos.util import files

ILL_FORMED = "?"


class Who(NamedTuple):
    """`agent` is None for a person. `how` is how it is known: `environment`, `worktree`, `ancestor`, `as`, `nobody`, or
    `ill-formed`: an id that is none, which counts as an agent (`?`) that nothing is allowed by mistake."""

    agent: str | None
    how: str


NOBODY = Who(None, "nobody")


def who(environment: Mapping[str, str], cwd_git_dir: str | None, pid: int | None, explicit: str | None = None) -> Who:
    """Who acts, by what was said (`explicit` is `--as`), by the environment, by the git directory of where it happens;
    and, where `pid` is given, by that process and those above it."""
    for text, how in ((explicit, "as"), (environment.get("AGENTOS_AGENT_ID"), "environment")):
        if text:
            return _checked(text, how)
    if cwd_git_dir is not None:
        found = recorded(cwd_git_dir)
        if found is not None:
            return _checked(found, "worktree")
    if ancestry.MARKER in environment:
        return _checked(environment[ancestry.MARKER], "ancestor")
    return NOBODY if pid is None else _by_ancestors(pid)


def recorded(git_dir: str) -> str | None:
    """The id of the managed worktree whose git directory this is; None where it is none."""
    try:
        return files.read(os.path.join(git_dir, "agentos", "id"), follow=True)[:80].decode("ascii", "replace").strip()
    except OSError:
        return None


def git_dir_of(path: str) -> str | None:
    """The git directory of the worktree that `path` is in, found without git; None outside of one."""
    found = gitfile.find(path)
    return None if found is None else found[1]


def _by_ancestors(pid: int) -> Who:
    for each in (pid, *ancestry.parents(pid)):
        environment = ancestry.environment(each) or {}
        for variable in ("AGENTOS_AGENT_ID", ancestry.MARKER):
            if environment.get(variable):
                return _checked(environment[variable], "ancestor")
        place = ancestry.started_in(each)
        git_dir = git_dir_of(place) if place is not None else None
        found = recorded(git_dir) if git_dir is not None else None
        if found is not None:
            return _checked(found, "ancestor")
    return NOBODY


def _checked(text: str, how: str) -> Who:
    try:
        return Who(config.agent_id(text, source="identity"), how)
    except UsageError:
        return Who(ILL_FORMED, "ill-formed")
