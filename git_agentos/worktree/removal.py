"""The end of a worktree: everything in it is saved, then it goes. `remove` and `archive` are two ways of calling this.

    1  intent written; everything that speaks against it is looked for
    2  one checkpoint of all there is: changes, untracked and ignored files, repositories inside, the commits that only
       this worktree reaches; with it the log, the memory, the database's contents and the record of the worktree
    3  turn held: the folder is renamed into the trash (`trash`): from here on it goes forward. If anything in it has
       changed since the checkpoint began, it comes back, and step 2 is done again
    4  git's entry follows it, the branch goes if that was asked for (by compare-and-swap), the intent ends
    5  the trash is deleted in the background

A failure in 3 or 4 takes back what was done by renaming in the other direction. Of a command that was killed, `repair`
goes back where the folder has not moved, and forward where it has (`settle`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from shlex import quote
from typing import Any, NamedTuple

from git_agentos import config, log
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.capture.state import CaptureRequest
from git_agentos.checkpoint.creation import capture_worktree, write_checkpoint
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.errors import (
    AgentosError,
    IncompleteCaptureError,
    LockedError,
    WorktreeError,
    storage_error,
)
from git_agentos.git import gitfile, index_damage, refs, stale_locks, state_dir, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.git.scan import Scan
from git_agentos.guard import authorize
from git_agentos.guard.setup import activation
from git_agentos.process import mounts, occupants
from git_agentos.util import files, locks
from git_agentos.worktree import journal, last_state, layout, losses, record, submodules, trash
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.losses import Losses
from git_agentos.worktree.occupied import taken_by
from git_agentos.worktree.record import AgentWorktree
from git_agentos.worktree.trash import TrashEntry

REMOVE = "remove"
ARCHIVE = "archive"
_TRIGGERS = {REMOVE: "before_remove", ARCHIVE: "archive"}
_ATTEMPTS = 4
_PATIENCE = 2.0  # seconds that another git has to let go of a lock
_RECORDERS_PATIENCE = 5.0  # seconds: one that has just been started needs far less
_PAUSE = 0.02  # seconds between two looks
_BESIDE = "-restored"
_NOTHING = "nothing was changed"
_MOST = 10
# The kernel's time stamps are those of its last tick.
_TICK_NS = 12_000_000


@dataclass(frozen=True)
class Removal:
    """A worktree that is gone, and what is kept of it.

    `branch` is its own, which stays unless `branch_deleted`; `branch_sha` is where that is or was (None: there was
    none). `checkpoint` holds everything in `losses`. `discarded` is gone for good: ignored files that could not be
    saved, where that was asked for. `not_saved` is the rest of what the checkpoint does not have: sockets and pipes,
    or what could not be read of a damaged worktree. `get_back` are the commands that bring things back. `revives` is
    the checkpoint whose state `create --revive` brings back: `checkpoint`, or, where the folder was missing, the last
    one before.
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


class _Saved(NamedTuple):
    """What was saved before a worktree goes; the fields are those of `Removal`."""

    checkpoint: str
    revives: str
    head: str | None
    losses: Losses
    discarded: list[Skipped]
    not_saved: list[Skipped]


@authorize.entry("worktree", "remove")
def remove(context: OpenWorktree, id_: str, *, delete_branch: bool = False, discard_ignored: bool = False) -> Removal:
    """Save all that is in the managed worktree `id_` in a checkpoint, and remove it.

    With `delete_branch` its branch goes as well; the timeline keeps the commits. With `discard_ignored`, ignored files
    that cannot be saved are lost, and named in the result. Refuses what `end_worktree` refuses.
    """
    return end_worktree(context, id_, REMOVE, delete_branch=delete_branch, discard_ignored=discard_ignored)


@authorize.entry("worktree", "archive")
def archive(context: OpenWorktree, id_: str) -> Removal:
    """Save all that is in the managed worktree `id_`, its log, memory and database, on its timeline, and remove it.

    Branch and timeline stay. Refuses what `end_worktree` refuses.
    """
    return end_worktree(context, id_, ARCHIVE)


