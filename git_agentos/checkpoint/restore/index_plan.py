"""The changes of the index from one state to another: entries, conflict stages, and flags."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from git_agentos.checkpoint import paths
from git_agentos.checkpoint.model import State
from git_agentos.git import trees
from git_agentos.git.index import IndexEdit
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Entry


def plan_index(store: Writer, now: State, target: State, narrowing: AbstractSet[bytes] | None) -> IndexEdit:
    """The edit from the index of `now` to that of `target`, for the paths that `narrowing` covers."""
    remove: set[bytes] = set()
    entries: dict[bytes, Entry] = {}
    for path, (_, after) in trees.diff(store, now.index_tree, target.index_tree).items():
        paths.check(path)
        if after is None:
            remove.add(path)
        else:
            entries[path] = after
    for path in now.stages.keys() - target.stages.keys():
        entry = trees.find(store, target.index_tree, path)
        if entry is not None and entry[0] != trees.DIRECTORY:
            entries[path] = entry
        else:
            remove.add(path)
    stages = {path: found for path, found in target.stages.items() if now.stages.get(path) != found}
    for path in stages:
        paths.check(path)
        entries.pop(path, None)
        remove.discard(path)
    intent = {path: mode for path, mode in target.intent_to_add.items() if path not in now.intent_to_add}
    for path in now.intent_to_add:
        if path not in target.intent_to_add and path not in entries:
            remove.add(path)
    for path in intent:
        remove.discard(path)
    if narrowing is not None:
        remove = {path for path in remove if paths.may_touch(narrowing, path)}
        entries = {path: entry for path, entry in entries.items() if paths.may_touch(narrowing, path)}
        stages = {path: found for path, found in stages.items() if paths.may_touch(narrowing, path)}
        intent = {path: mode for path, mode in intent.items() if paths.may_touch(narrowing, path)}
    rewritten = entries.keys() | intent.keys() | stages.keys()
    return IndexEdit(
        remove=sorted(remove),
        entries=entries,
        stages=stages,
        intent_to_add=intent,
        **_flags(store, now, target, narrowing, rewritten),
    )


def holds(store: Writer, state: State, path: bytes) -> bool:
    """Whether the state's index has an entry at `path`, unmerged ones included."""
    entry = trees.find(store, state.index_tree, path)
    return (entry is not None and entry[0] != trees.DIRECTORY) or path in state.stages


def _flags(
    store: Writer, now: State, target: State, narrowing: AbstractSet[bytes] | None, rewritten: set[bytes]
) -> dict[str, list[bytes]]:
    """Which flags to set and to clear; an entry that is rewritten has lost its flags."""
    result: dict[str, list[bytes]] = {}
    pairs = (
        ("assume_unchanged", now.assume_unchanged, target.assume_unchanged),
        ("skip_worktree", now.skip_worktree, target.skip_worktree),
    )
    for name, before, after in pairs:
        if list(before) == list(after) and not (rewritten and after):
            continue
        has, wants = _expand(store, before, now.index_tree), _expand(store, after, target.index_tree)
        result[name] = sorted(
            path
            for path in wants
            if (path not in has or path in rewritten) and path not in target.stages and paths.may_touch(narrowing, path)
        )
        result["no_" + name] = sorted(
            path
            for path in has - wants
            if path not in rewritten and holds(store, target, path) and paths.may_touch(narrowing, path)
        )
    return result


def _expand(store: Writer, flagged: Iterable[bytes], tree: str) -> set[bytes]:
    """Flagged paths; a directory stands for all paths below it."""
    found: set[bytes] = set()
    for path in flagged:
        if not path.endswith(b"/"):
            found.add(path)
            continue
        name = path.rstrip(b"/")
        entry = trees.find(store, tree, name) if name else (trees.DIRECTORY, tree)
        if entry is not None and entry[0] == trees.DIRECTORY:
            found.update(p for p, _ in trees.walk(store, entry[1], name + b"/" if name else b""))
    return found
