"""Questions about paths: whether one is in a folder or in a git directory, whether one names a device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from git_agentos.git import gitfile

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


def worktree_root(folder: str) -> str | None:
    """The top of the worktree that a folder is in, or whose `.git` it is in; None outside of one."""
    found = gitfile.find(folder)
    if found is None or found[0] != found[1]:
        return None if found is None else found[0]
    return os.path.dirname(found[0]) if os.path.basename(found[0]) == ".git" else None


def git_directories(folder: str) -> tuple[str, ...]:
    """The `.git` of the worktree that a folder is in, its git directory, and the common one."""
    found = gitfile.find(folder)
    if found is None:
        return ()
    root, git_dir = found
    dot = [os.path.join(root, ".git")] if root != git_dir else []
    return tuple(dict.fromkeys([*dot, git_dir, gitfile.common_dir(git_dir)]))


def is_in_git_directory(path: str, git_directories: Iterable[str]) -> bool:
    """Whether an absolute path is a git directory or in one: any `.git`, or one of those that are given."""
    parent = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    paths = {path, parent, os.path.realpath(path)}
    return ".git" in path.split(os.sep) or any(is_below(each, own) for each in paths for own in git_directories)
