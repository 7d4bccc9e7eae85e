"""`worktree repair`: from whatever a kill, a moved folder or a power cut left, back to a sound state; nothing is lost.

    interrupted commands   by their intents: a creation that was not recorded is taken back, a removal goes on where the
                           folder is in the trash already, else it is taken back, a merge leads to before or after
    locks                  ours are proven stale by their flock; git's by there being nobody who could have made them
    entries                the folder and git's entry of it find each other again where one of them was moved; the
                           record is made anew where it is damaged
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
from git_agentos.checkpoint import journal, take, timeline
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.git import locks, refs
from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.worktree import archive, complete, create, end, intent, place, record, trash
from git_agentos.worktree.intent import Intent
from git_agentos.worktree.trash import Bin

_INITIALIZING = "initializing"
_NEW = ".agentos-new"


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
        self.thrown: list[Bin] = []  # what has just gone into the trash

    def run(self) -> Iterator[Mended]:
        yield from self._intents()
        yield from self._our_locks()
        yield from self._git_locks()
        for git_dir in record.entries(self.location.common_dir):
            yield from self._entry(git_dir)
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
            except AgentosError as error:
                intent.leave(adopted)
                message = f"an interrupted {found.operation} of '{found.id}' could not be settled: {error.message}"
                yield Mended(found.id, "interrupted", message, False, error.hint)
                continue
            except BaseException:
                intent.leave(adopted)
                raise
            yield Mended(found.id, "interrupted", message, True)
        if self.mend:
            self._clean_intents()

    def _settle(self, found: Intent) -> str:
        """Lead from an interrupted command to before or after, and end its intent; what was done, in words."""
        what = f"a {found.operation} of the worktree '{found.id}' was interrupted: "
        if found.operation == create.OPERATION:
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
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(folder)):
                id_ = name.removesuffix(".owner").removesuffix(".json.new")
                path = os.path.join(folder, f"{id_}.json")
                if id_ == name or os.path.lexists(path) or self.only not in (None, id_):
                    continue
                if not intent.alive(Intent(path, id_, "", {})):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))

    # -- locks -----------------------------------------------------------------------------------------------------

    def _our_locks(self) -> Iterator[Mended]:
        if not self.mend:
            return  # `doctor` tells of these already
        for path in locks.remove_stale(self.location):
            yield Mended(None, "stale-lock", f"'{path}' was left by a killed command of ours", True)
        for git_dir in [self.location.common_dir, *record.entries(self.location.common_dir)]:
            if record.id_of(git_dir) not in self.busy:
                locks.remove_scratch(Location("", git_dir, self.location.common_dir))

    def _git_locks(self) -> Iterator[Mended]:
        places = self._places()
        for id_, path in self._lock_files():
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
            reason = processes.why_not_stale(path, places)
            if reason is not None:
                message = f"'{path}' exists: {reason}"
                yield Mended(id_, "locked", message, False, "if no git runs here any more, remove the file")
                continue
            message = f"'{path}' was left by a git command that was killed"
            if not self.mend:
                yield self._waits(id_, "stale-git-lock", message)
                continue
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.lstat(path), found):
                    os.unlink(path)
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
            id_ = None if git_dir == common else timeline.name_of(Location("", git_dir, common))
            if id_ in self.busy:
                continue
            candidates = [entry.path for entry in os.scandir(git_dir) if entry.name.endswith(".lock")]
            for folder, _, names in os.walk(os.path.join(git_dir, "refs")):
                candidates += [os.path.join(folder, name) for name in names if name.endswith(".lock")]
            for path in sorted(candidates):
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

    def _entry(self, git_dir: str) -> Iterator[Mended]:
        id_ = record.id_of(git_dir)
        if id_ is None:
            known = None
            with contextlib.suppress(WorktreeError):
                known = record.read(git_dir)
            id_ = known.id if known is not None else None
        name = timeline.name_of(Location("", git_dir, self.location.common_dir))
        if (id_ or name) in self.busy or not self._wanted(id_ or name):
            return
        yield from self._initializing(git_dir, id_ or name)
        if id_ is None:
            return
        yield from self._head(git_dir, id_)
        yield from self._record(git_dir, id_)
        yield from self._connection(git_dir, id_)
        location = Location("", git_dir, self.location.common_dir)
        with contextlib.suppress(AgentosError):
            found = journal.read(location)
            if found is not None:
                where = record.known_root(git_dir)
                message = f"a {found.command} in the worktree '{id_}' was interrupted"
                yield Mended(id_, "interrupted-restore", message, False, f"git -C '{where}' agentos recover")

    def _initializing(self, git_dir: str, id_: str) -> Iterator[Mended]:
        """A killed `git worktree add` leaves its entry locked, and half-made."""
        path = os.path.join(git_dir, "locked")
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                if file.read().strip() != _INITIALIZING:
                    return
        except FileNotFoundError:
            return
        reason = processes.why_not_stale(path, self._places())
        if reason is not None:
            yield Mended(id_, "initializing", f"the worktree '{id_}' is being made: {reason}", False, "wait for it")
            return
        message = f"'git worktree add' was killed while it made the worktree '{id_}'"
        if not self.mend:
            yield self._waits(id_, "initializing", message)
            return
        root = record.known_root(git_dir)
        if os.path.lexists(os.path.join(git_dir, "index")) or not _is_bare_folder(root):
            os.unlink(path)
            yield Mended(id_, "initializing", message + ": it is unlocked, its files may not all be there", True)
            return
        if root is not None and os.path.isdir(root):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(root, ".git"))
            os.rmdir(root)
        processes.remove_folder(git_dir)
        yield Mended(id_, "initializing", message + ": nothing was in it yet, and it is gone", True)

    def _head(self, git_dir: str, id_: str) -> Iterator[Mended]:
        """HEAD and the way to the common directory, which git needs to see an entry at all."""
        if not os.path.isdir(git_dir):
            return
        common = os.path.join(git_dir, "commondir")
        if not _has_content(common):
            message = f"the entry of the worktree '{id_}' does not say to which repository it belongs"
            if self.mend:
                record.put(common, "../..\n", end=_NEW)
            yield (
                Mended(id_, "damaged-entry", message, True) if self.mend else self._waits(id_, "damaged-entry", message)
            )
        if not _has_content(os.path.join(git_dir, "HEAD")):
            message = f"HEAD of the worktree '{id_}' is missing or empty"
            if not self.mend:
                yield self._waits(id_, "damaged-head", message)
                return
            text, words = self._last_head(git_dir, id_)
            record.put(os.path.join(git_dir, "HEAD"), text, end=_NEW)
            yield Mended(id_, "damaged-head", f"{message}: it is {words} again", True)

    def _last_head(self, git_dir: str, id_: str) -> tuple[str, str]:
        """HEAD as the newest checkpoint has it, else on the worktree's own branch."""
        with contextlib.suppress(AgentosError):
            last = archive.ended(self.context, id_).last
            if last.branch is None and last.commit is not None:
                return last.commit + "\n", f"at {last.commit[:8]}"
            if last.branch is not None:
                return f"ref: {place.HEADS}{last.branch}\n", f"on branch '{last.branch}'"
        branch = record.BRANCHES + id_
        with contextlib.suppress(AgentosError):
            known = record.read(git_dir) or record.remembered(self.context.repository, id_)
            branch = known.branch if known is not None else branch
        return f"ref: {place.HEADS}{branch}\n", f"on branch '{branch}'"

    def _record(self, git_dir: str, id_: str) -> Iterator[Mended]:
        """The record, made anew from what the checkpoints know."""
        try:
            known = record.read(git_dir)
        except WorktreeError:
            known = None
        if known is not None and record.id_of(git_dir) == known.id:
            return
        message = f"the record of the worktree '{id_}' is missing or damaged"
        if not self.mend:
            yield self._waits(id_, "damaged-record", message)
            return
        if known is None:
            try:
                known = archive.last_record(self.context, id_)
            except AgentosError:
                head = refs.read_head(Location("", git_dir, self.location.common_dir))
                branch = head.branch or record.BRANCHES + id_
                commit = head.commit or ""
                made = create.now()
                known = record.Record(id_, branch, "", commit, commit, made, self.context.agent)
            known = replace(known, id=id_, path=record.known_root(git_dir) or known.path)
        record.write(git_dir, known)
        yield Mended(id_, "damaged-record", message + ": it was made anew from its checkpoints", True)

    def _connection(self, git_dir: str, id_: str) -> Iterator[Mended]:
        """The folder and the entry know each other."""
        here = self.location
        root = record.known_root(git_dir)
        if here.git_dir == git_dir and (root is None or os.path.realpath(root) != here.root):
            yield self._moved(git_dir, id_, here.root)
            return
        if root is not None and os.path.isdir(root):
            if end.belongs(root, git_dir) is not None:
                other = self._search(git_dir, id_)
                if other is not None:
                    yield self._moved(git_dir, id_, other)
                    return
                message = f"'{root}' is no longer the worktree '{id_}': {end.belongs(root, git_dir)}"
                yield Mended(
                    id_, "folder-taken", message, False, "move that away, and bring the worktree's folder back"
                )
                return
            target = end.pointed_at(root)
            if target is not None and os.path.realpath(target) == os.path.realpath(git_dir):
                return
            message = f"'{root}' did not know that it is the worktree '{id_}' of this repository"
            if not self.mend:
                yield self._waits(id_, "disconnected", message)
                return
            connect(git_dir, root)
            yield Mended(id_, "disconnected", message + ": it does again", True)
            return
        found = self._search(git_dir, id_)
        if found is not None:
            yield self._moved(git_dir, id_, found)
            return
        yield Mended(
            id_,
            "missing-folder",
            f"the folder of the worktree '{id_}' is missing: '{root}'",
            False,
            "if it was moved, run 'git agentos worktree repair' in it; if it is on a disk, mount that\n"
            f"if it is gone for good: git agentos worktree remove {id_}, then worktree create {id_} --revive",
        )

    def _moved(self, git_dir: str, id_: str, root: str) -> Mended:
        message = f"the worktree '{id_}' was moved to '{root}'"
        if not self.mend:
            return self._waits(id_, "moved", message)
        connect(git_dir, root)
        return Mended(id_, "moved", message + ": it is known there now", True)

    def _search(self, git_dir: str, id_: str) -> str | None:
        """Where the folder went, if there is exactly one that says it belongs to this entry."""
        expected = place.path_of(self.location, self.context.settings, id_)
        parents = {os.path.dirname(expected)}
        root = record.known_root(git_dir)
        if root is not None:
            parents.add(os.path.dirname(root))
        found = set()
        for parent in parents:
            with contextlib.suppress(OSError):
                for entry in os.scandir(parent):
                    if entry.is_dir(follow_symlinks=False) and _claims(entry.path, git_dir):
                        found.add(os.path.realpath(entry.path))
        return found.pop() if len(found) == 1 else None

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
        if record.id_of(git_dir) == found.id and record.known_root(git_dir) == found.fields.get("path"):
            with contextlib.suppress(WorktreeError):
                if record.read(git_dir) is not None:
                    intent.end(found)
                    return "it is complete"
    path = found.fields.get("path")
    alive = processes.inside(path) if path is not None and os.path.isdir(path) else []
    if alive:
        raise WorktreeError(f"process {alive[0].pid} ({alive[0].name}) works in '{path}'", "end it, then repair again")
    create.take_back(location, found)
    return "what had been made of it is gone"


