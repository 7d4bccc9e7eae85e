"""A small file system of its own, to be filled up."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(mebibytes: int) -> Iterator[Path]:
    """A file system of that size; skips the test where none can be mounted."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs root on Linux, to mount a small file system")
    folder = Path(tempfile.mkdtemp(prefix="agentos-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "agentos-test", str(folder)]
    mounted = subprocess.run(command, capture_output=True)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip("cannot mount a small file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def fill_disk(folder: Path, leave: int) -> Path:
    """Fill the disk, or the quota, but for about `leave` bytes; removing the file frees it."""
    filler, reserve = folder / "filler", folder / "reserve"
    reserve.write_bytes(bytes(leave))
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
        os.fsync(file.fileno())
    reserve.unlink()
    _sync(folder)  # what a quota counts as free
    return filler


def _sync(folder: Path) -> None:
    """Sync the file system that a folder is on."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)
