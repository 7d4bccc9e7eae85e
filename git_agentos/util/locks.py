"""Locks by flock(2). They end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

from git_agentos.errors import LockedError

_PAUSE = 0.005  # seconds between two attempts


@contextlib.contextmanager
def hold(path: str, *, shared: bool = False, wait: bool = True, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock on the file at `path`, which is created if it is missing and stays.

    With `wait=False`, LockedError where another process holds it for more than `patience` seconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        if wait:
            acquire(descriptor, shared=shared)
        elif not try_acquire(descriptor, shared=shared, patience=patience):
            raise LockedError(
                "another git-agentos command is at work in this worktree", "try again when it has finished"
            )
        yield
    finally:
        os.close(descriptor)


def acquire(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open file or folder; wait until no other process holds the lock."""
    fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_acquire(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> bool:
    """Lock an open file or folder; False where another process holds the lock for more than `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)


def try_open(path: str, *, shared: bool = False) -> int | None:
    """A descriptor of a file or folder, with the lock on it; None where another process holds the lock.

    Its caller closes it. OSError where it cannot be opened; no link is followed and no pipe waited for.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, os.O_RDWR | flags)  # NFS gives an exclusive lock only to who may write
    except (IsADirectoryError, PermissionError):
        descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        if try_acquire(descriptor, shared=shared):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
