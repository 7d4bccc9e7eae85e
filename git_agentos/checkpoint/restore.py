"""Restore, undo and recover: the transaction that brings a saved state back.

The order is: resolve the target, take `index.lock`, capture now, plan, save now, make everything ready beside the
worktree, write the journal; then files, the new index (beside the real one), verify; then, by one rename or small
write each, index, operation in progress, HEAD; then the record for `undo`, and the journal goes. A failure on the way
takes everything back; a kill leaves the journal, which names both states.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from git_agentos.checkpoint import apply, capture, format, journal, nested, operation, plan, take, timeline
from git_agentos.checkpoint.format import Origin
from git_agentos.checkpoint.journal import Journal, Last
from git_agentos.checkpoint.plan import Plan
from git_agentos.checkpoint.state import Skipped, State
from git_agentos.config import Settings
from git_agentos.errors import (
    AgentosError,
    CheckpointFormatError,
    CheckpointNotFound,
    InterruptedRestore,
    LockedError,
    MissingObjectsError,
    RepositoryError,
    RestoreError,
    UsageError,
)
from git_agentos.git import index, locks, refs, trees
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan

BRANCHES = "refs/heads/"


@dataclass(frozen=True)
class Restoration:
    """What a restore did, or, in a dry run, would do; the fields are the keys of the JSON kind `restore`.

    `checkpoint` is the id restored, `saved` the id that holds the state before (None in a dry run), `branch` the
    short name of the branch that HEAD is on afterwards (None if detached), `head` its commit. Paths are text.
    """

    checkpoint: str
    saved: str | None
    branch: str | None
    head: str | None
    worktree_path: str
    changed: list[str]
    removed: list[str]
    skipped: list[Skipped]
    dry_run: bool


@dataclass(frozen=True)
class Recovery:
    """What `recover` did: `outcome` is `nothing`, `finished` or `went-back`; `cleaned` the stale files removed."""

    outcome: str
    checkpoint: str | None
    saved: str | None
    branch: str | None
    changed: list[str]
    removed: list[str]
    skipped: list[Skipped]
    cleaned: list[str]


@dataclass(frozen=True)
class Options:
    """How to restore. `paths` are bytes relative to the root; `branch` a short name for the new branch."""

    paths: Sequence[bytes] | None = None
    branch: str | None = None
    no_branch: bool = False
    keep_new: bool = False
    dry_run: bool = False


class NotThereError(Exception):
    """A nested repository that cannot be brought back: it is told, and the rest is restored."""


@dataclass(frozen=True)
class Move:
    """Where HEAD goes: to `head`, after making its branch if `create`; None where it stays."""

    head: Head
    create: bool


# -- the three commands --------------------------------------------------------------------------------------------


def restore(
    repository: Repository,
    settings: Settings,
    origin: Origin,
    checkpoint: str,
    options: Options,
    *,
    scan: Scan | None = None,
) -> Restoration:
    """Bring the worktree to the state of `checkpoint`. The state before is saved, and `undo` goes back to it.

    `scan` is one of this worktree that is under way already.
    """
    refuse_interrupted(repository.location)
    with _errors():
        target = _resolve(repository, checkpoint)
        with _exclusive(repository.location):
            refuse_interrupted(repository.location)
            if options.paths is not None or options.no_branch:
                move = None
            else:
                move = _new_branch(repository.location, checkpoint, target, options.branch, _stamp())
            here = refs.read_head(repository.location)
            with_operation = options.paths is None and (move is not None or _operation_fits(here, target))
            work = _Work(repository, settings, origin, "restore", checkpoint, target, move, options, with_operation)
            work.scan = scan
            return work.run()


def undo(repository: Repository, settings: Settings, origin: Origin, *, dry_run: bool = False) -> Restoration:
    """Go back to the state before the last restore, rollback or undo, HEAD's branch included."""
    refuse_interrupted(repository.location)
    with _errors():
        last = journal.read_last(repository.location)
        if last is None:
            raise CheckpointNotFound(
                "there is nothing to undo: nothing was restored in this worktree",
                "git agentos checkpoint list shows what can be restored",
            )
        target = _resolve(repository, last.saved)
        with _exclusive(repository.location):
            refuse_interrupted(repository.location)
            move = _back_to(repository.location, last.saved, target, _stamp())
            options = Options(dry_run=dry_run)
            return _Work(repository, settings, origin, "undo", last.saved, target, move, options, True).run()


