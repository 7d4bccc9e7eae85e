"""Moving a branch forward to a commit that is ready, also where it is checked out: index, files and branch together, or
nothing.

Where the branch is checked out, the order is: the worktree's lock, `index.lock`, capture, the check for what is in the
way, the `before_merge` checkpoint, the branch's own lock, the journal; then git (`read-tree -m -u`, which keeps local
changes) brings the files and a copy of the index from the old commit to the new one; then the index is replaced by one
rename and the branch by another, and the journal is removed. A failure in between restores the paths from the
checkpoint, and so does `recover` after a kill, unless the branch has moved: then everything was in place.

The git that changes files inherits the journal's owner lock as its stdin: while it outlives us, the journal is not
interrupted yet.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from git_agentos.checkpoint import operation
from git_agentos.checkpoint.capture import contents
from git_agentos.checkpoint.capture.state import capture_state
from git_agentos.checkpoint.creation import capture_worktree, write_checkpoint
from git_agentos.checkpoint.model import Metadata, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.errors import (
    UNCHANGED,
    AgentosError,
    AgentosWarning,
    LockedError,
    WorktreeError,
    converted_storage_errors,
    storage_error,
)
from git_agentos.git import index, lockfile, process, refs, state_dir, trees, worktrees
from git_agentos.git.location import Location, locate
from git_agentos.git.repository import Writer
from git_agentos.git.worktrees import BranchUser
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import journal
from git_agentos.worktree.fast_forward_recovery import abort_fast_forward, record_sync
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.layout import HEADS, describe_use
from git_agentos.worktree.local_changes import Delta, refuse_in_the_way, refuse_obstacles


@dataclass(frozen=True)
class FastForward:
    """A branch that moved; `saved` is the checkpoint created before and `location` the worktree that was updated, None
    where the branch is checked out nowhere."""

    saved: str | None
    location: Location | None


class TipMovedError(Exception):
    """The branch has moved since the result was computed."""


# -- where a branch is checked out ---------------------------------------------------------------------------------


def checkout_of(context: OpenWorktree, ref: str) -> Location | None:
    """The worktree that has the branch checked out; None where none has.

    WorktreeError where it cannot be moved: checked out twice, in a folder that is not there, or under a rebase or a
    bisection somewhere.
    """
    location, name = context.location, ref.removeprefix(HEADS)
    users = worktrees.branch_users(location, ref)
    roots = _checked_out(context, users)
    if len(roots) > 1:
        names = ", ".join(f"'{root}'" for root in roots)
        raise WorktreeError(
            f"the branch '{name}' is checked out in {len(roots)} worktrees: {names}",
            f"switch all but one of them to another branch; {UNCHANGED}",
        )
    for user in users:
        if user.how != "checkout":
            raise WorktreeError(
                f"the branch '{name}' is {describe_use(user)}", f"finish or abort it first; {UNCHANGED}"
            )
    if not roots:
        return None
    if refs.read_head(location).ref == ref:
        return location
    if not os.path.isdir(roots[0]):
        raise WorktreeError(
            f"the branch '{name}' is checked out in '{roots[0]}', which is not there",
            f"bring the folder back, or give the worktree up: git agentos worktree repair; {UNCHANGED}",
        )
    return locate(roots[0], use_environment=False)


def _checked_out(context: OpenWorktree, users: Sequence[BranchUser]) -> list[str]:
    """The roots of the worktrees whose HEAD is the branch: a bare repository's is none."""
    location, roots = context.location, []
    for user in users:
        if user.how != "checkout":
            continue
        root = user.root or user.git_dir
        if user.git_dir == location.common_dir and not location.is_main:
            env = {"GIT_DIR": location.common_dir}
            said = context.repository.git("config", "--type=bool", "--get", "core.bare", env=env, ok=(0, 1))
            if said.strip() == b"true":
                continue
            core_worktree = context.settings.values.get("core.worktree")
            if core_worktree:
                root = os.path.normpath(os.path.join(location.common_dir, core_worktree[-1]))
        roots.append(root)
    return roots


# -- moving it -----------------------------------------------------------------------------------------------------


class Move(NamedTuple):
    """A branch (`ref`) that moves from the commit `old` to `new`; `reason` is for its reflog.

    `base` is the base's commit that an agent's branch is brought up to: the record of its worktree names it then, and
    `undo` there takes the move back. Without one, `undo` still restores the state before the user's last restore.
    """

    ref: str
    old: str
    new: str
    reason: str = ""
    base: str = ""


