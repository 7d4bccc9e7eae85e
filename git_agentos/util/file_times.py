"""How far the times of files can be trusted: a file system takes them in steps, and two changes in one step look alike.

Most take them from a clock that ticks at least every 10 ms. FAT, and some file systems of networks, have steps of up to
two seconds: there all times are whole milliseconds, which elsewhere hardly ever happens to two of them.
"""

from __future__ import annotations

import os
import time

_FINE_NS = 50_000_000
_COARSE_NS = 2_500_000_000
_LONGEST_STEP_NS = 2_000_000_000
_TICK_NS = 12_000_000  # a little more than a tick of the clock


def unsafe_for(found: os.stat_result) -> int:
    """For how long after a file's newest time another change may leave its times as they are, in nanoseconds."""
    return _COARSE_NS if _are_coarse(found) else _FINE_NS


def moment_between_changes(folder: str) -> int:
    """A moment, in nanoseconds since the epoch: the times of what changes from now on are later. Where the steps are
    coarse, this waits for the next one: then the times of what has changed before are not later."""
    now = time.time_ns()
    if not _are_coarse(os.stat(folder)):
        return now - _TICK_NS
    step = (now // _LONGEST_STEP_NS + 1) * _LONGEST_STEP_NS
    while now < step:
        time.sleep((step - now) / 1e9)
        now = time.time_ns()
    return step - 1


def _are_coarse(found: os.stat_result) -> bool:
    return found.st_mtime_ns % 1_000_000 == 0 and found.st_ctime_ns % 1_000_000 == 0
