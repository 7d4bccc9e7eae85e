"""`worktree repair`: back to a sound state after a kill, a move or a power cut. Nothing is lost.

    journals       what wrote the journal of an interrupted command recovers it: it is finished or aborted
    locks          a stale lock of git-agentos is proven by its flock; one of git's by no process that could hold it
    guard          is placed again, in every guarded worktree, where it leads to where the repository was before, or
                   where what git starts was edited, removed or cannot be started
    checkpoints    what git hooks could not append to a timeline is appended (`checkpoint.deferred`)
    entries        folder and entry are linked again where one of them was moved; the record is rebuilt where it is
                   damaged (`entry_checks`)
    trash          what a killed deletion left is deleted

A missing folder is reported, and nothing of its worktree is dropped: it may be on a disk that is not mounted. Worktrees
of others are left alone, but for the lock that a killed `git worktree add` leaves.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from git_agentos.checkpoint import deferred, doctor, format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, WorktreeError, converted_storage_errors
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable, reason_of, repairable, resolve
from git_agentos.git import lockfile, stale_locks, state_dir, worktrees
from git_agentos.guard import authorize
from git_agentos.guard.diagnosis import checks as guard
from git_agentos.guard.setup import activation
from git_agentos.util import files
from git_agentos.util.progress import phase
from git_agentos.worktree import (
    creation_recovery,
    entry_checks,
    index_repair,
    journal,
    layout,
    pruned,
    record,
    removal,
    trash,
)
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.trash import TrashEntry

_PREFIX = "worktree-"
_MOVES = ("worktree-moved", "worktree-disconnected")
_LOCK_TIMEOUT = 2.0  # seconds that another git has to release a lock
_ALL_REFS = os.path.join(stale_locks.TABLES, "tables.list")  # where refs are in reftables

_Located = tuple[str | None, Finding | Fixable]  # with the id of its worktree; None: of the whole repository


@dataclass(frozen=True)
class RepairFinding:
    """One finding of the JSON kind `worktree-repair`: `id` is the worktree's (None: of the whole repository).

    `fixed` tells that it has been corrected; else `hint` is what to do.
    """

    id: str | None
    code: str
    message: str
    fixed: bool
    hint: str | None = None


@dataclass(frozen=True)
class Repair:
    """Everything that `repair` found: the JSON kind `worktree-repair`."""

    findings: list[RepairFinding]


@authorize.entry("worktree", "repair")
def repair(context: OpenWorktree, id_: str | None = None) -> Repair:
    """Bring the agents' worktrees (or the one with this id) back to a sound state; what was found, and what was fixed.

    WorktreeError where nothing is known of the id.
    """
    if id_ is not None and id_ != timeline.MAIN:
        layout.check_id(id_)
    checking = phase(context.progress, "Checking worktrees")
    with checking, converted_storage_errors(), worktrees.lock(context.location):
        return Repair([_reported(*each) for each in _Repair(context, id_, fix=True).run()])


def examine(context: OpenWorktree) -> list[RepairFinding]:
    """What `repair` would find; nothing is changed."""
    return [_reported(*each) for each in _Repair(context, None, fix=False).run()]


def report(context: OpenWorktree, *, fix: bool) -> list[Finding]:
    """The findings of all worktrees for `doctor`; with `fix`, corrected where that is possible.

    What is wrong with the guard, and was not corrected here, the checks of the guard report.
    """
    found = _fix_all(context) if fix else [finding for _, finding in _Repair(context, None, fix=False).run()]
    return [each for each in found if each.fixed or not each.code.startswith("guard-")]


@authorize.entry("worktree", "repair")
def _fix_all(context: OpenWorktree) -> list[Finding]:
    with converted_storage_errors(), worktrees.lock(context.location):
        return [finding for _, finding in _Repair(context, None, fix=True).run()]


def _reported(id_: str | None, finding: Finding) -> RepairFinding:
    return RepairFinding(id_, finding.code.removeprefix(_PREFIX), finding.message, finding.fixed, finding.hint)


class _Repair:
    """One run of all checks. With `fix` each finding is corrected before the next check runs."""

    def __init__(self, context: OpenWorktree, id_: str | None, *, fix: bool) -> None:
        self.context = context
        self.location = context.location
        self.only = id_
        self.fix = fix
        self.seen = id_ is None or id_ == timeline.MAIN
        self.busy: set[str] = set()  # ids of worktrees that a live command works on
        self.guard_placed: dict[str, None] = {}  # ids of worktrees whose guard led elsewhere, and was placed again
        self.guard_error: AgentosError | OSError | None = None
        self.guard_tried = False
        self.guard_problems: list[Finding] = []
        self.trashed: list[TrashEntry] = []  # what this run has put into the trash

    def run(self) -> Iterator[tuple[str | None, Finding]]:
        for id_, found in self._checks():
            yield id_, self._with_guard(id_, resolve(found, fix=self.fix))
        for id_ in self.guard_placed:
            message = f"the guard of the worktree '{id_}' led to where the repository was before: it was placed again"
            yield id_, Finding(guard.MOVED, "error", message, fixed=True)
        yield from ((id_, resolve(found, fix=self.fix)) for id_, found in self._trash())
        if not self.seen and timeline.tip(self.location, str(self.only)) is None:
            raise WorktreeError(f"there is no agent's worktree '{self.only}'", "git agentos worktree list shows them")

    def _checks(self) -> Iterator[_Located]:
        yield from self._journals()
        yield from self._our_locks()
        yield from self._git_locks()
        yield from self._deferred_checkpoints()
        yield from self._guard()
        for one in list(pruned.find(self.context)):
            if one.id not in self.busy and self._selected(one.id):
                yield one.id, pruned.check(self.context, one)
        for git_dir in worktrees.linked_git_dirs(self.location.common_dir):
            yield from self._entry(git_dir)
        yield from self._other_indexes()

    def _selected(self, id_: str | None) -> bool:
        if self.only is not None and id_ != self.only:
            return False
        self.seen = True
        return True

    # -- interrupted commands --------------------------------------------------------------------------------------

    def _journals(self) -> Iterator[_Located]:
        for each in journal.find_all(self.location):
            if journal.owner_is_alive(each):
                self.busy.add(each.id)
                if self.only == each.id:
                    self.seen = True
                    message = f"another command ({each.operation}) is at work on '{each.id}'"
                    yield each.id, Finding("worktree-at-work", "info", message, "try again when it has finished")
            elif self._selected(each.id):
                message = f"a {each.operation} of the worktree '{each.id}' was interrupted"
                if each.operation == journal.DAMAGED:
                    message = f"the record of an interrupted command on '{each.id}' is damaged"
                yield each.id, repairable(each.id, "worktree-interrupted", "error", message, self._recovery(each))
        if self.fix:
            self._remove_dead_owners()

    def _recovery(self, interrupted: WorktreeJournal) -> Callable[[], str]:
        def recover() -> str:
            taken = journal.take_over(interrupted)
            if taken is None:
                return "it has ended meanwhile"
            try:
                return self._recover(taken)
            except (KeyError, TypeError, ValueError) as error:
                journal.release(taken)
                raise WorktreeError(
                    f"its record is damaged ({type(error).__name__}: {error})",
                    "remove it once you have looked at the worktree",
                ) from error
            except BaseException:
                journal.release(taken)
                raise

        return recover

    def _recover(self, taken: WorktreeJournal) -> str:
        """Have an interrupted command finished or aborted by what wrote its journal; what was done, in words."""
        if taken.operation == journal.DAMAGED:
            return self._set_journal_aside(taken)
        if taken.operation == journal.CREATE:
            return creation_recovery.recover(self.location, taken)
        if taken.operation in (journal.REMOVE, journal.ARCHIVE):
            recovered = removal.recover(self.context, taken)
            if recovered.trash is not None:
                self.trashed.append(recovered.trash)
            return recovered.message
        if taken.operation == journal.COMPLETE:
            journal.remove(taken)
            return "run it again"
        if taken.operation == journal.MERGE:
            from git_agentos.worktree import fast_forward_recovery  # it takes long to load

            return fast_forward_recovery.recover(self.context, taken)
        raise WorktreeError(
            f"'{taken.operation}' is not an operation that this version knows", "use the version that was interrupted"
        )

    def _set_journal_aside(self, taken: WorktreeJournal) -> str:
        """What was done is unknown: the worktree is checked like any other."""
        kept = journal.set_damaged_aside(self.location, taken)
        words = f"it is kept in '{kept}'" if kept is not None else "it is removed"
        with contextlib.suppress(AgentosError):
            link = timeline.newest(self.context.repository, taken.id)
            if link is not None and format.read(self.context.repository, link.checkpoint).trigger == "before_merge":
                words += f"; if it was a merge, the state before it is checkpoint {link.checkpoint[:8]}"
        return words

    def _remove_dead_owners(self) -> None:
        """Remove the owner files of commands that were killed while writing their journal, or after its end."""
        folder = os.path.join(self.location.shared_state_dir, "worktrees")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(folder)):
                id_ = name.removesuffix(".owner")
                path = os.path.join(folder, f"{id_}.json")
                if id_ == name or os.path.lexists(path) or self.only not in (None, id_):
                    continue
                if not journal.owner_is_alive(WorktreeJournal(path, id_, "", {})):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(folder, name))
        files.remove_unfinished(folder)

    # -- locks -----------------------------------------------------------------------------------------------------

    def _our_locks(self) -> Iterator[_Located]:
        if not self.fix:
            return  # the checks of `doctor` on checkpoints find these
        for path in lockfile.remove_stale(self.location):
            message = f"'{path}' was left by a killed git-agentos command"
            yield None, Finding("stale-lock", "warning", message, fixed=True)
        for git_dir in [self.location.common_dir, *worktrees.linked_git_dirs(self.location.common_dir)]:
            if record.identify(git_dir) not in self.busy:
                files.remove_unfinished(git_dir)
                files.remove_unfinished(os.path.join(git_dir, "agentos"))
                files.remove_unfinished(os.path.join(git_dir, "agentos", deferred.FOLDER))
                with contextlib.suppress(OSError):
                    state_dir.remove_abandoned(self.location.worktree("", git_dir))

    def _deferred_checkpoints(self) -> Iterator[_Located]:
        if self.fix:  # else the checks of `doctor` on checkpoints find these
            found = doctor.deferred_checkpoints(self.context.repository, self.context.settings)
            yield from ((None, each) for each in found)

    def _git_locks(self) -> Iterator[_Located]:
        places = stale_locks.everywhere(self.location)
        ids = {path: id_ for id_, path in self._lock_files()}
        candidates = [stale_locks.Candidate(path, places) for path in ids]
        with stale_locks.examined(candidates, patience=_LOCK_TIMEOUT if self.fix else 0.0) as found:
            for lock in found:
                id_ = ids[lock.path]
                if lock.reason is None:
                    message = f"'{lock.path}' was left by a git command that was killed"

                    def remove(lock: stale_locks.Lock = lock) -> str:
                        if not lock.remove(self.location):
                            raise LockedError("a git command uses it by now", "try again when it has finished")
                        return ""

                    yield id_, repairable(id_, "stale-git-lock", "warning", message, remove)
                elif os.path.lexists(lock.path):
                    message = f"'{lock.path}' exists: {lock.reason}"
                    yield id_, Finding("locked", "warning", message, "if no git runs here any more, remove the file")

    def _lock_files(self) -> Iterator[tuple[str | None, str]]:
        """git's lock files, with the id of the worktree that they block."""
        common = self.location.common_dir
        ours = set(lockfile.find_stale(self.location))
        for git_dir in [common, *worktrees.linked_git_dirs(common)]:
            id_ = None if git_dir == common else self._id(git_dir)
            if id_ in self.busy:
                continue
            for path in sorted(stale_locks.in_git_dir(git_dir)):
                if path not in ours and self._concerns(id_, path):
                    yield id_, path

    def _concerns(self, id_: str | None, path: str) -> bool:
        if self.only is None or id_ == self.only:
            return True
        common = self.location.common_dir
        names = (*self._branches(self.only), timeline.PREFIX + self.only, "packed-refs", "config", _ALL_REFS)
        if self.only == timeline.MAIN:
            return id_ is None
        return path in [os.path.join(common, name) + ".lock" for name in names]

    def _branches(self, id_: str) -> set[str]:
        """The full names of the branches that a worktree may have been given: its record may be damaged or missing."""
        found = {prefix + id_ for prefix in (record.BRANCHES, record.RUN_BRANCHES)}
        for git_dir in worktrees.linked_git_dirs(self.location.common_dir):
            with contextlib.suppress(WorktreeError):
                known = record.read(git_dir)
                if known is not None and known.id == id_:
                    found.add(known.branch)
        with contextlib.suppress(AgentosError):
            known = record.record_from_timeline(self.context.repository, id_)
            if known is not None:
                found.add(known.branch)
        return {layout.HEADS + each for each in found}

    # -- entries ---------------------------------------------------------------------------------------------------

    def _id(self, git_dir: str) -> str:
        """The id of an agent's worktree; of another one, the name of its timeline."""
        return record.identify(git_dir) or record.id_in_timelines(git_dir, self.location.common_dir)

    def _entry(self, git_dir: str) -> Iterator[_Located]:
        id_ = self._id(git_dir)
        if id_ in self.busy or not self._selected(id_):
            return
        try:
            for found in entry_checks.check_initializing(git_dir, id_, self._places()):
                yield id_, found
            if record.identify(git_dir) is not None:
                for found in entry_checks.check_entry(self.context, git_dir, id_):
                    yield id_, found
        except (AgentosError, OSError) as error:
            reason, hint = reason_of(error)
            message = f"the worktree '{id_}' cannot be checked: {reason}"
            yield id_, Finding("worktree-damaged-entry", "error", message, hint)

    def _places(self) -> list[str]:
        """The folders that a git works in which runs in this repository: its git directories and its worktrees."""
        found = [self.location.common_dir, layout.main_folder(self.location)]
        for git_dir in worktrees.linked_git_dirs(self.location.common_dir):
            with contextlib.suppress(OSError):
                found.append(worktrees.root_of(git_dir))
        return found

    def _other_indexes(self) -> Iterator[_Located]:
        """The index of the main worktree, and of the one that the command was given in, where that is no agent's."""
        for location in self.context.all_worktrees():
            is_concerned = location.is_main or location.git_dir == self.location.git_dir
            if not is_concerned or (not location.is_main and record.identify(location.git_dir) is not None):
                continue
            id_ = timeline.worktree_id(location)
            if id_ not in self.busy and self._selected(id_):
                for found in index_repair.check(self.context, location, id_, required=False):
                    yield id_, found

    # -- the guard -------------------------------------------------------------------------------------------------

    def _guard(self) -> Iterator[_Located]:
        """Place the guard again. For worktrees that moved, the finding of the move says so (`_with_guard`)."""
        moved = [activation.worktree_id_of(path) for path in activation.misdirected_files(self.location)]
        for each in guard.problems(self.location, os.environ):
            found = repairable(None, each.code, each.severity, each.message, functools.partial(self._place_guard, each))
            if self.fix and each.code == guard.MOVED and resolve(found, fix=True).fixed:
                self.guard_placed = dict.fromkeys(moved)
            else:
                yield None, found

    def _place_guard(self, problem: Finding) -> str:
        """Place the guard again, once: that corrects everything that can be corrected."""
        if not self.guard_tried:
            self.guard_tried = True
            try:
                activation.reinstall_locked(self.location)
                self.guard_problems = guard.problems(self.location, os.environ)
            except (AgentosError, OSError) as error:
                self.guard_error = error
        if self.guard_error is not None:
            raise self.guard_error
        if problem in self.guard_problems:
            raise WorktreeError("it is the same after the guard was set again")
        return "it was set again"

    def _with_guard(self, id_: str | None, finding: Finding) -> Finding:
        if id_ not in self.guard_placed or not finding.fixed or finding.code not in _MOVES:
            return finding
        del self.guard_placed[id_]
        return replace(finding, message=f"{finding.message}; its guard was placed again")

    # -- the trash -------------------------------------------------------------------------------------------------

    def _trash(self) -> Iterator[_Located]:
        found = list(trash.leftovers(self.location)) if self.only is None else []
        for entry in found:
            if entry not in self.trashed:
                message = f"{trash.size(entry)} bytes of a removed worktree are still in '{entry.folder}'"
                yield None, fixable("worktree-trash", "info", message, lambda: "", DOCTOR_FIX)
        if self.fix:
            trash.delete([*dict.fromkeys([*self.trashed, *found])])