def end_worktree(
    context: OpenWorktree, id_: str, operation: str, *, delete_branch: bool = False, discard_ignored: bool = False
) -> Removal:
    """Save all that is in the managed worktree `id_`, and remove it; see the module's docstring.

    WorktreeError where something speaks against it, IncompleteCaptureError where something cannot be saved: then
    nothing has changed (but for a checkpoint that may have been taken).
    """
    if id_ == timeline.MAIN:
        raise WorktreeError("the main worktree cannot be removed", "it is the repository itself; " + _NOTHING)
    layout.check_id(id_)
    try:
        with worktrees.lock(context.location):
            begun = journal.start(context.location, id_, operation)
        return _End(context, begun, delete_branch=delete_branch, discard_ignored=discard_ignored).run()
    except OSError as error:
        raise storage_error(error) from error


def check(context: OpenWorktree, id_: str, *, delete_branch: bool = False) -> None:
    """WorktreeError or LockedError where something speaks against ending the worktree; nothing is changed."""
    _End(context, WorktreeJournal("", id_, ARCHIVE, {}), delete_branch=delete_branch, discard_ignored=False).check()


class _End:
    """One worktree on its way out."""

    def __init__(
        self, context: OpenWorktree, begun: WorktreeJournal, *, delete_branch: bool, discard_ignored: bool
    ) -> None:
        self.context = context
        self.location = context.location
        self.intent = begun
        self.delete_branch = delete_branch
        self.discard_ignored = discard_ignored
        self.managed: AgentWorktree
        self.inner: OpenWorktree
        self.missing = False  # the folder is not there, or empty
        self.stuck = False  # neither gone nor back: the intent stays
        self.done = False
        self.kept_modules: str | None = None
        self.result: Removal

    @property
    def id(self) -> str:
        return self.intent.id

    @property
    def ref(self) -> str:
        return layout.HEADS + self.managed.record.branch

    def run(self) -> Removal:
        try:
            self.managed = record.find(self.location.common_dir, self.id)
            _wait_for_recorders(self.managed.git_dir)
            self._check()
            self.inner = self.context.in_worktree(self.managed.location)
            with self._alone():
                done = next((done for done in (self._attempt() for _ in range(_ATTEMPTS)) if done), None)
        except BaseException:
            if not self.done:
                if not self.stuck:
                    submodules.drop(self.kept_modules)
                (journal.release if self.stuck else journal.remove)(self.intent)
            raise
        if done is None:
            submodules.drop(self.kept_modules)
            journal.remove(self.intent)
            raise WorktreeError(
                f"files in the worktree '{self.id}' keep changing while it is being saved",
                f"end what writes them, then try again; {_NOTHING}",
            )
        return done

    def check(self) -> None:
        """What speaks against it, as far as that is known before anything is saved."""
        self.managed = record.find(self.location.common_dir, self.id)
        _wait_for_recorders(self.managed.git_dir)
        self._check()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No checkpoint, restore or undo of ours is made in it meanwhile."""
        with state_dir.lock(self.inner.location, "worktree"):
            if not self.missing:  # else there is nothing to recover in: the state before it is the last one
                commands.refuse_interrupted(self.inner.location)
            yield

    # -- what speaks against it ------------------------------------------------------------------------------------

    def _check(self) -> None:
        """WorktreeError, before anything is touched."""
        root, git_dir = self.managed.root, self.managed.git_dir
        if self.location.git_dir == git_dir:
            main = layout.main_folder(self.location)
            raise WorktreeError(
                f"'{self.id}' is the worktree that you are in",
                f"run it from another one: git -C {quote(main)} agentos worktree {self.intent.operation} {self.id}",
            )
        locked = os.path.join(git_dir, "locked")
        if os.path.lexists(locked):
            reason = os.fsdecode(files.read(locked, limit=gitfile.LONGEST, follow=True)).strip()
            raise WorktreeError(
                f"the worktree '{self.id}' is locked" + (f": {reason}" if reason else ""),
                f"if it may go: git worktree unlock {quote(root)}; {_NOTHING}",
            )
        if os.path.islink(root) and worktrees.is_linked(root, git_dir):
            raise WorktreeError(
                f"'{root}' is a symbolic link: the worktree '{self.id}' lies in '{os.path.realpath(root)}'",
                f"git agentos worktree repair {self.id}; {_NOTHING}",
            )
        head, index = os.path.join(git_dir, "HEAD"), os.path.join(git_dir, "index")
        wrong = worktrees.unreadable_file(git_dir) or (None if worktrees.is_head(head) else head)
        if wrong is None and os.path.lexists(index) and index_damage.is_damaged(self.managed.location):
            wrong = index
        if wrong is not None:
            raise WorktreeError(
                f"the worktree '{self.id}' is damaged: '{wrong}'",
                f"git agentos worktree repair {self.id}; {_NOTHING}",
            )
        if self.delete_branch:
            self._check_branch()
        self.missing = is_lost(root)
        if self.missing:
            return
        check_folder(self.managed, self.id)
        self._check_alone(root)

    def _check_branch(self) -> None:
        for user in worktrees.branch_users(self.location, self.ref, except_git_dir=self.managed.git_dir):
            raise WorktreeError(
                f"the branch '{self.managed.record.branch}' is {layout.describe_use(user)}",
                f"leave --delete-branch out; {_NOTHING}",
            )

    def _check_alone(self, root: str) -> None:
        """Nobody works in it, and nothing lies in it that is not its own."""
        common_dir = self.location.common_dir
        others = {each: worktrees.root_or_none(each) for each in worktrees.linked_git_dirs(common_dir)}
        others[common_dir] = layout.main_folder(self.location)
        others.pop(self.managed.git_dir, None)
        inside = next((each for each in others.values() if each is not None and layout.is_inside(each, root)), None)
        if inside is not None:
            raise WorktreeError(
                f"another worktree lies inside of '{self.id}': '{inside}'",
                f"move it away first (git worktree move), or remove it; {_NOTHING}",
            )
        mounted = mounts.mounted_below(root)
        if mounted:
            raise WorktreeError(f"something is mounted inside of '{self.id}': '{mounted[0]}'", f"umount it; {_NOTHING}")
        refuse_processes(root, self.id)
        self._remove_dead_locks(root)

    def _remove_dead_locks(self, root: str) -> None:
        """Remove what killed gits have locked here; LockedError where one is at work on the index."""
        there = Location(root, self.managed.git_dir, self.managed.common_dir)
        candidates = [*stale_locks.of_worktree(there), *stale_locks.of_ref(there, self.ref)]
        found = stale_locks.remove(self.location, candidates, patience=_PATIENCE)
        lock = os.path.join(self.managed.git_dir, "index.lock")
        reason = found.get(lock)
        if reason is not None and os.path.lexists(lock):
            raise LockedError(
                f"a git command is at work in the worktree '{self.id}' (index.lock exists, and {reason})",
                f"try again when it has finished; {_NOTHING}",
            )

    # -- saving ----------------------------------------------------------------------------------------------------

    def _attempt(self) -> Removal | None:
        """Save, and go; None where something has changed meanwhile, and all is as it was."""
        since = time.time_ns() - _TICK_NS
        saved = self._save_remains() if self.missing else self._save()
        submodules.drop(self.kept_modules)
        self.kept_modules = submodules.keep(self.location, self.id, self.managed.git_dir)
        tip = refs.resolve(self.location, self.ref)
        self.result = Removal(
            id=self.id,
            path=self.managed.root,
            branch=self.managed.record.branch,
            branch_sha=tip,
            branch_deleted=self.delete_branch and tip is not None,
            head_sha=saved.head,
            checkpoint=saved.checkpoint,
            losses=saved.losses,
            discarded=saved.discarded,
            not_saved=saved.not_saved,
            get_back=get_back(self.id, saved.checkpoint, self.managed.record.branch, tip, self.delete_branch),
            revives=saved.revives,
        )
        return self._go(since, tip)

    def _save(self) -> _Saved:
        """One checkpoint of everything in the folder."""
        inner = self.inner
        with inner.repository.writer() as writer:
            started = Scan(inner.location)  # git looks while we do
            try:
                stock = losses.take_stock(inner.location.root)
            except BaseException:
                started.discard()
                raise
            state = self._capture(inner, writer, started)
            discarded = self._judge(inner, state, losses.unsaved(state, stock))
            going = self.ref if self.delete_branch else None
            commits, tips = losses.own_commits(inner.repository, without=going)
            state = state._replace(pins=[*dict.fromkeys([*state.pins, *tips])])
            taken = self._record(inner, writer, state, f"worktree {self.id} {self.intent.operation}d")
        not_saved = [Skipped(os.fsdecode(path), "a socket, pipe or device") for path in stock.special]
        gone = losses.of_state(state, commits)
        return _Saved(taken, taken, state.head.commit, gone, discarded, not_saved)

    def _save_remains(self) -> _Saved:
        """What there is of a worktree whose folder is gone: HEAD, index and commits, in a checkpoint that is not its
        last state, unless it has all that the last one has; that one is brought to the end of the timeline."""
        before = last_state.find(self.context, self.id, self.inner.location)
        with state_dir.scratch(self.location) as folder:
            # An empty folder stands in for the missing one, so that HEAD and index can be read.
            inner = self.context.in_worktree(self.managed.location._replace(root=folder))
            with inner.repository.writer() as writer:
                state = self._capture(inner, writer, Scan(inner.location))
                # What is not there says nothing: the files are taken to be as the index has them.
                state = state._replace(tree=state.index_tree, visible_tree=state.index_tree, unstaged=[], untracked=[])
                state = state._replace(skipped=[], empty_directories=[], absent=[], nested={})
                commits, tips = losses.own_commits(inner.repository, without=self.ref if self.delete_branch else None)
                state = state._replace(pins=[*dict.fromkeys([*state.pins, *tips])])
                meta = {last_state.FOLDER: last_state.MISSING}
                gone = losses.of_state(state, commits)
                if before is None or last_state.covers(inner.repository, writer, state, before):
                    words = f"worktree {self.id} {self.intent.operation}d: HEAD and index, its folder was missing"
                    taken = revives = self._record(inner, writer, state, words, meta=meta)
                else:
                    words = f"HEAD and index of the worktree {self.id}, whose folder was missing"
                    self._record(inner, writer, state, words, trigger=_TRIGGERS[REMOVE], meta=meta, last=False)
                    taken, revives = self._repeat(inner, writer, before, meta), before.source
        why = "the folder is missing: nothing in it could be read"
        return _Saved(taken, revives, state.head.commit, gone, [], [Skipped(self.managed.root, why)])

    def _repeat(self, inner: OpenWorktree, writer: Writer, before: last_state.Saved, meta: Mapping[str, str]) -> str:
        """The last state once more, as the newest checkpoint: the one that says how the worktree ended."""
        state = format.read_state(inner.repository, before.state)
        state = format.with_visible_tree(inner.repository, writer, state)
        words = f"worktree {self.id} {self.intent.operation}d, its folder was missing: as in {before.source[:8]}"
        meta = {**meta, last_state.STATE_OF: before.source}
        return self._record(inner, writer, state, words, meta=meta, restores=before.of, restored_part=before.part)

    def _record(
        self, inner: OpenWorktree, writer: Writer, state: State, description: str, *, last: bool = True, **fields: Any
    ) -> str:
        """Write a checkpoint; its id. `last`: it carries what is kept of a worktree that ended."""
        fields = {"trigger": _TRIGGERS[self.intent.operation], **fields}
        metadata = inner.metadata(description=description, task_id=self.managed.record.task, **fields)
        metadata = metadata._replace(worktree_path=self.managed.root)
        attachments = self._attachments(inner, writer) if last else None
        return write_checkpoint(inner, writer, state, metadata, attachments=attachments).checkpoint.id

    def _capture(self, inner: OpenWorktree, writer: Writer, started: Scan) -> State:
        request = CaptureRequest(everything_ignored=True, leaving=True)
        metadata = inner.metadata(trigger=_TRIGGERS[self.intent.operation])
        try:
            state = capture_worktree(inner, writer, metadata, request=request, scan=started)
        except IncompleteCaptureError as error:
            raise IncompleteCaptureError(
                f"not everything in the worktree '{self.id}' can be saved: {error.message}",
                "; ".join(filter(None, [error.hint, _NOTHING])),
            ) from error
        return state

    def _judge(self, inner: OpenWorktree, state: State, unsaved: Sequence[Skipped]) -> list[Skipped]:
        """What will be gone for good; IncompleteCaptureError unless that is what was asked for."""
        if not unsaved:
            return []
        ignored = losses.is_ignored(inner.repository, state, [item.path for item in unsaved])
        stopping = [item for item in unsaved if item.path not in ignored or not self.discard_ignored]
        if not stopping:
            return list(unsaved)
        shown = [f"cannot be saved: '{item.path}' ({item.reason})" for item in stopping[:_MOST]]
        if len(stopping) > _MOST:
            shown.append(f"cannot be saved: {len(stopping) - _MOST} more")
        number = f"{len(stopping)} files" if len(stopping) > 1 else "a file"
        raise IncompleteCaptureError(
            f"{number} in the worktree '{self.id}' cannot be saved, and would be lost: '{stopping[0].path}'"
            + (" and others" if len(stopping) > 1 else ""),
            "\n".join([*shown, self._way_out(stopping, ignored)]),
        )

    def _way_out(self, stopping: Sequence[Skipped], ignored: set[str]) -> str:
        ways = ["move it away"]
        if any(item.kind is SkipReason.TOO_LARGE for item in stopping):
            ways.append("raise the limit (git config agentos.maxFileSize SIZE, 0 for none)")
        if self.intent.operation == REMOVE and all(item.path in ignored for item in stopping):
            ways.append("lose it with --discard-ignored")
        return f"{', or '.join(ways)}; {_NOTHING}"

    def _attachments(self, inner: OpenWorktree, writer: Writer) -> dict[bytes, trees.Entry]:
        """The record, what the workflow database holds, and the evidence of runs."""
        body = json.dumps(asdict(self.managed.record), indent=1, sort_keys=True).encode("ascii") + b"\n"
        files: dict[bytes, trees.Entry] = {record.ATTACHMENT: (trees.REGULAR, writer.write("blob", body))}
        if self.managed.record.run_id is not None:
            files.update(_evidence(writer, layout.main_folder(self.location), self.managed.record.run_id))
        if self.missing:
            if os.path.isdir(os.path.join(self.managed.root, ".agentos")):
                files.update(log.archive_files(self.inner, writer))
            return files
        files.update(log.archive_files(inner, writer))
        files.update(_evidence(writer, inner.location.root))
        return files

    # -- going -----------------------------------------------------------------------------------------------------

    def _go(self, since: int, tip: str | None) -> Removal | None:
        with worktrees.lock(self.location):
            self._check()
            bin_ = trash.choose_entry(self.location, self.managed.root, self.id)
            self.intent = journal.update(
                self.intent,
                path=self.managed.root,
                git_dir=self.managed.git_dir,
                folder=bin_.folder,
                entry=bin_.entry,
                since=since,
                ref=self.ref if self.delete_branch and tip is not None else None,
                tip=tip,
                missing=self.missing,
            )
            try:
                trash.mark(self.managed.git_dir, bin_.folder)
                there = is_folder(self.managed.root)
                if there:
                    trash.move(self.managed.root, bin_.folder)
                if there and stirs(bin_.folder, since) is not None:
                    move_back(self.location, self.intent)
                    return None
                forward(self.location, self.intent)
            except BaseException as error:
                self._take_back(error)
                raise
            self.done = True
            self._forget_branch()
            unguard(self.location)
        journal.finish(self.intent)
        trash.delete([bin_])
        return self.result

    def _take_back(self, cause: BaseException) -> None:
        try:
            move_back(self.location, self.intent)
        except (OSError, AgentosError) as error:
            self.stuck = True
            raise WorktreeError(
                f"the worktree '{self.id}' could not be removed ({cause}), nor brought back ({error})",
                f"nothing is lost: git agentos worktree repair {self.id}",
            ) from cause

    def _forget_branch(self) -> None:
        if self.result.branch_deleted:
            forget_branch(self.context.repository, self.managed.record.branch)


# -- steps that `repair` takes as well -----------------------------------------------------------------------------


def stirs(folder: str, since: int) -> str | None:
    """Why a folder in the trash is not dead: a process in it, or a change since then; None where it is."""
    alive = occupants.find(folder)
    if alive:
        return f"process {alive[0].pid} ({alive[0].name})"
    return losses.changed_since(folder, since)


def forward(location: Location, begun: WorktreeJournal) -> None:
    """The folder is in the trash: git's entry follows, then the branch goes."""
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
                f"the branch '{name}' has just moved", f"leave --delete-branch out, or try again; {_NOTHING}"
            ) from error


