"""Where a command works and who acts in it: what every operation on one worktree is given."""

from __future__ import annotations

from typing import Any, NamedTuple

from git_agentos.checkpoint.format import Origin
from git_agentos.config import Settings
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
