"""git's lock files whose makers are proven to be dead. (For our own locks see `lockfile`.)

git creates `<file>.lock` with O_EXCL and may close it while it continues (an editor, a hook); its content does not name
its creator. A killed git leaves it. It is stale if all processes that may have created it have ended: those that

    were alive       when the lock was first seen (a process that starts later finds it)
    have its owner   the same user id
    use it           have the file open, or are a git that runs in one of the folders from which git creates this lock

Files of one worktree (its index, its submodules, nested repositories) are locked by gits that work in that worktree;
its HEAD, its refs, and what all worktrees share (refs, configuration, objects) by gits in any of them. A lock on what
is shared must also stay unchanged for a second: programs other than git (JGit) close such a lock before they release
it.

While it is examined, the lock is kept open (O_PATH), so that no other file can get its inode. A process that is about
to end is waited for. Without proof (no /proc, a file system that other machines share), the lock is kept.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from git_agentos.git import gitfile
from git_agentos.git.location import Location
from git_agentos.process import occupants
from git_agentos.process.table import Process
from git_agentos.util import directories, locks
from git_agentos.util.named_tuple import NamedTuple

PATIENCE = 5.0  # seconds to wait for processes to end
_SETTLED = 1.0  # seconds for which a lock on what is shared must stay unchanged
_LOCK = ".lock"
TABLES = "reftable"  # the folder of a stack of reftables
_NEW_PACKED_REFS = "packed-refs.new"  # git creates it with O_EXCL, too, while it holds packed-refs.lock
_SHARED = ("config.lock", "packed-refs.lock", "shallow.lock", "gc.pid.lock", "gc.log.lock", _NEW_PACKED_REFS)
_OBJECT_FOLDERS = ("info", os.path.join("info", "commit-graphs"), "pack")


class Candidate(NamedTuple):
    """A lock file, the folders in which a git that creates it may run, and whether it must stay unchanged for a
    second."""

    path: str
    places: Sequence[str]
    settles: bool = False


class Lock:
    """A lock file that is examined. `reason` says why it is not proven to be stale; None if it is."""

    def __init__(self, candidate: Candidate) -> None:
        self.path = candidate.path
        self.reason: str | None = None
        self.waits = False
        self._candidate = candidate
        self._descriptor: int | None = None
        self._makers: Mapping[Process, str] = {}
        self._first: os.stat_result

    def examine(self) -> None:
        """Examine it for the first time."""
        try:
            # O_PATH exists only on Linux; elsewhere there is no proof, and nothing is kept open.
            self._descriptor = os.open(self.path, getattr(os, "O_PATH", os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._first = os.fstat(self._descriptor)
        except OSError as error:
            self.reason = "it is gone" if isinstance(error, FileNotFoundError) else (error.strerror or "").lower()
            return
        self.reason = occupants.why_unprovable(self.path, self._first)
        if self.reason is None:
            self._makers = occupants.holders(self._first, self._candidate.places)
            self.waits = bool(self._makers) or self._candidate.settles
            self.reason = next(iter(self._makers.values()), "it was just created" if self.waits else None)

    def examine_again(self, age: float) -> None:
        """Examine it `age` seconds after the first time."""
        if not self._is_same():
            self.reason, self.waits = "it is gone", False
            return
        if self._makers:
            self._makers = occupants.holders(self._first, self._candidate.places, self._makers)
            self.reason = next(iter(self._makers.values()), "it was just created")
        if not self._makers and (age >= _SETTLED or not self._candidate.settles):
            self.reason, self.waits = None, False

    def remove(self, location: Location) -> bool:
        """Remove it if it is proven to be stale, and is still the same file; whether it was removed."""
        if self.reason is not None:
            return False
        # Without this lock, a second process could remove the lock of a git that started after the first removal.
        turn = os.path.join(directories.make_own(location.shared_state_dir), "dead-locks.turn")
        with contextlib.suppress(OSError), locks.hold(turn):
            if self._is_same():
                os.unlink(self.path)
                return True
        return False

    def close(self) -> None:
        """Close the lock file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_same(self) -> bool:
        """Whether the file is the one that was first seen, unchanged."""
        with contextlib.suppress(OSError):
            now = os.lstat(self.path)
            return os.path.samestat(now, self._first) and now.st_ctime_ns == self._first.st_ctime_ns
        return False


@contextlib.contextmanager
def examined(candidates: Iterable[Candidate], *, patience: float = PATIENCE) -> Iterator[list[Lock]]:
    """The lock files among `candidates` that exist, each examined until it is known to be stale or gone, or `patience`
    seconds have passed."""
    wanted: dict[str, Candidate] = {}
    for candidate in candidates:
        if os.path.lexists(candidate.path):
            wanted.setdefault(candidate.path, candidate)
    found = [Lock(each) for each in wanted.values()]
    try:
        for each in found:
            each.examine()
        began, pause = time.monotonic(), 0.005
        while any(each.waits for each in found):
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
            age = time.monotonic() - began
            for each in found:
                if each.waits:
                    each.examine_again(age)
            if age > patience:
                break
        yield found
    finally:
        for each in found:
            each.close()


