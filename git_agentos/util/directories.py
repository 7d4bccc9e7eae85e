"""Folders: those of git-agentos in a git directory, scratch folders, and trees of any depth.

Python's own `os.makedirs`, `os.walk` and `shutil.rmtree` call themselves for each level, and give up below about a
thousand.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

from git_agentos.errors import RepositoryError
from git_agentos.util import locks

_PLANTED = "remove it: git-agentos did not create it and does not follow it"


def make(path: str | bytes) -> None:
    """Create a folder and those above it, where they are missing."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each)
    if missing and not os.path.isdir(missing[0]):
        raise FileExistsError(17, "File exists", missing[0])


def make_own(path: str, *below: str) -> str:
    """Create the folder `path`, and `below` it one folder in the other, where they are missing; the last one's path.

    These are folders of git-agentos in a git directory. RepositoryError where one is a symbolic link or no folder.
    """
    for name in ("", *below):
        path = os.path.join(path, name) if name else path
        try:
            os.mkdir(path)
        except FileExistsError:
            is_own(path)
    return path


def is_own(path: str) -> bool:
    """Whether a folder of git-agentos is there; RepositoryError where something else has its name: it may have come
    with a hostile repository."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "not a directory"
        raise RepositoryError(f"'{path}' is {what}", _PLANTED) from None
    return True


def entries(path: bytes) -> list[os.DirEntry[bytes]]:
    """The entries of a folder; none where it cannot be read or is gone."""
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def tree(path: bytes) -> Iterator[tuple[bytes, list[os.DirEntry[bytes]]]]:
    """Every folder at and below `path` with its entries, a folder before what is in it.

    Symbolic links are not followed; a folder that cannot be read is left out.
    """
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:
            continue
        yield folder, entries
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def remove(path: str | bytes) -> None:
    """Remove a folder with everything in it, as far as that is possible; nothing is raised."""
    folders = []
    for folder, entries in tree(os.fsencode(path)):
        folders.append(folder)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def disk_usage(folder: str) -> int:
    """Bytes on disk at and below a folder; links are not followed, and a file with several names counts once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for _, entries in tree(os.fsencode(folder)):
        for entry in entries:
            with contextlib.suppress(OSError):  # gone meanwhile
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1 or (found.st_dev, found.st_ino) not in seen:
                    total += found.st_blocks * 512
                    seen.add((found.st_dev, found.st_ino))
    return total


# -- scratch folders ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch(parent: str, prefix: str = "", *, delete: Callable[[str], object] = remove) -> Iterator[str]:
    """A new folder in `parent`, removed at the end. If this process is killed, `remove_abandoned` removes it."""
    path, descriptor = _new_scratch(parent, prefix)
    try:
        yield path
    finally:
        delete(path)
        os.close(descriptor)


def remove_abandoned(parent: str, prefix: str = "", *, delete: Callable[[str], object] = remove) -> list[str]:
    """Remove this user's scratch folders in `parent` that no living process holds; their paths."""
    removed = []
    with contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    if _remove_if_abandoned(entry.path, delete):
                        removed.append(entry.path)
    return removed


def _new_scratch(parent: str, prefix: str) -> tuple[str, int]:
    """A new folder, and a descriptor that holds the lock on it."""
    while True:
        path = os.path.join(parent, f"{prefix}{os.getpid()}-{os.urandom(6).hex()}")
        os.mkdir(path, 0o700)
        # Until it is locked, another process can take it for abandoned and remove it.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            locks.acquire(descriptor)
            if os.path.lexists(path):
                return path, descriptor
            os.close(descriptor)


def _remove_if_abandoned(path: str, delete: Callable[[str], object]) -> bool:
    descriptor = locks.try_open(path)
    if descriptor is None:
        return False
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return False
        delete(path)
        return True
    finally:
        os.close(descriptor)
