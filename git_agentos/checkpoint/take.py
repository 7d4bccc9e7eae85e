"""Taking a checkpoint: capture, write, append. The only place where a checkpoint is made."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from git_agentos import __version__
from git_agentos.checkpoint import format, nested, timeline
from git_agentos.checkpoint.capture import Request, capture
from git_agentos.checkpoint.format import Checkpoint, Origin
from git_agentos.checkpoint.state import State
from git_agentos.config import Settings
from git_agentos.errors import CheckpointFormatError, MissingObjectsError, StorageError
from git_agentos.git import gc, process, refs, state_dir, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan
from git_agentos.store import database_path

if TYPE_CHECKING:
    from git_agentos.checkpoint.carry import Load


class Cargo(NamedTuple):
    """What a checkpoint carries beside the state: further entries of S, by path (`database/…`, `worktree.json`).

    A checkpoint that has cargo to carry is made even if the state is unchanged.
    """

    files: Mapping[bytes, trees.Entry] = MappingProxyType({})


class Taken(NamedTuple):
    """A checkpoint and the state that it holds."""

    checkpoint: Checkpoint
    state: State


def take(
    repository: Repository,
    settings: Settings,
    origin: Origin,
    *,
    scan: Scan | None = None,
    request: Request | None = None,
    cargo: Cargo | None = None,
) -> Taken:
    """Save the complete state of the worktree; nothing in it changes.

    An automatic trigger that finds what the newest checkpoint already holds, and no entry of log or memory that waits
    to be carried, makes no new one: that one is returned, with `unchanged` set.

    Raises StorageError where it cannot be written, IncompleteCaptureError where not all of the state can be read.
    """
    process.require_no_quarantine()
    format.check_trigger(origin.trigger)
    wanted = request or Request()
    nested_too = functools.partial(take_nested, origin=origin, settings=settings, request=wanted)
    wanted = wanted._replace(take_nested=nested_too)
    try:
        with state_dir.lock(repository.location, "worktree", shared=True), repository.writer() as writer:
            state = capture(repository, writer, settings, scan, wanted)
            taken = record(repository, writer, settings, state, origin, cargo)
            gc.note_loose(repository, writer.loose)
            return taken
    except OSError as error:
        raise storage_error(error) from error


def record(
    repository: Repository,
    writer: Writer,
    settings: Settings,
    state: State,
    origin: Origin,
    cargo: Cargo | None = None,
) -> Taken:
    """Write a captured state as a checkpoint on the worktree's timeline, with what of log and memory waits."""
    load = _waiting(repository, settings, origin.timeline)
    if origin.trigger not in format.ALWAYS and cargo is None and not load:
        earlier = _unchanged(repository, origin.timeline, state)
        if earlier is not None:
            # Objects of the state may be new all the same (a nested checkpoint): they are kept.
            writer.flush()
            return Taken(earlier, state)
    files = dict(cargo.files) if cargo is not None else {}
    if load:
        files.update(load.files(writer))
    checkpoint = format.write(writer, state, origin, settings.committer, _versions(state), files)
    data = writer.pending_commit(checkpoint.id)
    seconds = data.time
    before = ""

    def link(previous: str) -> str:
        nonlocal before
        before = previous
        return format.write_timeline_commit(
            writer, checkpoint.id, previous, state, settings.committer, data.message, seconds
        )

    writer.flush()
    tip = timeline.append(repository, writer, origin.timeline, settings.committer, seconds, link)
    if load is not None:
        from git_agentos.checkpoint import carry

        carry.done(repository, settings, origin.timeline, load, before, tip, checkpoint)
    return Taken(checkpoint, state)


def _waiting(repository: Repository, settings: Settings, name: str) -> Load | None:
    """What of log and memory waits to be carried; None, and sqlite3 is not loaded, where there is no database."""
    if not os.path.lexists(database_path.path_of(repository.location, settings.workflow_db)):
        return None
    from git_agentos.checkpoint import carry

    return carry.waiting(repository, settings, name)


def _unchanged(repository: Repository, name: str, state: State) -> Checkpoint | None:
    try:
        newest = timeline.newest(repository, name)
        if newest is None:
            return None
        meta = format.parts(repository, newest.checkpoint).meta
    except (CheckpointFormatError, MissingObjectsError):
        return None
    if meta.get("state") != format.digest(state):
        return None
    return format.describe(newest.checkpoint, meta, unchanged=True)


def take_nested(
    location: Location, *, origin: Origin, settings: Settings, request: Request | None = None
) -> nested.NestedCheckpoint:
    """A checkpoint in a repository inside the worktree, in its own store and on its own timeline.

    Of the `request` for the worktree around it, what goes for everything inside is asked for here as well.
    """
    repository = Repository(location)
    started = Scan(location)
    own = origin._replace(
        timeline=timeline.name_of(location),
        worktree_path=location.root,
        trigger=origin.trigger if origin.trigger not in format.ALWAYS else "periodic",
        restores=None,
    )
    wanted = (request or Request()).for_inner()
    taken = take(repository, settings._replace(values=started.config()), own, scan=started, request=wanted)
    return nested.NestedCheckpoint(
        id=taken.checkpoint.id,
        timeline=own.timeline,
        tip=timeline.tip(location, own.timeline) or taken.checkpoint.id,
        dirty=taken.state.is_dirty,
        head=taken.state.head,
        skipped=tuple(taken.state.skipped),
    )


def look_nested(
    location: Location, *, origin: Origin, settings: Settings, request: Request | None = None
) -> nested.NestedCheckpoint:
    """What `take_nested` would give, and nothing is written: the newest checkpoint if it holds the state, else none."""
    repository = Repository(location)
    started = Scan(location)
    name = timeline.name_of(location)
    inner = functools.partial(look_nested, origin=origin, settings=settings, request=request)
    wanted = (request or Request()).for_inner()._replace(take_nested=inner, keep=False)
    with repository.writer() as writer:
        state = capture(repository, writer, settings._replace(values=started.config()), started, wanted)
    earlier = _unchanged(repository, name, state)
    return nested.NestedCheckpoint(
        id=earlier.id if earlier is not None else refs.ZERO,
        timeline=name,
        tip=refs.ZERO,
        dirty=state.is_dirty,
        head=state.head,
        skipped=tuple(state.skipped),
    )


def _versions(state: State) -> Mapping[str, str]:
    return {"tool": f"git-agentos {__version__}", "git": state.git_version.removeprefix("git version ")}


def storage_error(error: OSError) -> StorageError:
    """What an OSError under a write means to the user."""
    # Of a rename, the place that it goes to says more.
    name = error.filename2 or error.filename
    where = f" '{os.fsdecode(name)}'" if isinstance(name, str | bytes) else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"no space left to write{where}", "nothing was changed; free some space and try again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            f"cannot write{where}: {(error.strerror or '').lower()}", "nothing was changed; check the permissions"
        )
    return StorageError(f"cannot write{where}: {(error.strerror or str(error)).lower()}", "nothing was changed")