def remove(location: Location, candidates: Iterable[Candidate], *, patience: float = PATIENCE) -> dict[str, str | None]:
    """Remove stale lock files. Path -> why it was not removed, or None if it was."""
    with examined(candidates, patience=patience) as found:
        return {each.path: each.reason for each in found if each.remove(location) or each.reason is not None}


# -- where git creates locks ---------------------------------------------------------------------------------------


def of_worktree(location: Location) -> Iterator[Candidate]:
    """The locks in a linked worktree's own git directory, its submodules' included."""
    own, all_ = [location.root, location.git_dir], everywhere(location)
    for path in in_git_dir(location.git_dir):
        first = os.path.relpath(path, location.git_dir).split(os.sep)[0]
        yield Candidate(path, all_ if first in ("HEAD.lock", "refs", "logs", TABLES) else own)


def of_repositories_inside(location: Location) -> Iterator[Candidate]:
    """The locks of nested repositories in a worktree, in folders named `.git`. All folders are walked."""
    for git_dir in _repositories(location.root):
        roots = filter(None, map(gitfile.root_or_none, gitfile.linked_git_dirs(git_dir)))
        places = [location.root, location.git_dir, *roots]
        yield from (Candidate(path, places) for path in in_git_dir(git_dir))


def shared(location: Location, since: float) -> Iterator[Candidate]:
    """The locks on what all worktrees share that were created or changed after the time `since`."""
    all_, common = everywhere(location), location.common_dir
    for path in in_git_dir(common):
        first, *rest = os.path.relpath(path, common).split(os.sep)
        if first in _SHARED if not rest else first in ("refs", "logs", "objects", TABLES):
            with contextlib.suppress(OSError):
                if os.lstat(path).st_ctime >= since - 1.0:  # the kernel's clock has ticks
                    yield Candidate(path, all_, settles=True)


def of_ref(location: Location, ref: str) -> Iterator[Candidate]:
    """The locks that keep a ref from being moved."""
    all_ = everywhere(location)
    yield Candidate(os.path.join(location.common_dir, ref + _LOCK), all_)
    yield from (Candidate(os.path.join(location.common_dir, name), all_, settles=True) for name in _SHARED[1:2])
    yield from of_tables(location)


def of_tables(location: Location, *, own: bool = True) -> Iterator[Candidate]:
    """The locks that keep all refs from being changed, where refs are in reftables; without `own`, not that of the refs
    that a linked worktree has for itself.

    git has such a lock open for as long as it holds it (reftable/stack.c), so no other git counts: a hook can remove
    what a killed git has left.
    """
    for git_dir in dict.fromkeys([location.common_dir, *((location.git_dir,) if own else ())]):
        yield Candidate(os.path.join(git_dir, TABLES, "tables.list.lock"), (), settles=True)


def everywhere(location: Location) -> list[str]:
    """The folders in which a git that works in this repository may run."""
    common = location.common_dir
    roots = filter(None, map(gitfile.root_or_none, gitfile.linked_git_dirs(common)))
    return list(dict.fromkeys([common, common.removesuffix(os.sep + ".git"), location.root, location.git_dir, *roots]))


def in_git_dir(git_dir: str) -> Iterator[str]:
    """The lock files in a git directory, and in those of its submodules."""
    yield from _locks_in(git_dir)
    yield from _locks_in(os.path.join(git_dir, "info"))
    yield from _locks_in(os.path.join(git_dir, TABLES))
    for name in ("refs", "logs"):
        for folder, _, _ in os.walk(os.path.join(git_dir, name)):
            yield from _locks_in(folder)
    objects = os.path.join(git_dir, "objects")
    for name in ("", *_OBJECT_FOLDERS):
        yield from _locks_in(os.path.join(objects, name))
    for folder, below, _ in os.walk(os.path.join(git_dir, "modules")):
        if os.path.lexists(os.path.join(folder, "HEAD")):
            below.clear()
            yield from in_git_dir(folder)


def _locks_in(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if name.endswith(_LOCK) or name == _NEW_PACKED_REFS:
                yield os.path.join(folder, name)


def _repositories(root: str) -> Iterator[str]:
    for folder, below, _ in os.walk(root):
        if ".git" in below:
            below.remove(".git")
            git_dir = os.path.join(folder, ".git")
            if not os.path.islink(git_dir):
                yield git_dir
