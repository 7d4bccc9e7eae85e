"""`worktree repair`: from whatever a kill, a moved folder or a power cut left, back to a sound state; nothing is lost.

    interrupted commands   by their intents: a creation that was not recorded is taken back, a removal goes on where the
                           folder is in the trash already, else it is taken back, a merge leads to before or after
    locks                  ours are proven stale by their flock; git's by there being nobody who could have made them
    entries                the folder and git's entry of it find each other again where one of them was moved; the
                           record is made anew where it is damaged
    the guard              it is placed again, in every guarded worktree, where it leads to where the repository was
                           before, or where what git starts was edited, removed or cannot be started
    the trash              what a deletion that was killed left is deleted

A folder that is not there is told, and nothing of it is dropped: it may be on a disk that is not mounted. Worktrees
that are not ours are left alone, but for the lock that a killed `git worktree add` leaves.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from git_agentos import processes
from git_agentos.checkpoint import format, take, timeline
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.git import dead_locks, locks, worktrees
from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.guard.setup import doctor as guard
from git_agentos.guard.setup import enable
from git_agentos.util import files
from git_agentos.worktree import abort, complete, end, entries, intent, place, pruned, record, trash
from git_agentos.worktree.entries import Fault
from git_agentos.worktree.intent import Intent
from git_agentos.worktree.trash import Bin

_MOVES = ("moved", "disconnected")
_PATIENCE = 2.0  # seconds that another git has to let go of a lock


@dataclass(frozen=True)
class Mended:
    """One thing that was found: `code` says what, `id` of which worktree (None: of the whole repository).

    `fixed` tells that it is mended; else `hint` is what to do.
    """

    id: str | None
    code: str
    message: str
    fixed: bool
    hint: str | None = None


@dataclass(frozen=True)
class Repair:
    """Everything that `repair` found: the JSON kind `worktree-repair`."""

    findings: list[Mended]


@authorize.entry("worktree", "repair")
def repair(context: Context, id_: str | None = None) -> Repair:
    """Bring the managed worktrees (or the one with this id) back to a sound state; what was found, and what was done.

    WorktreeError where nothing is known of the id.
    """
    if id_ is not None and id_ != timeline.MAIN:
        place.check_id(id_)
    try:
        with intent.turn(context.location):
            return Repair(list(_Work(context, id_, mend=True).run()))
    except OSError as error:
        raise take.storage_error(error) from error


def examine(context: Context) -> list[Mended]:
    """What `repair` would find; nothing is changed."""
    return list(_Work(context, None, mend=False).run())


class _Work:
    """One look at all that can be wrong."""

    def __init__(self, context: Context, id_: str | None, *, mend: bool) -> None:
        self.context = context
        self.location = context.location
        self.only = id_
        self.mend = mend
        self.seen = id_ is None or id_ == timeline.MAIN
        self.busy: set[str] = set()  # ids that a living command is at work on
        self.unguarded: dict[str, None] = {}  # ids of worktrees whose guard led elsewhere, and does not any more
        self.thrown: list[Bin] = []  # what has just gone into the trash

    def run(self) -> Iterator[Mended]:
        yield from self._intents()
        yield from self._our_locks()
        yield from self._git_locks()
        yield from self._guard()
        for one in list(pruned.find(self.context)):
            if one.id not in self.busy and self._wanted(one.id):
                yield self._mended(entries.pruned_fault(self.context, one))
        for git_dir in record.entries(self.location.common_dir):
            yield from map(self._with_guard, self._entry(git_dir))
        yield from self._other_indexes()
        yield from self._guarded_again()
        yield from self._trash()
        if not self.seen and timeline.tip(self.location, str(self.only)) is None:
            raise WorktreeError(f"there is no managed worktree '{self.only}'", "git agentos worktree list shows them")

    def _wanted(self, id_: str | None) -> bool:
        if self.only is not None and id_ != self.only:
            return False
        self.seen = True
        return True

    def _waits(self, id_: str | None, code: str, message: str) -> Mended:
        """A finding that repair mends, and that was only looked at."""
        return Mended(id_, code, message, False, f"git agentos worktree repair{f' {id_}' if id_ else ''}")

    def _mended(self, fault: Fault) -> Mended:
        """What became of a fault: one that cannot be mended does not keep the others waiting."""
        if fault.fix is None:
            return Mended(fault.id, fault.code, fault.message, False, fault.hint)
        if not self.mend:
            return self._waits(fault.id, fault.code, fault.message)
        try:
            words = fault.fix()
        except (AgentosError, OSError) as error:
            why, hint = _told(error)
            return Mended(fault.id, fault.code, f"{fault.message}, and cannot be repaired: {why}", False, hint)
        return Mended(fault.id, fault.code, f"{fault.message}: {words}" if words else fault.message, True)

    # -- interrupted commands --------------------------------------------------------------------------------------

    def _intents(self) -> Iterator[Mended]:
        for found in intent.everything(self.location):
            if intent.alive(found):
                self.busy.add(found.id)
                if self.only == found.id:
                    self.seen = True
                    message = f"another command ({found.operation}) is at work on '{found.id}'"
                    yield Mended(found.id, "at-work", message, False, "try again when it has finished")
                continue
            if not self._wanted(found.id):
                continue
            if not self.mend:
                message = f"a worktree {found.operation} of '{found.id}' was interrupted"
                yield self._waits(found.id, "interrupted", message)
                continue
            adopted = intent.adopt(found)
            if adopted is None:
                continue
            try:
                message = self._settle(adopted)
            except (AgentosError, OSError, KeyError, TypeError, ValueError) as error:
                intent.leave(adopted)
                why, hint = _told(error)
                message = f"an interrupted {found.operation} of '{found.id}' could not be settled: {why}"
                yield Mended(found.id, "interrupted", message, False, hint)
                continue
            except BaseException:
                intent.leave(adopted)
                raise
            yield Mended(found.id, "interrupted", message, True)
        if self.mend:
            self._clean_intents()

    def _settle(self, found: Intent) -> str:
        """Lead from an interrupted command to before or after, and end its intent; what was done, in words."""
        if found.operation == intent.DAMAGED:
            return self._settle_damaged(found)
        what = f"a {found.operation} of the worktree '{found.id}' was interrupted: "
        if found.operation == abort.OPERATION:
            return what + _settle_creation(self.location, found)
        if found.operation in (end.REMOVE, end.ARCHIVE):
            return what + self._settle_removal(found)
        if found.operation == complete.OPERATION:
            intent.end(found)
            return what + "run it again"
        if found.operation == "merge":
            from git_agentos.worktree import advance

            done = advance.recover(self.context, found)
            words = {"finished": "it is complete now", "went-back": "everything is as it was before it"}
            return (
                f"a merge into '{done.target}' was interrupted: {words.get(done.outcome, 'nothing had to be changed')}"
            )
        raise WorktreeError(
            f"'{found.operation}' is not an operation that this version knows", "use the version that was interrupted"
        )

    def _settle_damaged(self, found: Intent) -> str:
        """Nobody knows what was done: what there is of the worktree is looked over like any other."""
        kept = intent.drop_damaged(self.location, found)
        words = f"the record of an interrupted command on '{found.id}' was damaged"
        words += f": it is kept in '{kept}'" if kept is not None else ": it is gone"
        with contextlib.suppress(AgentosError):
            link = timeline.newest(self.context.repository, found.id)
            if link is not None and format.read(self.context.repository, link.checkpoint).trigger == "before_merge":
                words += f"; if it was a merge, the state before it is checkpoint {link.checkpoint[:8]}"
        return words

    def _settle_removal(self, found: Intent) -> str:
        """Forward where the folder is in the trash, and nobody has touched it since it was saved; else back."""
        fields = found.fields
        if "git_dir" not in fields:
            intent.end(found)
            return "nothing had been touched"
        folder, git_dir = fields["folder"], fields["git_dir"]
        thrown = os.path.lexists(folder) and not os.path.lexists(fields["path"])
        if os.path.lexists(git_dir) and (not thrown or end.stirs(folder, fields["since"]) is not None):
            end.move_back(self.location, found)
            intent.end(found)
            return "it is as it was"
        words = "it is removed"
        try:
            end.forward(self.location, found)
        except WorktreeError as error:
            words += f", but {error.message}: it stays"
        else:
            if fields["ref"] is not None:
                end.forget_branch(self.context.repository, fields["ref"].removeprefix(place.HEADS))
            end.unguard(self.location)
        intent.end(found)
        self.thrown.append(Bin(folder, fields["entry"]))
        return words

    def _clean_intents(self) -> None:
        """Remove what is no more than the sign of somebody who was killed while writing an intent, or after its end."""
        folder = os.path.join(self.location.shared_state_dir, "worktrees")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(folder)):
                id_ = name.removesuffix(".owner")
                path = os.path.join(folder, f"{id_}.json")
                if id_ == name or os.path.lexists(path) or self.only not in (None, id_):
                    continue
                if not intent.alive(Intent(path, id_, "", {})):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(folder, name))
        files.remove_unfinished(folder)

    # -- locks -----------------------------------------------------------------------------------------------------

    def _our_locks(self) -> Iterator[Mended]:
        if not self.mend:
            return  # `doctor` tells of these already
        for path in locks.remove_stale(self.location):
            yield Mended(None, "stale-lock", f"'{path}' was left by a killed command of ours", True)
        for git_dir in [self.location.common_dir, *record.entries(self.location.common_dir)]:
            if record.identify(git_dir) not in self.busy:
                files.remove_unfinished(git_dir)
                files.remove_unfinished(os.path.join(git_dir, "agentos"))
                with contextlib.suppress(OSError):
                    locks.remove_scratch(Location("", git_dir, self.location.common_dir))

    def _git_locks(self) -> Iterator[Mended]:
        places = dead_locks.everywhere(self.location)
        ids = {path: id_ for id_, path in self._lock_files()}
        candidates = [dead_locks.Candidate(path, places) for path in ids]
        with dead_locks.looked_at(candidates, patience=_PATIENCE if self.mend else 0.0) as found:
            for lock in found:
                id_ = ids[lock.path]
                if lock.reason is not None:
                    if os.path.lexists(lock.path):
                        message = f"'{lock.path}' exists: {lock.reason}"
                        yield Mended(id_, "locked", message, False, "if no git runs here any more, remove the file")
                    continue
                message = f"'{lock.path}' was left by a git command that was killed"
                if not self.mend:
                    yield self._waits(id_, "stale-git-lock", message)
                elif lock.remove(self.location):
                    yield Mended(id_, "stale-git-lock", message, True)

    def _places(self) -> list[str]:
        """Where a git that works in this repository stands: its git directories and its worktrees."""
        found = [self.location.common_dir, place.top_of(self.location)]
        for git_dir in record.entries(self.location.common_dir):
            with contextlib.suppress(OSError):
                found.append(record.root_of(git_dir))
        return found

    def _lock_files(self) -> Iterator[tuple[str | None, str]]:
        """git's lock files, with the id of the worktree that they are in the way of."""
        common = self.location.common_dir
        ours = set(locks.stale(self.location))
        for git_dir in [common, *record.entries(common)]:
            id_ = None if git_dir == common else self._id(git_dir)
            if id_ in self.busy:
                continue
            for path in sorted(dead_locks.in_git_dir(git_dir)):
                if path not in ours and self._concerns(id_, path):
                    yield id_, path

    def _concerns(self, id_: str | None, path: str) -> bool:
        if self.only is None or id_ == self.only:
            return True
        common = self.location.common_dir
        names = (*self._branches(self.only), timeline.PREFIX + self.only, "packed-refs", "config")
        if self.only == timeline.MAIN:
            return id_ is None
        return path in [os.path.join(common, name) + ".lock" for name in names]

    def _branches(self, id_: str) -> set[str]:
        """The full names of the branches that a worktree may have been given: what is on record of it may be damaged,
        or not be there yet."""
        found = {prefix + id_ for prefix in (record.BRANCHES, record.RUN_BRANCHES)}
        for git_dir in record.entries(self.location.common_dir):
            with contextlib.suppress(WorktreeError):
                known = record.read(git_dir)
                if known is not None and known.id == id_:
                    found.add(known.branch)
        with contextlib.suppress(AgentosError):
            known = record.remembered(self.context.repository, id_)
            if known is not None:
                found.add(known.branch)
        return {place.HEADS + each for each in found}

    # -- entries ---------------------------------------------------------------------------------------------------

    def _id(self, git_dir: str) -> str:
        """The id of a worktree; of one that is not managed, what its timeline is called."""
        return record.identify(git_dir) or timeline.name_of(Location("", git_dir, self.location.common_dir))

    def _entry(self, git_dir: str) -> Iterator[Mended]:
        id_ = self._id(git_dir)
        if id_ in self.busy or not self._wanted(id_):
            return
        try:
            for fault in entries.initializing(git_dir, id_, self._places()):
                yield self._mended(fault)
            if record.identify(git_dir) is not None:
                yield from map(self._mended, entries.faults(self.context, git_dir, id_))
        except (AgentosError, OSError) as error:
            why, hint = _told(error)
            yield Mended(id_, "damaged-entry", f"the worktree '{id_}' cannot be looked over: {why}", False, hint)

    def _other_indexes(self) -> Iterator[Mended]:
        """The index of the main worktree, and of the one that the command was given in, where that is not managed."""
        values = self.context.settings.values.get("core.worktree", [])
        for location in worktrees.living(self.location, values[-1] if values else None):
            is_meant = location.is_main or location.git_dir == self.location.git_dir
            if not is_meant or (not location.is_main and record.identify(location.git_dir) is not None):
                continue
            id_ = timeline.name_of(location)
            if id_ not in self.busy and self._wanted(id_):
                yield from map(self._mended, entries.index_faults(self.context, location, id_, wanted=False))

    # -- the guard -------------------------------------------------------------------------------------------------

    def _guard(self) -> Iterator[Mended]:
        """Place the guard again. What has to be said of worktrees that moved is left in `self.unguarded`: it belongs to
        what is said of the move."""
        moved = [enable.whose(path) for path in enable.misplaced(self.location)]
        found = guard.problems(self.location, os.environ)
        why, hint = None, None
        left = []
        if found and self.mend:
            try:
                enable.place_again_in_turn(self.location)
                left = guard.problems(self.location, os.environ)
            except (AgentosError, OSError) as error:
                why, hint = _told(error)
        for each in found:
            if not self.mend:
                yield self._waits(None, each.code, each.message)
            elif why is not None:
                yield Mended(None, each.code, f"{each.message}, and cannot be repaired: {why}", False, hint)
            elif each in left:
                yield Mended(None, each.code, each.message, False)
            elif each.code == guard.MOVED:
                self.unguarded = dict.fromkeys(moved)
            else:
                yield Mended(None, each.code, f"{each.message}: it was set again", True)

    def _with_guard(self, found: Mended) -> Mended:
        if found.id not in self.unguarded or not found.fixed or found.code not in _MOVES:
            return found
        del self.unguarded[found.id]
        return replace(found, message=f"{found.message}; its guard was placed again")

    def _guarded_again(self) -> Iterator[Mended]:
        for id_ in self.unguarded:
            message = f"the guard of the worktree '{id_}' led to where the repository was before: it was placed again"
            yield Mended(id_, guard.MOVED, message, True)

    # -- the trash -------------------------------------------------------------------------------------------------

    def _trash(self) -> Iterator[Mended]:
        found = list(trash.leftovers(self.location)) if self.only is None else []
        for bin_ in found:
            if bin_ in self.thrown:
                continue
            size = trash.size(bin_)
            message = f"{size} bytes of a removed worktree are still in '{bin_.folder}'"
            yield Mended(None, "trash", message, True) if self.mend else self._waits(None, "trash", message)
        if self.mend:
            trash.delete([*dict.fromkeys([*self.thrown, *found])])


def _settle_creation(location: Location, found: Intent) -> str:
    """Before, unless all was done but for the end."""
    for git_dir in record.entries(location.common_dir):
        # The record is written last: where there is one, damaged or not, somebody may have worked there since.
        if record.known_root(git_dir) == found.fields.get("path") and record.has_record(git_dir):
            intent.end(found)
            return "it is complete"
    path = found.fields.get("path")
    alive = processes.inside(path) if path is not None and os.path.isdir(path) else []
    if alive:
        raise WorktreeError(f"process {alive[0].pid} ({alive[0].name}) works in '{path}'", "end it, then repair again")
    abort.abort_creation(location, found)
    return "what had been made of it is gone"


def _told(error: Exception) -> tuple[str, str | None]:
    """What an error says, and its hint."""
    if isinstance(error, AgentosError):
        return error.message, error.hint
    if isinstance(error, OSError):
        name = error.filename2 or error.filename
        where = f"'{os.fsdecode(name)}': " if isinstance(name, str | bytes) else ""
        return where + (error.strerror or str(error)).lower(), None
    return f"its record is damaged ({type(error).__name__}: {error})", "remove it once you have looked at the worktree"
