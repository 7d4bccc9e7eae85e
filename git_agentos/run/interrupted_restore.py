"""A restore or rollback in a run's worktree that was interrupted: it is finished before anything else is done there, or
else aborted."""

from __future__ import annotations

import contextlib
import os

from git_agentos.checkpoint import journal
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.commands import ROLLBACK, Recovery
from git_agentos.checkpoint.restore.request import Restoration
from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.run.context import WorkspaceContext


def path_of(location: Location) -> str:
    """The journal's file."""
    return os.path.join(location.state_dir, "journal.json")


def finish(inner: OpenWorktree, run: WorkspaceContext, goal: str) -> tuple[bool, Restoration | None]:
    """Whether it could be finished or aborted; and what it did, where it was a rollback to the checkpoint `goal` and is
    finished now."""
    metadata = inner.metadata(task_id=run.task_id, run_id=run.run_id)
    for abort in (False, True):
        with contextlib.suppress(AgentosError):
            found = journal.read(inner.location)
            done = commands.recover(inner, metadata, abort=abort)
            meant = not abort and found is not None and found.command == ROLLBACK and done.checkpoint == goal
            return True, _restoration(done, inner.location) if meant else None
    return False, None


def _restoration(done: Recovery, location: Location) -> Restoration:
    at = refs.read_head(location)
    return Restoration(
        checkpoint=done.checkpoint or "",
        saved=done.saved,
        branch=at.branch,
        head=at.commit,
        worktree_path=location.root,
        changed=done.changed,
        removed=done.removed,
        skipped=done.skipped,
        dry_run=False,
    )
