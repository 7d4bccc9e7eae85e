"""The worktrees of a repository, read from its directories (gitrepository-layout(5)), mostly without running git."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from git_agentos.errors import AgentosError, RepositoryError
from git_agentos.git import process, refs
from git_agentos.git.gitfile import (
    DamagedEntryError,
    is_linked,
    linked_git_dirs,
    other_owner,
    read_gitfile,
    root_of,
    root_or_none,
)
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple

__all__ = [
    "BranchUser",
    "DamagedEntryError",
    "branch_users",
    "find_other_owner",
    "is_linked",
    "is_trusted_config_origin",
    "leads_to_common_dir",
    "linked_git_dirs",
    "list_existing",
    "lock",
    "main_folder",
    "other_owner",
    "read_gitfile",
    "relink",
    "root_of",
    "root_or_none",
    "unreadable_file",
    "write_common_dir",
    "write_entry",
]  # fmt: skip

_HEADS = "refs/heads/"
_LONGEST = 1 << 16  # of the small files that git keeps for a worktree


@contextlib.contextmanager
def lock(location: Location) -> Iterator[None]:
    """Hold the lock for changing the repository's worktrees (`git worktree add` fails when several run)."""
    process.require_no_quarantine()
    folder = directories.make_own(location.shared_state_dir)
    with locks.hold(os.path.join(folder, "worktrees.turn")):
        yield


def relink(git_dir: str, root: str) -> None:
    """Make a folder and its entry point at each other, by relative paths if they did before."""
    pointer = os.path.join(git_dir, "gitdir")
    mine, theirs = os.path.join(root, ".git"), git_dir
    with contextlib.suppress(OSError):
        if files.read(pointer, limit=_LONGEST)[:1] not in (b"/", b"", b"\0"):
            mine, theirs = os.path.relpath(mine, git_dir), os.path.relpath(git_dir, root)
    files.replace(os.path.join(root, ".git"), os.fsencode(f"gitdir: {theirs}\n"))
    files.replace(pointer, os.fsencode(f"{mine}\n"))


def write_entry(location: Location, head: refs.Head) -> None:
    """Write what an entry needs so that git sees the worktree."""
    write_common_dir(location.git_dir)
    files.replace(os.path.join(location.git_dir, "gitdir"), os.fsencode(f"{os.path.join(location.root, '.git')}\n"))
    refs.rebuild_head(location, head)


def write_common_dir(git_dir: str) -> None:
    """Make an entry name the repository in which it is."""
    files.replace(os.path.join(git_dir, "commondir"), b"../..\n")


def leads_to_common_dir(git_dir: str, common_dir: str) -> bool:
    """Whether an entry names this repository (in `commondir`)."""
    try:
        text = files.read(os.path.join(git_dir, "commondir"), limit=_LONGEST).strip(b"\r\n")
    except OSError:
        return False
    if not text or b"\0" in text:
        return False
    return os.path.realpath(os.path.join(git_dir, os.fsdecode(text))) == os.path.realpath(common_dir)


def unreadable_file(git_dir: str) -> str | None:
    """A file of a worktree's entry that is not a regular file, so that git fails or waits for it; None if there is
    none. (Contents are not checked.)"""
    for name in ("HEAD", "commondir", "index"):
        path = os.path.join(git_dir, name)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode) and not (stat.S_ISLNK(mode) and os.path.isfile(path)):
            if name == "HEAD" and stat.S_ISLNK(mode):
                continue  # as old versions of git wrote a symbolic ref
            return path
    return None


def find_other_owner(root: str, git_dir: str, common_dir: str) -> str | None:
    """Why the folder at `root` is not the worktree of `git_dir`; None if it is, or nothing indicates otherwise."""
    return other_owner(root, git_dir) or _foreign_files(Location.read(root, git_dir, common_dir))


def _foreign_files(location: Location) -> str | None:
    """Why a folder without a `.git` file was probably created by another program: it has files, but none of those in
    the index. A worktree that has only lost its `.git` file has some of them."""
    if os.path.lexists(os.path.join(location.root, ".git")):
        return None
    try:
        out = process.run(["ls-files", "-z"], cwd=location.root, env=location.environment())
    except (AgentosError, OSError):
        return None
    paths = [path for path in out.split(b"\0") if path]
    root = os.fsencode(location.root)
    if not paths or any(os.path.lexists(os.path.join(root, path)) for path in paths):
        return None
    return "it has no '.git' file, and none of the worktree's files"


