"""Where a command works and who acts in it: what every operation on one worktree is given."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.format import Origin
from git_agentos.config import Settings
from git_agentos.git import configuration
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository


class Context(NamedTuple):
    """One worktree, its settings, and the identity of the one who acts.

    `agent` is the id that checkpoints and log entries are made by; `timeline` the worktree's own id.
    """

    repository: Repository
    settings: Settings
    agent: str
    timeline: str

    @property
    def location(self) -> Location:
        return self.repository.location

    def origin(self, **fields: Any) -> Origin:
        """Who makes a checkpoint here; `fields` are those of `Origin` (trigger, description, task_id, …)."""
        return Origin(created_by=self.agent, timeline=self.timeline, worktree_path=self.location.root, **fields)

    def in_worktree(self, location: Location) -> Context:
        """The same identity in another worktree of the repository, with the settings that are in force there."""
        if location.git_dir == self.location.git_dir:
            return self
        ours = self.settings
        values = configuration.read(location) if os.path.isdir(location.root) else ours.values
        settings = config.settings(values, {})._replace(committer=ours.committer, workflow_db=ours.workflow_db)
        return Context(Repository(location), settings, self.agent, timeline.name_of(location))
