"""Linux: inotify(7), by the library `inotify_simple` (docs/decisions/020-inotify-simple.md)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from inotify_simple import INotify, flags

from git_agentos.watch.watcher import Event, Kind, WatchLimitError

_MASK = (
    flags.MODIFY | flags.ATTRIB | flags.CLOSE_WRITE | flags.CLOSE_NOWRITE | flags.OPEN | flags.MOVED_FROM |
    flags.MOVED_TO | flags.CREATE | flags.DELETE | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR |
    flags.DONT_FOLLOW
)  # fmt: skip
_OF_FILES = flags.OPEN | flags.CLOSE_NOWRITE
_LIMITS = "/proc/sys/fs/inotify/"

_KINDS: tuple[tuple[int, Kind], ...] = (
    (flags.OPEN, Kind.OPENED),
    (flags.CLOSE_NOWRITE, Kind.CLOSED),
    (flags.CLOSE_WRITE, Kind.CLOSED),
    # What was written through a mapping has had no event of its own.
    (flags.MODIFY | flags.ATTRIB | flags.CLOSE_WRITE, Kind.CHANGED),
    (flags.CREATE | flags.MOVED_TO, Kind.APPEARED),
    (flags.DELETE | flags.MOVED_FROM, Kind.VANISHED),
    (flags.MOVE_SELF, Kind.MOVED),
    (flags.IGNORED | flags.UNMOUNT | flags.DELETE_SELF, Kind.GONE),
    (flags.Q_OVERFLOW, Kind.LOST),
)


class InotifyWatcher:
    """A `Watcher`. inotify queues an event before the system call that it is about returns, so what is read holds all
    that was done before."""

    def __init__(self) -> None:
        """WatchLimitError where this user has as many inotify instances as it may."""
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            if error.errno == errno.EMFILE:
                raise WatchLimitError(error.errno, _limit("max_user_instances", "instances")) from None
            raise
        self._kept: list[Event] = []

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def watch(self, folder: bytes) -> int:
        try:
            return int(self._inotify.add_watch(folder, _MASK))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise WatchLimitError(error.errno, _limit("max_user_watches", "watched folders")) from None
            raise

    def forget(self, folder: int) -> None:
        with contextlib.suppress(OSError):
            self._inotify.rm_watch(folder)

    def read(self) -> Sequence[Event]:
        self.keep()
        found, self._kept = self._kept, []
        return found

    def keep(self) -> None:
        for number, mask, move, name in self._inotify.read(timeout=0):
            is_folder, data = bool(mask & flags.ISDIR), os.fsencode(name)
            if is_folder and mask & _OF_FILES:
                continue  # somebody lists the folder
            move_ = move if mask & (flags.MOVED_FROM | flags.MOVED_TO) else 0
            self._kept += [Event(number, kind, data, is_folder, move_) for bits, kind in _KINDS if mask & bits]

    def close(self) -> None:
        self._inotify.close()


def _limit(name: str, what: str) -> str:
    """Why no more is watched, and what to do."""
    try:
        with open(f"{_LIMITS}{name}", encoding="ascii") as file:
            most = file.read().strip()
    except OSError:
        most = "unknown"
    return f"this user may have {most} inotify {what}: raise fs.inotify.{name} with sysctl(8)"
