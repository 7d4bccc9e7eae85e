"""Worktree -> State: reads the complete working state, and changes nothing.

git says what has changed (`git.scan`). This module decides which parts of the index and which paths belong to the
state; `contents` reads the bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Mapping

from git_agentos.checkpoint import nested, operation
from git_agentos.checkpoint.capture import unmodified
from git_agentos.checkpoint.capture.contents import Contents
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.capture.selection import Paths, Selection
from git_agentos.checkpoint.model import RulesOutside, Skipped, SkipReason, Sparse, State
from git_agentos.config import Settings, boolean
from git_agentos.errors import IncompleteCaptureError
from git_agentos.git import filters, ignore, index_entries, refs, trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan, ScanResult
from git_agentos.git.trees import Change, Entry
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase

_PATIENCE = 20.0  # seconds


def capture_state(
    repository: Repository,
    writer: Writer,
    settings: Settings,
    started: Scan | None = None,
    request: CaptureRequest | None = None,
) -> State:
    """The current state. Objects are written to `writer`; they are on disk only after it is flushed.

    Raises IncompleteCaptureError if a visible file cannot be read, or HEAD keeps moving.
    """
    location = repository.location
    request = request or CaptureRequest()
    deadline = time.monotonic() + _PATIENCE
    for attempt in itertools.count():
        current = started if attempt == 0 and started is not None else Scan(location)
        with phase(request.progress, "Looking for changes"):
            scanned = current.read()
        head = refs.read_head(location)
        settled = head.commit == scanned.head_commit and (
            current.index_stamp == index_entries.stamp(location) or attempt > 1
        )
        if settled:
            break
        if time.monotonic() > deadline:
            raise IncompleteCaptureError("HEAD keeps moving while the state is being read", "try again")
        time.sleep(os.urandom(1)[0] / 255 * 0.02 * (attempt + 1))  # random, so that processes do not retry in step
    if request.observer is not None:
        request.observer.scanned(repository, head.commit, scanned.untracked)
    return _Capture(repository, writer, settings, scanned, request).state(head)


class _Index(NamedTuple):
    """The contents of the index: stage 0 as a tree, conflict stages, and intent-to-add entries (path -> mode)."""

    tree: str
    stages: Mapping[bytes, Mapping[int, Entry]]
    intent_to_add: Mapping[bytes, int]


class _Files(NamedTuple):
    """What was read: the tree of the tracked files, and the entries of untracked and ignored ones. `hidden` are tracked
    files that differ from the index although git does not report it."""

    tree: str
    untracked: Mapping[bytes, Entry]
    ignored: Mapping[bytes, Entry]
    hidden: frozenset[bytes]


class _Capture:
    """One capture; `state` runs its stages."""

    def __init__(
        self, repository: Repository, writer: Writer, settings: Settings, scanned: ScanResult, request: CaptureRequest
    ) -> None:
        self.repository = repository
        self.writer = writer
        self.settings = settings
        self.scanned = scanned
        self.request = request
        self.contents = Contents(repository, writer, scanned.config, tracks_attributes=scanned.tracks_attributes)
        self.contents.progress = request.progress
        self.contents.cache.grows = not request.nested.git_dir_goes  # the cache is in that directory
        self.outside = ignore.outside(repository.location, scanned.config)
        self.selection = Selection(self.contents, settings, scanned, request, self.outside)
        self.plain_links: set[bytes] = set()
        self.worktree_modes = {each.path: each.worktree_mode for each in scanned.changed if each.unstaged != "."}
        if not boolean(scanned.config, "core.symlinks", default=True):
            self.plain_links = {change.path for change in scanned.changed if change.worktree_mode == trees.SYMLINK}

    def state(self, head: refs.Head) -> State:
        index = self._index(self.repository.commit_tree(head.commit))
        paths = self.selection.paths(index.tree, index.stages)
        files = self._read(index, paths)
        inside = [*self.scanned.nested, *paths.repositories]
        repositories = nested.describe_nested(
            self.repository, self.writer, inside, self.scanned.gitlinks, self.request.nested
        )
        self._keep_own_bytes(index, paths)
        self.contents.cache.save()
        return self._state(head, index, files, repositories)

    def _index(self, head_tree: str) -> _Index:
        """The index: the tree of its stage-0 entries, conflict stages, and intent-to-add entries."""
        changes, intent_to_add = self._index_changes(head_tree)
        stages = {
            entry.path: {n + 1: found for n, found in enumerate(entry.stages) if found is not None}
            for entry in self.scanned.unmerged
        }
        return _Index(trees.edit(self.writer, head_tree, changes), stages, intent_to_add)

    def _read(self, index: _Index, paths: Paths) -> _Files:
        """Read the files, and compare the tracked ones with the index."""
        reread = [
            path
            for path, (mode, _) in paths.unmodified.items()
            if mode != trees.GITLINK and path not in paths.in_worktree
        ]
        entries = self.contents.read(
            [*paths.in_worktree, *paths.untracked, *paths.ignored, *reread], plain_links=self.plain_links
        )
        tracked: dict[bytes, Change] = {path: self._tracked_entry(path, entries) for path in paths.in_worktree}
        hidden = self._hidden_changes(paths, {path: self._tracked_entry(path, entries) for path in reread})
        tracked.update(hidden)
        tracked.update(paths.links)
        tracked.update({change.path: None for change in self.scanned.changed if change.unstaged == "D"})
        tracked.update({entry.path: None for entry in self.scanned.unmerged if not entry.worktree_mode})
        return _Files(
            tree=trees.edit(self.writer, index.tree, tracked),
            untracked={path: entries[path] for path in paths.untracked if path in entries},
            ignored={path: entries[path] for path in paths.ignored if path in entries},
            hidden=frozenset(hidden),
        )

    def _hidden_changes(self, paths: Paths, found: dict[bytes, Change]) -> dict[bytes, Change]:
        """The files that git calls unmodified and that differ from the index."""
        expected = paths.unmodified
        changed = {path: entry for path, entry in found.items() if entry != expected[path]}
        # A file that a checkout of the index's blob gives is unmodified, even if `add` would store another blob.
        same_mode = {path for path, entry in changed.items() if entry is not None and entry[0] == expected[path][0]}
        for path in self.contents.as_checked_out({path: expected[path][1] for path in same_mode}):
            del changed[path]
        return changed

    def _keep_own_bytes(self, index: _Index, paths: Paths) -> None:
        """Keep the bytes and permission bits of files that were not read, if a checkout would give others."""
        only_staged = {
            change.path: change.index_oid
            for change in self.scanned.changed
            if change.staged in "AMT"
            and change.unstaged == "."
            and change.index_oid is not None
            and change.index_mode in (trees.REGULAR, trees.EXECUTABLE)
            and self.contents.is_file(change.path)
        }
        self.contents.keep(only_staged)
        self.contents.note_permissions({c.path: c.index_mode for c in self.scanned.changed if c.path in only_staged})
        read = {*paths.in_worktree, *paths.untracked, *paths.links, *index.stages}
        unmodified.compare(
            self.contents,
            self.scanned,
            index.tree,
            read,
            only_staged.keys(),
            every_file=self.request.nested.git_dir_goes,
        )

    def _state(self, head: refs.Head, index: _Index, files: _Files, repositories: nested.Repositories) -> State:
        """Put the state together."""
        scanned, contents = self.scanned, self.contents
        operation_files = operation.read(self.repository.location)
        pins, operation_trees = operation.pins(self.repository, operation_files)
        listing = self.selection.list_directories() if self.request.complete else None
        apart = {*scanned.gitlinks, *self.request.repositories}
        staged = {c.path for c in scanned.changed if c.staged != "."}
        unstaged = {c.path for c in scanned.changed if c.unstaged != "." and c.path not in index.intent_to_add}
        unreadable = [Skipped(os.fsdecode(path), SkipReason.UNREADABLE) for path in scanned.unreadable]
        skipped = [*self.selection.skipped, *contents.skipped, *repositories.skipped, *unreadable]
        return State(
            head=head,
            index_tree=index.tree,
            tree=files.tree,
            untracked_tree=trees.build(self.writer, files.untracked),
            visible_tree=trees.edit(self.writer, files.tree, dict(files.untracked)),
            stages=index.stages,
            intent_to_add=index.intent_to_add,
            assume_unchanged=scanned.assume_unchanged,
            skip_worktree=scanned.skip_worktree,
            absent=scanned.absent,
            sparse=self._sparse(),
            rules=self._rules(),
            empty_directories=self.selection.empty_directories(listing),
            permissions={**contents.permissions, **self.request.permissions},
            umask=contents.umask,
            raw=contents.raw,
            crlf=frozenset(contents.crlf),
            has_own_bytes=True,
            line_ends=filters.line_ends(scanned.config),
            filters=sorted(filters.drivers(scanned.config)),
            ignored=files.ignored,
            operation=operation.name_of(operation_files),
            operation_files=operation.store(operation_files, self.writer),
            operation_trees=operation_trees,
            pins=[*pins, *repositories.pins],
            nested=repositories.records,
            nested_states=repositories.states,
            skipped=sorted(skipped, key=lambda item: item.path),
            staged=sorted(staged | index.stages.keys() | index.intent_to_add.keys()),
            unstaged=sorted(unstaged | files.hidden | index.stages.keys() | repositories.differing),
            git_version=scanned.git_version,
            untracked=sorted({*files.untracked, *(path + b"/" for path in repositories.records.keys() - apart)}),
            complete=listing is not None,
            folders=self.selection.modes_of_folders(listing) if listing is not None else {},
        )

    # -- the index ------------------------------------------------------------------------------------------

    def _index_changes(self, head_tree: str) -> tuple[dict[bytes, Change], dict[bytes, int]]:
        """How the index differs from HEAD's tree, and the intent-to-add entries, which no tree holds."""
        changes: dict[bytes, Change] = {}
        intent: dict[bytes, int] = {}
        for change in self.scanned.changed:
            in_head = change.staged == "." and change.unstaged == "D" and not self._in_tree(head_tree, change.path)
            if change.unstaged == "A" or in_head or (change.staged == "D" and change.unstaged == "D"):
                # git shows an intent-to-add entry as added in the worktree, and, if its file is gone, as an
                # unchanged empty blob that HEAD does not have.
                intent[change.path] = change.worktree_mode or trees.REGULAR
                if change.staged == "D":
                    changes[change.path] = None
            elif change.staged == "D":
                changes[change.path] = None
            elif change.staged != "." and change.index_oid is not None:
                changes[change.path] = (change.index_mode, change.index_oid)
        for conflict in self.scanned.unmerged:
            changes[conflict.path] = conflict.stages[1]
        return changes, intent

    def _in_tree(self, tree: str, path: bytes) -> bool:
        return trees.find(self.writer, tree, path) is not None

    def _sparse(self) -> Sparse | None:
        values = self.scanned.config
        if not boolean(values, "core.sparsecheckout", default=False):
            return None
        patterns = None
        path = os.path.join(self.repository.location.git_dir, "info", "sparse-checkout")
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            patterns = self.writer.write("blob", file.read())
        return Sparse(
            cone=boolean(values, "core.sparsecheckoutcone", default=True),
            sparse_index=boolean(values, "index.sparse", default=False),
            patterns=patterns,
        )

    def _rules(self) -> RulesOutside:
        """The ignore rules outside the worktree."""
        found = (self.outside.exclude, self.outside.users)
        exclude, users = (self.writer.write("blob", data) if data else None for data in found)
        return RulesOutside(exclude, users, self.outside.users_path)

    # -- bytes ----------------------------------------------------------------------------------------------

    def _tracked_entry(self, path: bytes, entries: Mapping[bytes, Entry]) -> Change:
        entry = entries.get(path)
        if entry is None or self.settings.file_mode or entry[0] == trees.SYMLINK:
            return entry
        # core.fileMode=false: the executable bit of a tracked path is the index's, whatever the disk says.
        mode = self.worktree_modes.get(path, entry[0])
        if path in self.scanned.unseen:
            mode = self.scanned.unseen[path][0]
        if mode != entry[0] and mode in (trees.REGULAR, trees.EXECUTABLE):
            self.contents.permissions.setdefault(path, self.contents.usual(entry[0]))
            return (mode, entry[1])
        return entry
