"""Restore, undo, rollback and recover: choose the state to restore and where HEAD goes; `transaction` does the rest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint import format, journal, nested, operation, renamed
from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.checkpoint.model import Metadata, Skipped, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import head, idempotency, nested_repositories, transaction, undo_check
from git_agentos.checkpoint.restore.choice import Choice, FileChoice
from git_agentos.checkpoint.restore.head import BranchMove, HeadTarget
from git_agentos.checkpoint.restore.request import Restoration, RestoreOptions, RestoreRequest, read_target
from git_agentos.errors import AgentosError, CheckpointNotFound, InterruptedRestore, converted_storage_errors
from git_agentos.git import lockfile, refs, state_dir, trees
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository
from git_agentos.git.scan import Scan
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

__all__ = [
    "ROLLBACK",
    "Recovery",
    "Restoration",
    "RestoreOptions",
    "RollbackOptions",
    "done_before",
    "initial_head",
    "nothing_restored",
    "of_hunks",
    "recover",
    "refuse_interrupted",
    "restore",
    "restore_new_worktree",
    "rollback",
    "undo",
]  # fmt: skip


ROLLBACK = "rollback"


class RollbackOptions(NamedTuple):
    """Options of a rollback: where HEAD goes, which branches move, which files are read even if git calls them
    unmodified, a listing of the worktree's directories, commits that the save keeps, and a scan that is running."""

    move: HeadTarget
    branch_moves: Sequence[BranchMove] = ()
    reread: frozenset[bytes] = frozenset()
    listing: Listing | None = None
    pins: Sequence[str] = ()
    scan: Scan | None = None


@dataclass(frozen=True)
class Recovery:
    """The result of `recover`: `outcome` is `nothing`, `finished` or `went-back`; `cleaned` are removed stale files."""

    outcome: str
    checkpoint: str | None
    saved: str | None
    branch: str | None
    changed: list[str]
    removed: list[str]
    skipped: list[Skipped]
    cleaned: list[str]


# -- the three commands --------------------------------------------------------------------------------------------


def restore(
    worktree: OpenWorktree,
    metadata: Metadata,
    checkpoint: str,
    options: RestoreOptions,
    *,
    scan: Scan | None = None,
) -> Restoration:
    """Restore the state of `checkpoint`. The state before is saved, and `undo` restores it.

    `scan` is a scan of this worktree that is running already. `idempotency.AlreadyDone` if the call was done before.
    """
    with converted_storage_errors():
        target = read_target(worktree.repository, checkpoint)
        # While another process holds the lock, a journal belongs to its restore, which is waited for.
        with _exclusive(worktree.location):
            refuse_interrupted(worktree.location)
            _refuse_done(worktree.location, options)
            stamp = times.name_stamp()
            if options.paths is not None or options.no_branch:
                move = None
            else:
                move = head.new_branch_head(worktree.location, checkpoint, target, options.branch, stamp)
            here = refs.read_head(worktree.location)
            with_operation = options.paths is None and (move is not None or _operation_fits(here, target))
            request = RestoreRequest("restore", checkpoint, target, move, stamp, options, with_operation)
            return transaction.run(worktree, metadata, request, scan=scan)


def done_before(location: Location, options: RestoreOptions) -> Restoration | None:
    """What the call that `options` name returned before; None if it was not done before. UsageError as in `restore`."""
    try:
        _refuse_done(location, options)
    except idempotency.AlreadyDone as earlier:
        return earlier.result
    return None


def of_hunks(
    worktree: OpenWorktree, checkpoint: str, files: Sequence[FileChoice], options: RestoreOptions
) -> RestoreOptions:
    """The options for restoring these hunks of a checkpoint; of the given ones, those that do not say what it is."""
    chosen = Choice(checkpoint, read_target(worktree.repository, checkpoint), tuple(files))
    return replace(options, paths=chosen.paths, choice=chosen, hunks_of=checkpoint)


def nothing_restored(worktree: OpenWorktree, checkpoint: str, *, dry_run: bool) -> Restoration:
    """The result of a restore for which nothing was chosen."""
    here = refs.read_head(worktree.location)
    return Restoration(checkpoint, None, here.branch, here.commit, worktree.location.root, [], [], [], dry_run)


