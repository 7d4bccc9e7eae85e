"""Paths at which there are no files."""

from __future__ import annotations

import os
import re

_THROUGH = re.compile(r"/(cwd|root)(/|$)|/fd/[^/]+/")


def is_device(path: str) -> bool:
    """Whether `path` names a device or a part of a process, so that writing there is no loss. `/dev/shm` has files, and
    some parts of a process lead to any folder (`/proc/self/cwd/FILE`)."""
    plain = os.path.normpath(path)
    if leads_through_a_process(path):
        return False
    return plain.startswith(("/dev/", "/proc/")) and not plain.startswith("/dev/shm/")


def leads_through_a_process(path: str) -> bool:
    """Whether a path goes where a process stands, or through what it has open: for another process it is another."""
    return path.startswith(("/proc/", "/dev/fd/")) and _THROUGH.search(path) is not None
