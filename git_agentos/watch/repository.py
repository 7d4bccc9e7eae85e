"""The worktrees of one repository that are watched: those that were asked for, until they are gone."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.errors import AgentosError
from git_agentos.git.location import locate
from git_agentos.watch.watcher import Event, Kind, Watcher
from git_agentos.watch.worktree import WatchedWorktree

_CHECKED = 4  # worktrees in one answer whose open files are compared with those of all processes: it takes long


class WatchedRepository:
    """`worktrees` are by their folder. `common_dir` is the repository's; it is not followed if it is moved."""

    def __init__(self, common_dir: str, watcher: Watcher) -> None:
        self.common_dir = common_dir
        self.worktrees: dict[str, WatchedWorktree] = {}
        self.losses = 0  # how often more happened at once than the system remembers
        self._watcher = _Shared(watcher)
        self._identity = _identity(common_dir)

    def fileno(self) -> int:
        """A descriptor that is readable while something has happened."""
        return self._watcher.fileno()

    def is_there(self) -> bool:
        """Whether the repository is where it was."""
        return _identity(self.common_dir) == self._identity

    def read(self) -> int:
        """Note what has happened until now; how many events there were."""
        events = self._watcher.read()
        if any(event.kind is Kind.LOST for event in events):
            self.losses += 1
            for each in self.worktrees.values():
                each.end("more happened at once than the system remembers")
        else:
            for each in self.worktrees.values():
                each.note(events)
        return len(events)

    def worktree(self, root: str) -> WatchedWorktree | None:
        """The worktree at `root`, watched from now on; None if it is none of this repository."""
        known = self.worktrees.get(root)
        if known is not None and known.is_there():
            return known
        self.forget_gone()
        try:
            location = locate(root, use_environment=False)
        except AgentosError:
            return None
        if location.root != root or _identity(location.common_dir) != self._identity:
            return None
        found = self.worktrees[root] = WatchedWorktree(location, self._watcher)
        found.begin()
        return found

    def moments(self) -> dict[str, str | None]:
        """The present token of each worktree, by its folder; see `WatchedWorktree.moment`."""
        checked = 0
        for each in self.worktrees.values():
            checked += checked < _CHECKED and each.check_open()
        return {root: each.moment() for root, each in self.worktrees.items()}

    def retry(self) -> None:
        """Begin again to watch the worktrees that have a problem."""
        for each in self.worktrees.values():
            each.retry()
            self._watcher.keep()  # the listing of one has events; those of all together would be too many

    def forget_gone(self) -> None:
        """Forget the worktrees that were removed or moved."""
        for root, each in list(self.worktrees.items()):
            if not each.is_there():
                self.worktrees.pop(root).end("it is gone")

    def close(self) -> None:
        """Watch nothing any more."""
        self._watcher.close()


class _Shared:
    """A watcher for several worktrees, of which one may be in another: what one forgets is watched for the other."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._uses: dict[int, int] = {}
        self.fileno, self.keep, self.close = watcher.fileno, watcher.keep, watcher.close

    def watch(self, folder: bytes) -> int:
        number = self._watcher.watch(folder)
        self._uses[number] = self._uses.get(number, 0) + 1
        return number

    def forget(self, folder: int) -> None:
        left = self._uses.pop(folder, 1) - 1
        if left:
            self._uses[folder] = left
        else:
            self._watcher.forget(folder)

    def read(self) -> Sequence[Event]:
        return self._watcher.read()


def _identity(folder: str) -> tuple[int, ...]:
    try:
        found = os.stat(folder)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino)
