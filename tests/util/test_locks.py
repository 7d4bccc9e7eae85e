"""Locks by flock(2)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.errors import LockedError
from git_agentos.util import locks

_HOLDER = """\
import sys
from git_agentos.util import locks
with locks.hold(sys.argv[1], shared=sys.argv[2] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""


def _holder(path: Path, how: str) -> subprocess.Popen[bytes]:
    args = [sys.executable, "-c", _HOLDER, str(path), how]
    process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_hold_of_a_held_lock_raises_without_wait(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _holder(path, "exclusive") as holder:
        for shared in (False, True):
            with pytest.raises(LockedError), locks.hold(str(path), shared=shared, wait=False):
                pass
        assert locks.try_open(str(path)) is None
        holder.kill()
        holder.communicate()
    with locks.hold(str(path), wait=False):
        pass


def test_hold_of_a_shared_lock_lets_others_share_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _holder(path, "shared") as holder:
        with locks.hold(str(path), shared=True, wait=False):
            pass
        with pytest.raises(LockedError), locks.hold(str(path), wait=False):
            pass
        holder.communicate(b"")


def test_try_open_gives_a_descriptor_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o444)
    for path in (tmp_path, tmp_path / "file"):
        descriptor = locks.try_open(str(path))
        assert descriptor is not None
        os.close(descriptor)
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError):
        locks.try_open(str(tmp_path / "link"))
    with pytest.raises(FileNotFoundError):
        locks.try_open(str(tmp_path / "missing"))
