"""Evidence that is missing in `.agentos/runs`: commands answer from its copy in git (`saved`), and make it again.

A copy that was made in another repository, or by another user, is shown and no more: nothing vouches for it here.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

from git_agentos.errors import AgentosError, AgentosWarning, RunError
from git_agentos.git.location import Location
from git_agentos.run import lock
from git_agentos.run.context import check_id
from git_agentos.run.record import evidence, journal, saved, sealing
from git_agentos.run.record.events import EVENTS
from git_agentos.run.record.evidence import Evidence
from git_agentos.run.record.folder import Folder


def have(location: Location, run_id: str) -> Evidence:
    """That of a run with which something is to be done: a folder that is missing is made again from the copy in git.
    RunError where there is neither."""
    check_id(run_id)
    path = os.path.join(evidence.folder_of(location), run_id)
    if not _bring_back(location, run_id) and not os.path.lexists(path) and saved.look(location, run_id, path):
        if lock.holder(location, run_id) is not None:
            return Evidence(path, run_id, location)  # its process says what has become of it
        raise RunError(
            f"the record of run '{run_id}' was not written with your key, or not in this repository",
            "git agentos run show tells what it says; it is gone on with where it was begun",
        )
    return evidence.find(location, run_id)


def bring_back(location: Location) -> list[str]:
    """Make the folder of all runs again from git, where it is gone as a whole, as `git clean -fdx` leaves it; the ids
    of the runs. Where it cannot be made, commands go on with what is in git."""
    if os.path.lexists(evidence.folder_of(location)):
        return []
    done = []
    for run_id in saved.ids(location):
        with contextlib.suppress(AgentosError, OSError):
            if _bring_back(location, run_id):
                done.append(run_id)
    return done


def copy_missing(location: Location) -> None:
    """Copy the evidence of runs that have none, as those of a version that made no copies. What cannot be believed, or
    is being written by another process, is left."""
    copied = set(saved.ids(location))
    for run_id in evidence.ids(location):
        if run_id in copied:
            continue
        with contextlib.suppress(AgentosError, OSError):
            found = evidence.find(location, run_id)
            if lock.holder(location, run_id) is None and found.vouched() is None and found.events():
                named = found.state().files
                saved.Copy(location, run_id).save(Folder(found.folder), named, sealing.MANIFEST)


def _bring_back(location: Location, run_id: str) -> bool:
    """One that was copied in another repository, or by another user, stays where it is: nothing vouches for it here."""
    path = os.path.join(evidence.folder_of(location), run_id)
    if os.path.lexists(path):
        return False
    copy = saved.look(location, run_id, path)
    if copy is None or Evidence(path, run_id, files=copy).is_anothers():
        return False
    return saved.bring_back(location, run_id)


def tell(text: str) -> None:
    """Warn of what was found and done."""
    warnings.warn(AgentosWarning(text), stacklevel=3)


def lost(location: Location) -> list[str]:
    """The ids of the runs whose evidence, or a file of it, is missing, while git has a copy that was made here."""
    found = []
    for run_id in saved.ids(location):
        path = os.path.join(evidence.folder_of(location), run_id)
        with contextlib.suppress(AgentosError, OSError):
            copy = saved.look(location, run_id, path)
            is_missing = copy is not None and saved.missing(copy, path)
            if copy is not None and is_missing and not Evidence(path, run_id, files=copy).is_anothers():
                found.append(run_id)
    return found


def copied_events(found: Evidence) -> list[dict[str, Any]]:
    """The events of a copy that was made in another repository, or by another user: nothing vouches for them here."""
    return journal.parse(found.read(EVENTS) or b"", found.run_id)


def look(location: Location, run_id: str) -> Evidence:
    """That of a run, or, where its folder is missing, the copy in git, to be read; RunError where there is neither."""
    try:
        return evidence.find(location, run_id)
    except RunError:
        path = os.path.join(evidence.folder_of(location), run_id)
        copy = saved.look(location, run_id, path)
        if copy is None:
            raise
        return Evidence(path, run_id, files=copy)
