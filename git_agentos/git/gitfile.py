"""The files by which a worktree and its repository find each other (gitrepository-layout(5)).

    <folder>/.git                           names the entry, the git directory of a linked worktree
    <common dir>/worktrees/<n>/gitdir       names that file
    <common dir>/worktrees/<n>/commondir    names the git directory that all worktrees share

Standard library only: `location` needs it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from git_agentos.util import files

LONGEST = 1 << 16  # of the small files that git keeps for a worktree

# Files that every git command reads, in a worktree's git directory and in the common one.
_READ = ("HEAD", "index", "commondir", "gitdir", "config.worktree")
_READ_OF_COMMON = ("HEAD", "config", "packed-refs")


class DamagedEntryError(OSError):
    """A file of a worktree's entry has invalid content."""


def root_of(git_dir: str) -> str:
    """The folder of a linked worktree, by its entry (`worktrees/<id>/gitdir`); DamagedEntryError or another OSError if
    the entry does not name it."""
    path = os.path.join(git_dir, "gitdir")
    content = files.read(path, limit=LONGEST).rstrip(b"\r\n")
    if b"\0" in content or b"\n" in content or not content.endswith(b"/.git"):
        raise DamagedEntryError(errno.EINVAL, "does not name the .git file of a worktree", path)
    # With worktree.useRelativePaths (git 2.48) it is relative to the entry.
    return os.path.dirname(os.path.normpath(os.path.join(git_dir, os.fsdecode(content))))


def linked_git_dirs(common_dir: str) -> Iterator[str]:
    """The git directories of all linked worktrees, by name."""
    folder = os.path.join(common_dir, "worktrees")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir(follow_symlinks=False):
                yield entry.path


def root_or_none(git_dir: str) -> str | None:
    """`root_of`; None if the entry does not name it."""
    try:
        return root_of(git_dir)
    except OSError:
        return None


def read_gitfile(root: str) -> str | None:
    """The git directory that the `.git` file of a folder names; None if there is no such file, or it is empty."""
    return _target(os.path.join(root, ".git"))


def _target(path: str) -> str | None:
    try:
        content = files.read(os.path.realpath(path), limit=LONGEST)
    except OSError:
        return None
    target = content.removeprefix(b"gitdir: ").rstrip(b"\r\n")
    if not content.startswith(b"gitdir: ") or not target or b"\0" in target:
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), os.fsdecode(target)))


def common_dir(git_dir: str) -> str:
    """The git directory that all worktrees share; `git_dir` itself if it names no other."""
    try:
        target = files.read(os.path.join(git_dir, "commondir"), limit=LONGEST).rstrip(b"\r\n")
    except OSError:
        return git_dir
    if not target or b"\0" in target:
        return git_dir
    return os.path.realpath(os.path.join(git_dir, os.fsdecode(target)))


def is_linked(root: str, git_dir: str) -> bool:
    """Whether the `.git` file of a folder leads to this git directory."""
    target = read_gitfile(root)
    return target is not None and os.path.realpath(target) == os.path.realpath(git_dir)


def other_owner(root: str, git_dir: str) -> str | None:
    """Why the folder is not the worktree of `git_dir`; None if it is, or its `.git` file does not show it."""
    path = os.path.join(root, ".git")
    if os.path.isfile(os.path.join(path, "HEAD")):
        return "it is a repository of its own"
    target = read_gitfile(root)
    if target is None or not os.path.isdir(target) or is_linked(root, git_dir):
        return None
    return f"it belongs to '{target}'"


def original_of(root: str, git_dir: str) -> str | None:
    """The worktree of which the folder `root` is a copy: its `.git` file names the entry of another folder. None if it
    is not a copy. (A bind mount of the same folder is not.)"""
    owner = root_or_none(git_dir)
    if owner is None or os.path.realpath(owner) == root or not is_linked(root, git_dir):
        return None
    try:
        is_other = is_linked(owner, git_dir) and not os.path.samefile(owner, root)
    except OSError:
        return None
    return owner if is_other else None


def find(folder: str) -> tuple[str, str] | None:
    """The top and the git directory of the repository that a folder is in, as git discovers it; None outside a
    repository. Symbolic links are resolved."""
    path = os.path.realpath(folder)
    while True:
        git_dir = resolve(os.path.join(path, ".git"))
        if git_dir is not None:
            return path, git_dir
        if os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects")):
            return path, path  # bare, or inside a git directory
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def resolve(path: str) -> str | None:
    """The git directory at `path`, or the one that the file there names; None otherwise. Links are resolved."""
    git_dir = path if os.path.isdir(path) else _target(path)
    return None if git_dir is None else os.path.realpath(git_dir)


def pipe_in(git_dir: str) -> str | None:
    """The first named pipe among the files that git reads in a git directory and in the common one: git would wait
    forever for a writer."""
    linked = os.path.lexists(os.path.join(git_dir, "commondir"))
    common = os.path.dirname(os.path.dirname(git_dir)) if linked else git_dir
    paths = [os.path.join(git_dir, name) for name in _READ] + [os.path.join(common, name) for name in _READ_OF_COMMON]
    return next((path for path in paths if _is_pipe(path)), None)


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False