def recover(repository: Repository, settings: Settings, origin: Origin, *, abort: bool = False) -> Recovery:
    """Finish an interrupted restore, or with `abort` go back to the state before it; remove stale locks of ours."""
    location = repository.location
    with _errors(), _exclusive(location):
        cleaned = _clean(location)
        found = journal.read(location)
        if found is None:
            return Recovery("nothing", None, None, refs.read_head(location).branch, [], [], [], cleaned)
        goal = found.saved if abort else found.target
        target = _resolve(repository, goal)
        if abort:
            move: Move | None = _back_to(location, goal, target, _stamp())
            options, with_operation = Options(), True
        else:
            move = _remaining_move(location, found)
            paths = [os.fsencode(path) for path in found.paths] if found.paths is not None else None
            options, with_operation = Options(paths=paths, keep_new=found.keep_new), found.with_operation
        work = _Work(repository, settings, origin, found.command, goal, target, move, options, with_operation)
        work.interrupted, work.abort, work.stamp = found, abort, found.stamp
        done = work.run()
        _end_inner(repository, found)
        outcome = "went-back" if abort else "finished"
        return Recovery(outcome, goal, found.original, done.branch, done.changed, done.removed, done.skipped, cleaned)


def _clean(location: Location) -> list[str]:
    """Remove what killed processes of ours left here and in the repositories inside; the paths."""
    cleaned = [*locks.remove_stale(location), *locks.remove_scratch(location), *journal.remove_unfinished(location)]
    with contextlib.suppress(AgentosError):
        found = Scan(location).read()
        for path in [*found.nested, *found.gitlinks]:
            inner = nested.locate_at(location.root, path)
            if inner is not None and inner.common_dir != location.common_dir:
                with _exclusive(inner):
                    cleaned += _clean(inner)
    return cleaned


def _end_inner(repository: Repository, found: Journal) -> None:
    """Remove the journals that the interrupted restore left in repositories inside: it has been done again."""
    for checkpoint in (found.saved, found.target):
        for path, oid in _resolve(repository, checkpoint).nested.items():
            location = nested.locate_at(repository.location.root, path)
            inner = journal.read(location) if location is not None else None
            if location is None or inner is None:
                continue
            if inner.target == nested.read(repository, oid)["checkpoint"]:
                journal.remove(location)


# -- before anything is touched ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise take.storage_error(error) from error


@contextlib.contextmanager
def _exclusive(location: Location) -> Iterator[None]:
    with locks.turn(location, "worktree", wait=True):
        yield


def refuse_interrupted(location: Location) -> None:
    found = journal.read(location)
    if found is not None:
        raise InterruptedRestore(
            f"an interrupted {found.command} is waiting in this worktree",
            "git agentos recover finishes it; git agentos recover --abort goes back",
        )


def _resolve(repository: Repository, checkpoint: str) -> State:
    """The target state, with what of it is needed whatever the present state is."""
    try:
        return format.read_state(repository, checkpoint)
    except MissingObjectsError as error:
        raise MissingObjectsError(
            f"checkpoint {checkpoint[:8]} is incomplete: {error.message}", "git fsck tells more; nothing was changed"
        ) from error


def _operation_fits(here: Head, target: State) -> bool:
    """Whether the target's operation in progress can go on with HEAD where it is."""
    if here.commit != target.head.commit:
        return False
    return not (operation.on_own_branch(target.operation) and here.ref is not None)


def _new_branch(location: Location, checkpoint: str, target: State, wanted: str | None, stamp: str) -> Move:
    """A new branch at the checkpoint's commit; detached where the checkpoint was."""
    if wanted is None and target.head.ref is None:
        return Move(target.head, create=False)
    if wanted is not None:
        ref = BRANCHES + wanted
        if refs.resolve(location, ref) is not None:
            raise RestoreError(f"a branch named '{wanted}' exists already", "choose another name; nothing was changed")
    else:
        base = f"{BRANCHES}restore/{checkpoint[:8]}/{stamp}"
        ref, n = base, 1
        while refs.resolve(location, ref) is not None:
            n += 1
            ref = f"{base}-{n}"
    check_room(location, ref)
    return Move(Head(ref, target.head.commit), create=target.head.commit is not None)


