"""Tampering with the guard. Every later use of the guard reports it; the log gets it once.

Every git-agentos command in a guarded worktree looks for it, and every layer that decides. So only few files are read;
git is started only where a configuration file was edited in a way that may matter.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git import process
from git_agentos.git.location import Location, locate
from git_agentos.guard import signing
from git_agentos.guard.setup import activation, scripts
from git_agentos.util import files

if TYPE_CHECKING:
    from git_agentos.guard.identity import Identity

HINT = "git agentos doctor --fix restores it"
_SUMMARY = "the guard was tampered with"
_LOGGED = "tampering"  # in our folder of the worktree: the MAC of what was logged last
_MAX_SENTENCES = 3


def in_worktree(location: Location) -> list[str]:
    """What of this worktree's guard is not as it was set up, one sentence each."""
    if not os.path.lexists(os.path.join(location.git_dir, "config.worktree")) and not activation.has_record(location):
        return []
    try:
        return activation.tampered(location)
    except GuardError as error:
        return [error.message]


def in_repository(location: Location) -> list[str]:
    """What of the guard of all worktrees is not as it was set up, one sentence each."""
    changed = scripts.changed_files(location.common_dir) if activation.is_set(location) else []
    sentences = activation.lost_settings(location)
    sentences += [f"'{path}' is not what git-agentos placed there" for path in changed]
    problem = activation.record_problem(location)
    return sentences if problem is None else [*sentences, problem]


def report(location: Location, agent: str | None, environment: Mapping[str, str]) -> str | None:
    """A message about tampering with the guard of this worktree, which is also logged; None where there is none."""
    sentences = in_worktree(location)
    logged = os.path.join(location.state_dir, _LOGGED)
    if not sentences:
        with contextlib.suppress(OSError):
            os.unlink(logged)
        return None
    message = f"{_SUMMARY}: {'; '.join(sentences[:_MAX_SENTENCES])}"
    if len(sentences) > _MAX_SENTENCES:
        message += f"; and {len(sentences) - _MAX_SENTENCES} more"
    mac = signing.sign(json.dumps(sentences).encode(), process.environment())
    if mac is None or _read(logged) != mac:
        from git_agentos.guard.enforcement import saving

        problem = saving.log_error(location, agent, environment, _SUMMARY, {"found": sentences})
        if problem is not None:
            message += f" (this was not logged: {problem})"
        elif mac is not None:
            with contextlib.suppress(OSError):
                files.replace(logged, mac.encode())
    return message


def report_at(path: str, who: Identity, environment: Mapping[str, str]) -> str | None:
    """`report` for what an agent does at `path`; None also for a person, and outside of a repository."""
    if who.agent is None:
        return None
    try:
        return report(locate(path, use_environment=False), who.agent, environment)
    except AgentosError:
        return None


def _read(path: str) -> str | None:
    try:
        return files.read(path).decode("ascii", "replace")
    except OSError:
        return None
