"""The local changes that would be overwritten when a worktree is moved from one commit to another.

git checks, too, before it moves anything (`read-tree -m -u`), but it names one file at a time, takes a deleted file for
an unchanged one, trusts index flags that hide edits, and overwrites ignored files silently.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.paths import refuse_read_only
from git_agentos.errors import UNCHANGED, WorktreeError
from git_agentos.git import trees, untracked
from git_agentos.git.location import Location
from git_agentos.git.trees import Entry

Delta = Mapping[bytes, tuple[Entry | None, Entry | None]]

_MAX_LISTED = 5


class InTheWayError(WorktreeError):
    """Files that are not committed are in the way; `paths` are all of them."""

    def __init__(self, message: str, hint: str, paths: Iterable[bytes]) -> None:
        super().__init__(message, hint)
        self.paths = sorted(paths)


def refuse_in_the_way(location: Location, store: trees.TreeSource, now: State, old_tree: str, delta: Delta) -> None:
    """InTheWayError where the change from `old_tree` by `delta` would touch what is not committed: local changes,
    untracked files, ignored ones."""
    changed = _changed_locally(store, now, old_tree, delta)
    if changed:
        raise InTheWayError(
            f"local changes in '{location.root}' would be overwritten by the merge: {_name(changed)}",
            f"commit or stash them, or merge into another branch; {UNCHANGED}",
            changed,
        )
    refuse_obstacles(location, store, now, old_tree, delta)


def refuse_obstacles(location: Location, store: trees.TreeSource, now: State, old_tree: str, delta: Delta) -> None:
    """InTheWayError where an untracked file or folder is where `delta` puts something new; StorageError where it would
    change something on a read-only file system."""
    refuse_read_only(location.root, delta)
    obstacles = _obstacles(location, now, old_tree, store, delta)
    if obstacles:
        raise InTheWayError(
            f"files in '{location.root}' that git does not track are in the way of the merge: {_name(obstacles)}",
            f"move them away, or commit them; {UNCHANGED}",
            obstacles,
        )


def _changed_locally(store: trees.TreeSource, now: State, old_tree: str, delta: Delta) -> set[bytes]:
    staged = trees.diff(store, old_tree, now.index_tree)
    unstaged = trees.diff(store, now.index_tree, now.tree)
    changed = {path for path, (_, entry) in staged.items() if path in delta and entry != delta[path][1]}
    changed |= {path for path in now.intent_to_add if path in delta}
    for path, (before, after) in unstaged.items():
        links = {entry[0] for entry in (before, after) if entry is not None} == {trees.GITLINK}
        if path in delta and not links:  # a submodule's own HEAD is not touched by a merge
            changed.add(path)
    # A file where the other side has a directory.
    mine = {path for found in (staged, unstaged) for path, (_, entry) in found.items() if entry is not None}
    mine |= now.intent_to_add.keys()
    coming = {path for path, (_, after) in delta.items() if after is not None}
    changed |= {path for path in mine if any(parent in coming for parent in parents(path))}
    changed |= {parent for path in coming for parent in parents(path) if parent in mine}
    return changed


def _obstacles(location: Location, now: State, old_tree: str, store: trees.TreeSource, delta: Delta) -> set[bytes]:
    """The untracked paths where the merge puts something new."""
    root = os.fsencode(location.root)
    staged = trees.diff(store, old_tree, now.index_tree)
    leaving = {path for path, (before, after) in delta.items() if before is not None and after is None}
    found: set[bytes] = set()
    checked: dict[bytes, bool] = {}
    for path, (before, after) in delta.items():
        is_new = after is not None and (before is None or before[0] == trees.GITLINK)
        if not is_new or path in staged:
            continue
        if untracked.is_agentos_path(path):
            found.add(path)
            continue
        for parent in parents(path):
            if parent not in checked:
                checked[parent] = _is_obstacle(root, parent, leaving)
        blocked = {parent for parent in parents(path) if checked[parent]}
        found |= blocked
        if not blocked and not any(_is_link(root, parent) for parent in parents(path)):
            was_submodule = before is not None and after is not None and after[0] == trees.GITLINK
            found |= _at_path(root, path, leaving, ignore_files=was_submodule)
    return found


def _is_obstacle(root: bytes, parent: bytes, leaving: set[bytes]) -> bool:
    """Whether something else than a folder is where a folder is needed, and stays there."""
    mode = mode_of(os.path.join(root, parent))
    return bool(mode) and not stat.S_ISDIR(mode) and parent not in leaving


def _at_path(root: bytes, path: bytes, leaving: set[bytes], *, ignore_files: bool) -> set[bytes]:
    """The path, or the files below it, that are there and stay there."""
    mode = mode_of(os.path.join(root, path))
    if stat.S_ISDIR(mode):
        return set() if ignore_files else set(_files_below(root, path)) - leaving
    return {path} if mode and path not in leaving else set()


def parents(path: bytes) -> Iterator[bytes]:
    """The folders above a path, the innermost first."""
    while path := path.rpartition(b"/")[0]:
        yield path


def mode_of(full: bytes) -> int:
    """The type and permissions of the file there; 0 for none."""
    try:
        return os.lstat(full).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _is_link(root: bytes, path: bytes) -> bool:
    return os.path.islink(os.path.join(root, path))


def _files_below(root: bytes, directory: bytes) -> Iterator[bytes]:
    for folder, directories, files in os.walk(os.path.join(root, directory)):
        links = [name for name in directories if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(folder, name), root)


def _name(paths: Iterable[bytes]) -> str:
    ordered = sorted(paths)
    names = ", ".join(f"'{os.fsdecode(path)}'" for path in ordered[:_MAX_LISTED])
    return names if len(ordered) <= _MAX_LISTED else f"{names} and {len(ordered) - _MAX_LISTED} more"