# -- who uses a branch ---------------------------------------------------------------------------------------------


class BranchUser(NamedTuple):
    """A worktree that uses a branch: `how` is `checkout`, or the operation that returns to the branch or moves it when
    it ends (`rebase`, `bisect`). `root` is None if the entry does not name its folder."""

    git_dir: str
    root: str | None
    how: str


# Where git keeps the branch that an operation has left, and to which it returns.
_LEFT_BRANCHES = (
    ("rebase-merge/head-name", "rebase"),
    ("rebase-apply/head-name", "rebase"),
    ("BISECT_START", "bisect"),
)
_UPDATED = "rebase-merge/update-refs"  # `rebase --update-refs`: three lines for each branch that moves at the end


def branch_users(location: Location, ref: str, *, except_git_dir: str | None = None) -> list[BranchUser]:
    """The worktrees of the repository that use a branch (full name), by the rules of `git branch -d`. Files of a
    worktree that cannot be read are skipped."""
    found = []
    for git_dir in (location.common_dir, *linked_git_dirs(location.common_dir)):
        if git_dir == except_git_dir:
            continue
        root = main_folder(location) if git_dir == location.common_dir else root_or_none(git_dir)
        found += [BranchUser(git_dir, root, how) for how, name in _used(location, git_dir) if name == ref]
    return found


def main_folder(location: Location) -> str:
    """The main repository's folder: its worktree, or the bare repository itself."""
    if location.is_main:
        return location.root
    return location.common_dir.removesuffix(os.sep + ".git")


def _used(location: Location, git_dir: str) -> Iterator[tuple[str, str]]:
    """The branches (full names) that a worktree uses, and how."""
    here = location.worktree("", git_dir)
    with contextlib.suppress(OSError, RepositoryError):
        head = refs.read_head(here).ref
        if head is not None:
            yield "checkout", refs.target(here, head)
    for name, how in _LEFT_BRANCHES:
        text = _line(os.path.join(git_dir, name))
        if text:
            yield how, text if text.startswith("refs/") else _HEADS + text
    with contextlib.suppress(OSError):
        lines = files.read(os.path.join(git_dir, _UPDATED), limit=_LONGEST).split(b"\n")
        yield from (("rebase", os.fsdecode(line)) for line in lines[::3] if line)


def _line(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.fsdecode(files.read(path, limit=_LONGEST).strip())
    return ""


# -- listing ------------------------------------------------------------------------------------------------------


def list_existing(location: Location, core_worktree: str | None = None) -> list[Location]:
    """All worktrees whose folder exists: the main one first, if there is one, then the linked ones by name.

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
        found.append(location.worktree(main, location.common_dir))
    for git_dir in linked_git_dirs(location.common_dir):
        with contextlib.suppress(OSError):
            root = root_of(git_dir)
            # Skip a folder that now belongs to another entry, or to the repository of which this one is a copy.
            if os.path.lexists(os.path.join(root, ".git")) and other_owner(root, git_dir) is None:
                found.append(location.worktree(os.path.realpath(root), git_dir))
    return found


def is_trusted_config_origin(origin: str, root: str, common_dir: str) -> bool:
    """Whether a value of git's configuration with this `--show-origin` is from a file that no commit can contain: one
    outside every worktree, or in the common git directory. git's file names are relative to `root`.

    A value from the command line is trusted; use `--show-scope` to distinguish it.
    """
    kind, _, name = origin.partition(":")
    if kind != "file":
        return kind == "command line"
    path = os.path.realpath(os.path.join(root, name))
    if path.startswith(common_dir + os.sep):
        return not path.startswith(os.path.join(common_dir, "worktrees") + os.sep)
    return not is_in_worktree(path, root, common_dir)


def is_in_worktree(path: str, root: str, common_dir: str) -> bool:
    """Whether a path without links is in a worktree of the repository, the one at `root` or another one."""
    roots = [root, os.path.realpath(common_dir.removesuffix(os.sep + ".git"))]
    recorded = map(root_or_none, linked_git_dirs(common_dir))
    roots += [os.path.realpath(each) for each in recorded if each is not None]
    return any(path.startswith(each + os.sep) for each in roots if each != common_dir)
