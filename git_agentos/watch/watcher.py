"""The port: what the daemon needs of a system that tells of changes in folders.

A watcher tells of what happens in each folder that it was asked to watch, not in those below. Its events come in the
order in which they happened. It must say when it has lost some.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

from git_agentos.util.named_tuple import NamedTuple


class Kind(enum.Enum):
    """What happened to something in a folder; the last three are about the folder itself, or about all of them."""

    CHANGED = "changed"  # its contents or its mode
    OPENED = "opened"  # it may be written to until it is closed, without any other event
    CLOSED = "closed"
    APPEARED = "appeared"  # made, or moved here
    VANISHED = "vanished"  # deleted, or moved away
    GONE = "gone"  # the folder is not watched any more: deleted, or its file system unmounted
    MOVED = "moved"  # the folder was moved, with what is in it
    LOST = "lost"  # events were lost; `folder` means nothing


class Event(NamedTuple):
    """`folder` is the number that `watch` gave. `name` is empty if it is about the folder itself. The two events of a
    move have the same `move`, which is 0 otherwise."""

    folder: int
    kind: Kind
    name: bytes = b""
    is_folder: bool = False
    move: int = 0


class WatchLimitError(OSError):
    """The system watches no more folders for this user; the message says what to change."""


def reason_of(error: Exception) -> str:
    """Why something cannot be watched, without the number of a system's error."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class Watcher(Protocol):
    """A system's way to tell of changes."""

    def fileno(self) -> int:
        """A descriptor that is readable while there are events."""

    def watch(self, folder: bytes) -> int:
        """Begin to watch a folder; the number of its events. The same folder, by whichever path, has the same number.
        WatchLimitError, or another OSError where there is no such folder, or a symbolic link."""

    def forget(self, folder: int) -> None:
        """Watch this folder no longer; nothing happens if it is not watched. Events of it may still come."""

    def read(self) -> Sequence[Event]:
        """The events that are waiting. Everything that had happened before the call is in this answer, or in one
        before."""

    def keep(self) -> None:
        """Take the events that are waiting from the system, and keep them for `read`: it remembers only so many."""

    def close(self) -> None:
        """Watch nothing any more."""
