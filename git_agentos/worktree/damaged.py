"""Damaged files of the git directory: they are moved out of the way, never deleted.

<common dir>/agentos/damaged/<name>-<random>    what stood in place of a file that was made anew
"""

from __future__ import annotations

import os
import stat

from git_agentos.git import locks
from git_agentos.git.location import Location

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
    folder = locks.own_folder(os.path.join(locks.own_folder(location.shared_state_dir), _FOLDER))
    kept = os.path.join(folder, f"{os.path.basename(path)}-{os.urandom(4).hex()}")
    os.rename(path, kept)
    return kept
