"""Files that git calls unmodified and whose bytes no checkout would give: their own bytes are kept as well.

To look at all of them would cost what the worktree has, so only those are looked at that there is a reason to suspect.
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
    """Add to `contents` the own bytes of unmodified files where they are needed; `read` and `staged` have been looked
    at. With `every_file` all others are compared as well: nothing of the worktree will stay."""
    _suspects(contents, scanned, index_tree, {*read, *staged})
    _below_changed_attributes(contents, scanned, index_tree, read)
    if every_file:
        _all(contents, index_tree, {*read, *staged, *contents.raw})


def _suspects(contents: Contents, scanned: ScanResult, index_tree: str, seen: Collection[bytes]) -> None:
    """Files of which an earlier checkpoint kept their own bytes, and that git now calls unchanged.

    Whether git sees them depends on the index's stat data: an entry without a size is compared after conversion.
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
    """Where a `.gitattributes` differs from HEAD's, files below it may have been checked out by the other one."""
    changed = [*(change.path for change in scanned.changed), *scanned.untracked]
    folders = {path.rpartition(b"/")[0] for path in changed if path.rpartition(b"/")[2] == b".gitattributes"}
    if folders:
        found = _files(trees.walk(contents.writer, index_tree), seen)
        blobs = {path: oid for path, oid in found.items() if covers(folders, path) and contents.is_file(path)}
        contents.compare(blobs, plain=True)


def _all(contents: Contents, index_tree: str, seen: Collection[bytes]) -> None:
    blobs = _files(trees.walk(contents.writer, index_tree), seen)
    converted = contents.converted(list(blobs))
    contents.compare({path: blobs[path] for path in converted if contents.is_file(path)})


def _files(entries: Iterator[tuple[bytes, Entry]], seen: Collection[bytes]) -> dict[bytes, str]:
    return {
        path: oid for path, (mode, oid) in entries if mode in (trees.REGULAR, trees.EXECUTABLE) and path not in seen
    }
