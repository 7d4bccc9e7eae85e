"""What `repo.fleets` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class FleetTask:
    """A task of a fleet. `state` is `waiting`, `running`, `passed`, `failed`, `lost` or `cancelled`; `attempts` is how
    many workers began, `outcome` that of the run's last attempt, `result` the commit of the result, `commit` the tip of
    its branch. None: there is none yet."""

    id: str
    state: str
    attempts: int
    worker: str | None
    outcome: str | None
    result: str | None
    commit: str | None
    started_at: datetime | None
    ended_at: datetime | None
    detail: str | None


@dataclass(frozen=True)
class FleetStatus:
    """A fleet: `base` is the commit at which its tasks begin; `counts` has the number of tasks of every state;
    `created_at` is when it was first submitted."""

    id: str
    engine: str
    remote: str
    base: str
    tasks: tuple[FleetTask, ...]
    counts: Mapping[str, int]
    created_at: datetime

    @property
    def passed(self) -> bool:
        """Whether all tasks have passed."""
        return self.counts["passed"] == len(self.tasks)


@dataclass(frozen=True)
class FleetSummary:
    """A fleet in a list."""

    id: str
    created_at: datetime
    counts: Mapping[str, int]


@dataclass(frozen=True)
class CollectedTask:
    """A result that is here: the tip of the branch `fleet/<fleet>/<task>`, the final checkpoint of its run, and how
    that has ended (`passed`, `failed`, `cancelled`). `uncommitted` is how many files of the checkpoint are not on the
    branch as they are there."""

    task: str
    commit: str
    checkpoint: str
    run_id: str
    state: str
    uncommitted: int


@dataclass(frozen=True)
class RefusedTask:
    """A task whose result is not used, and why, for people. `held_back`: because secrets in it were not pushed."""

    task: str
    reason: str
    held_back: bool


@dataclass(frozen=True)
class CollectedResults:
    """What was collected, in the order of the tasks."""

    results: tuple[CollectedTask, ...]
    refused: tuple[RefusedTask, ...]


@dataclass(frozen=True)
class MergedTask:
    """A task that was merged: the tip of its branch, and its merge commit (None in a dry run)."""

    task: str
    commit: str
    merge_commit: str | None


@dataclass(frozen=True)
class ConflictingTask:
    """A task that was left out, since these files conflict with the target, or with a task before it."""

    task: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class SkippedTask:
    """A task of which nothing is to be merged, and why, for people."""

    task: str
    reason: str


@dataclass(frozen=True)
class AcceptedTasks:
    """What accepting tasks did. `order` are those that were to be merged, in the order of least conflict; `refused`
    have passed, but do not verify, or were not validated. `before` and `merge_commit` are where `target` was and where
    it is now (None: it has not moved)."""

    merged: tuple[MergedTask, ...]
    conflicts: tuple[ConflictingTask, ...]
    order: tuple[str, ...]
    refused: tuple[RefusedTask, ...]
    skipped: tuple[SkippedTask, ...]
    target: str
    before: str
    merge_commit: str | None
    dry_run: bool
    warnings: tuple[str, ...]
