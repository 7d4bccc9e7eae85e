"""Damaged files of the git directory: they are moved away, never deleted.

<common dir>/agentos/damaged/<name>-<random>    what stood in place of a file that was rebuilt
"""

from __future__ import annotations

import os
import stat

from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.util import directories
from git_agentos.worktree import record

_FOLDER = "damaged"


def set_aside(location: Location, path: str) -> str | None:
    """Move what is at `path` (a file, a folder, a link) away, and say where it is now; None where nothing is there, or
    only an empty file."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(found.st_mode) and not found.st_size:
        os.unlink(path)
        return None
    kept = _new_name(location, path)
    os.rename(path, kept)
    return kept


def keep(location: Location, path: str) -> str | None:
    """As `set_aside`, for what is replaced by one rename: a file or link stays in its place, too, until then."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return set_aside(location, path)
    if stat.S_ISREG(found.st_mode) and not found.st_size:
        return None
    kept = _new_name(location, path)
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:  # a file system without links
        os.rename(path, kept)
    return kept


def describe(*kept: str | None) -> str:
    """The end of a sentence that says where what was moved away is kept; empty where nothing was."""
    names = ", ".join(f"'{each}'" for each in kept if each is not None)
    return f"; what stood there is kept in {names}" if names else ""


def _new_name(location: Location, path: str) -> str:
    folder = directories.make_own(location.shared_state_dir, _FOLDER)
    return os.path.join(folder, f"{os.path.basename(path)}-{os.urandom(4).hex()}")


def unblock_worktree_add(location: Location) -> None:
    """Fix what makes every `git worktree add` fail: an entry of git-agentos that does not say to which repository it
    belongs, or in which something else stands in a file's place. Other damage does not disturb git. The lock on
    worktrees must be held."""
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        if record.identify(git_dir) is None:
            continue
        for name in ("HEAD", "gitdir", "index", "locked"):
            path = os.path.join(git_dir, name)
            if os.path.lexists(path) and not os.path.isfile(path) and not os.path.isdir(path):
                set_aside(location, path)
        if not worktrees.leads_to_common_dir(git_dir, location.common_dir):
            set_aside(location, os.path.join(git_dir, "commondir"))
            worktrees.write_common_dir(git_dir)
