"""An open worktree: what every operation on one worktree is given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.model import Metadata
from git_agentos.config import Settings
from git_agentos.git import configuration, worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.store import database_path
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress


class OpenWorktree(NamedTuple):
    """One worktree, its settings, and its agent.

    `agent` is the id that checkpoints and log entries are created by; `worktree_id` names the worktree's timeline.
    `progress` is told how far an operation is.
    """

    repository: Repository
    settings: Settings
    agent: str
    worktree_id: str
    progress: Progress = SILENT

    @property
    def location(self) -> Location:
        return self.repository.location

    @property
    def has_database(self) -> bool:
        """Whether the worktree has a workflow database; found out without importing sqlite3."""
        return os.path.lexists(database_path.path_of(self.location, self.settings.workflow_db))

    def all_worktrees(self) -> list[Location]:
        """All worktrees of the repository whose folder exists, the main one first."""
        return worktrees.list_existing(self.location, self.settings.values.get("core.worktree", [None])[-1])

    def metadata(self, **fields: Any) -> Metadata:
        """Metadata for a checkpoint of this worktree; `fields` are those of `Metadata` (trigger, description, …)."""
        return Metadata(created_by=self.agent, worktree_id=self.worktree_id, worktree_path=self.location.root, **fields)

    def in_worktree(self, location: Location) -> OpenWorktree:
        """Another worktree of the repository, opened for the same agent, with the settings that are in force there."""
        if location.git_dir == self.location.git_dir:
            return self
        ours = self.settings
        values = configuration.read(location) if os.path.isdir(location.root) else ours.values
        settings = config.settings(values, {})._replace(committer=ours.committer, workflow_db=ours.workflow_db)
        return OpenWorktree(Repository(location), settings, self.agent, timeline.worktree_id(location), self.progress)
