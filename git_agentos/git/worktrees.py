"""The worktrees of a repository, as its own directories tell (gitrepository-layout(5)): no git is started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from git_agentos.git import locks
from git_agentos.git.location import Location


@contextlib.contextmanager
def turn(location: Location) -> Iterator[None]:
    """One process at a time changes the repository's worktrees (git's own `worktree add` fails when several run)."""
    folder = locks.own_folder(location.shared_state_dir)
    with locks.turn_at(os.path.join(folder, "worktrees.turn")):
        yield


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


def is_own_file(origin: str, root: str, common_dir: str) -> bool:
    """Whether a value of git's configuration with this `--show-origin` comes from a file that no commit can have
    brought along: one outside of every worktree, or in the common git directory. `root` is where git names files from.

    A value from the command line counts as one's own: `--show-scope` tells it apart.
    """
    kind, _, name = origin.partition(":")
    if kind != "file":
        return kind == "command line"
    path = os.path.realpath(os.path.join(root, name))
    if path.startswith(common_dir + os.sep):
        return not path.startswith(os.path.join(common_dir, "worktrees") + os.sep)
    roots = [root, os.path.realpath(common_dir.removesuffix(os.sep + ".git"))]
    roots += [os.path.realpath(each) for entry in entries(common_dir) if (each := known_root(entry)) is not None]
    return not any(path.startswith(each + os.sep) for each in roots if each != common_dir)