def move_back(location: Location, begun: WorktreeJournal) -> None:
    """Everything is where it was; done as far as it is needed."""
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
    trash.tidy(TrashEntry(fields["folder"], fields["entry"]))


def _evidence(writer: Writer, root: str, run_id: str = "") -> Iterator[tuple[bytes, trees.Entry]]:
    """The evidence of runs (of one, where it is named) that lies in a folder, as entries of a checkpoint."""
    runs = os.path.join(os.fsencode(root), b".agentos", b"runs")
    for folder, _, names in os.walk(os.path.join(runs, os.fsencode(run_id))):
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as file:
                    oid = writer.write_stream(file.fileno(), os.fstat(file.fileno()).st_size)
                yield b"runs/" + os.path.relpath(full, runs), (trees.REGULAR, oid)


def unguard(location: Location) -> None:
    """Take away what all guarded worktrees share if this was the last one; nothing depends on it."""
    with contextlib.suppress(AgentosError, OSError):
        activation.remove_if_unused(location)


def forget_branch(repository: Repository, branch: str) -> None:
    """Remove the configuration of a branch that has gone, as `git branch -d` does; nothing depends on it."""
    with contextlib.suppress(AgentosError, OSError):
        repository.git("config", "--local", "--remove-section", f"branch.{branch}", ok=(0, 1, 5, 128))


