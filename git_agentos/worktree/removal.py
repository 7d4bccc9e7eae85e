"""Removing a worktree: everything in it is saved, then it is deleted. `remove` and `archive` differ in the record.

    1  the journal is written, and the checks are made (`removal_checks`)
    2  one checkpoint is taken of everything in it (`final_checkpoint`)
    3  with the lock on the repository's worktrees, the folder is renamed into the trash (`trash`): from here on the
       removal is finished, not aborted. If anything in it has changed since the checkpoint began, the folder comes
       back, and step 2 is repeated
    4  git's entry follows it, the branch is deleted if that was asked for (by compare-and-swap), the journal is removed
    5  the trash is deleted in the background

A failure in 3 or 4 is aborted by renaming in the other direction. After a kill, `recover` aborts the removal where the
folder has not moved, and finishes it where it has.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from shlex import quote

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.errors import UNCHANGED, AgentosError, WorktreeError, converted_storage_errors
from git_agentos.git import refs, state_dir, worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.guard import authorize
from git_agentos.guard.setup import activation
from git_agentos.process import occupants
from git_agentos.util import file_times
from git_agentos.util.progress import phase
from git_agentos.worktree import journal, layout, losses, record, removal_checks, submodules, teardown, trash
from git_agentos.worktree.final_checkpoint import FinalCheckpoint, RemovalRequest, Saved
from git_agentos.worktree.journal import ARCHIVE, REMOVE, WorktreeJournal
from git_agentos.worktree.losses import Losses
from git_agentos.worktree.record import AgentWorktree
from git_agentos.worktree.teardown import Teardown
from git_agentos.worktree.trash import TrashEntry

_MAX_ATTEMPTS = 4
_BESIDE = "-restored"


@dataclass(frozen=True)
class Removal:
    """A worktree that is gone, and what is kept of it.

    `branch` is its own, which stays unless `branch_deleted`; `branch_sha` is where that is or was (None: there was
    none). `checkpoint` holds everything in `losses`. `discarded` was deleted without being saved: ignored files that
    could not be saved, with `discard_ignored`. `not_saved` is the rest of what the checkpoint does not have: sockets
    and pipes, or what could not be read of a damaged worktree. `get_back` are the commands that restore things.
    `revives` is the checkpoint whose state `create --revive` brings back: `checkpoint`, or, where the folder was
    missing, the last one before. `teardown` is what became of the user's command, if one was run.
    """

    id: str
    path: str
    branch: str
    branch_sha: str | None
    branch_deleted: bool
    head_sha: str | None
    checkpoint: str
    losses: Losses
    discarded: list[Skipped] = field(default_factory=list)
    not_saved: list[Skipped] = field(default_factory=list)
    get_back: list[str] = field(default_factory=list)
    revives: str = ""
    teardown: Teardown | None = None


@dataclass(frozen=True)
class Recovered:
    """What became of an interrupted removal: `message` in words; `trash` is what is to be deleted now, if any."""

    message: str
    trash: TrashEntry | None = None


@authorize.entry("worktree", "remove")
def remove(
    context: OpenWorktree,
    id_: str,
    *,
    delete_branch: bool = False,
    discard_ignored: bool = False,
    run_teardown: bool = True,
) -> Removal:
    """Save everything in the agent's worktree `id_` in a checkpoint, and remove it.

    With `delete_branch` its branch is deleted as well; the timeline keeps the commits. With `discard_ignored`, ignored
    files that cannot be saved are lost, and named in the result. `run_teardown`: agentos.teardown is run before.
    Raises what `end_worktree` raises.
    """
    return end_worktree(context, id_, RemovalRequest(REMOVE, delete_branch, discard_ignored, run_teardown))


@authorize.entry("worktree", "archive")
def archive(context: OpenWorktree, id_: str, *, run_teardown: bool = True) -> Removal:
    """Save everything in the agent's worktree `id_`, its log, memory and database, on its timeline, and remove it.

    Branch and timeline stay. `run_teardown`: agentos.teardown is run before. Raises what `end_worktree` raises.
    """
    return end_worktree(context, id_, RemovalRequest(ARCHIVE, teardown=run_teardown))


def end_worktree(
    context: OpenWorktree, id_: str, request: RemovalRequest, *, recheck: Callable[[], None] | None = None
) -> Removal:
    """Save everything in the agent's worktree `id_`, and remove it, without asking the guard.

    `recheck` raises an error where it is not to be removed any more; it is called when everything is saved.
    WorktreeError where something prevents that, IncompleteCaptureError where something cannot be saved: then nothing
    has changed (but for a checkpoint that may have been taken, and what the teardown command has done).
    """
    if id_ == timeline.MAIN:
        raise WorktreeError("the main worktree cannot be removed", f"it is the repository itself; {UNCHANGED}")
    layout.check_id(id_)
    with converted_storage_errors():
        with worktrees.lock(context.location):
            begun = journal.start(context.location, id_, request.operation)
        return _Removal(context, begun, request, recheck).run()


class _Removal:
    """One removal that is going on."""

    def __init__(
        self,
        context: OpenWorktree,
        begun: WorktreeJournal,
        request: RemovalRequest,
        recheck: Callable[[], None] | None = None,
    ) -> None:
        self.context = context
        self.recheck = recheck
        self.location = context.location
        self.journal = begun
        self.request = request
        self.worktree: AgentWorktree
        self.missing = False  # the folder is not there, or empty
        self.abort_failed = False  # neither gone nor back: the journal stays
        self.done = False
        self.kept_modules: str | None = None
        self.torn_down: Teardown | None = None

    @property
    def id(self) -> str:
        return self.journal.id

    def run(self) -> Removal:
        try:
            self.worktree = record.find(self.location.common_dir, self.id)
            removal_checks.wait_for_recorders(self.worktree.git_dir)
            self._tear_down()
            self._check()
            with self._locked():
                for _ in range(_MAX_ATTEMPTS):
                    removed = self._attempt()
                    if removed is not None:
                        return removed
            raise WorktreeError(
                f"files in the worktree '{self.id}' keep changing while it is being saved",
                f"end what writes them, then try again; {UNCHANGED}",
            )
        except BaseException as error:
            if self.torn_down is not None and isinstance(error, AgentosError):
                error.hint = "\n".join(filter(None, [error.hint, "the teardown command was run before"]))
            if self.abort_failed:
                journal.release(self.journal)
            elif not self.done:
                submodules.drop(self.kept_modules)
                journal.remove(self.journal)
            raise

    def _check(self, *, stoppable: bool = False) -> None:
        operation, delete_branch, *_ = self.request
        self.missing = removal_checks.check_worktree(
            self.location, self.worktree, operation, delete_branch=delete_branch, stoppable=stoppable
        )

    def _tear_down(self) -> None:
        """Run the user's command, if there is one. It may be what stops the processes that work in the worktree."""
        command = teardown.find(self.context) if self.request.teardown else None
        if command is None:
            return
        self._check(stoppable=True)
        if self.missing:
            return
        commands.refuse_interrupted(self.worktree.location)
        self.journal = journal.update(self.journal, teardown=True)
        inner = self.context.in_worktree(self.worktree.location)
        with phase(self.context.progress, "Running the teardown command"):
            self.torn_down = teardown.run(inner, self.worktree.record, command)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep our checkpoints, restores and undos out of the worktree meanwhile."""
        inner = self.worktree.location
        with state_dir.lock(inner, "worktree"):
            if not self.missing:  # else there is nothing to recover in: the state before it is the last one
                commands.refuse_interrupted(inner)
            yield

    def _attempt(self) -> Removal | None:
        """Save the worktree, and remove it; None where something has changed meanwhile: all is as it was."""
        since = file_times.moment_between_changes(self.location.git_dir if self.missing else self.worktree.root)
        final = FinalCheckpoint(self.context, self.worktree, self.request)
        saved = final.save_without_folder() if self.missing else final.save()
        submodules.drop(self.kept_modules)
        self.kept_modules = submodules.keep(self.location, self.id, self.worktree.git_dir)
        tip = refs.resolve(self.location, self.worktree.ref)
        return self._result(saved, tip) if self._move_to_trash(since, tip) else None

    def _result(self, saved: Saved, tip: str | None) -> Removal:
        branch, deleted = self.worktree.record.branch, tip if self.request.delete_branch else None
        return Removal(
            id=self.id,
            path=self.worktree.root,
            branch=branch,
            branch_sha=tip,
            branch_deleted=deleted is not None,
            get_back=_commands(self.id, saved.checkpoint, branch, deleted),
            teardown=self.torn_down,
            **saved._asdict(),
        )

    def _move_to_trash(self, since: int, tip: str | None) -> bool:
        """Move folder and entry away, and delete the branch; False where something has changed since `since`."""
        worktree = self.worktree
        with worktrees.lock(self.location):
            self._check()
            if self.recheck is not None:
                self.recheck()
            entry = trash.choose_entry(self.location, worktree.root, self.id)
            self.journal = journal.update(
                self.journal,
                path=worktree.root,
                git_dir=worktree.git_dir,
                folder=entry.folder,
                entry=entry.entry,
                since=since,
                ref=worktree.ref if self.request.delete_branch and tip is not None else None,
                tip=tip,
                missing=self.missing,
            )
            try:
                trash.mark(worktree.git_dir, entry.folder)
                if removal_checks.is_folder(worktree.root):
                    trash.move(worktree.root, entry.folder)
                    if in_use_or_changed(entry.folder, since) is not None:
                        abort_removal(self.location, self.journal)
                        return False
                finish_removal(self.location, self.journal)
            except BaseException as error:
                self._abort(error)
                raise
            self.done = True
            if self.journal.fields["ref"] is not None:
                forget_branch(self.context.repository, worktree.record.branch)
            _remove_unused_guard(self.location)
        journal.finish(self.journal)
        trash.delete([entry])
        return True

    def _abort(self, cause: BaseException) -> None:
        try:
            abort_removal(self.location, self.journal)
        except (OSError, AgentosError) as error:
            self.abort_failed = True
            raise WorktreeError(
                f"the worktree '{self.id}' could not be removed ({cause}), nor moved back ({error})",
                f"nothing is lost: git agentos worktree repair {self.id}",
            ) from cause


# -- after a kill --------------------------------------------------------------------------------------------------


def recover(context: OpenWorktree, interrupted: WorktreeJournal) -> Recovered:
    """Finish a killed removal where the folder is in the trash, and nothing in it has changed since it was saved; else
    abort it. The journal, which must have been taken over, is removed. The lock on worktrees must be held."""
    location, fields = context.location, interrupted.fields
    if "git_dir" not in fields:
        journal.remove(interrupted)
        if fields.get("teardown"):
            return Recovered("it is as it was, but for what its teardown command has done")
        return Recovered("nothing had been touched")
    folder, git_dir = fields["folder"], fields["git_dir"]
    in_trash = os.path.lexists(folder) and not os.path.lexists(fields["path"])
    if os.path.lexists(git_dir) and (not in_trash or in_use_or_changed(folder, fields["since"]) is not None):
        abort_removal(location, interrupted)
        journal.remove(interrupted)
        return Recovered("it is as it was")
    message = "it is removed"
    try:
        finish_removal(location, interrupted)
    except WorktreeError as error:
        message += f", but {error.message}: it stays"
    else:
        if fields["ref"] is not None:
            forget_branch(context.repository, fields["ref"].removeprefix(layout.HEADS))
        _remove_unused_guard(location)
    journal.remove(interrupted)
    return Recovered(message, TrashEntry(folder, fields["entry"]))


def in_use_or_changed(folder: str, since: int) -> str | None:
    """A process that works in a folder in the trash, or something in it that has changed since then; None where there
    is neither."""
    processes = occupants.find(folder)
    if processes:
        return f"process {processes[0].pid} ({processes[0].name})"
    return losses.changed_since(folder, since)


def finish_removal(location: Location, begun: WorktreeJournal) -> None:
    """Move git's entry after the folder, which is in the trash, then delete the branch. Can be repeated."""
    fields = begun.fields
    git_dir, entry, ref = fields["git_dir"], fields["entry"], fields["ref"]
    if os.path.lexists(git_dir):
        trash.move(git_dir, entry)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(git_dir))
    if ref is not None:
        try:
            refs.drop(location, ref, fields["tip"])
        except refs.RefMoved as error:
            name = ref.removeprefix(layout.HEADS)
            raise WorktreeError(
                f"the branch '{name}' has just moved", f"run it without --delete-branch, or try again; {UNCHANGED}"
            ) from error


