"""Folders of any depth: Python's own `os.makedirs`, `os.walk` and `shutil.rmtree` call themselves for each level, and
give up below about a thousand."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


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


def entries(path: bytes) -> list[os.DirEntry[bytes]]:
    """What is in a folder; nothing where it cannot be read or is gone."""
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


def remove_empty(path: str | bytes) -> None:
    """Remove a folder and those in it, where there is nothing but folders."""
    for folder in reversed([folder for folder, _ in tree(os.fsencode(path))]):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
