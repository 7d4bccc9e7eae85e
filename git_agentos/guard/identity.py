"""Who gives a command: which agent, or a person.

A process is an agent's if it says so (`AGENTOS_AGENT_ID`, `--as`), if it works in an agent's worktree, or if it runs
below such a process or below `guard exec`. Unsetting a variable does not change that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos import config
from git_agentos.errors import UsageError
from git_agentos.git import gitfile
from git_agentos.guard import ancestry
from git_agentos.process import table
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

ILL_FORMED = "?"


class Identity(NamedTuple):
    """`agent` is None for a person. `source` is how that is known: `environment`, `worktree`, `ancestor`, `as`,
    `harness`, `nobody`, or `ill-formed`: the agent id is not valid, and the command is treated as that of an agent
    named `?`."""

    agent: str | None
    source: str


PERSON = Identity(None, "nobody")


def identify(
    environment: Mapping[str, str], cwd_git_dir: str | None, pid: int | None, explicit: str | None = None
) -> Identity:
    """Find out who gives a command: by `explicit` (`--as`), the environment, the git directory of the worktree where it
    happens, and, if `pid` is given, by that process and those above it."""
    for text, source in ((explicit, "as"), (environment.get("AGENTOS_AGENT_ID"), "environment")):
        if text:
            return _checked(text, source)
    if cwd_git_dir is not None:
        found = worktree_agent_id(cwd_git_dir)
        if found is not None:
            return _checked(found, "worktree")
    if ancestry.MARKER in environment:
        return _checked(environment[ancestry.MARKER], "ancestor")
    return PERSON if pid is None else _by_ancestors(pid)


def worktree_agent_id(git_dir: str) -> str | None:
    """The id of the agent's worktree that has this git directory; None if it is not an agent's."""
    try:
        return files.read(os.path.join(git_dir, "agentos", "id"), follow=True)[:80].decode("ascii", "replace").strip()
    except OSError:
        return None


def find_git_dir(path: str) -> str | None:
    """The git directory of the worktree that `path` is in, found without git; None outside of one."""
    found = gitfile.find(path)
    return None if found is None else found[1]


def _by_ancestors(pid: int) -> Identity:
    for each in (pid, *table.parents(pid)):
        environment = table.environment(each) or {}
        for variable in ("AGENTOS_AGENT_ID", ancestry.MARKER):
            if environment.get(variable):
                return _checked(environment[variable], "ancestor")
        place = ancestry.started_in(each)
        git_dir = find_git_dir(place) if place is not None else None
        found = worktree_agent_id(git_dir) if git_dir is not None else None
        if found is not None:
            return _checked(found, "ancestor")
    return PERSON


def _checked(text: str, source: str) -> Identity:
    try:
        return Identity(config.agent_id(text, source="identity"), source)
    except UsageError:
        return Identity(ILL_FORMED, "ill-formed")