def check_room(location: Location, ref: str) -> None:
    """A branch `restore` blocks `restore/…`: RestoreError, before anything is touched."""
    parent = ref.rpartition("/")[0]
    while parent.startswith(BRANCHES):
        if refs.resolve(location, parent) is not None:
            name = parent.removeprefix(BRANCHES)
            raise RestoreError(
                f"the branch '{name}' is in the way of '{ref.removeprefix(BRANCHES)}'",
                f"rename it (git branch -m {name} NEW), or use --branch or --no-branch; nothing was changed",
            )
        parent = parent.rpartition("/")[0]
    if refs.names(location, ref + "/"):
        name = ref.removeprefix(BRANCHES)
        raise RestoreError(f"branches below '{name}/' are in the way of '{name}'", "choose another name")


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def _back_to(location: Location, checkpoint: str, target: State, stamp: str) -> Move:
    """HEAD exactly as it was: on its branch if that is still there, or gone; no branch moves."""
    ref = target.head.ref
    if ref is None:
        return Move(target.head, create=False)
    present = refs.resolve(location, ref)
    if present == target.head.commit:
        elsewhere = _checked_out_elsewhere(location, ref)
        if not elsewhere:
            return Move(target.head, create=False)
    elif present is None and not _checked_out_elsewhere(location, ref):
        with contextlib.suppress(RestoreError):
            check_room(location, ref)
            return Move(target.head, create=True)
    return _new_branch(location, checkpoint, target, None, stamp)


def _checked_out_elsewhere(location: Location, ref: str) -> bool:
    folders = [location.common_dir]
    with contextlib.suppress(FileNotFoundError):
        folders += [entry.path for entry in os.scandir(os.path.join(location.common_dir, "worktrees"))]
    for folder in folders:
        if folder == location.git_dir:
            continue
        with contextlib.suppress(OSError), open(os.path.join(folder, "HEAD"), "rb") as file:
            if file.read().strip() == b"ref: " + os.fsencode(ref):
                return True
    return False


def _remaining_move(location: Location, found: Journal) -> Move | None:
    if found.head_ref is None and found.head_commit is None:
        return None
    head = Head(found.head_ref, found.head_commit)
    if head.ref is None:
        return Move(head, create=False)
    return Move(head, create=found.create and refs.resolve(location, head.ref) is None)


# -- the transaction -----------------------------------------------------------------------------------------------


