"""The evidence of all runs of a repository: created, opened, listed, and rebuilt from git where its folder is missing.

A copy that was made in another repository, or by another user, is only shown: it cannot be verified here.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from typing import Any

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning, RunError, converted_storage_errors
from git_agentos.git.location import Location
from git_agentos.process import deletion
from git_agentos.run import evidence_copy, journal, lock, sealing
from git_agentos.run.context import (
    CONTEXT,
    WorkspaceContext,
    check_id,
    evidence_path,
    is_id,
    runs_folder,
    with_current_paths,
    worktree_id,
)
from git_agentos.run.events import EVENTS, Event
from git_agentos.run.evidence import Evidence
from git_agentos.run.evidence_copy import SavedFolder
from git_agentos.run.evidence_folder import Folder
from git_agentos.run.journal import Journal
from git_agentos.run.sealing import Verification
from git_agentos.store import database_path
from git_agentos.util import directories, files
from git_agentos.worktree import layout, record


def create(location: Location, run_id: str) -> Evidence:
    """The folder for a new run, whose lock is held; RunError where the id is taken. An empty one is what a killed
    process left."""
    check_id(run_id)
    database_path.ensure_folder(layout.main_folder(location))
    runs, path = runs_folder(location), evidence_path(location, run_id)
    if not os.path.lexists(path) and evidence_copy.find_copy(location, run_id) is not None:
        raise id_taken(run_id)
    with converted_storage_errors():
        with contextlib.suppress(FileExistsError):
            os.mkdir(runs)
        directories.is_own(runs)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not directories.is_own(path) or os.listdir(path):
                raise id_taken(run_id) from None
        files.sync_directory(runs)
        made = Evidence(path, run_id, location)
        made.begin()
    return made


def remove(location: Location, run_id: str) -> None:
    """Remove the evidence of a run that could not be started, and its copy."""
    deletion.remove_folder(evidence_path(location, run_id))
    with contextlib.suppress(AgentosError, OSError):
        evidence_copy.delete(location, run_id)


def end_destroyed(location: Location, run_id: str) -> Evidence:
    """Make the folder of a run whose own was removed or replaced, and record the run as tampered."""
    path = evidence_path(location, run_id)
    with converted_storage_errors():
        journal.clear_path(path)
    database_path.ensure_folder(layout.main_folder(location))
    found = Evidence(path, run_id, location)
    found.end_as_tampered("its evidence was removed or replaced")
    return found


def noted_prepared(location: Location, run_id: str) -> Event | None:
    """The event `prepared` of a run, as it is noted outside of the repository; None where it is not."""
    return Journal(Folder(evidence_path(location, run_id)), run_id).prepared()


def id_taken(run_id: str) -> RunError:
    """The error for a new run with the id of another."""
    hint = f"choose another id; git agentos run show {run_id} shows that one"
    return RunError(f"there is a run '{run_id}' already", hint)


def open_existing(location: Location, run_id: str) -> Evidence:
    """The evidence of a run; RunError where there is none."""
    check_id(run_id)
    runs, path = runs_folder(location), evidence_path(location, run_id)
    if not all(directories.is_own(each) for each in (os.path.dirname(runs), runs, path)):
        raise RunError(f"there is no run '{run_id}'", "git agentos run list shows the runs")
    return Evidence(path, run_id, location)


def ids(location: Location) -> list[str]:
    """The ids of all runs that have a folder, oldest first."""
    runs = runs_folder(location)
    if not (directories.is_own(os.path.dirname(runs)) and directories.is_own(runs)):
        return []
    folders = [each for each in os.scandir(runs) if each.is_dir(follow_symlinks=False) and is_id(each.name)]
    found = [(begun_at(each.path), each.name) for each in folders]
    return [name for _, name in sorted(found)]


def context_of(evidence: Evidence) -> WorkspaceContext:
    """The recorded context, as the events have it, or else the file; RunError where it is missing or damaged. Paths are
    those of when it was made: `workspace_of` has those of now."""
    known = evidence.state().recorded.context
    return known if known is not None else file_context(evidence)


def workspace_of(context: OpenWorktree, kept: Evidence) -> WorkspaceContext:
    """The context of the run whose evidence this is, with paths as they are now."""
    return with_current_paths(context, context_of(kept))


def file_context(evidence: Evidence) -> WorkspaceContext:
    """The context as its file has it, which anybody can write; RunError where it is missing or damaged."""
    data = evidence.read(CONTEXT)
    if data is None:
        raise RunError(
            f"run '{evidence.run_id}' has no workspace: '{CONTEXT}' is missing",
            f"git agentos run verify {evidence.run_id} shows details",
        )
    try:
        return WorkspaceContext.from_json(data)
    except RunError as error:
        raise RunError(f"'{os.path.join(evidence.folder, CONTEXT)}' is damaged", error.hint) from error


def verify(context: OpenWorktree, run_id: str) -> Verification:
    """Whether the evidence of a run is complete and as it was sealed, and the commits that it names exist. Of one that
    was in another repository there is only the copy in git, and nothing but the seal vouches for it.

    RunError where there is no such run.
    """
    try:
        evidence = open_existing(context.location, run_id)
    except RunError:
        is_sealed = sealing.newest_seal(context.repository, run_id) is not None
        copy = evidence_copy.find_copy(context.location, run_id)
        if not is_sealed and copy is None:
            raise
        path = evidence_path(context.location, run_id)
        copied = Evidence(path, run_id, files=copy) if copy is not None else None
        if copied is not None and is_sealed and not os.path.lexists(path) and copied.is_foreign():
            return sealing.verify(context.repository, copied, sealing.Elsewhere())
        evidence = Evidence(path, run_id)
    return sealing.verify(context.repository, evidence)


def sealed_events(context: OpenWorktree, run_id: str) -> list[dict[str, Any]] | None:
    """The events of a run whose folder is gone, as its final checkpoint has them; None where it has none."""
    found = sealing.read_sealed(context.repository, run_id, EVENTS)
    return None if found is None else journal.parse_events(found, run_id)


def begun_at(folder: str) -> str:
    """When a run was begun, by its first event; a run without one counts as older."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        descriptor = os.open(os.path.join(folder, EVENTS), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return str(json.loads(file.readline(1 << 20))["at"])
    return ""


