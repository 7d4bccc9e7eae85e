"""A small file system of its own, to be filled up."""

from __future__ import annotations

import contextlib
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
    """Fill the disk but for `leave` bytes; removing the file frees it."""
    filler = folder / "filler"
    found = os.statvfs(folder)
    with open(filler, "wb") as file:
        size = found.f_bavail * found.f_frsize - leave
        if size > 0:
            os.posix_fallocate(file.fileno(), 0, size)
    return filler