def fast_forward(context: OpenWorktree, move: Move, *, description: str, meta: Mapping[str, str]) -> FastForward:
    """Move a branch, with the worktree that has it checked out. The lock on worktrees must be held.

    TipMovedError where the branch is not at `old`, WorktreeError where local changes are in the way.
    """
    location = checkout_of(context, move.ref)
    if location is None:
        reflog = refs.ReflogEntry(move.reason, os.fsdecode(context.settings.committer))
        try:
            refs.update(context.location, move.ref, move.new, move.old, reflog)
        except refs.RefMoved as error:
            raise TipMovedError from error
        return FastForward(None, None)
    inner = context.in_worktree(location)
    metadata = inner.metadata(trigger="before_merge", description=description, meta=dict(meta))
    update = _FastForward(inner, move)
    with converted_storage_errors():
        saved = update.run(metadata)
    return FastForward(saved, location)


def check(context: OpenWorktree, move: Move) -> None:
    """Refuse what `fast_forward` would refuse; nothing is changed and nothing is saved."""
    location = checkout_of(context, move.ref)
    if location is not None:
        inner = context.in_worktree(location)
        update = _FastForward(inner, move)
        update.refuse_before()
        with inner.repository.writer() as writer:
            update.check_local_changes(
                writer, update.delta(writer), capture_state(inner.repository, writer, inner.settings)
            )


