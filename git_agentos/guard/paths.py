"""Questions about paths: whether one is in a folder, whether one names a device."""

from __future__ import annotations

import os
import re

_THROUGH = re.compile(r"/(cwd|root)(/|$)|/fd/[^/]+/")


def is_device(path: str) -> bool:
    """Whether `path` names a device or a part of a process, so that writing there loses nothing. `/dev/shm` has files,
    and some parts of a process lead to any folder (`/proc/self/cwd/FILE`)."""
    plain = os.path.normpath(path)
    if leads_through_a_process(path):
        return False
    return plain.startswith(("/dev/", "/proc/")) and not plain.startswith("/dev/shm/")


def leads_through_a_process(path: str) -> bool:
    """Whether a path leads to a process's folder, or through a file that it has open: in another process it is another
    path."""
    return path.startswith(("/proc/", "/dev/fd/")) and _THROUGH.search(path) is not None


def nearest_folder(path: str) -> str:
    """`path` if it is a folder, else the nearest folder above it."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it, by the text of both."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_really_below(path: str, folder: str) -> bool:
    """Whether a path is in a folder, with symbolic links resolved."""
    real = os.path.realpath(path)
    return real.startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep)
