"""How a linked worktree's folder and its entry in the repository point at each other (gitrepository-layout(5)).

    <folder>/.git                        names the entry
    <common dir>/worktrees/<n>/gitdir    names that file

Standard library only: `location` needs it.
"""

from __future__ import annotations

import errno
import os

from git_agentos.util import files

LONGEST = 1 << 16  # of the small files that git keeps for a worktree


class DamagedEntryError(OSError):
    """A file of a worktree's entry does not say what it should."""


def root_of(git_dir: str) -> str:
    """Where a linked worktree's folder is, by its entry (`worktrees/<id>/gitdir`); DamagedEntryError or another OSError
    where the entry does not say."""
    path = os.path.join(git_dir, "gitdir")
    content = files.read(path, limit=LONGEST).rstrip(b"\r\n")
    if b"\0" in content or b"\n" in content or not content.endswith(b"/.git"):
        raise DamagedEntryError(errno.EINVAL, "does not name the .git file of a worktree", path)
    # With worktree.useRelativePaths (git 2.48) it is relative to the entry.
    return os.path.dirname(os.path.normpath(os.path.join(git_dir, os.fsdecode(content))))


def known_root(git_dir: str) -> str | None:
    """`root_of`; None where the entry does not tell."""
    try:
        return root_of(git_dir)
    except OSError:
        return None


def read_gitfile(root: str) -> str | None:
    """The git directory that the `.git` file of a folder names; None where there is no such file, or nothing in it."""
    try:
        content = files.read(os.path.realpath(os.path.join(root, ".git")), limit=LONGEST)
    except OSError:
        return None
    target = content.removeprefix(b"gitdir: ").rstrip(b"\r\n")
    if target == content or not target or b"\0" in target:
        return None
    return os.path.normpath(os.path.join(root, os.fsdecode(target)))


def is_linked(root: str, git_dir: str) -> bool:
    """Whether the `.git` file of a folder leads to this git directory."""
    target = read_gitfile(root)
    return target is not None and os.path.realpath(target) == os.path.realpath(git_dir)


def belongs(root: str, git_dir: str) -> str | None:
    """Why the folder is not the worktree of `git_dir`; None where it is, or where its `.git` file does not tell."""
    path = os.path.join(root, ".git")
    if os.path.isfile(os.path.join(path, "HEAD")):
        return "a repository of its own lies there"
    target = read_gitfile(root)
    if target is None or not os.path.isdir(target) or is_linked(root, git_dir):
        return None
    return f"it belongs to '{target}'"


def original_of(root: str, git_dir: str) -> str | None:
    """The worktree that the folder `root` is a copy of: its `.git` file names an entry that another folder belongs to.
    None where it is none. (A bind mount of the same folder is no copy.)"""
    owner = known_root(git_dir)
    if owner is None or os.path.realpath(owner) == root or not is_linked(root, git_dir):
        return None
    try:
        is_other = is_linked(owner, git_dir) and not os.path.samefile(owner, root)
    except OSError:
        return None
    return owner if is_other else None