def undo(worktree: OpenWorktree, metadata: Metadata, options: RestoreOptions) -> Restoration:
    """Restore the state before the last restore, rollback or undo, HEAD's branch included.

    Of the options, `dry_run`, `expected` and `call` have a meaning. RestoreError if another agent made that restore, or
    has worked in the worktree since; `idempotency.AlreadyDone` if the call was done before.
    """
    location = worktree.location
    with converted_storage_errors(), _exclusive(location):
        refuse_interrupted(location)
        _refuse_done(location, options)
        last = journal.read_last(location)
        if last is None:
            raise CheckpointNotFound(
                "there is nothing to undo: nothing was restored in this worktree",
                "git agentos checkpoint list shows what can be restored",
            )
        now = renamed.follow(worktree.repository, last.saved)
        last = last._replace(saved=now, target=renamed.current(worktree.repository, last.target))
        target = read_target(worktree.repository, last.saved)
        undo_check.check_others(worktree, metadata, last)
        stamp = times.name_stamp()
        moves = head.allowed_moves(location, [BranchMove.of(each).reversed() for each in last.shifts])
        request = RestoreRequest(
            command="undo",
            checkpoint=last.saved,
            target=target,
            move=head.original_head(location, last.saved, target, stamp, moves),
            stamp=stamp,
            options=options,
            branch_moves=moves,
            exact=target.complete,
            reread=_maybe_changed(worktree.repository, target, last.target) if target.complete else frozenset(),
        )
        return transaction.run(worktree, metadata, request)


def rollback(
    worktree: OpenWorktree,
    metadata: Metadata,
    checkpoint: str,
    back: RollbackOptions,
    *,
    dry_run: bool = False,
) -> Restoration:
    """Restore the state of `checkpoint` in a run's worktree; exactly, if that is complete.

    Everything in the worktree is saved first, ignored files too, and `undo` restores it.
    """
    with converted_storage_errors():
        target = read_target(worktree.repository, checkpoint)
        with _exclusive(worktree.location):
            refuse_interrupted(worktree.location)
            request = RestoreRequest(
                command=ROLLBACK,
                checkpoint=checkpoint,
                target=target,
                move=back.move,
                stamp=times.name_stamp(),
                options=RestoreOptions(dry_run=dry_run),
                branch_moves=back.branch_moves,
                exact=target.complete,
                save_everything=True,
                reread=back.reread,
                listing=back.listing,
                pins=back.pins,
                trigger="before_rollback",
            )
            return transaction.run(worktree, metadata, request, scan=back.scan)


def initial_head(location: Location, checkpoint: str, target: State) -> HeadTarget:
    """The HEAD of `target` for a worktree that will be created."""
    return head.original_head(location._replace(git_dir=""), checkpoint, target, times.name_stamp())


def restore_new_worktree(
    worktree: OpenWorktree, metadata: Metadata, checkpoint: str, target: State, move: HeadTarget
) -> Restoration:
    """Restore the state of a checkpoint in a new worktree, HEAD included (`initial_head`).

    Files of its commit may not be checked out yet; the state that `undo` restores contains them.
    """
    with converted_storage_errors(), _exclusive(worktree.location):
        request = RestoreRequest("restore", checkpoint, target, move, times.name_stamp(), new_worktree=True)
        return transaction.run(worktree, metadata, request)


