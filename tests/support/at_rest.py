"""Copies of repositories in which nothing is at work any more: hooks leave recording to a process in the background."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

PATIENCE = 60  # seconds


def wait_until_at_rest(folder: Path) -> None:
    """Wait until no process has its current folder in `folder`; TimeoutError after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while found := _at_work(folder):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still at work in {folder}: {', '.join(found)}")
        time.sleep(0.01)


def copy(source: Path, target: Path) -> None:
    """Make `target` a copy of `source` with every time, in the place of what is there."""
    wait_until_at_rest(source)
    if target.exists():
        wait_until_at_rest(target)
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _at_work(folder: Path) -> list[str]:
    """The processes, as words for a message; this one does not count."""
    root = os.path.realpath(folder)
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            where = os.readlink(f"/proc/{name}/cwd")
            if where != root and not where.startswith(root + "/"):
                continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found.append(f"{name} {os.fsdecode(file.read()).replace(chr(0), ' ').strip()}")
        except OSError:
            continue  # it has ended, or is somebody else's
    return found
