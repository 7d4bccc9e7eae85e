"""Lock files whose owner can be proven dead.

git's locks are files made with O_EXCL: a killed process leaves one behind, and nobody can tell it from a live
one. Ours are made by hard-linking a temporary file that lives in a folder of our own and on which the owner holds
flock(2) for as long as it lives. A lock file whose inode is one of ours, and whose flock can be had, is stale
beyond doubt; any other lock is somebody else's and is never touched.

To git a lock made this way is like any other (`<file>.lock` exists, so the file is taken).

Where the file system has no hard links (exFAT, SMB, many mounts), the lock is an empty folder of that name, which git
never makes. Before it is made, a claim is written in our folder: a file that names the lock, with the owner's flock(2)
on it. The lock is stale where a claim names it and the owners of all claims that do are gone; one process at a time
looks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from git_agentos.errors import LockedError, RepositoryError
from git_agentos.git.location import Location
from git_agentos.util import directories, files

_FOLDER = "locks"
_CLAIM = ".claim"


class Held(NamedTuple):
    """A lock that this process holds.

    `path` is the lock, `descriptor` what its content is written to, `own` our name of that file. Where the lock is a
    folder, `claim` is our claim: its path and its descriptor.
    """

    path: str
    own: str
    descriptor: int
    claim: tuple[str, int] | None = None


def own_folder(path: str) -> str:
    """Make sure that a folder of ours in the git directory exists and is a folder, not a link to elsewhere."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if os.path.islink(path) or not os.path.isdir(path):
            what = "a symbolic link" if os.path.islink(path) else "not a directory"
            raise RepositoryError(f"'{path}' is {what}", "remove it: git-agentos does not follow it") from None
    return path


def _folder(location: Location) -> str:
    return own_folder(os.path.join(own_folder(location.shared_state_dir), _FOLDER))


def acquire(location: Location, target: str, *, patience: float = 0.0) -> Held:
    """Lock `target` by making `<target>.lock`; LockedError if somebody keeps it longer than `patience` seconds.

    A stale lock of a killed process of ours is taken over.
    """
    own, descriptor = _own_file(_folder(location))
    deadline = time.monotonic() + patience
    pause = 0.001
    try:
        while True:
            try:
                return _take(own, descriptor, target + ".lock")
            except FileNotFoundError:
                # git removes directories of refs that it has just packed.
                directories.make(os.path.dirname(target))
                continue
            except FileExistsError:
                if remove_stale(location, candidates=[target + ".lock"]):
                    continue
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"'{target}.lock' exists: another process is using it",
                    "try again when it has finished; `git agentos recover` removes what a killed command of ours left",
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(own)
        raise


def _take(own: str, descriptor: int, lock: str) -> Held:
    """Make the lock, by a link or as a folder; FileExistsError where there is one."""
    try:
        os.link(own, lock)
        return Held(lock, own, descriptor)
    except OSError as error:
        if error.errno not in files.NO_LINKS:
            raise
    claim, claimed = _own_file(os.path.dirname(own), _CLAIM)
    try:
        os.write(claimed, os.fsencode(lock))
        os.fsync(claimed)
        os.mkdir(lock)
        return Held(lock, own, descriptor, (claim, claimed))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(claim)
        os.close(claimed)
        raise


def _own_file(folder: str, suffix: str = "") -> tuple[str, int]:
    while True:
        own = os.path.join(folder, f"{os.getpid()}-{os.urandom(6).hex()}{suffix}")
        descriptor = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return own, descriptor
        os.close(descriptor)  # somebody took it for stale between the two calls


def commit(held: Held, target: str, *, ready: Callable[[], None] | None = None) -> None:
    """Make the lock's content the target's, durably, and let go. `ready` is called when only the rename is left; what
    it raises leaves the target as it is."""
    try:
        os.fsync(held.descriptor)
        if ready is not None:
            ready()
        os.rename(held.own if held.claim is not None else held.path, target)
    except BaseException:
        release(held)
        raise
    if held.claim is not None:
        release(held)
    else:
        _let_go(held)


def release(held: Held) -> None:
    """Let go without a change. A lock file that cannot be removed stays, and can be proven stale."""
    try:
        (os.unlink if held.claim is None else os.rmdir)(held.path)
    except FileNotFoundError:
        pass
    except OSError:
        os.close(held.descriptor)
        if held.claim is not None:
            os.close(held.claim[1])
        return
    _let_go(held)


def _let_go(held: Held) -> None:
    # What was locked is done by now: that our own name for it could not be removed is no failure.
    with contextlib.suppress(OSError):
        os.unlink(held.own)
    os.close(held.descriptor)
    if held.claim is not None:
        with contextlib.suppress(OSError):
            os.unlink(held.claim[0])
        os.close(held.claim[1])