def get_back(id_: str, checkpoint: str, branch: str, tip: str | None, deleted: bool) -> list[str]:
    """The commands that bring back what a worktree had."""
    commands = [f"git agentos worktree create {id_} --revive"]
    beside = f"{id_[: config.LONGEST_ID - len(_BESIDE)].rstrip('.')}{_BESIDE}"
    commands.append(f"git agentos restore {checkpoint[:12]} --agent {id_} --worktree {beside}")
    commands.append(f"git agentos restore {checkpoint[:12]} --agent {id_} -- PATH")
    if deleted and tip is not None:
        commands.append(f"git branch {quote(branch)} {tip}")
    return commands


def check_folder(managed: AgentWorktree, id_: str) -> None:
    """WorktreeError where the folder belongs to something else by now."""
    what = taken_by(managed.root, managed.git_dir, managed.common_dir)
    if what is not None:
        raise WorktreeError(
            f"'{managed.root}' is no longer the worktree '{id_}': {what}",
            f"git agentos worktree repair {id_}; {_NOTHING}",
        )


def is_lost(root: str) -> bool:
    """Whether the folder of a worktree is not there: nothing, something else, or (a disk that is not mounted) a folder
    with nothing in it but what this tool puts there."""
    if not is_folder(root):
        return True
    try:
        return set(os.listdir(root)) <= {".agentos"}
    except OSError:
        return False


