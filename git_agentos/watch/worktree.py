"""One watched worktree.

All its folders are watched, except `.git`, what is below a nested repository, and ignored folders. A folder that
appears is watched first and listed then, so that nothing in it is missed between the two.

Two kinds of edits have no event. Through another name of a file (a hard link) outside of the worktree: files with
several names are in every answer. Through a mapping: a file that is open is in every answer until it is closed, also
one that another process had open before its folder was watched. A file has no event either when it is given a second
name: in a watched folder that name has one, and the others are looked for; of one elsewhere, edits are not seen until
an event of the file shows that it has several names.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Mapping

from git_agentos.errors import AgentosError, RepositoryError
from git_agentos.git import index_entries
from git_agentos.git.location import Location
from git_agentos.process import mounts, occupants
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import place
from git_agentos.watch.changes import Changes
from git_agentos.watch.ignored import IgnoredFolders
from git_agentos.watch.watcher import Event, Kind, Watcher, WatchLimitError, reason_of

_MOST_MOVES = 64
_MOST_PATHS = 20_000  # in an answer; with more, git is faster without
_OFTEN = 1000  # folders
_MANY_OPEN = 64  # files that seem to be open: so many are compared with those that are
_PRUNE = 30.0  # seconds between two such comparisons
_PAUSE = 60.0  # seconds until what could not be watched is tried again


class Answer(NamedTuple):
    """What changed since a token: `paths`, of which a folder ends with a slash, or None for "everything may have
    changed". `token` names the moment of the answer."""

    token: str
    paths: frozenset[bytes] | None


class Look(NamedTuple):
    """An answer, and the folders that are not watched because git ignored them (with a slash at the end), if the index
    was written since: it may have files in them now."""

    answer: Answer
    ignored: frozenset[bytes]


