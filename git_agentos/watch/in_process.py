"""Worktrees that a process watches for itself while no daemon does it for all.

A thread takes the events as they come, since the system remembers only so many, and lists the folders of worktrees that
begin to be watched. Where more happens at once than the system remembers, nothing is known of any worktree for a while:
whoever asks then may be the one who causes it, by a `git status` that opens thousands of files.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time

from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.watcher import Watcher

_PAUSE = 0.02  # seconds in which events are gathered
_QUIET = 1.0  # seconds without an event
_LONGEST = 0.3  # seconds of one call in which worktrees begin to be watched
_LOST = 30.0  # seconds until worktrees are watched again after events were lost; twice as many after the next time
_LOST_OFTEN = 1800.0  # seconds that this grows to; after as many without a loss it begins anew


class InProcess:
    """Watches worktrees of the repository of `common_dir`. Its methods may be called from any thread."""

    def __init__(self, common_dir: str, watcher: Watcher) -> None:
        self._repository = WatchedRepository(common_dir, watcher)
        self._lock = threading.Lock()
        self._ended = False
        self._wanted: list[str] = []
        self._last_event = 0.0
        self._losses = 0
        self._lost, self._pause = -_LOST_OFTEN, 0.0  # when events were lost, and for how long nothing is tried then
        self._waking, self._wake = os.pipe()
        threading.Thread(target=self._follow, name="watch", daemon=True).start()

    def moments(self) -> dict[str, str | None]:
        """As `control.moments`, of the worktrees that are watched."""
        with self._lock:
            if self._ended:
                return {}
            self._read()
            if time.monotonic() - self._last_event >= _QUIET:
                self._retry()
            return self._repository.moments()

    def watch(self, root: str) -> None:
        """Let the worktree at `root` be watched soon, if it is one of this repository."""
        with self._lock:
            if not self._ended:
                self._wanted.append(root)
                os.write(self._wake, b"\n")

    def close(self) -> None:
        """Watch nothing any more."""
        with self._lock:
            if not self._ended:
                self._ended = True
                os.close(self._wake)  # the thread is told by it

    def _read(self) -> None:
        now = time.monotonic()
        if self._repository.read():
            self._last_event = now
        if self._repository.losses > self._losses:
            self._losses = self._repository.losses
            is_again = now < self._lost + self._pause + _LOST_OFTEN
            self._pause = min(2 * self._pause, _LOST_OFTEN) if is_again and self._pause else _LOST
            self._lost = now

    def _retry(self) -> None:
        self._repository.forget_gone()
        if time.monotonic() < self._lost + self._pause:
            return
        end = time.monotonic() + _LONGEST
        for each in self._repository.worktrees.values():
            if time.monotonic() < end:
                each.retry()

    def _follow(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._repository.fileno(), selectors.EVENT_READ)
            selector.register(self._waking, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select()]
                with self._lock:
                    if self._ended:
                        break
                    with contextlib.suppress(OSError):
                        self._read()
                        if self._waking in ready and os.read(self._waking, 1):
                            self._repository.worktree(self._wanted.pop(0))
                if self._waking not in ready:
                    time.sleep(_PAUSE)
        self._repository.close()
        os.close(self._waking)


def begin(common_dir: str) -> InProcess | None:
    """Begin; None where the system, or what is installed, does not tell of changes."""
    try:
        from git_agentos.watch.inotify import InotifyWatcher

        return InProcess(common_dir, InotifyWatcher())
    except (ImportError, OSError):
        return None
