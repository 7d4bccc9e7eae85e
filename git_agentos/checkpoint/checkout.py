"""Files as git would check them out in a state: by the attributes and line endings of that state, not the current
ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import Form, OwnBytes
from git_agentos.errors import RestoreError
from git_agentos.git import filters, trees
from git_agentos.git.repository import Writer
from git_agentos.util import directories, files


def converted(
    store: Writer,
    target: State,
    paths: list[bytes],
    settings: Mapping[str, list[str]],
    folder: str,
    leaving: Collection[bytes] | None = None,
) -> dict[bytes, bytes]:
    """Path -> file with the converted content, for those paths that git converts in the target state.

    The attributes are the target's: its `.gitattributes` files are written to a scratch working tree. If the target may
    not contain one, the worktree's file is used unless it is `leaving`; with None, the worktree is not read.
    """
    if not paths:
        return {}
    repository = store.repository
    root = os.path.join(folder, "attributes")
    os.mkdir(root)
    values = settings if target.line_ends is None else filters.with_line_ends(settings, target.line_ends)
    names = filters.attribute_files(repository, paths, settings)
    found = _lay_out_attributes(store, target, names, leaving, root)
    options = filters.options(values)
    users = filters.users_attributes(repository, settings)
    if users is not None:
        options += ["-c", f"core.attributesFile={os.path.join(root, os.fsdecode(users))}"]
    env = {"GIT_WORK_TREE": root, "GIT_INDEX_FILE": os.path.join(folder, "no-index")}
    source = filters.AttributeSource(root, env, options)
    needing = filters.paths_to_convert(repository, paths, values, tracks_attributes=found, source=source)
    if not needing:
        return {}
    # If a filter fails that is not required, git writes the blob unchanged, which would be another file here.
    for name in sorted(filters.drivers(settings)):
        if "=" not in name:  # no `-c` option can name it
            options += ["-c", f"filter.{name}.required=true"]
    source = filters.AttributeSource(root, env, options)
    gone = set(target.filters) - filters.drivers(settings)
    if gone:
        named = filters.named_filters(repository, needing, source)
        _check_filters({path: name for path, name in named.items() if name in gone})
    into = os.path.join(folder, "converted")
    os.mkdir(into)
    entries: dict[bytes, trees.Entry] = {}
    for path in needing:
        entry = trees.find(store, target.visible_tree, path) or target.ignored[path]
        entries[path] = entry
    filters.to_files(repository, entries, into, base_index=None, source=source._replace(env=store.environment))
    return {path: os.path.join(os.fsencode(into), path) for path in needing}


def _lay_out_attributes(
    store: Writer, target: State, names: Iterable[bytes], leaving: Collection[bytes] | None, root: str
) -> bool:
    """Write the target's files with attributes among `names` below `root`; whether there are any.

    As in git, the worktree's file is used, or the index's if the worktree has none.
    """
    found = False
    own = OwnBytes(target)
    for name in names:
        entry = trees.find(store, target.visible_tree, name) or target.ignored.get(name)
        entry = entry or trees.find(store, target.index_tree, name)
        if entry is not None and entry[0] in (trees.REGULAR, trees.EXECUTABLE):
            data = (own.of(name, entry[1]) or Form(entry[1])).read(store.repository)
        elif entry is None and leaving is not None and name not in leaving and _may_be_unknown(target, name):
            try:
                data = files.read(os.path.join(os.fsencode(store.repository.location.root), name))
            except OSError:
                continue
        else:
            continue
        place = os.path.join(os.fsencode(root), name)
        directories.make(os.path.dirname(place))
        with open(place, "wb") as file:
            file.write(data)
        found = True
    return found


def _may_be_unknown(target: State, name: bytes) -> bool:
    """Whether there may have been a file with attributes that the target does not contain: below the top, an ignored
    one is saved only beside changed files."""
    return b"/" in name or not target.has_own_bytes


def _check_filters(gone: Mapping[bytes, str]) -> None:
    """Raise an error if files (path -> filter) would be written without their filter."""
    if gone:
        path = min(gone)
        raise RestoreError(
            f"'{os.fsdecode(path)}' goes through the filter '{gone[path]}', which is no longer configured",
            f"set filter.{gone[path]}.smudge (or .process) as it was at the checkpoint; nothing was changed",
        )
