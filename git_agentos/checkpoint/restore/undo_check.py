"""Agents that share a worktree: refuse an `undo` that would undo another agent's restore or work."""

from __future__ import annotations

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.journal import LastRestore
from git_agentos.checkpoint.model import Metadata
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointFormatError, MissingObjectsError, RestoreError
from git_agentos.git.repository import Repository

_SAVES = ("before_restore", "before_rollback")


def check_others(worktree: OpenWorktree, metadata: Metadata, last: LastRestore) -> None:
    """Raise RestoreError unless the acting agent made the last restore, and no other agent changed anything since.

    The work of others shows in their checkpoints, and in log entries that name files. Checkpoints that were created
    before a restore or rollback do not count: that restore may have failed.
    """
    saved = last.saved[:8]
    hint = f"to restore that state regardless: git agentos restore {saved}; nothing was changed"
    # A rollback is made by the orchestrator, and the agent of the worktree may undo it.
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
    entry = _entry_of_others(worktree, metadata, last)
    if entry is not None:
        agent, summary = entry
        raise RestoreError(
            f"agent '{agent}' has worked in this worktree since ('{summary}'): that would be undone too", hint
        )


def _checkpoint_of_others(repository: Repository, metadata: Metadata, last: LastRestore) -> tuple[str, str] | None:
    """Agent and id of the first checkpoint that another agent created since, if there is one."""
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
            continue  # the run's own, whichever agent created it
        if meta.get("created_by") != metadata.created_by and meta.get("trigger") not in _SAVES:
            found = (str(meta.get("created_by")), link.checkpoint)
    return None  # the save is not on this timeline, so it shows nothing


def _entry_of_others(worktree: OpenWorktree, metadata: Metadata, last: LastRestore) -> tuple[str, str] | None:
    """Agent and summary of the first entry about files that another agent wrote since, if there is one."""
    if not worktree.has_database:
        return None
    from git_agentos.checkpoint import log_sync
    from git_agentos.store import rows
    from git_agentos.store.database import Connection
    from git_agentos.store.rows import Entry, RowOwner

    after = format.read(worktree.repository, last.saved).created_at

    def look(connection: Connection, owner: RowOwner) -> Entry | None:
        return rows.first_by_other_agent(connection, owner, metadata.created_by, after)

    try:
        found = log_sync.with_database(worktree, look, make=False)
    except (AgentosError, OSError) as error:
        log_sync.warn(f"cannot read from the log whether other agents have worked here: {error}")
        return None
    return (found.agent_id, found.summary.split("\n", 1)[0]) if found is not None else None