def remove_stale(location: Location, *, candidates: list[str] | None = None) -> list[str]:
    """Remove what killed processes of ours left: their own files, and the lock files that are links to them.

    A lock file's name is not recorded: it is found by its inode among `candidates`, or, where that is None, among the
    places where our locks are made. Returns the lock files that were removed. (A file that a rename has already made
    the target's has a second link as well: it is no lock any more, and only our own name for it goes.)
    """
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    removed: list[str] = []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return removed
    if any(name.endswith(_CLAIM) for name in names):
        with _dead_claims(location) as dead:
            for path, claims in dead.items():
                if candidates is None or path in candidates:
                    removed += _remove_claimed(path, claims)
    for name in names:
        if name.endswith(_CLAIM):
            continue
        own = os.path.join(folder, name)
        try:
            descriptor = os.open(own, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    continue
                raise
            mine = os.fstat(descriptor)
            if mine.st_nlink > 1:
                for path in candidates if candidates is not None else _lock_files(location):
                    with contextlib.suppress(FileNotFoundError):
                        theirs = os.lstat(path)
                        if (theirs.st_ino, theirs.st_dev) == (mine.st_ino, mine.st_dev):
                            os.unlink(path)
                            removed.append(path)
            if candidates is None or os.fstat(descriptor).st_nlink == 1:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(own)
        finally:
            os.close(descriptor)
    return removed


@contextlib.contextmanager
def _dead_claims(location: Location) -> Iterator[dict[str, list[str]]]:
    """The locks that dead processes have claimed, and nobody who is alive, each with its claims. While the caller is at
    it nobody else removes such a lock, so none of them can have become a living process's."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    alive: set[str] = set()
    dead: dict[str, list[str]] = {}
    with turn_at(os.path.join(location.shared_state_dir, "claims.turn")):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if not name.endswith(_CLAIM):
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    path = os.fsdecode(os.read(descriptor, 1 << 16))
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        dead.setdefault(path, []).append(os.path.join(folder, name))
                    except OSError:
                        # Not written yet, it may be of any lock: the next attempt tells.
                        alive.add(path or os.fsdecode(os.pread(descriptor, 1 << 16, 0)))
                finally:
                    os.close(descriptor)
        yield {} if "" in alive else {path: claims for path, claims in dead.items() if path not in alive}


def _remove_claimed(lock: str, claims: list[str]) -> list[str]:
    """Remove a stale lock that is a folder, and the claims to it; what was removed."""
    removed = []
    with contextlib.suppress(OSError):
        os.rmdir(lock)
        removed.append(lock)
    if not os.path.isdir(lock):
        for claim in claims:
            with contextlib.suppress(OSError):
                os.unlink(claim)
    return removed


def _lock_files(location: Location) -> Iterator[str]:
    """Every `*.lock` in the git directories of all worktrees and below their refs."""
    linked = os.path.join(location.common_dir, "worktrees")
    git_dirs = [location.common_dir]
    with contextlib.suppress(FileNotFoundError):
        git_dirs += [entry.path for entry in os.scandir(linked) if entry.is_dir(follow_symlinks=False)]
    for git_dir in git_dirs:
        yield from (entry.path for entry in os.scandir(git_dir) if entry.name.endswith(".lock"))
        for folder, _, names in os.walk(os.path.join(git_dir, "refs")):
            yield from (os.path.join(folder, name) for name in names if name.endswith(".lock"))


@contextlib.contextmanager
def turn(location: Location, name: str, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Take turns among processes of ours in one worktree; with `wait=False` a LockedError says that somebody is at
    it."""
    with turn_at(os.path.join(own_folder(location.state_dir), name + ".turn"), shared=shared, wait=wait):
        yield


@contextlib.contextmanager
def turn_at(path: str, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Take turns by flock(2) on a file of our own: it ends with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockedError(
                    "another git-agentos command is at work in this worktree", "try again when it has finished"
                ) from error
            raise
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def scratch(location: Location) -> Iterator[str]:
    """An empty directory in the worktree's git directory, gone afterwards; what a killed process leaves of it, goes
    with the next `remove_scratch`."""
    folder = own_folder(os.path.join(own_folder(location.state_dir), "tmp"))
    path = os.path.join(folder, f"{os.getpid()}-{os.urandom(6).hex()}")
    os.mkdir(path, 0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        directories.remove(path)
        os.close(descriptor)


def remove_scratch(location: Location) -> list[str]:
    """Remove the scratch directories of processes that are gone; their paths."""
    removed = []
    folder = os.path.join(location.state_dir, "tmp")
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            else:
                directories.remove(entry.path)
                removed.append(entry.path)
            finally:
                os.close(descriptor)
    return removed


def stale(location: Location) -> list[str]:
    """Lock files that killed processes of ours left, without touching them."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    inodes = set()
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                descriptor = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    found = os.fstat(descriptor)
                    inodes.add((found.st_ino, found.st_dev))
                finally:
                    os.close(descriptor)
    result = []
    if os.path.isdir(folder) and any(name.endswith(_CLAIM) for name in os.listdir(folder)):
        with _dead_claims(location) as dead:
            result = [path for path in dead if os.path.isdir(path)]
    for path in _lock_files(location) if inodes else ():
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)
            if (found.st_ino, found.st_dev) in inodes:
                result.append(path)
    return result
