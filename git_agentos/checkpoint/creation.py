"""Creating a checkpoint: capture the state, write it, append it to the timeline. Every checkpoint is created here.

`create_checkpoint` does all of it. An operation that has to judge the captured state, or to complete it, uses the two
halves, `capture_worktree` and `write_checkpoint`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from git_agentos import __version__
from git_agentos.checkpoint import format, nested, state_fields, timeline, upkeep
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.capture.state import capture_state
from git_agentos.checkpoint.model import Checkpoint, Metadata, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointFormatError, MissingObjectsError, converted_storage_errors
from git_agentos.git import consolidation, process, refs, state_dir, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase

if TYPE_CHECKING:
    from git_agentos.checkpoint.log_sync import PendingLog

# Writes the blobs of the attachments, and gives the entries of S that name them, by path (`database/…`, `runs/…`).
Attach = Callable[[Writer], Mapping[bytes, trees.Entry]]


class Created(NamedTuple):
    """A checkpoint and the state that it holds."""

    checkpoint: Checkpoint
    state: State


def create_checkpoint(
    worktree: OpenWorktree,
    metadata: Metadata,
    *,
    scan: Scan | None = None,
    request: CaptureRequest | None = None,
    attach: Attach | None = None,
    with_upkeep: bool = True,
) -> Created:
    """Save the complete state of the worktree; nothing in it changes. Then upkeep is started, if it is due.

    With an automatic trigger, no checkpoint is created if the newest one holds the same state, no log entry is pending
    but those of sessions, and nothing is attached: the newest one is returned, with `unchanged` set.

    Raises StorageError if it cannot be written, IncompleteCaptureError if not all of the state can be read.
    """
    format.check_trigger(metadata.trigger)
    with checkpoint_writer(worktree) as writer:
        attachments = attach(writer) if attach is not None else {}
        state = capture_worktree(worktree, writer, metadata, request=request, scan=scan)
        created = write_checkpoint(worktree, writer, state, metadata, attachments=attachments)
    if with_upkeep:
        upkeep.start_if_due(worktree)
    return created


@contextlib.contextmanager
def checkpoint_writer(worktree: OpenWorktree) -> Iterator[Writer]:
    """A writer for a checkpoint, with the worktree's lock held shared. Converts an OSError to a StorageError."""
    process.require_no_quarantine()
    repository = worktree.repository
    # A restore that holds the lock may be waiting for refs that the git command of this hook has locked.
    wait = not refs.are_locked_by_caller(repository.location)
    lock = state_dir.lock(repository.location, "worktree", shared=True, wait=wait)
    with converted_storage_errors(), lock, repository.writer() as writer:
        yield writer


def capture_worktree(
    worktree: OpenWorktree,
    writer: Writer,
    metadata: Metadata,
    *,
    request: CaptureRequest | None = None,
    scan: Scan | None = None,
) -> State:
    """The current state. In each repository inside the worktree, a checkpoint is created there."""
    wanted = request or CaptureRequest()
    create = functools.partial(_create_nested, metadata=metadata, worktree=worktree, request=wanted.for_inner())
    wanted = _with_nested(wanted._replace(progress=worktree.progress), create=create)
    return capture_state(worktree.repository, writer, worktree.settings, scan, wanted)


def preview_worktree(
    worktree: OpenWorktree, writer: Writer, *, request: CaptureRequest | None = None, scan: Scan | None = None
) -> State:
    """The state as `capture_worktree` gives it, without a checkpoint in the repositories inside: of each, its newest
    checkpoint is named if it holds the state, else none."""
    wanted = _with_nested(request or CaptureRequest(), import_objects=False)
    preview = functools.partial(_preview_nested, worktree=worktree, request=wanted.for_inner())
    wanted = _with_nested(wanted._replace(progress=worktree.progress), create=preview)
    return capture_state(worktree.repository, writer, worktree.settings, scan, wanted)


def _with_nested(request: CaptureRequest, **options: Any) -> CaptureRequest:
    """The request with other options for repositories inside the worktree."""
    return request._replace(nested=request.nested._replace(**options))


def write_checkpoint(
    worktree: OpenWorktree,
    writer: Writer,
    state: State,
    metadata: Metadata,
    *,
    attachments: Mapping[bytes, trees.Entry] | None = None,
    keep_commits: Sequence[str] = (),
) -> Created:
    """Write a captured state as a checkpoint on the worktree's timeline, with the pending log entries.

    `attachments` are further entries of S, `keep_commits` commits that the timeline keeps alive from now on. With
    either, a checkpoint is created even if the state is unchanged: an earlier one would not hold them. What
    checkpoints have written is packed together from time to time.
    """
    worktree = worktree._replace(worktree_id=metadata.worktree_id)
    state = state._replace(pins=[*dict.fromkeys([*state.pins, *keep_commits])])
    with phase(worktree.progress, "Writing the checkpoint"):
        return _write(worktree, writer, state, metadata, attachments or {}, changes=bool(keep_commits))


