"""Files that come from one worktree into another: copied as they are, never over something, and through no link."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat

from git_agentos.util import system


def make_parents(root: bytes, path: bytes, made: dict[bytes, None]) -> bool:
    """Make the folders above `path` below `root`, and note them in `made`; False where something is at `path`, or no
    folder above it."""
    if os.path.lexists(os.path.join(root, path)):
        return False
    parts = path.split(b"/")[:-1]
    for n in range(1, len(parts) + 1):
        folder = b"/".join(parts[:n])
        if folder in made:
            continue
        try:
            if not stat.S_ISDIR(os.lstat(os.path.join(root, folder)).st_mode):
                return False
        except FileNotFoundError:
            os.mkdir(os.path.join(root, folder))
            made[folder] = None
    return True


def finish_folders(source: bytes, target: bytes, made: dict[bytes, None]) -> None:
    """Give folders that were made the modes and times of those in `source`, the innermost first: a folder's time
    changes with what is put into it, and it may be read-only."""
    for folder in sorted(made, reverse=True):
        with contextlib.suppress(OSError):
            shutil.copystat(os.path.join(source, folder), os.path.join(target, folder))


def copy(source: bytes, target: bytes) -> bool:
    """Copy one file or link with its mode and times; False for what is neither, or gone."""
    try:
        found = os.lstat(source)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISREG(found.st_mode):
            system.copy_contents(source, target)
        else:
            return False
    except FileNotFoundError:
        return False
    shutil.copystat(source, target, follow_symlinks=False)
    return True
