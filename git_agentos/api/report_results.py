"""What `repo.report()` returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from git_agentos.api.results import ConflictReport, RunResult, StorageResult


@dataclass(frozen=True)
class ReportMark:
    """One moment of an agent. `kind` is `checkpoint`, `commit`, `restore`, `merge`, `error`, `decision`, `turn` or
    `run`; `id` that of what happened, `text` one line about it."""

    at: datetime
    kind: str
    id: str
    text: str


@dataclass(frozen=True)
class ReportLane:
    """An agent and its marks, oldest first; `first_at` and `last_at` are the times of the first and the last of
    them."""

    id: str
    branch: str | None
    state: str
    first_at: datetime | None
    last_at: datetime | None
    marks: tuple[ReportMark, ...]


@dataclass(frozen=True)
class Report:
    """What agents did, by id, and the conflicts, the storage and the runs (newest first) of all. No mark is older than
    `since`. `complete` is False if a log or a memory could not be read as a whole: there may be more marks."""

    agents: tuple[ReportLane, ...]
    conflicts: ConflictReport
    storage: StorageResult
    runs: tuple[RunResult, ...]
    since: datetime | None
    complete: bool
