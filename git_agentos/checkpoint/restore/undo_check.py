"""Agents that share a worktree: whose restore an `undo` would undo, and whose work with it."""

from __future__ import annotations

import os

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.journal import LastRestore
from git_agentos.checkpoint.model import Metadata
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointFormatError, MissingObjectsError, RestoreError
from git_agentos.git.repository import Repository
from git_agentos.store import database_path

_SAVES = ("before_restore", "before_rollback")


def check_others(worktree: OpenWorktree, metadata: Metadata, last: LastRestore) -> None:
    """Raise RestoreError unless the acting agent made the last restore, and no other agent changed anything since.

    What others did is told by their checkpoints and by entries of the log that name files. The save that a restore of
    theirs made before it was given up says nothing.
    """
    saved = last.saved[:8]
    hint = f"git agentos restore {saved} goes back to that state all the same; nothing was changed"
    # A rollback is the orchestrator's, and done to whoever works there: it is theirs to take back.
    if last.by and last.by != metadata.created_by and last.command != "rollback":
        raise RestoreError(
            f"the last {last.command} in this worktree was made by agent '{last.by}', not by '{metadata.created_by}'",
            hint,
        )
    found = _checkpoint_of_others(worktree.repository, metadata, last)
    if found is not None:
        agent, checkpoint = found
        raise RestoreError(
            f"agent '{agent}' has worked in this worktree since: checkpoint {checkpoint[:8]} would be undone too", hint
        )
    told = _entry_of_others(worktree, metadata, last)
    if told is not None:
        agent, summary = told
        raise RestoreError(
            f"agent '{agent}' has worked in this worktree since ('{summary}'): that would be undone too", hint
        )


def _checkpoint_of_others(repository: Repository, metadata: Metadata, last: LastRestore) -> tuple[str, str] | None:
    """Agent and checkpoint of the first that somebody else made since, if there is one."""
    found = None
    run = format.read(repository, last.saved).run_id if last.command == "rollback" else None
    for link in timeline.walk(repository, metadata.worktree_id):
        if link.checkpoint == last.saved:
            return found
        try:
            meta = format.open_checkpoint(repository, link.checkpoint).meta
        except (CheckpointFormatError, MissingObjectsError):
            continue
        if run is not None and meta.get("run_id") == run:
            continue  # the run's own, whoever its agent is
        if meta.get("created_by") != metadata.created_by and meta.get("trigger") not in _SAVES:
            found = (str(meta.get("created_by")), link.checkpoint)
    return None  # the save is not on this timeline: nothing can be told from it


def _entry_of_others(worktree: OpenWorktree, metadata: Metadata, last: LastRestore) -> tuple[str, str] | None:
    """Agent and summary of the first entry about files that somebody else wrote since, if there is one."""
    if not os.path.lexists(database_path.path_of(worktree.location, worktree.settings.workflow_db)):
        return None
    from git_agentos.checkpoint import log_sync
    from git_agentos.store import entries
    from git_agentos.store.database import Connection
    from git_agentos.store.entries import Entry
    from git_agentos.store.rows import RowOwner

    after = format.read(worktree.repository, last.saved).created_at

    def look(connection: Connection, scope: RowOwner) -> Entry | None:
        return entries.first_by_other_agent(connection, scope, metadata.created_by, after)

    try:
        found = log_sync.with_database(worktree.repository, worktree.settings, metadata.worktree_id, look, make=False)
    except (AgentosError, OSError) as error:
        log_sync.warn(f"the log could not be asked whether others have worked here: {error}")
        return None
    return (found.agent_id, found.summary.split("\n", 1)[0]) if found is not None else None