def recover(worktree: OpenWorktree, metadata: Metadata, *, abort: bool = False) -> Recovery:
    """Finish an interrupted restore, or with `abort` restore the state before it; remove stale locks of git-agentos."""
    location = worktree.location
    with converted_storage_errors(), _exclusive(location):
        cleaned = _clean(location)
        found = journal.read(location)
        if found is None:
            return Recovery("nothing", None, None, refs.read_head(location).branch, [], [], [], cleaned)
        ids = (renamed.current(worktree.repository, each) for each in (found.saved, found.target, found.original))
        saved, aim, original = ids
        found = found._replace(saved=saved, target=aim, original=original)
        checkpoint = found.saved if abort else found.target
        target = read_target(worktree.repository, checkpoint)
        moves = [BranchMove.of(each) for each in found.shifts]
        if abort:
            made = [each for each in moves if each not in head.pending_moves(location, moves)]
            moves = [each.reversed() for each in made]
            move: HeadTarget | None = head.original_head(location, checkpoint, target, times.name_stamp(), moves)
            options, with_operation = RestoreOptions(), True
        else:
            moves = head.pending_moves(location, moves)
            move = head.unfinished_head(location, found)
            paths = [os.fsencode(path) for path in found.paths] if found.paths is not None else None
            options = RestoreOptions(paths=paths, keep_new=found.keep_new, hunks_of=_hunks_of(worktree, checkpoint))
            with_operation = found.with_operation
        request = RestoreRequest(
            command=found.command,
            checkpoint=checkpoint,
            target=target,
            move=move,
            stamp=found.stamp,
            options=options,
            with_operation=with_operation,
            interrupted=found,
            abort=abort,
            branch_moves=moves,
            exact=found.exact or (abort and found.thorough),
            save_everything=found.thorough,
            reread=_maybe_changed(worktree.repository, target, found.saved, found.target)
            if found.thorough
            else frozenset(),
            trigger=found.trigger,
            pins=[checkpoint] if options.hunks_of is not None else (),
        )
        done = transaction.run(worktree, metadata, request)
        nested_repositories.end_journals(worktree.repository, found)
        return Recovery(
            outcome="went-back" if abort else "finished",
            checkpoint=done.checkpoint,
            saved=found.original,
            branch=done.branch,
            changed=done.changed,
            removed=done.removed,
            skipped=done.skipped,
            cleaned=cleaned,
        )


def _hunks_of(worktree: OpenWorktree, checkpoint: str) -> str | None:
    """Where the hunks come from of which a checkpoint is the target; None for any other checkpoint."""
    meta = format.open_checkpoint(worktree.repository, checkpoint).meta
    found = (meta.get("restored_part") or {}).get("hunks_of") if meta.get("trigger") == format.HUNKS else None
    return found if isinstance(found, str) else None


def _clean(location: Location) -> list[str]:
    """Remove what killed git-agentos processes left here and in nested repositories; the paths."""
    cleaned = [
        *lockfile.remove_stale(location),
        *state_dir.remove_abandoned(location),
        *journal.remove_unfinished(location),
    ]
    with contextlib.suppress(AgentosError):
        found = Scan(location).read()
        for path in [*found.nested, *found.gitlinks]:
            inner = nested.locate_at(location.root, path)
            if inner is not None and inner.common_dir != location.common_dir:
                with _exclusive(inner):
                    cleaned += _clean(inner)
    return cleaned


def _maybe_changed(repository: Repository, target: State, *others: str) -> frozenset[bytes]:
    """Files that may have the contents of another of these states without git reporting it: those in which the states
    differ, and files with unusual permission bits."""
    found: set[bytes] = set(target.permissions)
    with repository.writer() as writer:  # never flushed
        mine = format.with_visible_tree(repository, writer, target).visible_tree
        for checkpoint in others:
            other = format.with_visible_tree(repository, writer, read_target(repository, checkpoint))
            found |= other.permissions.keys() | trees.diff(writer, mine, other.visible_tree).keys()
    return frozenset(found)


# -- before anything is touched ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _exclusive(location: Location) -> Iterator[None]:
    with state_dir.lock(location, "worktree", wait=True):
        yield


def _refuse_done(location: Location, options: RestoreOptions) -> None:
    if options.call is not None and not options.dry_run:
        idempotency.refuse_done(location, idempotency.Call(*options.call))


def refuse_interrupted(location: Location) -> None:
    found = journal.read(location)
    if found is not None:
        raise InterruptedRestore(
            f"a {found.command} in this worktree was interrupted",
            "git agentos recover finishes it; git agentos recover --abort aborts it",
        )


def _operation_fits(here: Head, target: State) -> bool:
    """Whether the target's operation in progress can continue with the current HEAD."""
    if here.commit != target.head.commit:
        return False
    return not (operation.detaches_head(target.operation) and here.ref is not None)
