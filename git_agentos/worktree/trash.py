"""Where removed worktrees go: out of sight by one rename, and deleted in the background.

    <folder above the worktree>/.agentos-trash/<id>-<random>   the worktree's folder: on its own file system
    <common dir>/agentos/trash/<id>-<random>                   its git directory, which goes last
    … /agentos/trashed                                         in there: the path of the first

So whatever is left of a deletion that was killed is found by looking into the second.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.process import deletion
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

FOLDER = ".agentos-trash"
_ENTRIES = "trash"
_MARK = "trashed"


class TrashEntry(NamedTuple):
    """Where one removed worktree goes: its folder and its git directory."""

    folder: str
    entry: str


def choose_entry(location: Location, root: str, id_: str) -> TrashEntry:
    """A free place for the worktree `id_`, whose folder is `root`."""
    name = f"{id_}-{os.urandom(4).hex()}"
    return TrashEntry(
        os.path.join(os.path.dirname(root), FOLDER, name), os.path.join(location.shared_state_dir, _ENTRIES, name)
    )


def mark(git_dir: str, folder: str) -> None:
    """Write into a worktree's git directory where its folder goes."""
    path = os.path.join(directories.make_own(os.path.join(git_dir, "agentos")), _MARK)
    files.replace(path, os.fsencode(folder + "\n"))


def unmark(git_dir: str) -> None:
    """Remove that mark: the worktree stays."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(git_dir, "agentos", _MARK))


def marked(git_dir: str) -> str | None:
    """Where the folder of a worktree that is being removed goes; None where it is not being removed, or the mark cannot
    be read."""
    with contextlib.suppress(OSError):
        return os.fsdecode(files.read(os.path.join(git_dir, "agentos", _MARK), limit=1 << 16).removesuffix(b"\n"))
    return None


def move(source: str, target: str) -> None:
    """Move a folder to its place in the trash (or back out of it), by one rename."""
    for _ in range(3):
        directories.make_own(os.path.dirname(target))
        try:
            os.rename(source, target)
        except FileNotFoundError:
            if not os.path.lexists(source):
                raise
            continue  # another deletion has just removed the empty trash folder
        return
    os.rename(source, target)


def remove_empty_folders(entry: TrashEntry) -> None:
    """Remove the folders around, where they are empty."""
    for path in entry:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))


def delete(entries: list[TrashEntry]) -> None:
    """Delete what is in the trash, in a process that outlives this one.

    If that cannot be started, it stays, and `repair` and `doctor` report it.
    """
    for entry in entries:
        with contextlib.suppress(OSError):
            deletion.remove_in_background(entry)


def delete_leftovers(location: Location) -> None:
    """Delete what is in the trash of processes that were killed, as `delete` does."""
    if os.path.lexists(os.path.join(location.shared_state_dir, _ENTRIES)):
        with worktrees.lock(location):
            found = list(leftovers(location))
        delete(found)


def leftovers(location: Location) -> Iterator[TrashEntry]:
    """The entries that have not been deleted (yet). The lock on worktrees must be held: so no removal is going on."""
    top = os.path.join(location.shared_state_dir, _ENTRIES)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for found in sorted(os.scandir(top), key=lambda each: each.name):
            folder = marked(found.path) or ""
            if os.path.basename(os.path.dirname(folder)) != FOLDER or os.path.basename(folder) != found.name:
                folder = os.path.join(top, found.name)  # the mark has been deleted: the folder was before it
            yield TrashEntry(folder, found.path)


def size(entry: TrashEntry) -> int:
    """The bytes that it still takes on disk."""
    return sum(directories.disk_usage(path) for path in dict.fromkeys(entry))
