"""Paths at which there are no files."""

from __future__ import annotations


def is_device(path: str) -> bool:
    """Whether `path` names a device or a part of a process, so that writing there is no loss. `/dev/shm` has files."""
    return path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")