class _FastForward:
    """One branch that is moved, and its worktree."""

    def __init__(self, inner: OpenWorktree, move: Move) -> None:
        self.inner = inner
        self.repository = inner.repository
        self.location = inner.location
        self.ref, self.old, self.new, self.reason, self.base = move
        self.who = os.fsdecode(inner.settings.committer)
        self.journal: WorktreeJournal | None = None
        self.moved = False

    def run(self, metadata: Metadata) -> str:
        location = self.location
        self.refuse_before()
        saved = None
        try:
            with state_dir.lock(location, "worktree"), _index_lock(location), state_dir.scratch(location) as folder:
                self.refuse_before()
                with self.repository.writer() as writer:
                    delta = self.delta(writer)
                    now, saved = self._save(writer, delta, metadata)
                    self._update_files(delta, now, folder, saved)
        except BaseException as error:
            if self.journal is not None and not self.moved:
                self._abort(self.journal, saved or "", error)
            raise
        assert self.journal is not None
        self._finish(self.journal)
        with contextlib.suppress(OSError, AgentosError, refs.RefMoved):
            # As after any merge: for `git reset --keep ORIG_HEAD`.
            refs.update(location, "ORIG_HEAD", self.old, refs.resolve(location, "ORIG_HEAD"))
        return saved

    def delta(self, store: trees.TreeSource) -> Delta:
        """What the move changes."""
        return trees.diff(store, self.repository.commit_tree(self.old), self.repository.commit_tree(self.new))

    def refuse_before(self) -> None:
        """WorktreeError where nothing may be merged into the worktree now."""
        commands.refuse_interrupted(self.location)
        _refuse_interrupted(self.inner)
        head = refs.read_head(self.location)
        if head.ref != self.ref or head.commit != self.old:
            raise TipMovedError
        working = operation.name_of(operation.read(self.location))
        if working is not None:
            raise WorktreeError(
                f"a {working} is in progress in '{self.location.root}'", f"finish or abort it first; {UNCHANGED}"
            )

    def _save(self, writer: Writer, delta: Delta, metadata: Metadata) -> tuple[State, str]:
        """The state before, and its checkpoint, with everything in it that will be overwritten; refuses before that."""
        settings = self.inner.settings
        now = self.check_local_changes(writer, delta, capture_worktree(self.inner, writer, metadata))
        going = {path: before for path, (before, _) in delta.items() if before is not None and path not in now.raw}
        now = contents.with_unseen(self.repository, writer, settings, now, going)
        now = now._replace(
            not_present=sorted(path for path, (before, _) in delta.items() if before is None),
        )
        saved = write_checkpoint(self.inner, writer, now, metadata).checkpoint.id
        return now, saved

    def check_local_changes(self, writer: Writer, delta: Delta, now: State) -> State:
        """The state now; WorktreeError where local changes are in the way."""
        if now.stages:
            raise WorktreeError(
                f"there are conflicts to resolve in '{self.location.root}'",
                f"resolve them first: git status names them; {UNCHANGED}",
            )
        refuse_in_the_way(self.location, writer, now, self.repository.commit_tree(self.old), delta)
        return now

    def _update_files(self, delta: Delta, now: State, folder: str, saved: str) -> None:
        location = self.location
        new_index = os.path.join(folder, "index")
        index.copy(self.repository, new_index, self.inner.settings.values)
        # Only stat data: git takes a file whose times have changed for a changed one.
        self.repository.git(
            *index.stat_options(self.inner.settings.values),
            *("update-index", "-q", "--refresh", "--ignore-submodules"),
            env={"GIT_INDEX_FILE": new_index},
            ok=(0, 1),
        )
        try:
            reflog = refs.ReflogEntry(self.reason, self.who)
            with refs.transaction(location, self.ref, self.new, self.old, reflog) as set_ref:
                # Saving takes a while: what is in the way by now is refused before anything has to be restored, by
                # ourselves (git would overwrite an ignored file) and by git.
                refuse_obstacles(location, self.repository, now, self.repository.commit_tree(self.old), delta)
                self._read_tree(new_index, "--dry-run")
                self.journal = journal.start(
                    location,
                    self.inner.worktree_id,
                    journal.MERGE,
                    ref=self.ref,
                    old=self.old,
                    new=self.new,
                    git_dir=location.git_dir,
                    root=location.root,
                    saved=saved,
                    base=self.base,
                )
                self._read_tree(new_index, owner=self.journal.owner)
                wrong = set(index.differences(self.repository, new_index, self.repository.commit_tree(self.new)))
                if wrong & delta.keys():
                    raise WorktreeError(f"git did not bring the index of '{location.root}' to the merged state")
                files.install(new_index, os.path.join(location.git_dir, "index"))
                set_ref()
                self.moved = True
        except refs.RefMoved as error:
            raise TipMovedError from error

    def _read_tree(self, new_index: str, *options: str, owner: int | None = None) -> None:
        args = [*index.stat_options(self.inner.settings.values)]
        args += ["read-tree", "-m", "-u", "--no-recurse-submodules", *options, self.old, self.new]
        env = self.location.environment({"GIT_INDEX_FILE": new_index})
        child = process.spawn(args, cwd=self.location.root, env=env, stdin=owner)
        status, _, err = process.finish(child)
        if status != 0:
            raise process.failure(args, status, err)

    def _finish(self, entry: WorktreeJournal) -> None:
        """Remove the journal of a move that is made; it stays where what it is for could not be recorded."""
        if self.base:
            try:
                record_sync(self.inner, entry)
            except (OSError, AgentosError) as error:
                journal.release(entry)
                reason = storage_error(error).message if isinstance(error, OSError) else error.message
                words = f"'{entry.id}' is synced, but that could not be recorded for undo ({reason})"
                advice = f"git agentos worktree repair {entry.id} finishes it"
                warnings.warn(AgentosWarning(f"{words}: {advice}"), stacklevel=2)
                return
        journal.remove(entry)

    def _abort(self, entry: WorktreeJournal, saved: str, error: BaseException) -> None:
        try:
            abort_fast_forward(self.inner, saved, self.old, self.new)
        except (OSError, AgentosError) as second:
            journal.release(entry)
            first, then = (storage_error(e).message if isinstance(e, OSError) else str(e) for e in (error, second))
            raise WorktreeError(
                f"the merge failed ({first}) and could not be aborted ({then})",
                f"nothing is lost: the state before is checkpoint {saved[:8]}; git agentos worktree repair restores it",
            ) from error
        journal.remove(entry)


@contextlib.contextmanager
def _index_lock(location: Location) -> Iterator[None]:
    try:
        held = lockfile.acquire(location, os.path.join(location.git_dir, "index"), patience=2.0)
    except LockedError as error:
        raise LockedError(
            f"another git process is at work in '{location.root}' (index.lock exists)",
            f"try again when it has finished; {UNCHANGED}",
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lockfile.release(held)


def _refuse_interrupted(inner: OpenWorktree) -> None:
    for each in journal.interrupted(inner.location):
        if each.id == inner.worktree_id:
            raise WorktreeError(
                f"an interrupted {each.operation} is waiting in '{inner.location.root}'",
                f"git agentos worktree repair {each.id} finishes or aborts it; {UNCHANGED}",
            )