class _Work:
    """One restore from beginning to end."""

    def __init__(
        self,
        repository: Repository,
        settings: Settings,
        origin: Origin,
        command: str,
        checkpoint: str,
        target: State,
        move: Move | None,
        options: Options,
        with_operation: bool,
    ) -> None:
        self.repository = repository
        self.location = repository.location
        self.settings = settings
        self.origin = origin._replace(trigger="before_restore", restores=checkpoint)
        self.command = command
        self.checkpoint = checkpoint
        self.target = target
        self.move = move
        self.options = options
        self.with_operation = with_operation
        self.scan: Scan | None = None
        self.stamp = _stamp()
        self.interrupted: Journal | None = None
        self.abort = False
        self.who = os.fsdecode(settings.committer)

    def run(self) -> Restoration:
        if self.options.dry_run:
            with self.repository.writer() as writer:
                return self._result(self._plan(writer)[1], None, dry_run=True)
        lock = self._lock_index()
        try:
            with locks.scratch(self.location) as folder, self.repository.writer() as writer:
                return self._locked(writer, folder)
        finally:
            with contextlib.suppress(OSError):
                locks.release(lock)

    def _lock_index(self) -> locks.Held:
        try:
            return locks.acquire(self.location, os.path.join(self.location.git_dir, "index"), patience=2.0)
        except LockedError as error:
            raise LockedError(
                "another git process is at work in this worktree (index.lock exists)",
                "try again when it has finished; nothing was changed",
            ) from error

    def _plan(self, writer: Writer) -> tuple[State, Plan]:
        """The state now and the plan; asked twice where ignored files are in the way and have to be saved."""
        request = capture.Request(take_nested=self._take_nested())
        now = capture.capture(self.repository, writer, self.settings, self.scan, request)
        target = self.target = format.with_visible_tree(self.repository, writer, self.target)
        found = self._make_plan(writer, now, target)
        if found.unsaved:
            request = request._replace(ignored=found.unsaved)
            now = capture.capture(self.repository, writer, self.settings, None, request)
            found = self._make_plan(writer, now, target)
            if found.unsaved:
                name = os.fsdecode(min(found.unsaved))
                raise RestoreError(f"'{name}' is in the way and cannot be saved", "move it away; nothing was changed")
        return self._complete(writer, now, found), found

    def _complete(self, writer: Writer, now: State, found: Plan) -> State:
        """The state now with what only a restore has to know of: bytes that git does not see in files which will go,
        and paths that it will create."""
        seen = {*now.unstaged, *now.untracked, *now.raw}
        going = {
            path: entry
            for path in (*found.write, *found.remove)
            if path not in seen and (entry := trees.find(writer, now.visible_tree, path)) is not None
        }
        raw, bits = capture.unseen_by_git(self.repository, writer, self.settings, going) if going else ({}, {})
        empty = sorted({*now.empty_directories, *found.emptied})
        return now._replace(
            raw={**now.raw, **raw},
            permissions={**now.permissions, **bits},
            not_present=sorted(found.created),
            empty_directories=empty,
        )

    def _make_plan(self, writer: Writer, now: State, target: State) -> Plan:
        return plan.make(self.repository, writer, now, target, paths=self.options.paths, keep_new=self.options.keep_new)

    def _take_nested(self) -> nested.Take | None:
        if self.options.dry_run:
            return None
        return functools.partial(take.take_nested, origin=self.origin, settings=self.settings)

    def _locked(self, writer: Writer, folder: str) -> Restoration:
        now, steps = self._plan(writer)
        self._check_paths(writer, now)
        self._check_objects(steps)
        # Everything is made ready before the save: what cannot be restored leaves no trace.
        ready = os.path.join(folder, "files")
        os.mkdir(ready)
        staged = apply.stage(self.repository, writer, steps, self.target, self.settings.values, ready)
        saved = take.record(self.repository, writer, self.settings, now, self.origin).checkpoint.id
        move = self.move
        original = self.interrupted.original if self.interrupted is not None else saved
        entry = Journal(
            command=self.command,
            saved=saved if self.interrupted is None else self.interrupted.saved,
            target=self.interrupted.target if self.interrupted is not None else self.checkpoint,
            head_ref=move.head.ref if move is not None else None,
            head_commit=move.head.commit if move is not None else None,
            create=move.create if move is not None else False,
            paths=None if self.options.paths is None else [os.fsdecode(path) for path in self.options.paths],
            keep_new=self.options.keep_new,
            with_operation=self.with_operation,
            original=original,
            stamp=self.stamp,
        )
        if self.interrupted is None:
            journal.write(self.location, entry)
        application = apply.Application(self.repository, steps, staged)
        try:
            skipped = self._change(writer, steps, application, folder, saved)
        except BaseException as error:
            self._take_back(application, error)
            raise
        self._finish(original)
        return self._result(steps, original, dry_run=False, more=skipped)

    def _finish(self, original: str) -> None:
        """Everything is in place: note what `undo` goes back to, and end the journal."""
        try:
            if self.abort:
                self._drop_branch()
                self._drop_nested_branches()
            else:
                journal.write_last(self.location, Last(self.command, original, self.checkpoint))
            journal.remove(self.location)
        except OSError as error:
            raise RestoreError(
                f"everything is in place, but it could not be recorded: {take.storage_error(error).message}",
                "git agentos recover finishes it; git agentos recover --abort goes back",
            ) from error

    def _drop_branch(self) -> None:
        """The branch that the interrupted restore made, if nobody has used it."""
        made = self.interrupted
        if made is None or not made.create or made.head_ref is None:
            return
        if refs.read_head(self.location).ref == made.head_ref or _checked_out_elsewhere(self.location, made.head_ref):
            return
        if refs.resolve(self.location, made.head_ref) == made.head_commit:
            with contextlib.suppress(RepositoryError):  # packed meanwhile
                refs.delete(self.location, made.head_ref, with_log=True)

    def _drop_nested_branches(self) -> None:
        """The branches that the interrupted restore made in repositories inside."""
        made = self.interrupted
        if made is None:
            return
        for path, oid in _resolve(self.repository, made.target).nested.items():
            record = nested.read(self.repository, oid)
            location = nested.locate_at(self.location.root, path)
            if location is not None and record["checkpoint"] is not None:
                _drop_made(location, _nested_branch(record["checkpoint"], made.stamp), record["head"]["commit"])

    def _take_back(self, application: apply.Application, error: BaseException) -> None:
        try:
            application.take_back()
            if self.interrupted is None:
                journal.remove(self.location)
        except (OSError, AgentosError) as second:
            first, then = (take.storage_error(e).message if isinstance(e, OSError) else str(e) for e in (error, second))
            raise RestoreError(
                f"the restore failed ({first}) and could not be taken back ({then})",
                "nothing is lost: git agentos recover --abort goes back, git agentos recover finishes it",
            ) from error

    def _change(
        self, writer: Writer, steps: Plan, application: apply.Application, folder: str, saved: str
    ) -> list[Skipped]:
        skipped = self._put_aside(steps, application, saved)
        application.run()
        skipped += self._restore_nested(steps, application)
        new_index = os.path.join(folder, "index")
        index.copy(self.repository, new_index)
        scratch = os.path.join(folder, "intent")
        os.mkdir(scratch)
        self._restore_sparse(application)
        index.apply(self.repository, new_index, steps.index, scratch)
        # `merge --abort` and its like refuse where an unmodified file has stale stat data.
        index.refresh(self.repository, new_index, self._unmodified(writer, steps))
        self._verify(application, new_index)
        self._replace_index(application, new_index, folder)
        if self.with_operation:
            self._set_operation(application, folder)
        if self.move is not None:
            self._set_head(application, self.move)
        return skipped

    # -- checks ---------------------------------------------------------------------------------------------

    def _check_paths(self, writer: Writer, now: State) -> None:
        for path in self.options.paths or ():
            if path == b"" or any(
                trees.find(writer, tree, path)
                for tree in (self.target.visible_tree, now.visible_tree, self.target.index_tree, now.index_tree)
            ):
                continue
            if path in self.target.ignored or path in self.target.empty_directories or path in self.target.nested:
                continue
            raise UsageError(
                f"path '{os.fsdecode(path)}' is neither in checkpoint {self.checkpoint[:8]} nor in the worktree",
                f"git agentos checkpoint show {self.checkpoint[:8]} lists what it holds",
            )

    def _check_objects(self, steps: Plan) -> None:
        """Every object that the plan needs is there: found out before anything is touched."""
        wanted = {file.raw or file.entry[1] for file in steps.write.values()}
        wanted |= {oid for _, oid in self.target.ignored.values()} | set(steps.nested.values())
        if self.with_operation:
            wanted |= set(self.target.operation_files.values())
        for stages in steps.index.stages.values():
            wanted |= {oid for mode, oid in stages.values() if mode != trees.GITLINK}
        wanted |= {oid for mode, oid in steps.index.entries.values() if mode != trees.GITLINK}
        if self.target.head.commit is not None:
            wanted.add(self.target.head.commit)
        missing = [oid for oid in wanted if not self.repository.exists(oid)]
        for oid in missing:
            try:
                self.repository.read(oid)  # a partial clone fetches it now
            except MissingObjectsError as error:
                raise MissingObjectsError(
                    f"checkpoint {self.checkpoint[:8]} is incomplete: object {oid} is missing",
                    "git fsck tells more; nothing was changed",
                ) from error

    def _unmodified(self, writer: Writer, steps: Plan) -> list[bytes]:
        """Paths that were written or staged anew and are, in the target, as the index has them: their stat data in the
        index is stale."""
        apart = {*self.target.assume_unchanged, *self.target.skip_worktree, *self.target.stages}
        return [
            path
            for path in dict.fromkeys([*steps.write, *steps.index.entries])
            if path not in apart
            and self._concerned(path)
            and (entry := trees.find(writer, self.target.tree, path)) is not None
            and entry[0] != trees.GITLINK
            and entry == trees.find(writer, self.target.index_tree, path)
            and os.path.lexists(os.path.join(os.fsencode(self.location.root), path))
        ]

    def _verify(self, application: apply.Application, new_index: str) -> None:
        """The worktree and the new index are the target's: what was put in place is there untouched, what had to go
        is gone, and git reads the index as the tree that it shall be."""
        wrong = application.wrong()
        if self.options.paths is None:
            wrong += [
                path
                for path in index.differences(self.repository, new_index, self.target.index_tree)
                if path not in self.target.stages and path not in self.target.intent_to_add
            ]
            if index.stages(self.repository, new_index) != self.target.stages:
                wrong += self.target.stages
        if wrong:
            names = ", ".join(f"'{os.fsdecode(path)}'" for path in sorted(set(wrong))[:3])
            raise RestoreError(
                f"{len(set(wrong))} paths changed while they were being restored: {names}",
                "something else writes to this worktree; everything was put back as it was",
            )

    def _concerned(self, path: bytes) -> bool:
        return self.options.paths is None or any(
            p == b"" or path == p or path.startswith(p + b"/") for p in self.options.paths
        )

    # -- nested repositories --------------------------------------------------------------------------------

    def _put_aside(self, steps: Plan, application: apply.Application, saved: str) -> list[Skipped]:
        skipped = []
        for path in steps.aside:
            if nested.put_aside(self.repository, path, saved):
                application.remember(functools.partial(self._bring_back, path))
            else:
                skipped.append(Skipped(os.fsdecode(path) + "/", "a repository on another file system: left in place"))
        return skipped

    def _bring_back(self, path: bytes) -> None:
        if not nested.take_back(self.repository, path):
            raise OSError(f"'{os.fsdecode(path)}' could not be moved back")

    def _restore_nested(self, steps: Plan, application: apply.Application) -> list[Skipped]:
        skipped = []
        for path, oid in steps.nested.items():
            try:
                restore_nested(self.repository, self.settings, self.origin, path, oid, application, self.stamp)
            except (CheckpointFormatError, CheckpointNotFound, MissingObjectsError, NotThereError) as error:
                skipped.append(Skipped(os.fsdecode(path) + "/", f"nested repository: {error}"))
        return skipped

    # -- index, operation, HEAD -----------------------------------------------------------------------------

    def _restore_sparse(self, application: apply.Application) -> None:
        sparse = self.target.sparse
        if sparse is None or sparse.patterns is None or self.options.paths is not None:
            return
        path = os.path.join(self.location.git_dir, "info", "sparse-checkout")
        wanted = self.repository.blob(sparse.patterns)
        before: bytes | None = None
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            before = file.read()
        if before != wanted:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _replace_file(path, wanted)
            application.remember(functools.partial(_replace_file, path, before))
        self._set_sparse_config("core.sparseCheckout", True, application)
        self._set_sparse_config("core.sparseCheckoutCone", sparse.cone, application)

    def _set_sparse_config(self, key: str, value: bool, application: apply.Application) -> None:
        present = self.settings.values.get(key.lower(), ["false" if key == "core.sparseCheckout" else "true"])[-1]
        if present == ("true" if value else "false"):
            return
        scope = "--worktree" if "extensions.worktreeconfig" in self.settings.values else "--local"
        self.repository.git("config", scope, key, "true" if value else "false")

        def back() -> None:
            self.repository.git("config", scope, key, present)

        application.remember(back)

    def _replace_index(self, application: apply.Application, new_index: str, folder: str) -> None:
        real = os.path.join(self.location.git_dir, "index")
        kept = os.path.join(folder, "old-index")
        had = True
        try:
            os.link(real, kept)
        except FileNotFoundError:
            had = False
        if os.path.exists(new_index):
            with open(new_index, "rb") as file:
                os.fsync(file.fileno())
            os.rename(new_index, real)
        elif had:
            os.unlink(real)
        application.remember(lambda: os.rename(kept, real) if had else os.unlink(real))

    def _set_operation(self, application: apply.Application, folder: str) -> None:
        before = operation.read(self.location)
        wanted = {name: self.repository.blob(oid) for name, oid in self.target.operation_files.items()}
        if before == wanted:
            return
        operation.check_names(wanted)
        application.remember(lambda: operation.write(self.location, before, scratch=folder))
        operation.write(self.location, wanted, scratch=folder)

    def _set_head(self, application: apply.Application, move: Move) -> None:
        before = refs.read_head(self.location)
        head = move.head
        if move.create and head.ref is not None and head.commit is not None:
            reason = f"{self.command}: created at checkpoint {self.checkpoint[:8]}"
            try:
                refs.update(self.location, head.ref, head.commit, None, reason=f"agentos {reason}", who=self.who)
            except refs.RefMoved as error:
                raise RestoreError(
                    f"somebody else made the branch '{head.branch}' in the same moment",
                    "try again; nothing was changed",
                ) from error
            created = head.ref
            application.remember(lambda: refs.delete(self.location, created, with_log=True))
        if before == head:
            return
        origin = before.branch or (before.commit or "unborn")[:8]
        goal = head.branch or (head.commit or "")[:8]
        reason = f"agentos {self.command}: moving from {origin} to {goal}"
        refs.set_head(self.location, head, reason=reason, who=self.who)
        application.remember(lambda: refs.set_head(self.location, before, reason=f"{reason} (undone)", who=self.who))

    # -- the result -----------------------------------------------------------------------------------------

    def _result(self, steps: Plan, saved: str | None, *, dry_run: bool, more: Sequence[Skipped] = ()) -> Restoration:
        head = self.move.head if self.move is not None else refs.read_head(self.location)
        return Restoration(
            checkpoint=self.checkpoint,
            saved=saved,
            branch=head.branch,
            head=head.commit,
            worktree_path=self.location.root,
            changed=steps.changed,
            removed=steps.removed,
            skipped=[*steps.skipped, *self.target.skipped, *more],
            dry_run=dry_run,
        )


