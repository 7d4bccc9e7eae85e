"""The paths in which the worktrees of two states differ.

A path that skip-worktree keeps off the disk (`State.absent`) counts as missing in the worktree.
"""

from __future__ import annotations

from git_agentos.checkpoint.model import State
from git_agentos.git import trees
from git_agentos.git.trees import Entry, TreeSource

# Path -> its entry in the first state and in the second; None where it is missing.
Difference = dict[bytes, tuple[Entry | None, Entry | None]]


def worktree_difference(store: TreeSource, visible: Difference, now: State, target: State) -> Difference:
    """How the tracked and untracked files on disk differ; `visible` is the difference of the visible trees."""
    delta = dict(visible)
    if not now.absent and not target.absent:
        return delta
    absent_now, absent_then = absent_paths(store, now), absent_paths(store, target)
    for path, (before, after) in list(delta.items()):
        on_disk = None if path in absent_now else before
        wanted = None if path in absent_then else after
        if on_disk == wanted:
            del delta[path]
        else:
            delta[path] = (on_disk, wanted)
    for path, entry in absent_now.items():
        if path not in absent_then and path not in delta and trees.find(store, target.visible_tree, path):
            delta[path] = (None, entry)
    for path, entry in absent_then.items():
        if path not in absent_now and path not in delta and trees.find(store, now.visible_tree, path):
            delta[path] = (entry, None)
    return delta


def absent_paths(store: TreeSource, state: State) -> dict[bytes, Entry]:
    """The tracked files that skip-worktree keeps off the disk."""
    found: dict[bytes, Entry] = {}
    for path in state.absent:
        entry = (
            (trees.DIRECTORY, state.visible_tree)
            if path == b"/"
            else trees.find(store, state.visible_tree, path.rstrip(b"/"))
        )
        if entry is None or (entry[0] == trees.DIRECTORY and not path.endswith(b"/")):
            continue  # something else is in its place
        if entry[0] == trees.DIRECTORY:
            found.update(trees.walk(store, entry[1], b"" if path == b"/" else path.rstrip(b"/") + b"/"))
        else:
            found[path] = entry
    # In a folder whose tracked files are all absent there may be untracked ones.
    for path in state.untracked:
        found.pop(path, None)
    return found
