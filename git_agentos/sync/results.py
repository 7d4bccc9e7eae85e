"""What `sync` is given, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.sync.names import RemoteTimeline
from git_agentos.sync.scan import HeldBack, Scanner
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.util.progress import Phase, Progress


class Observer(Protocol):
    """Is told about a transfer while it goes on: what begins, and git's own lines of progress."""

    def begins(self, what: str, /) -> None: ...
    def output(self, line: str, /) -> None: ...


class Stages:
    """An observer that tells a `Progress`: what begins ends what has begun before."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._part: Phase | None = None

    def begins(self, what: str, /) -> None:
        self.ended()
        self._part = self._progress.begins(what)

    def output(self, line: str, /) -> None:
        if self._part is not None:
            self._part.output(line)

    def ended(self) -> None:
        """Nothing follows."""
        if self._part is not None:
            self._part.ended()
            self._part = None


class Session(NamedTuple):
    """One connection of this clone, the host `host`, with a remote: `every` are all refs that it lists, `there` the
    timelines among them. With `recipients`, what is pushed is encrypted to them."""

    context: OpenWorktree
    remote: str
    host: str
    every: Mapping[str, str]
    there: Mapping[RemoteTimeline, str]
    scanner: Scanner
    allowed: frozenset[str]
    observer: Observer
    dry_run: bool = False
    recipients: tuple[str, ...] = ()


class Transferred(NamedTuple):
    """A timeline that was pushed or fetched, and how many checkpoints are new there (None: a dry run cannot know)."""

    timeline: str
    host: str
    checkpoints: int | None


class Refused(NamedTuple):
    """A timeline that was not pushed or fetched, and why."""

    timeline: str
    reason: str


@dataclass(frozen=True)
class Synchronisation:
    """The result of `sync`: the JSON kind `sync`."""

    remote: str
    host: str  # this clone's name
    pushed: list[Transferred]
    fetched: list[Transferred]
    held_back: list[HeldBack]
    refused: list[Refused]
    dry_run: bool = False


class TimelineStatus(NamedTuple):
    """How a timeline compares with a remote. `ahead`: checkpoints that the remote lacks, without those that are
    `held_back`; `behind`: checkpoints that are only there (None: how many is known when they are fetched)."""

    timeline: str
    host: str
    ahead: int
    behind: int | None
    held_back: int


@dataclass(frozen=True)
class SyncStatus:
    """The result of `sync status`: the JSON kind `sync-status`."""

    remote: str
    host: str
    timelines: list[TimelineStatus]