def _write(
    worktree: OpenWorktree,
    writer: Writer,
    state: State,
    metadata: Metadata,
    attachments: Mapping[bytes, trees.Entry],
    *,
    changes: bool,
) -> Created:
    """Write a state; with `changes`, even if it is that of the newest checkpoint."""
    repository, settings = worktree.repository, worktree.settings
    load = _pending_log(worktree)
    is_needed = metadata.trigger in format.EVEN_IF_UNCHANGED or (load is not None and load.is_reason)
    if not is_needed and not attachments and not changes:
        earlier = _unchanged(repository, metadata.worktree_id, state)
        if earlier is not None:
            # Some objects of the state may be new nevertheless (a nested checkpoint): keep them.
            writer.flush()
            consolidation.note(repository, writer)
            return Created(earlier, state)
    files = dict(attachments)
    if load:
        files.update(load.files(writer))
    checkpoint = format.write(writer, state, metadata, settings.committer, _versions(state), files)
    before = ""

    def link(previous: str) -> str:
        nonlocal before
        before = previous
        return format.write_timeline_commit(writer, checkpoint.id, previous, state, settings.committer)

    seconds = writer.pending_commit(checkpoint.id).time
    tip = timeline.append(repository, writer, metadata.worktree_id, settings.committer, seconds, link)
    if load is not None and tip is not None:  # else the rows are marked when they are found on the timeline
        from git_agentos.checkpoint import log_sync

        log_sync.mark_saved(worktree, load, checkpoint, before, tip)
    consolidation.note(repository, writer)
    return Created(checkpoint, state)


def write_apart(writer: Writer, state: State, metadata: Metadata, committer: bytes) -> str:
    """Write a state as a checkpoint that is on no timeline; its id. Another one must keep it (`keep_commits`)."""
    return format.write(writer, state, metadata, committer, _versions(state)).id


def _pending_log(worktree: OpenWorktree) -> PendingLog | None:
    """The pending rows of log and memory; None, without importing sqlite3, if there is no database."""
    if not worktree.has_database:
        return None
    from git_agentos.checkpoint import log_sync

    return log_sync.pending(worktree)


def _unchanged(repository: Repository, worktree_id: str, state: State) -> Checkpoint | None:
    """The newest checkpoint of the timeline if it holds exactly this state."""
    try:
        newest = timeline.newest(repository, worktree_id)
        if newest is None:
            return None
        meta = format.open_checkpoint(repository, newest.checkpoint).meta
    except (CheckpointFormatError, MissingObjectsError):
        return None
    if meta.get("state") != state_fields.digest(state):
        return None
    return format.describe(newest.checkpoint, meta, unchanged=True)


def _create_nested(
    location: Location, *, worktree: OpenWorktree, metadata: Metadata, request: CaptureRequest
) -> nested.NestedCheckpoint:
    """Create a checkpoint in a repository inside the worktree, in its own store and on its own timeline."""
    inner, scan = _open_nested(location, worktree)
    own = metadata._replace(
        worktree_id=inner.worktree_id,
        worktree_path=location.root,
        trigger=metadata.trigger if metadata.trigger not in format.EVEN_IF_UNCHANGED else "periodic",
        restores=None,
    )
    created = create_checkpoint(inner, own, scan=scan, request=request, with_upkeep=False)
    return _nested_checkpoint(created.checkpoint.id, inner, created.state)


def _preview_nested(location: Location, *, worktree: OpenWorktree, request: CaptureRequest) -> nested.NestedCheckpoint:
    """What `_create_nested` would give; nothing is written."""
    inner, scan = _open_nested(location, worktree)
    with inner.repository.writer() as writer:
        state = preview_worktree(inner, writer, request=request, scan=scan)
    earlier = _unchanged(inner.repository, inner.worktree_id, state)
    return _nested_checkpoint(earlier.id if earlier is not None else location.hash.zero, inner, state)


def _open_nested(location: Location, worktree: OpenWorktree) -> tuple[OpenWorktree, Scan]:
    scan = Scan(location)
    settings = worktree.settings._replace(values=scan.config())
    return worktree._replace(
        repository=Repository(location), settings=settings, worktree_id=timeline.worktree_id(location)
    ), scan


def _nested_checkpoint(checkpoint: str, inner: OpenWorktree, state: State) -> nested.NestedCheckpoint:
    return nested.NestedCheckpoint(
        id=checkpoint,
        worktree_id=inner.worktree_id,
        dirty=state.is_dirty,
        skipped=tuple(state.skipped),
        state=state_fields.fingerprint(state),
    )


def _versions(state: State) -> Mapping[str, str]:
    return {"tool": f"git-agentos {__version__}", "git": state.git_version.removeprefix("git version ")}
