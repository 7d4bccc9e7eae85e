"""Files that git calls unmodified although a checkout would give other bytes: their bytes on disk are kept as well.

Comparing all files would cost time proportional to the worktree, so only those are compared that may be affected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from git_agentos.checkpoint import format, journal, timeline
from git_agentos.checkpoint.capture.contents import Contents
from git_agentos.checkpoint.paths import covers
from git_agentos.errors import AgentosError
from git_agentos.git import filters, trees
from git_agentos.git.scan import ScanResult
from git_agentos.git.trees import Entry


def compare(
    contents: Contents,
    scanned: ScanResult,
    index_tree: str,
    read: Collection[bytes],
    staged: Collection[bytes],
    *,
    every_file: bool,
) -> None:
    """Add to `contents` the bytes on disk of unmodified files that need it; `read` and `staged` were compared already.
    With `every_file`, all others are compared as well, because the worktree will be removed."""
    _suspects(contents, scanned, index_tree, {*read, *staged})
    _below_changed_attributes(contents, scanned, index_tree, read)
    if every_file:
        _all(contents, index_tree, {*read, *staged, *contents.raw})


def _suspects(contents: Contents, scanned: ScanResult, index_tree: str, seen: Collection[bytes]) -> None:
    """Compare files whose bytes on disk an earlier checkpoint kept, and that git now calls unchanged.

    Whether git reports them depends on the index's stat data: an entry without a size is compared after conversion.
    """
    repository = contents.repository
    if not filters.any_configured(repository, scanned.config, tracks_attributes=scanned.tracks_attributes):
        return
    suspects: set[bytes] = set()
    with contextlib.suppress(AgentosError):
        newest = timeline.newest(repository, timeline.worktree_id(repository.location))
        suspects |= format.raw_paths(repository, newest.checkpoint) if newest is not None else set()
    with contextlib.suppress(AgentosError):
        last = journal.read_last(repository.location)
        suspects |= format.raw_paths(repository, last.target) if last is not None else set()
    entries = ((path, trees.find(contents.writer, index_tree, path)) for path in suspects)
    found = _files(((path, entry) for path, entry in entries if entry is not None), seen)
    contents.compare({path: oid for path, oid in found.items() if contents.is_file(path)}, plain=True)


def _below_changed_attributes(
    contents: Contents, scanned: ScanResult, index_tree: str, seen: Collection[bytes]
) -> None:
    """Files below a `.gitattributes` that differs from HEAD's: they may have been checked out by the other one."""
    changed = [*(change.path for change in scanned.changed), *scanned.untracked]
    folders = {path.rpartition(b"/")[0] for path in changed if path.rpartition(b"/")[2] == b".gitattributes"}
    if folders:
        found = _files(trees.walk(contents.writer, index_tree), seen)
        blobs = {path: oid for path, oid in found.items() if covers(folders, path) and contents.is_file(path)}
        contents.compare(blobs, plain=True)


def _all(contents: Contents, index_tree: str, seen: Collection[bytes]) -> None:
    found = _files(trees.walk(contents.writer, index_tree), seen)
    blobs = {path: oid for path, oid in found.items() if contents.is_file(path)}
    converted = contents.converted(list(blobs))
    contents.compare({path: blobs[path] for path in converted})
    others = contents.perhaps_converted(blobs.keys() - converted, blobs)
    contents.compare({path: blobs[path] for path in others}, plain=True)


def _files(entries: Iterator[tuple[bytes, Entry]], seen: Collection[bytes]) -> dict[bytes, str]:
    return {
        path: oid for path, (mode, oid) in entries if mode in (trees.REGULAR, trees.EXECUTABLE) and path not in seen
    }