def _replace_file(path: str, data: bytes | None) -> None:
    if data is None:
        os.unlink(path)
        return
    temporary = f"{path}.agentos-{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def restore_nested(
    repository: Repository,
    settings: Settings,
    origin: Origin,
    path: bytes,
    description: str,
    application: apply.Application,
    stamp: str,
) -> None:
    """Bring a nested repository to the state that its description names, making it again where it is gone."""
    record = nested.read(repository, description)
    location = nested.locate_at(repository.location.root, path)
    if location is None and nested.take_back(repository, path):
        application.remember(functools.partial(_aside_again, repository, path))
        location = nested.locate_at(repository.location.root, path)
    if location is None:
        if record["kind"] == "submodule":
            if not nested.connect(repository, path, record):
                raise NotThereError("its git directory is gone")
        else:
            nested.make_again(repository, path, record)
        application.remember(functools.partial(_aside_again, repository, path))
        location = nested.locate_at(repository.location.root, path)
    if location is None or record["checkpoint"] is None:
        raise NotThereError("it cannot be opened")
    inner = Repository(location)
    started = Scan(location)
    values = started.config()
    started.discard()
    own = origin._replace(timeline=timeline.name_of(location), worktree_path=location.root)
    target = _resolve(inner, record["checkpoint"])
    with _exclusive(location):
        move = _back_to(location, record["checkpoint"], target, stamp)
        mine = _nested_branch(record["checkpoint"], stamp)
        if target.head.commit is not None and refs.resolve(location, mine) == target.head.commit:
            move = Move(Head(mine, target.head.commit), create=False)  # an attempt that was killed has made it
        if journal.read(location) is not None:
            journal.remove(location)  # the restore around it was killed, and is being done again
        work = _Work(
            inner, settings._replace(values=values), own, "restore", record["checkpoint"], target, move, Options(), True
        )
        done = work.run()
    saved = done.saved
    made = move.head.ref
    if move.create and made is not None:
        application.remember(lambda: _drop_made(location, made, move.head.commit))
    if saved is not None:
        application.remember(lambda: _nested_back(inner, settings._replace(values=values), own, saved))


def _drop_made(location: Location, ref: str, commit: str | None) -> None:
    """Remove a branch that a restore made and that nobody has used."""
    if commit is not None and refs.resolve(location, ref) == commit and refs.read_head(location).ref != ref:
        with contextlib.suppress(RepositoryError):  # packed meanwhile
            refs.delete(location, ref, with_log=True)


def _nested_branch(checkpoint: str, stamp: str) -> str:
    return f"{BRANCHES}restore/{checkpoint[:8]}/{stamp}"


def _aside_again(repository: Repository, path: bytes) -> None:
    nested.put_aside(repository, path, f"undone-{os.getpid()}")


def _nested_back(repository: Repository, settings: Settings, origin: Origin, saved: str) -> None:
    target = _resolve(repository, saved)
    with _exclusive(repository.location):
        move = _back_to(repository.location, saved, target, _stamp())
        _Work(repository, settings, origin, "undo", saved, target, move, Options(), True).run()
