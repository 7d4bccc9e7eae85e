"""The scans of the processes that the daemon forks: where one of them has scanned a watched worktree, the next ones let
git look only at what has changed since.

Such a process knows what its daemon knew when it was forked. What it finds, it hands back for those that come after it.

An edit through a second name that a file was given outside of the worktree is not seen by the daemon (`worktree`). So
the whole worktree is scanned again after some minutes, and always by a command that saves what it is about to change
(`restore`, the guard's checkpoints): those do not scan in this way.
"""

from __future__ import annotations

import pickle
import time

from git_agentos.errors import AgentosError
from git_agentos.git import rescan
from git_agentos.git.location import Location, locate
from git_agentos.git.rescan import Earlier, Rescan
from git_agentos.git.scan import Scan, ScanResult
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import place
from git_agentos.watch.repository import WatchedRepository

_LONGEST = 600.0  # seconds after which the whole worktree is scanned again
_MOST_PATHS = 20_000  # changed and untracked ones that are remembered of a worktree


class _Known(NamedTuple):
    """An earlier scan: the moment of which it tells (a token of `changes`), and when git last scanned the whole
    worktree, by the clock `time.monotonic`."""

    token: str
    scan: Earlier
    whole_at: float


class Scans:
    """What is known of the scans of a repository's worktrees, by their folders."""

    def __init__(self, repository: WatchedRepository) -> None:
        self._repository = repository
        self._known: dict[str, _Known] = {}
        self._made: dict[str, _Known | None] = {}

    def start(self, directory: str) -> Scan:
        """In a forked process: start the scan of the worktree that a folder is in."""
        location = locate(directory)
        worktree = self._repository.worktrees.get(location.root)
        if worktree is None or worktree.location != location or not place.is_large(location.git_dir):
            return Scan(location)
        self._made[location.root] = None
        known = self._known.get(location.root)
        look = worktree.look("" if known is None else known.token)
        if look is None:
            return Scan(location)
        now, paths = time.monotonic(), look.answer.paths
        if known is None or paths is None or now > known.whole_at + _LONGEST:
            return _Noted(self, location, Scan(location), look.answer.token, now)
        try:
            scan = Rescan(location, known.scan, paths, look.ignored)
        except (AgentosError, OSError):
            return Scan(location)
        return _Noted(self, location, scan, look.answer.token, known.whole_at)

    def note(self, scan: _Noted, result: ScanResult) -> None:
        """In a forked process: remember what a scan has found."""
        if len(result.changed) + len(result.untracked) > _MOST_PATHS:
            return
        found = rescan.keep(scan.inner, result, scan.began_ns)
        if found is not None:
            self._made[scan.location.root] = _Known(scan.token, found, scan.whole_at)

    def made(self) -> bytes:
        """In a forked process: what it hands back; empty for nothing."""
        return pickle.dumps(self._made) if self._made else b""

    def take(self, data: bytes) -> None:
        """In the daemon: what a forked process has handed back. Nobody else can have written it."""
        for root, known in pickle.loads(data).items():
            worktree = self._repository.worktrees.get(root)
            if worktree is not None:
                worktree.settle()
            if worktree is None or known is None:
                self._known.pop(root, None)
            else:
                self._known[root] = known
        for root in self._known.keys() - self._repository.worktrees.keys():
            del self._known[root]


class _Noted(Scan):
    """A scan whose result is remembered."""

    def __init__(self, scans: Scans, location: Location, inner: Scan, token: str, whole_at: float) -> None:
        self.location, self.inner, self.token = location, inner, token
        self.whole_at, self.began_ns = whole_at, time.time_ns()
        self.index_stamp = inner.index_stamp
        self._scans = scans

    def config(self) -> dict[str, list[str]]:
        """The worktree's configuration; waits for that one process only."""
        return self.inner.config()

    def discard(self) -> None:
        """Stop the processes of a scan whose result is not needed; nothing happens if it was read."""
        self.inner.discard()

    def read(self) -> ScanResult:
        """Wait for git and parse its output; GitCommandError if the index is damaged."""
        result = self.inner.read()
        self.index_stamp = self.inner.index_stamp
        if isinstance(self.inner, Rescan) and self.inner.is_whole:
            self.whole_at = time.monotonic()
        self._scans.note(self, result)
        return result
