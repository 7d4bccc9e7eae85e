"""The transaction that restores a saved state, from the first lock to the last record.

The order is: lock `index.lock`, capture, plan, prepare all files beside the worktree, save the current
state, write the journal; change files, write the new index (beside the real one), verify; then, by one rename or small
write each, replace the index, the operation in progress, HEAD; write the record for `undo`, and remove the journal. A
failure reverts everything; a kill leaves the journal, which names both states.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from git_agentos.checkpoint import creation, format, journal, state_fields
from git_agentos.checkpoint.capture import contents, listing, unreadable
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.journal import LastRestore
from git_agentos.checkpoint.model import Metadata, Skipped, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.paths import refuse_read_only
from git_agentos.checkpoint.restore import gitdir, head, idempotency, nested_repositories, planner
from git_agentos.checkpoint.restore.application import Application, Prepared, prepare
from git_agentos.checkpoint.restore.plan import Plan
from git_agentos.checkpoint.restore.request import Restoration, RestoreRequest
from git_agentos.checkpoint.restore.verification import Verification
from git_agentos.errors import (
    AgentosError,
    ChangedState,
    LockedError,
    MissingObjectsError,
    RestoreError,
    UsageError,
    storage_error,
)
from git_agentos.git import index, lockfile, merge_tree, refs, state_dir, trees
from git_agentos.git.repository import Writer
from git_agentos.git.scan import Scan
from git_agentos.util.progress import phase


def run(
    worktree: OpenWorktree, metadata: Metadata, request: RestoreRequest, *, scan: Scan | None = None
) -> Restoration:
    """Restore what the request describes, or leave the worktree as it is. The caller holds the worktree's lock.

    `scan` is a scan of this worktree that is running already.
    """
    return _Transaction(worktree, metadata, request, scan).run()


class _Transaction:
    """One restore."""

    def __init__(self, worktree: OpenWorktree, metadata: Metadata, request: RestoreRequest, scan: Scan | None) -> None:
        self.worktree = worktree
        self.repository = worktree.repository
        self.location = worktree.location
        self.settings = worktree.settings
        self.metadata = metadata._replace(
            trigger=request.trigger, restores=request.checkpoint, restored_part=request.options.part
        )
        self.request = request
        self.target = request.target
        self.options = request.options
        # Blobs that are written for the target of chosen hunks.
        self.made: Collection[str] = ()
        self.scan = scan
        self.listing: listing.Listing | None = None
        self.permissions: Mapping[bytes, int] = {}
        self.state: str | None = None  # the fingerprint of what is replaced
        # Of a rollback that changes nothing: then `undo` still reverts the rollback before it.
        self.nothing_changed = False

    def run(self) -> Restoration:
        if self.request.save_everything or self.request.exact:
            self.listing = self.request.listing or listing.list_directories(self.location.root)
        if self.options.dry_run:
            with merge_tree.discarding_writer(self.repository) as writer:
                now, plan = self._plan(writer)
                self._check_paths(writer, now)
                self._check_objects(plan)
                return self._result(plan, None, dry_run=True, rewritten=self._would_rewrite(writer, plan))
        lock = self._lock_index()
        try:
            with (
                self._opened(),
                state_dir.scratch(self.location) as folder,
                self.repository.writer() as writer,
            ):
                return self._locked(writer, folder)
        finally:
            with contextlib.suppress(OSError):
                lockfile.release(lock)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        """Make unreadable files readable, if everything is to be saved."""
        if self.listing is None:
            yield
            return
        with unreadable.made_readable(self.location, self.listing, self.request.reread) as found:
            if self.scan is not None and (found.bits or found.walked is not self.listing):
                self.scan.discard()  # it could not read these files
                self.scan = None
            self.listing, self.permissions = found
            yield

    def _lock_index(self) -> lockfile.LockFile:
        try:
            return lockfile.acquire(self.location, os.path.join(self.location.git_dir, "index"), patience=2.0)
        except LockedError as error:
            raise LockedError(
                "another git process is running in this worktree (index.lock exists)",
                "try again when it has finished; nothing was changed",
            ) from error

    def _plan(self, writer: Writer) -> tuple[State, Plan]:
        """The current state and the plan. Both are computed twice if ignored files must be saved, because they are in
        the way or become visible."""
        wanted = self._capture_request()
        now = self._capture(writer, wanted, self.scan)
        self._check_made_from(writer, now)
        target = self._complete_target(writer, now)
        found = self._make_plan(writer, now, target)
        if found.unsaved or found.revealed or found.hidden:
            wanted = wanted._replace(ignored=found.unsaved, revealed=found.revealed, repositories=found.hidden)
            now = self._capture(writer, wanted)
            target = self._complete_target(writer, now)
            found = self._make_plan(writer, now, target, found.hidden)
            if found.unsaved:
                name = os.fsdecode(min(found.unsaved))
                raise RestoreError(f"'{name}' is in the way and cannot be saved", "move it away; nothing was changed")
        refuse_read_only(self.location.root, found.touched)
        now = self._complete(writer, now, found)
        self._check_expected(now)
        return now, found

    def _complete_target(self, writer: Writer, now: State) -> State:
        """The target with its visible tree; of chosen hunks, the state that they lead to from `now`."""
        if self.options.choice is not None:
            from git_agentos.checkpoint.restore.mixture import Mixture  # few restores are of hunks

            mixture = Mixture(writer, self.settings, now, self.options.choice)
            self.target, self.made = mixture.state(), mixture.made
            writer.flush()
        else:
            self.target = format.with_visible_tree(self.repository, writer, self.target)
        return self.target

    def _write_target(self, writer: Writer) -> None:
        """Write the target of chosen hunks as a checkpoint, which the save keeps."""
        choice = self.options.choice
        if choice is None:
            return
        metadata = self.metadata._replace(trigger=format.HUNKS, description=f"hunks of checkpoint {choice.checkpoint}")
        target = creation.write_apart(writer, self.target, metadata, self.settings.committer)
        self.request = replace(self.request, checkpoint=target, pins=[target])
        self.metadata = self.metadata._replace(restores=target)

    def _complete(self, writer: Writer, now: State, found: Plan) -> State:
        """Add to the current state what only a restore needs: bytes that git does not report of files that will be
        replaced, permission bits of files for which the target has some, and the paths that will be created."""
        seen = {*now.unstaged, *now.untracked, *now.raw, *now.crlf}
        going = {
            path: entry
            for path in (*found.write, *found.remove, *found.chmod, *self.target.permissions)
            if path not in seen and (entry := trees.find(writer, now.visible_tree, path)) is not None
        }
        now = contents.with_unseen(self.repository, writer, self.settings, now, going)
        empty = sorted({*now.empty_directories, *found.emptied})
        created = set(found.created)
        if self.request.new_worktree:
            now, missing = _checked_out(writer, now)
            # Undo must not remove ignored files that come from an archive.
            created = set(found.write) - missing - self.target.ignored.keys()
        return now._replace(
            not_present=sorted(created),
            empty_directories=empty,
        )

    def _capture_request(self) -> CaptureRequest:
        """What the capture of the current state must contain."""
        request = self.request
        wanted = CaptureRequest()
        if self.listing is not None:
            wanted = CaptureRequest(
                complete=True, reread=request.reread, listing=self.listing, permissions=self.permissions
            )
        return wanted

    def _capture(self, writer: Writer, wanted: CaptureRequest, scan: Scan | None = None) -> State:
        if self.options.dry_run:
            return creation.preview_worktree(self.worktree, writer, request=wanted, scan=scan)
        return creation.capture_worktree(self.worktree, writer, self.metadata, request=wanted, scan=scan)

    def _make_plan(self, writer: Writer, now: State, target: State, hidden: frozenset[bytes] = frozenset()) -> Plan:
        exact = (
            planner.Exact(self.listing, self.request.reread)
            if self.request.exact and self.listing is not None
            else None
        )
        scope = planner.Scope(self.options.paths, self.options.keep_new, exact, hidden)
        with phase(self.worktree.progress, "Comparing files"):
            return planner.make_plan(self.repository, writer, now, target, scope, self.settings.values)

    def _locked(self, writer: Writer, folder: str) -> Restoration:
        now, plan = self._plan(writer)
        self._check_paths(writer, now)
        self._check_objects(plan)
        # Everything is prepared before the save: a state that cannot be restored leaves no trace.
        ready = os.path.join(folder, "files")
        os.mkdir(ready)
        prepared = Prepared(ready, self.location.root if self.request.new_worktree else None, self.worktree.progress)
        prepare(self.repository, writer, plan, self.target, self.settings.values, prepared)
        self._write_target(writer)
        saved = self._save(writer, now)
        if (
            self.request.trigger == "before_rollback"
            and not self.request.branch_moves
            and self.request.interrupted is None
        ):
            meta = format.open_checkpoint(self.repository, self.request.checkpoint).meta
            self.nothing_changed = state_fields.digest(now) == meta.get("state")
        interrupted = self.request.interrupted
        original = interrupted.original if interrupted is not None else saved
        if interrupted is None:
            journal.write(self.location, self.request.journal(saved, self.metadata.created_by))
        rewritten = _rewritten(plan, prepared)
        application = Application(self.repository, plan, prepared)
        try:
            skipped = self._change(writer, plan, application, folder, saved)
        except BaseException as error:
            self._revert(application, error)
            raise
        result = self._result(plan, original, dry_run=False, more=skipped, rewritten=rewritten)
        self._finish(original, result)
        return result

    def _save(self, writer: Writer, now: State) -> str:
        """Save the current state, with commits that perhaps no other ref reaches afterwards; the checkpoint's id."""
        pins = [oid for oid in self.request.pins if oid not in now.pins]
        return creation.write_checkpoint(self.worktree, writer, now, self.metadata, keep_commits=pins).checkpoint.id

    def _finish(self, original: str, result: Restoration) -> None:
        """Record what `undo` restores and what the call has returned, and remove the journal."""
        try:
            if self.request.abort:
                self._drop_branches()
            elif not self.nothing_changed:
                found = self.request.interrupted
                by = found.by if found is not None else self.metadata.created_by
                shifts = found.shifts if found is not None else [list(each) for each in self.request.branch_moves]
                journal.write_last(
                    self.location, LastRestore(self.request.command, original, self.request.checkpoint, by, shifts)
                )
            call = self.options.call if self.request.interrupted is None else self.request.interrupted.call
            if call is not None:
                idempotency.record(self.location, idempotency.Call(*call), None if self.request.abort else result)
            journal.remove(self.location)
        except OSError as error:
            raise RestoreError(
                f"restored, but the information for undo was not written: {storage_error(error).message}",
                "git agentos recover finishes it; git agentos recover --abort aborts it",
            ) from error

    def _drop_branches(self) -> None:
        """Delete the unused branches that the interrupted restore created, here and in nested repositories."""
        found = self.request.interrupted
        if found is None:
            return
        made = found.head_ref
        if found.create and made is not None and not head.checked_out_elsewhere(self.location, made):
            head.delete_unused_branch(self.location, made, found.head_commit)
        nested_repositories.drop_branches(self.repository, found)

    def _revert(self, application: Application, error: BaseException) -> None:
        try:
            application.revert()
            if self.request.interrupted is None:
                journal.remove(self.location)
        except (OSError, AgentosError) as second:
            first, then = (storage_error(e).message if isinstance(e, OSError) else str(e) for e in (error, second))
            raise RestoreError(
                f"the restore failed ({first}) and could not be reverted ({then})",
                "nothing is lost: git agentos recover --abort aborts it, git agentos recover finishes it",
            ) from error

    def _change(self, writer: Writer, plan: Plan, application: Application, folder: str, saved: str) -> list[Skipped]:
        skipped = nested_repositories.move_aside(self.repository, plan.aside, saved, application)
        application.run()
        skipped += nested_repositories.NestedRestore(
            self.worktree, self.metadata, self.request, application, saved, run
        ).restore_all(plan.nested)
        new_index = os.path.join(folder, "index")
        index.copy(self.repository, new_index, self.settings.values)
        scratch = os.path.join(folder, "intent")
        os.mkdir(scratch)
        if self.options.paths is None:
            gitdir.set_sparse(self.repository, self.settings, application, self.target.sparse)
        index.apply(self.repository, new_index, plan.index, scratch, self.settings.values)
        verification = Verification(self.repository, self.settings, self.target, self.options.paths)
        with phase(self.worktree.progress, "Refreshing index"):
            differing = verification.refresh(verification.unmodified(writer, plan), application, new_index, folder)
            verification.verify(application, new_index, differing)
        application.set_modes()
        gitdir.set_index(self.repository, application, new_index, folder)
        if self.request.with_operation:
            gitdir.set_operation(self.repository, application, self.target, folder)
        who = os.fsdecode(self.settings.committer)
        command, checkpoint = self.request.command, self.request.checkpoint
        head.move_branches(
            self.location, application, self.request.branch_moves, command=command, checkpoint=checkpoint, who=who
        )
        if self.request.move is not None:
            head.set_head(
                self.location,
                application,
                self.request.move,
                command=command,
                checkpoint=checkpoint,
                who=who,
            )
        return skipped

    # -- checks ---------------------------------------------------------------------------------------------

    def _check_expected(self, now: State) -> None:
        """Check that nothing but what the caller expects would be replaced. A recovery replaces what is unfinished."""
        if self.request.interrupted is not None:
            return
        self.state = state_fields.fingerprint(now)
        if self.options.expected not in (None, self.state):
            raise ChangedState(
                f"the state is not {self.options.expected}: something has changed in this worktree since",
                f"git agentos {self.request.command} --dry-run shows what would be replaced now; nothing was changed",
            )

    def _check_paths(self, writer: Writer, now: State) -> None:
        if self.options.paths is None or self.request.interrupted is not None:
            return  # what an interrupted restore was to remove may be gone
        others = {*self.target.ignored, *self.target.empty_directories, *self.target.nested}
        others |= {*now.empty_directories, *now.nested}
        folders = trees.folders_above(others)
        name = self.request.checkpoint[:8]
        for path in self.options.paths:
            if path == b"" or any(
                trees.find(writer, tree, path)
                for tree in (self.target.visible_tree, now.visible_tree, self.target.index_tree, now.index_tree)
            ):
                continue
            if path in others or path in folders:
                continue
            raise UsageError(
                f"path '{os.fsdecode(path)}' is neither in checkpoint {name} nor in the worktree",
                f"git agentos checkpoint show {name} lists its contents",
            )

    def _check_made_from(self, writer: Writer, now: State) -> None:
        made_from = self.request.made_from
        if made_from is None:
            return
        pairs = ((now.visible_tree, made_from.visible_tree), (now.index_tree, made_from.index_tree))
        for path in self.options.paths or ():
            if any(trees.find(writer, one, path) != trees.find(writer, other, path) for one, other in pairs):
                raise RestoreError(
                    f"'{os.fsdecode(path)}' has changed while this was prepared", "try again; nothing was changed"
                )

    def _check_objects(self, plan: Plan) -> None:
        """Check that every object that the plan needs exists, before anything is changed."""
        wanted = {file.oid for file in plan.write.values()}
        wanted |= {oid for _, oid in self.target.ignored.values()} | set(plan.nested.values())
        if self.request.with_operation:
            wanted |= set(self.target.operation_files.values())
        for stages in plan.index.stages.values():
            wanted |= {oid for mode, oid in stages.values() if mode != trees.GITLINK}
        wanted |= {oid for mode, oid in plan.index.entries.values() if mode != trees.GITLINK}
        if self.target.head.commit is not None:
            wanted.add(self.target.head.commit)
        missing = [oid for oid in wanted if oid not in self.made and not self.repository.exists(oid)]
        for oid in missing:
            try:
                self.repository.read(oid)  # a partial clone fetches it now
            except MissingObjectsError as error:
                raise MissingObjectsError(
                    f"checkpoint {self.request.checkpoint[:8]} is incomplete: object {oid} is missing",
                    "git fsck shows details; nothing was changed",
                ) from error

    # -- the result -----------------------------------------------------------------------------------------

    def _would_rewrite(self, writer: Writer, plan: Plan) -> list[str]:
        """The files of a plan that have the right blob, but would be written in another form because of attributes."""
        if not any(file.recheck for file in plan.write.values()):
            return []
        plan = replace(plan, write={path: file for path, file in plan.write.items() if file.recheck})
        with state_dir.scratch(self.location) as folder:
            prepared = Prepared(folder, progress=self.worktree.progress)
            prepare(self.repository, writer, plan, self.target, self.settings.values, prepared)
            return _rewritten(plan, prepared)

    def _result(
        self,
        plan: Plan,
        saved: str | None,
        *,
        dry_run: bool,
        more: Sequence[Skipped] = (),
        rewritten: Sequence[str] = (),
    ) -> Restoration:
        at = self.request.move.head if self.request.move is not None else refs.read_head(self.location)
        return Restoration(
            checkpoint=self.options.hunks_of or self.request.checkpoint,
            saved=saved,
            branch=at.branch,
            head=at.commit,
            worktree_path=self.location.root,
            changed=sorted({*plan.changed, *rewritten}),
            removed=plan.removed,
            # What was skipped then is often what is skipped now.
            skipped=list(dict.fromkeys([*plan.skipped, *self.target.skipped, *more])),
            dry_run=dry_run,
            state=self.state,
        )


def _checked_out(writer: Writer, now: State) -> tuple[State, set[bytes]]:
    """`now` with the files that are in the index but not in the worktree; and the paths of these."""
    found = trees.diff(writer, now.index_tree, now.visible_tree)
    missing: dict[bytes, trees.Change] = {path: before for path, (before, after) in found.items() if after is None}
    tree = trees.edit(writer, now.tree, missing)
    state = now._replace(
        tree=tree,
        visible_tree=tree if now.visible_tree == now.tree else trees.edit(writer, now.visible_tree, missing),
        unstaged=[path for path in now.unstaged if path not in missing],
    )
    return state, set(missing)


def _rewritten(plan: Plan, prepared: Prepared) -> list[str]:
    """The rechecked files that had to be written."""
    return [os.fsdecode(path) for path, file in plan.write.items() if file.recheck and path in prepared.files]