def is_folder(path: str) -> bool:
    """Whether a folder is there, and not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def _wait_for_recorders(git_dir: str) -> None:
    """Let what records the last command in a worktree (`hooks.pending`) end: it is ours, and nobody is to end it.

    No lock may be held, since a recorder takes some. One that was killed leaves its note; it is not waited for long.
    """
    notes, turn = (os.path.join(git_dir, "agentos", name) for name in ("recording", "recording.turn"))
    deadline = time.monotonic() + _RECORDERS_PATIENCE
    while os.path.isdir(notes) and os.listdir(notes) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    if os.path.isfile(turn):
        with locks.hold(turn):
            pass


def refuse_processes(root: str, id_: str) -> None:
    """WorktreeError where a live process works in the folder."""
    found = occupants.find(root)
    if not found:
        return
    first = found[0]
    mine = next((each for each in found if each.ancestor and each.how == "cwd"), None)
    if mine is not None:
        raise WorktreeError(
            f"you are in the worktree '{id_}': what started this command ({mine.name}) stands in '{mine.path}'",
            f"cd elsewhere, then try again; {_NOTHING}",
        )
    listed = "\n".join(f"process {each.pid}: {each.name} ({_does(each)})" for each in found[:_MOST])
    raise WorktreeError(
        f"a process works in the worktree '{id_}': {first.pid} ({first.name})"
        + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
        f"{listed}\nend it, then try again; {_NOTHING}",
    )


def _does(process: occupants.Occupant) -> str:
    words = {"cwd": "stands in", "root": "has as its root", "exe": "runs from", "mapped": "has mapped files of"}
    return f"{words.get(process.how, 'has open')} {process.path}"