def connect(git_dir: str, root: str) -> None:
    """Let a folder and its entry point at each other; relative where they did."""
    pointer = os.path.join(git_dir, "gitdir")
    mine, theirs = os.path.join(root, ".git"), git_dir
    with contextlib.suppress(OSError), open(pointer, "rb") as file:
        if file.read(1) not in (b"/", b""):
            mine, theirs = os.path.relpath(mine, git_dir), os.path.relpath(git_dir, root)
    record.put(os.path.join(root, ".git"), f"gitdir: {theirs}\n", end=_NEW)
    record.put(pointer, f"{mine}\n", end=_NEW)


def _claims(folder: str, git_dir: str) -> bool:
    """Whether a folder says that it is the worktree of this entry, wherever the repository was then."""
    target = end.pointed_at(folder)
    if target is None:
        return False
    if os.path.isdir(target):
        return os.path.realpath(target) == os.path.realpath(git_dir)
    return os.path.basename(target) == os.path.basename(git_dir) and (
        os.path.basename(os.path.dirname(target)) == "worktrees"
    )


def _is_bare_folder(root: str | None) -> bool:
    """Whether there is nothing in a worktree's folder but what `git worktree add` begins with."""
    try:
        return root is None or set(os.listdir(root)) <= {".git"}
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _has_content(path: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return bool(file.read().strip(b"\0\n "))
    return False
