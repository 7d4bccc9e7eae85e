"""The worktrees of a repository, as its own directories tell (gitrepository-layout(5)): no git is started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from git_agentos.git.location import Location


def entries(common_dir: str) -> Iterator[str]:
    """The git directories of all linked worktrees, by name."""
    folder = os.path.join(common_dir, "worktrees")
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.is_dir(follow_symlinks=False):
                yield entry.path


def root_of(git_dir: str) -> str:
    """Where a linked worktree's folder is, by its entry (`worktrees/<id>/gitdir`)."""
    with open(os.path.join(git_dir, "gitdir"), "rb") as file:
        path = os.fsdecode(file.read().removesuffix(b"\n"))
    # With worktree.useRelativePaths (git 2.48) it is relative to the entry.
    return os.path.dirname(os.path.normpath(os.path.join(git_dir, path)))


def known_root(git_dir: str) -> str | None:
    """`root_of`; None where the entry does not tell."""
    try:
        return root_of(git_dir)
    except OSError:
        return None


def living(location: Location, core_worktree: str | None = None) -> list[Location]:
    """All worktrees whose folder is there: the main one first, if there is one, then the linked ones by name.

    `core_worktree` is the repository's core.worktree, if it is set.
    """
    found = []
    if core_worktree is not None:
        main = os.path.normpath(os.path.join(location.common_dir, core_worktree))
    else:
        main = os.path.dirname(location.common_dir) if os.path.basename(location.common_dir) == ".git" else ""
    if location.is_main:
        found.append(location)
    elif main and os.path.isdir(main):
        found.append(Location(main, location.common_dir, location.common_dir))
    for git_dir in entries(location.common_dir):
        with contextlib.suppress(OSError):
            root = root_of(git_dir)
            # A folder that is somewhere else's worktree by now is not this entry's.
            if os.path.lexists(os.path.join(root, ".git")):
                found.append(Location(os.path.realpath(root), git_dir, location.common_dir))
    return found