def abort_removal(location: Location, begun: WorktreeJournal) -> None:
    """Move folder, entry and branch back. Can be repeated."""
    fields = begun.fields
    if "git_dir" not in fields:
        return
    git_dir, ref = fields["git_dir"], fields["ref"]
    if ref is not None and refs.resolve(location, ref) is None:
        refs.update(location, ref, fields["tip"], None)
    if os.path.lexists(fields["entry"]) and not os.path.lexists(git_dir):
        os.makedirs(os.path.dirname(git_dir), exist_ok=True)
        os.rename(fields["entry"], git_dir)
    if os.path.lexists(fields["folder"]) and not os.path.lexists(fields["path"]):
        os.rename(fields["folder"], fields["path"])
    trash.unmark(git_dir)
    trash.remove_empty_folders(TrashEntry(fields["folder"], fields["entry"]))


def forget_branch(repository: Repository, branch: str) -> None:
    """Remove the configuration of a branch that is gone, as `git branch -d` does; nothing depends on it."""
    with contextlib.suppress(AgentosError, OSError):
        repository.git("config", "--local", "--remove-section", f"branch.{branch}", ok=(0, 1, 5, 128))


def _remove_unused_guard(location: Location) -> None:
    """Remove what all guarded worktrees share if this was the last one; nothing depends on it."""
    with contextlib.suppress(AgentosError, OSError):
        activation.remove_if_unused(location)


def _commands(id_: str, checkpoint: str, branch: str, deleted_tip: str | None) -> list[str]:
    """The commands that restore what a worktree had."""
    commands = [f"git agentos worktree create {id_} --revive"]
    beside = f"{id_[: config.LONGEST_ID - len(_BESIDE)].rstrip('.')}{_BESIDE}"
    commands.append(f"git agentos restore {checkpoint[:12]} --agent {id_} --worktree {beside}")
    commands.append(f"git agentos restore {checkpoint[:12]} --agent {id_} -- PATH")
    if deleted_tip is not None:
        commands.append(f"git branch {quote(branch)} {deleted_tip}")
    return commands
