"""The state without what one turn changed: a three-way merge in memory, of files and of the index.

    base     the state after the turn
    ours     the state now
    theirs   the state before the turn

git merges them (`merge_tree`), as it would three commits. The result differs from the state now in what the turn has
changed only, wherever later edits have moved it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from git_agentos.checkpoint import format
from git_agentos.checkpoint.model import State
from git_agentos.git import merge_tree, trees
from git_agentos.git.merge_tree import MergeEnvironment, MergeResult
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.trees import Change
from git_agentos.util.named_tuple import NamedTuple

# What is at the ends of conflict markers, in the place of ids of commits.
NOW, BEFORE, AFTER = b"now", b"before the turn", b"after the turn"
_MODES = (trees.REGULAR, trees.EXECUTABLE)


class Sides(NamedTuple):
    """The commits of a merge, with who writes them."""

    base: str
    ours: str
    theirs: str


class Merged(NamedTuple):
    """The state to restore, the paths in which it differs from the state now, those of them where files differ, and
    those that conflict."""

    state: State
    touched: list[bytes]
    files: list[bytes]
    conflicts: list[bytes]


def without_turn(
    repository: Repository, writer: Writer, now: State, before: str, after: str, committer: bytes
) -> Merged:
    """The state `now` without what was changed between the checkpoints `before` and `after`.

    Files in conflict have markers in it. The objects are in the store.
    """
    old, new = (
        format.with_visible_tree(repository, writer, format.read_state(repository, each)) for each in (before, after)
    )
    seconds = repository.commit(after).time
    where = MergeEnvironment(
        {"GIT_DIR": repository.location.git_dir, "GIT_WORK_TREE": repository.location.root}, repository.location.root
    )

    def merge(base: str, ours: str, theirs: str) -> tuple[MergeResult, Sides]:
        first = writer.write_commit(base, [], b"after the turn\n", committer, seconds)
        second, third = (
            writer.write_commit(tree, [first], b"a side\n", committer, seconds)
            for tree in (ours, _with_links_of(writer, theirs, base))
        )
        writer.flush()
        found = merge_tree.merge(repository, second, third, where, durable=True)
        return found, Sides(first, second, third)

    files, sides = merge(new.visible_tree, now.visible_tree, old.visible_tree)
    index, _ = merge(new.index_tree, now.index_tree, old.index_tree)
    changes: dict[bytes, Change] = {
        path: pair[1] for path, pair in trees.diff(writer, now.visible_tree, files.tree).items()
    }
    if not files.clean:
        _name_sides(repository, writer, changes, sides)
    conflicting = set(index.files)
    staged: dict[bytes, Change] = {
        path: pair[1]
        for path, pair in trees.diff(writer, now.index_tree, index.tree).items()
        if path not in conflicting
    }
    return Merged(_state(writer, now, changes, staged), sorted({*changes, *staged}), sorted(changes), files.files)


def _with_links_of(writer: Writer, tree: str, other: str) -> str:
    """`tree` with the repositories inside (gitlinks) of `other`: these are not merged."""
    links: dict[bytes, Change] = {
        path: old
        for path, (old, new) in trees.diff(writer, other, tree).items()
        if trees.GITLINK in ((old or (0, ""))[0], (new or (0, ""))[0])
    }
    return trees.edit(writer, tree, links) if links else tree


def _name_sides(repository: Repository, writer: Writer, changes: dict[bytes, Change], sides: Sides) -> None:
    """Give conflict markers names that say what the sides are."""
    ids = {sides.ours: NOW, sides.theirs: BEFORE, sides.base: AFTER}
    pattern = re.compile(rb"(?m)^((?:<+|>+|\|+) )(%s)" % b"|".join(each.encode() for each in ids))
    for path, entry in changes.items():
        if entry is None or entry[0] not in _MODES:
            continue
        data = repository.blob(entry[1])
        named = pattern.sub(lambda found: found[1] + ids[found[2].decode()], data)
        if named != data:
            changes[path] = (entry[0], writer.write("blob", named))


def _state(writer: Writer, now: State, changes: Mapping[bytes, Change], staged: Mapping[bytes, Change]) -> State:
    """The state now with other files and other entries of the index.

    A file is tracked if the index has it then. The bytes of a changed file are those that a checkout gives.
    """
    index = trees.edit(writer, now.index_tree, staged)
    tracked: dict[bytes, Change] = {}
    untracked: dict[bytes, Change] = {}
    for path in {*changes, *staged}:
        entry = changes[path] if path in changes else _file(writer, now.visible_tree, path)
        in_index = _file(writer, index, path) is not None or path in now.intent_to_add
        tracked[path] = entry if in_index else None
        untracked[path] = None if in_index else entry
    # What is at a path that becomes a folder, or was one, is replaced by `edit` itself.
    tree = trees.edit(writer, now.tree, tracked)
    others = trees.edit(writer, now.untracked_tree, untracked)

    def left(paths: Iterable[bytes]) -> list[bytes]:
        return [path for path in paths if path not in tracked]

    return now._replace(
        index_tree=index,
        tree=tree,
        untracked_tree=others,
        visible_tree="",
        raw={path: oid for path, oid in now.raw.items() if path not in tracked},
        crlf=now.crlf - tracked.keys(),
        as_stored=now.as_stored - tracked.keys(),
        staged=left(now.staged),
        unstaged=left(now.unstaged),
        untracked=left(now.untracked),
        not_present=sorted(path for path, entry in changes.items() if entry is None),
        complete=False,
        folders={},
    )


def _file(writer: Writer, tree: str, path: bytes) -> trees.Entry | None:
    found = trees.find(writer, tree, path)
    return found if found is not None and found[0] != trees.DIRECTORY else None
