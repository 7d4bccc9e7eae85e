"""The untracked part of a scan: files, nested repositories and empty directories that the index does not have.

git lists untracked directories as a whole (`ls-files --others --directory`). Here their files are listed, and they are
searched for empty directories and nested repositories. Standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Sequence

from git_agentos.git import gitfile, process
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple

LIST = ("ls-files", "--others", "-z", "--exclude-standard")
LIST_DIRECTORIES = (*LIST, "--directory")
_MAX_PATHSPECS = 200


class Untracked(NamedTuple):
    """Paths relative to the worktree's root, without a trailing slash. `unreadable` are directories."""

    files: list[bytes]
    nested: list[bytes]
    empty_directories: list[bytes]
    unreadable: list[bytes]


def is_agentos_path(path: bytes) -> bool:
    """Whether an untracked path is the folder of git-agentos, or below it."""
    return path == b".agentos" or path.startswith(b".agentos/")


def collect(location: Location, listed: bytes, vanished: Sequence[bytes]) -> Untracked:
    """All untracked paths, from the output of LIST_DIRECTORIES and the tracked paths that are not on disk."""
    found = Untracked([], [], [], [])
    populated: list[bytes] = []
    root = os.fsencode(location.root)
    for path in (listed + _directories_over_files(location, vanished)).split(b"\0"):
        if not path or is_agentos_path(path):
            continue
        if not path.endswith(b"/"):
            found.files.append(path)
        elif is_repository(os.path.join(root, path)):
            found.nested.append(path[:-1])
        elif search_directory(location, path[:-1], found):
            populated.append(path)
    if populated:
        _list_files(location, populated, found)
    found.empty_directories.extend(_emptied_directories(location, vanished, set(found.empty_directories)))
    return found


def _list_files(location: Location, directories: Sequence[bytes], found: Untracked) -> None:
    """Add the files and the nested repositories below `directories`."""
    args: list[str | bytes] = [*LIST]
    if len(directories) <= _MAX_PATHSPECS:
        args += ["--", *directories]
    known = {*found.files, *(path + b"/" for path in found.nested)}
    for path in process.run(args, cwd=location.root, env=location.environment()).split(b"\0"):
        if not path or is_agentos_path(path) or path in known:
            continue
        if path.endswith(b"/"):
            found.nested.append(path[:-1])
        else:
            found.files.append(path)


def search_directory(location: Location, directory: bytes, found: Untracked) -> bool:
    """Add the empty and unreadable directories at and below `directory`; whether it contains anything else."""
    root = os.fsencode(location.root)
    populated = False
    waiting = [directory]
    while waiting:
        directory = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, directory)))
        except FileNotFoundError:
            continue
        except OSError:
            found.unreadable.append(directory)
            populated = True
            continue
        if not entries:
            found.empty_directories.append(directory)
        for entry in entries:
            inner = os.path.join(directory, entry.name)
            if entry.is_dir(follow_symlinks=False) and entry.name != b".git":
                if is_repository(os.path.join(root, inner)):
                    populated = True
                else:
                    waiting.append(inner)
            else:
                populated = True
    return populated


def _directories_over_files(location: Location, vanished: Sequence[bytes]) -> bytes:
    """Directories in the place of tracked files, which `ls-files --directory` omits, in the form of its output."""
    root = os.fsencode(location.root)
    found = []
    parents: dict[bytes, bool] = {}
    for path in vanished:
        parent = path.rpartition(b"/")[0]
        if parent not in parents:
            parents[parent] = os.path.isdir(os.path.join(root, parent))
        full = os.path.join(root, path)
        if parents[parent] and os.path.isdir(full) and not os.path.islink(full):
            found.append(path + b"/\0")
    return b"".join(found)


def _emptied_directories(location: Location, vanished: Sequence[bytes], known: set[bytes]) -> list[bytes]:
    """Directories whose last tracked file is missing on disk: for git, they are not empty."""
    root = os.path.join(os.fsencode(location.root), b"")
    nearest: dict[bytes, bytes] = {b"": b""}

    def existing(path: bytes) -> bytes:
        """The directory `path`, or the nearest one above it that exists; no symlink is followed."""
        missing = []
        while path not in nearest:
            missing.append(path)
            path = path.rpartition(b"/")[0]
        here = nearest[path]
        for path in reversed(missing):
            if here == path.rpartition(b"/")[0] and _is_directory(root + path):
                here = path
            nearest[path] = here
        return here

    found = []
    for parent in sorted({existing(path.rpartition(b"/")[0]) for path in vanished} - known - {b""}):
        with contextlib.suppress(OSError):
            if not os.listdir(root + parent):
                found.append(parent)
    return found


def _is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def hidden_rules(location: Location, tracked: Iterable[bytes], visible: Iterable[bytes]) -> list[bytes]:
    """The `.gitignore` files that are neither `tracked` nor `visible`, in the folders above paths that are."""
    root = os.path.join(os.fsencode(location.root), b"")
    folders = {b""}
    known = set()
    for path in itertools.chain(tracked, visible):
        folder, _, name = path.rpartition(b"/")
        if name == b".gitignore":
            known.add(path)
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    found = []
    for folder in folders:
        path = folder + b"/.gitignore" if folder else b".gitignore"
        if path not in known and os.path.lexists(root + path) and not os.path.isdir(root + path):
            above = folder
            while above and _is_directory(root + above) and not is_repository(root + above):
                above = above.rpartition(b"/")[0]
            if not above:
                found.append(path)
    return sorted(found)


def is_repository(directory: bytes) -> bool:
    """Whether a directory is the top of a repository of its own, as git decides it: a `.git` directory with a
    HEAD in it, or a `.git` file that points at a git directory."""
    dot_git = os.path.join(directory, b".git")
    if os.path.isdir(dot_git):
        return os.path.lexists(os.path.join(dot_git, b"HEAD"))
    return gitfile.read_gitfile(os.fsdecode(directory)) is not None


def unreadable_in(warnings: bytes) -> list[bytes]:
    """Directories that git could not open, from its warnings."""
    mark = b"could not open directory '"
    lines = [line for line in warnings.splitlines() if mark in line]
    return [line.partition(mark)[2].rpartition(b"':")[0].rstrip(b"/") for line in lines]
