"""Tampering with the guard, noticed by whatever of it is asked next: it is said each time, and written to the log once.

Only files are looked at, and few: this is done by every command of ours in a guarded worktree, and by every layer that
decides. git is started only where a configuration file was edited in a way that may matter.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git.location import Location, locate
from git_agentos.guard.setup import activation, scripts
from git_agentos.util import files

if TYPE_CHECKING:
    from git_agentos.guard.identity import Identity

HINT = "git agentos doctor --fix sets it again"
_SUMMARY = "the guard was tampered with"
_MARK = "tampering"  # in the worktree's own folder of ours: the MAC of what was written to the log last
_MOST_SAID = 3


def found_in(location: Location) -> list[str]:
    """What of this worktree's guard is not as it was set up, one sentence each."""
    if not os.path.lexists(os.path.join(location.git_dir, "config.worktree")) and not activation.has_record(location):
        return []
    try:
        return activation.tampered(location)
    except GuardError as error:
        return [error.message]


def found_anywhere(location: Location) -> list[str]:
    """The same of all worktrees of the repository."""
    broken = scripts.changed_files(location.common_dir) if activation.is_set(location) else []
    found = [
        *activation.lost_settings(location),
        *(f"'{path}' is not what git-agentos placed there" for path in broken),
    ]
    record = activation.record_problem(location)
    return found if record is None else [*found, record]


def report(location: Location, agent: str | None, environment: Mapping[str, str]) -> str | None:
    """What to tell of the guard of this worktree, which is written to its log; None where it is as it was set up."""
    found = found_in(location)
    mark = os.path.join(location.state_dir, _MARK)
    if not found:
        with contextlib.suppress(OSError):
            os.unlink(mark)
        return None
    said = f"{_SUMMARY}: {'; '.join(found[:_MOST_SAID])}"
    if len(found) > _MOST_SAID:
        said += f"; and {len(found) - _MOST_SAID} more"
    code = scripts.sign(json.dumps(found).encode())
    if code is None or _read(mark) != code:
        why = _log(location, agent, environment, found)
        if why is not None:
            said += f" (this was not written to the log: {why})"
        elif code is not None:
            with contextlib.suppress(OSError):
                files.replace(mark, code.encode())
    return said


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


def _log(location: Location, agent: str | None, environment: Mapping[str, str], found: list[str]) -> str | None:
    """Write it to the log of an agent's worktree, or to any that is there; why that failed."""
    from git_agentos import log
    from git_agentos.guard import identity
    from git_agentos.guard.enforcement import saving

    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            context = saving.context_at(location, agent, environment)
            if agent is not None or identity.worktree_agent_id(location.git_dir) is not None or log.is_open(context):
                log.try_add(context, "error", _SUMMARY, details={"found": found})
    except (AgentosError, OSError) as error:
        return str(error)
    return str(heard[0].message) if heard else None
