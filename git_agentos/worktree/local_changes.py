"""What is in the way of bringing a worktree from one commit to another: whatever no commit has.

git looks, too, before it moves anything (`read-tree -m -u`), but it names one file at a time, takes a deleted file for
an unchanged one, believes index flags that hide edits, and overwrites ignored files without a word.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from git_agentos.checkpoint.model import State
from git_agentos.errors import UNCHANGED, WorktreeError
from git_agentos.git import trees, untracked
from git_agentos.git.location import Location
from git_agentos.git.trees import Entry

Delta = Mapping[bytes, tuple[Entry | None, Entry | None]]

_NAMED = 5


def refuse_in_the_way(location: Location, store: trees.TreeSource, now: State, old_tree: str, delta: Delta) -> None:
    """WorktreeError where the change from `old_tree` by `delta` would touch what is not committed: local changes,
    untracked files, ignored ones."""
    changed = _changed_locally(store, now, old_tree, delta)
    if changed:
        raise WorktreeError(
            f"local changes in '{location.root}' would be overwritten by the merge: {_name(changed)}",
            f"commit or stash them, or merge into another branch; {UNCHANGED}",
        )
    refuse_obstacles(location, store, now, old_tree, delta)


def refuse_obstacles(location: Location, store: trees.TreeSource, now: State, old_tree: str, delta: Delta) -> None:
    """WorktreeError where something that git does not track stands where `delta` puts something new."""
    obstacles = _obstacles(location, now, old_tree, store, delta)
    if obstacles:
        raise WorktreeError(
            f"files in '{location.root}' that git does not track are in the way of the merge: {_name(obstacles)}",
            f"move them away, or commit them; {UNCHANGED}",
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
    """What stands on disk where the merge puts something new."""
    root = os.fsencode(location.root)
    staged = trees.diff(store, old_tree, now.index_tree)
    leaving = {path for path, (before, after) in delta.items() if before is not None and after is None}
    found: set[bytes] = set()
    checked: set[bytes] = set()
    for path, (before, after) in delta.items():
        if after is None or (before is not None and before[0] != trees.GITLINK) or path in staged:
            continue
        if untracked.is_agentos_path(path):
            found.add(path)
            continue
        for parent in parents(path):
            if parent not in checked:
                checked.add(parent)
                mode = mode_of(os.path.join(root, parent))
                if mode and not stat.S_ISDIR(mode) and parent not in leaving:
                    found.add(parent)
        if any(parent in found or _is_link(root, parent) for parent in parents(path)):
            continue
        mode = mode_of(os.path.join(root, path))
        if stat.S_ISDIR(mode):
            inside = set(_files_below(root, path)) - leaving
            if after[0] == trees.GITLINK and before is not None:
                inside = set()
            found |= inside
        elif mode and path not in leaving:
            found.add(path)
    return found


def parents(path: bytes) -> Iterator[bytes]:
    """The folders that a path lies in, the innermost first."""
    while path := path.rpartition(b"/")[0]:
        yield path


def mode_of(full: bytes) -> int:
    """The type and permissions of what stands there; 0 for nothing."""
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
    names = ", ".join(f"'{os.fsdecode(path)}'" for path in ordered[:_NAMED])
    return names if len(ordered) <= _NAMED else f"{names} and {len(ordered) - _NAMED} more"