# -- evidence that only git has ---------------------------------------------------------------------------------------


def open_or_rebuild(location: Location, run_id: str) -> Evidence:
    """The evidence of a run that is to be changed: a missing folder is rebuilt from the copy in git. RunError where
    there is neither."""
    check_id(run_id)
    path = evidence_path(location, run_id)
    is_there = _rebuild_folder(location, run_id) or os.path.lexists(path)
    if not is_there and evidence_copy.find_copy(location, run_id) is not None:
        if lock.holder(location, run_id) is not None:
            return Evidence(path, run_id, location)  # its process says what has become of it
        raise foreign(run_id)
    return open_existing(location, run_id)


def is_from_elsewhere(location: Location, run_id: str) -> bool:
    """Whether all that is known of a run is a copy of its record that was not made here, as of one that a worker of a
    fleet has done: neither evidence, nor a note, nor a worktree."""
    if (
        not is_id(run_id)
        or os.path.lexists(evidence_path(location, run_id))
        or noted_prepared(location, run_id) is not None
    ):
        return False
    copy = evidence_copy.find_copy(location, run_id)
    if copy is None or record.get(location.common_dir, worktree_id(run_id)) is not None:
        return False
    return Evidence(copy.path, run_id, files=copy).is_foreign()


def foreign(run_id: str) -> RunError:
    """The error for what cannot be done with a run whose record was not made here."""
    return RunError(
        f"the record of run '{run_id}' was not written with your key, or not in this repository: it can only be read",
        "git agentos run show prints it; the run can be resumed where it was started\n"
        "git agentos fleet accept merges the results of a fleet",
    )


def rebuild_folders(location: Location) -> list[str]:
    """Rebuild the folder of all runs from git, where the whole folder is gone, as after `git clean -fdx`; the ids of
    the runs. Where it cannot be made, commands use what is in git."""
    if os.path.lexists(runs_folder(location)):
        return []
    done = []
    for run_id in evidence_copy.ids(location):
        with contextlib.suppress(AgentosError, OSError):
            if _rebuild_folder(location, run_id):
                done.append(run_id)
    return done


def copy_missing(location: Location) -> None:
    """Copy the evidence of runs that have no copy, as those of older versions. Evidence that cannot be verified, or
    that another process is writing, is left out."""
    copied = set(evidence_copy.ids(location))
    for run_id in ids(location):
        if run_id in copied:
            continue
        with contextlib.suppress(AgentosError, OSError):
            found = open_existing(location, run_id)
            if lock.holder(location, run_id) is None and found.why_unverified() is None and found.events():
                evidence_copy.Copy(location, run_id).save(Folder(found.folder), found.state().files)


def _rebuild_folder(location: Location, run_id: str) -> bool:
    """Rebuild one folder from git, unless it was copied in another repository, or by another user."""
    if os.path.lexists(evidence_path(location, run_id)) or _own_copy(location, run_id) is None:
        return False
    return evidence_copy.rebuild_folder(location, run_id)


def _own_copy(location: Location, run_id: str) -> SavedFolder | None:
    """The copy of a run's evidence in git, if it was made in this repository, and by this user."""
    copy = evidence_copy.find_copy(location, run_id)
    return None if copy is None or Evidence(copy.path, run_id, files=copy).is_foreign() else copy


def warn(text: str) -> None:
    """Warn of what was found and rebuilt."""
    warnings.warn(AgentosWarning(text), stacklevel=3)


def incomplete_runs(location: Location) -> list[str]:
    """The ids of the runs whose evidence, or a file of it, is missing, while git has a copy that was made here."""
    found = []
    for run_id in evidence_copy.ids(location):
        with contextlib.suppress(AgentosError, OSError):
            copy = _own_copy(location, run_id)
            if copy is not None and evidence_copy.missing(copy):
                found.append(run_id)
    return found


def open_to_read(location: Location, run_id: str) -> Evidence:
    """The evidence of a run for reading, or its copy in git where the folder is missing; RunError where there is
    neither."""
    try:
        return open_existing(location, run_id)
    except RunError:
        copy = evidence_copy.find_copy(location, run_id)
        if copy is None:
            raise
        return Evidence(copy.path, run_id, files=copy)