class WatchedWorktree:
    """What is known of one worktree. `problem` says why it is not watched; empty while it is."""

    def __init__(self, location: Location, watcher: Watcher) -> None:
        self.location = location
        self.problem = ""
        self.changes = Changes()
        self._watcher = watcher
        self._root = os.fsencode(location.root)
        self._ignored = IgnoredFolders(location)
        # The watched folders; paths have a trailing slash, that of the root is empty.
        self._paths: dict[int, set[bytes]] = {}  # number of the watcher -> paths (several if it is mounted twice)
        self._numbers: dict[bytes, int] = {}
        self._children: dict[bytes, set[bytes]] = {}
        self._linked: set[bytes] = set()  # files with several names
        self._unchecked: set[bytes] = set()  # paths of which that is not known
        self._unnamed: set[int] = set()  # inodes of files of which not all names are known
        self._open: dict[bytes, int] = {}  # files -> by how many descriptors they are open
        self._moving: dict[int, dict[bytes, int]] = {}  # number of a move -> what of what moved is open
        self._new: dict[bytes, None] = {}  # folders that have appeared and are not watched yet
        self._identity: tuple[int, ...] = ()
        self._mounts = b""
        self._pruned = 0.0  # when files that seem to be open were last compared with those that are
        self._again = 0.0  # when to try again what has a problem, by the clock `time.monotonic`
        self._settled: tuple[object, ...] = ()  # what was so when `moment` last settled

    @property
    def folder_count(self) -> int:
        """How many folders are watched."""
        return len(self._numbers)

    def begin(self) -> None:
        """Watch it from now on; whatever was known is forgotten. Where that fails, `problem` says why."""
        self.end("")
        started = time.monotonic()
        self._mounts, self._identity = mounts.snapshot(), self._identify()
        pause = 0.0
        try:
            self.problem = self._why_unwatchable()
            if not self.problem:
                self._ignored.read()
                self._watch_below([b""])
                self._linked, self._unchecked = self._unchecked, set()  # all names are known
                self._find_open()
        except (AgentosError, OSError) as error:
            self.end(reason_of(error))
        if self.problem:
            pause = _PAUSE
        else:
            self._tell_git()
        # A worktree in which more happens than can be read is not listed all the time.
        now = time.monotonic()
        self._again = now + max(pause, 10 * (now - started))

    def end(self, problem: str) -> None:
        """Watch it no longer, and answer that everything may have changed."""
        self.changes.begin_anew()
        for number in self._paths:
            self._watcher.forget(number)
        self._paths.clear()
        self._numbers.clear()
        self._children.clear()
        for each in (self._linked, self._unchecked, self._unnamed, self._open, self._moving, self._new):
            each.clear()
        self.problem = problem
        place.forget_watched(self.location.git_dir)

    def retry(self) -> None:
        """Begin again to watch what has a problem, if that is not too soon."""
        if self.problem and time.monotonic() >= self._again:
            self.begin()

    def is_there(self) -> bool:
        """Whether the worktree is where it was when it began to be watched."""
        return os.path.isdir(self.location.git_dir) and self._identify() == self._identity != ()

    def answer(self, token: str) -> Answer:
        """What changed since the moment of `token`. All events that came before are noted already."""
        if self.problem:
            self.retry()
        elif self._mounts != mounts.snapshot() or self._identify() != self._identity:
            self.begin()
        else:
            self._settle()
        changed = None if self.problem else self.changes.since(token)
        if changed is None or len(changed) + len(self._linked) + len(self._open) > _MOST_PATHS:
            return Answer(self.changes.token, None)
        return Answer(self.changes.token, frozenset((*changed, *self._linked, *self._open)))

    def moment(self) -> str | None:
        """The present token; None where something may change that has no event (a file that is open, or has other
        names), and where nothing is watched."""
        # A changed rule or index may make folders count that are not watched.
        if not self.problem and self._settled != self._settling():
            self.settle()
            self._settled = self._settling()
        return None if self.problem or self._open or self._linked else self.changes.token

    def _settling(self) -> tuple[object, ...]:
        return self.changes.token, index_entries.stamp(self.location), self._identify()

    def check_open(self) -> bool:
        """Forget files that only seem to be open, since events of the same kind are told once; false if there are none,
        or it was done lately."""
        if not self._open or time.monotonic() <= self._pruned + _PRUNE:
            return False
        self._pruned = time.monotonic()
        # A process of another mount namespace has other paths, and some file systems tell other inodes.
        found = occupants.written_files(self.location.root, inodes=True)
        named = self._below(found.paths)
        self._open = {
            path: count for path, count in self._open.items() if path in named or self._inode(path) in found.inodes
        }
        return True

    def _inode(self, path: bytes) -> int | None:
        """The inode number of a file; None if it is gone."""
        try:
            return os.lstat(os.path.join(self._root, path)).st_ino
        except OSError:
            return None

    def settle(self) -> None:
        """Watch from now on what is not ignored any more, and what could not be watched, as before each answer."""
        self.answer("")

    def look(self, token: str) -> Look | None:
        """As `answer`, for a process that was forked from the one that watches, which cannot watch anything more. None
        where something would have to be watched or looked for first."""
        if self.problem or self._mounts != mounts.snapshot() or self._identify() != self._identity:
            return None
        if not self._ignored.has_same_rules():
            return None
        self._check_names()
        if self._unnamed:
            return None  # their other names are not known
        changed = self.changes.since(token)
        paths = None if changed is None else frozenset((*changed, *self._linked, *self._open))
        return Look(Answer(self.changes.token, paths), self._ignored.unsettled())

    def note(self, events: Iterable[Event]) -> None:
        """Note what happened; events of folders that are not this worktree's are passed over."""
        for event in events:
            for folder in tuple(self._paths.get(event.folder, ())):
                if not event.name:
                    if event.kind in (Kind.GONE, Kind.MOVED) and not folder:
                        self.end("its folder was moved or deleted")
                elif event.name == b".git":
                    self._note_git(event, folder)
                elif event.is_folder:
                    self._note_folder(event, folder + event.name + b"/")
                else:
                    self._note_file(event, folder + event.name)
        self._watch_new()

    def _note_git(self, event: Event, folder: bytes) -> None:
        """A folder has become a repository of its own, or is one no longer; what is below one is not watched."""
        if folder and event.kind in (Kind.APPEARED, Kind.VANISHED):
            self._drop(folder)
            self._mark(folder)
            self._new[folder] = None

    def _note_folder(self, event: Event, path: bytes) -> None:
        if event.kind in (Kind.VANISHED, Kind.APPEARED):
            if event.kind is Kind.VANISHED:
                self._remember_open(event.move, path)
            self._drop(path)
            self._new.pop(path, None)
            self._mark(path)
            if event.kind is Kind.APPEARED:
                self._open |= {path + below: count for below, count in self._moving.pop(event.move, {}).items()}
                self._new[path] = None
        elif event.kind is Kind.CHANGED:
            self._mark(path)
            if path not in self._numbers:
                self._new[path] = None  # it could not be read before

    def _note_file(self, event: Event, path: bytes) -> None:
        kind = event.kind
        if kind is Kind.OPENED:
            self._open[path] = self._open.get(path, 0) + 1
            return
        if kind is Kind.CLOSED:
            left = self._open.get(path, 0) - 1
            if left > 0:
                self._open[path] = left
            else:
                self._open.pop(path, None)
            return
        if event.name == b".gitignore":
            self._ignored.forget_rules()
        if kind is Kind.VANISHED:
            self._remember_open(event.move, path)
            self._linked.discard(path)
        else:
            if kind is Kind.APPEARED:
                self._open |= {path + below: count for below, count in self._moving.pop(event.move, {}).items()}
            self._unchecked.add(path)
            if len(self._unchecked) > _MOST_PATHS:
                self._check_names()
        self.changes.note(path)

    def _mark(self, folder: bytes) -> None:
        """Everything in a folder may have changed; git is told of the folder itself by its name as well. (Of the root,
        no token is older than the beginning.)"""
        if folder:
            self.changes.note(folder)
            self.changes.note(folder[:-1])

    def _remember_open(self, move: int, path: bytes) -> None:
        """What is open of something that vanishes; after a move, it is open where it appears."""
        if path.endswith(b"/"):
            below = {each: count for each, count in self._open.items() if each.startswith(path)}
        else:
            below = {path: self._open[path]} if path in self._open else {}
        for each in below:
            del self._open[each]
        if move and below:
            self._moving[move] = {each[len(path) :]: count for each, count in below.items()}
            while len(self._moving) > _MOST_MOVES:
                del self._moving[next(iter(self._moving))]

    def _tell_git(self) -> None:
        """Let git's hook ask for this worktree, if it is large."""
        with contextlib.suppress(OSError, RepositoryError):
            if place.is_large(self.location.git_dir):
                directories.make_own(self.location.state_dir)
                files.create(place.watched(self.location.git_dir), b"", durable=False)

    def _settle(self) -> None:
        """Find out what events do not tell: which files have several names, and which folders are ignored no longer."""
        self._check_names()
        self._find_names()
        if len(self._open) > _MANY_OPEN:
            self.check_open()
        self._linked = {path for path in self._linked if path[: path.rfind(b"/") + 1] in self._numbers}
        try:
            self._watch_below(sorted(self._ignored.no_longer()))
        except (AgentosError, OSError) as error:
            self.end(reason_of(error))

    def _check_names(self) -> None:
        """Which of the files that have changed have several names."""
        for path in self._unchecked:
            try:
                data = os.lstat(os.path.join(self._root, path))
            except OSError:
                continue
            if not stat.S_ISREG(data.st_mode) or data.st_nlink == 1:
                self._linked.discard(path)
            elif path not in self._linked:
                self._linked.add(path)
                self._unnamed.add(data.st_ino)
        self._unchecked.clear()

    def _find_names(self) -> None:
        """Find the other names of files that have several: a file has no event when it is given another name."""
        for number, folder in enumerate(self._numbers if self._unnamed else ()):
            with contextlib.suppress(OSError), os.scandir(os.path.join(self._root, folder)) as found:
                self._linked.update(folder + each.name for each in found if each.inode() in self._unnamed)
            if number % _OFTEN == 0:
                self._watcher.keep()  # the listing itself has events
        self._unnamed.clear()

    def _find_open(self) -> None:
        """Files that were opened before their folder was watched. One whose opening is an event as well counts twice,
        and so is looked at for longer than it has to be."""
        for path, count in self._below(occupants.written_files(self.location.root).paths).items():
            self._open[path] = self._open.get(path, 0) + count

    def _below(self, found: Mapping[str, int]) -> dict[bytes, int]:
        """Files of the worktree, by their paths in it."""
        paths = {os.fsencode(path)[len(self._root) + 1 :]: count for path, count in found.items()}
        return {path: count for path, count in paths.items() if not path.startswith(b".git/")}

    def _watch_new(self) -> None:
        there = [path for path in self._new if os.path.isdir(os.path.join(self._root, path))]
        self._new.clear()
        if not there:
            return
        try:
            self._ignored.folders |= self._ignored.below(there)
            self._watch_below(there)
            self._find_open()
        except (AgentosError, OSError) as error:
            self.end(reason_of(error))

    def _watch_below(self, paths: list[bytes]) -> None:
        """Watch these folders and those below them, and mark all of them: what is in them may be new."""
        waiting = [path for path in paths if not self._is_below_ignored(path)]
        while waiting:
            path = waiting.pop()
            full = os.path.join(self._root, path)
            try:
                number = self._watcher.watch(full.rstrip(b"/"))
                with os.scandir(full) as found:
                    entries = list(found)
            except WatchLimitError:
                raise
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone again, which has an event
            except PermissionError:
                self._mark(path)
                continue  # git cannot look into it either
            self._numbers[path] = number
            self._paths.setdefault(number, set()).add(path)
            self._children.setdefault(_parent(path), set()).add(path)
            self._mark(path)
            if len(self._numbers) % _OFTEN == 0:
                self._watcher.keep()  # the listing itself has events
            is_nested = bool(path) and any(entry.name == b".git" for entry in entries)
            if not is_nested:
                waiting += self._look_at(path, entries)

    def _look_at(self, path: bytes, entries: Iterable[os.DirEntry[bytes]]) -> list[bytes]:
        """Note files with several names; the folders that are to be watched."""
        folders = []
        for entry in entries:
            if entry.name == b".git":
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    below = path + entry.name + b"/"
                    if below not in self._ignored.folders:
                        folders.append(below)
                elif entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1:
                    self._unchecked.add(path + entry.name)
            except OSError:
                continue
        return folders

    def _is_below_ignored(self, path: bytes) -> bool:
        parts = path.split(b"/")[:-1]
        return any(b"/".join(parts[:n]) + b"/" in self._ignored.folders for n in range(1, len(parts) + 1))

    def _drop(self, folder: bytes) -> None:
        """Do not watch a folder and what is below it any more."""
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            waiting += self._children.pop(path, ())
            number = self._numbers.pop(path, None)
            if number is None:
                continue
            self._mark(path)
            self._paths[number].discard(path)
            if not self._paths[number]:
                del self._paths[number]
                self._watcher.forget(number)
        self._children.get(_parent(folder), set()).discard(folder)

    def _identify(self) -> tuple[int, ...]:
        try:
            found = os.lstat(self._root)
        except OSError:
            return ()
        return (found.st_dev, found.st_ino)

    def _why_unwatchable(self) -> str:
        found = sorted(kind for kind in mounts.types_below(self.location.root) if mounts.is_shared(kind))
        return f"the file system '{found[0]}' does not tell of all changes" if found else ""


def _parent(folder: bytes) -> bytes:
    """The folder that a folder is in, both with a trailing slash."""
    return folder[: folder.rfind(b"/", 0, -1) + 1]
