"""Ending processes that are no children: those that have a mark in their environment, and all that descend from them.

Standard library and `table` only: the supervisor imports it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

from git_agentos.process import table

MARK = "AGENTOS_RUN_MARK"
_MAX_SWEEPS = 20


def sweep(mark: str) -> list[int]:
    """End every process that has a mark, or descends from one that has; their ids. This process and those above it are
    spared."""
    return end_all(lambda: table.with_variable(MARK, mark))


def end_all(seeds: Callable[[], Iterable[int]]) -> list[int]:
    """End processes and all that descend from them; those that were alive. This process and those above it are spared.

    All are stopped before the first is killed: so one that has cleaned its environment is still found below one that
    has not.
    """
    spared = {os.getpid(), *table.parents(os.getpid())}
    ended: dict[int, None] = {}
    quiet = 0
    for _ in range(_MAX_SWEEPS):
        stopped: set[int] = set()
        while new := {each for seed in seeds() for each in (seed, *table.descendants(seed))} - stopped - spared:
            for pid in new:
                send(pid, signal.SIGSTOP)
            stopped |= new
        alive = [pid for pid in sorted(stopped) if table.is_alive(pid)]
        quiet = 0 if alive else quiet + 1
        if quiet == 2:  # a process that is just becoming another program has no environment for a moment
            break
        ended |= dict.fromkeys(alive)
        for pid in alive:
            send(pid, signal.SIGKILL)
        time.sleep(0.01)
    return sorted(ended)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended, or be another user's; to a group if `pid` is negative."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
