"""git's lock files, created so that a stale one can be distinguished from one in use.

git creates `<file>.lock` with O_EXCL. A killed process leaves it behind, and it looks like the lock of a living
process. Ours are hard links to a file in a folder of our own, on which the owner holds flock(2) as long as it lives. A
lock file is stale if its inode is that of one of our files and that flock is free. Any other lock belongs to another
program and is never removed.

For git, such a lock is like any other: `<file>.lock` exists, so the file is locked.

If the file system has no hard links (exFAT, SMB, many mounts), the lock is an empty folder of that name; git never
creates such a folder. Before it is created, a claim is written in our folder: a file that names the lock, with the
owner's flock(2) on it. The lock is stale if at least one claim names it and the owners of all of them are gone; one
process at a time checks that.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from git_agentos.errors import LockedError
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple

_FOLDER = "locks"
_CLAIM = ".claim"


class LockFile(NamedTuple):
    """A lock that this process holds.

    `path` is the lock, `descriptor` is for writing its content, `owner_path` is the file in our folder. If the lock is
    a folder, `claim` is the path and the descriptor of our claim.
    """

    path: str
    owner_path: str
    descriptor: int
    claim: tuple[str, int] | None = None


def acquire(location: Location, target: str, *, patience: float = 0.0) -> LockFile:
    """Lock `target` by creating `<target>.lock`; LockedError if another process holds it longer than `patience`
    seconds.

    A stale lock of a killed git-agentos process is taken over.
    """
    owner_path, descriptor = _new_owner_file(directories.make_own(location.shared_state_dir, _FOLDER))
    deadline = time.monotonic() + patience
    pause = 0.001
    try:
        while True:
            try:
                return _make(owner_path, descriptor, target + ".lock")
            except FileNotFoundError:
                # git removes empty directories after packing refs.
                directories.make(os.path.dirname(target))
                continue
            except FileExistsError:
                if remove_stale(location, candidates=[target + ".lock"]):
                    continue
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"'{target}.lock' exists: another process is using it",
                    "try again when it has finished; `git agentos recover` removes what a killed command left",
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(owner_path)
        raise


def _make(owner_path: str, descriptor: int, lock: str) -> LockFile:
    """Create the lock, as a link or as a folder; FileExistsError if it exists."""
    try:
        os.link(owner_path, lock)
        return LockFile(lock, owner_path, descriptor)
    except OSError as error:
        if error.errno not in files.NO_LINKS:
            raise
    claim, claim_descriptor = _new_owner_file(os.path.dirname(owner_path), _CLAIM)
    try:
        os.write(claim_descriptor, os.fsencode(lock))
        os.fsync(claim_descriptor)
        os.mkdir(lock)
        return LockFile(lock, owner_path, descriptor, (claim, claim_descriptor))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(claim)
        os.close(claim_descriptor)
        raise


def _new_owner_file(folder: str, suffix: str = "") -> tuple[str, int]:
    while True:
        path = os.path.join(folder, f"{os.getpid()}-{os.urandom(6).hex()}{suffix}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        locks.acquire(descriptor)
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)  # another process considered it stale between the two calls


def commit(lock: LockFile, target: str, *, is_synced: bool = False) -> None:
    """Replace the target by the lock's content, durably, and release the lock. `is_synced`: the content was synced
    already."""
    try:
        if not is_synced:
            os.fsync(lock.descriptor)
        files.rename(lock.owner_path if lock.claim is not None else lock.path, target)
    except BaseException:
        release(lock)
        raise
    if lock.claim is not None:
        release(lock)
    else:
        _forget(lock)


def release(lock: LockFile) -> None:
    """Release the lock without a change. A lock file that cannot be removed stays, and will be proven stale."""
    try:
        (os.unlink if lock.claim is None else os.rmdir)(lock.path)
    except FileNotFoundError:
        pass
    except OSError:
        os.close(lock.descriptor)
        if lock.claim is not None:
            os.close(lock.claim[1])
        return
    _forget(lock)


def _forget(lock: LockFile) -> None:
    # The operation is complete, so a failure to remove our own file does not matter.
    with contextlib.suppress(OSError):
        os.unlink(lock.owner_path)
    os.close(lock.descriptor)
    if lock.claim is not None:
        with contextlib.suppress(OSError):
            os.unlink(lock.claim[0])
        os.close(lock.claim[1])


def remove_stale(location: Location, *, candidates: list[str] | None = None) -> list[str]:
    """Remove what killed git-agentos processes left: their own files, and the lock files that are links to them.

    A lock file's name is not recorded. It is found by its inode among `candidates`, or, if that is None, in all folders
    where we create locks. Returns the lock files that were removed. (After the rename, the target itself is a link to
    our file. It is not a lock, and only our name for it is removed.)
    """
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    removed: list[str] = []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return removed
    if any(name.endswith(_CLAIM) for name in names):
        with _abandoned_claims(location) as abandoned:
            for path, claims in abandoned.items():
                if candidates is None or path in candidates:
                    removed += _remove_claimed(path, claims)
    for name in names:
        if not name.endswith(_CLAIM):
            removed += _remove_owner_file(location, os.path.join(folder, name), candidates)
    return removed


def _remove_owner_file(location: Location, path: str, candidates: list[str] | None) -> list[str]:
    """Remove an owner's file if the owner is dead, and the locks that are links to it; the locks."""
    removed: list[str] = []
    try:
        descriptor = locks.try_open(path)
    except OSError:
        return removed
    if descriptor is None:
        return removed
    try:
        owner = os.fstat(descriptor)
        if owner.st_nlink > 1:
            for each in candidates if candidates is not None else _lock_files(location):
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.lstat(each), owner):
                        os.unlink(each)
                        removed.append(each)
        if candidates is None or os.fstat(descriptor).st_nlink == 1:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        os.close(descriptor)
    return removed


def find_stale(location: Location) -> list[str]:
    """The lock files that killed git-agentos processes left; nothing is removed."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    inodes = set()
    for name in names:
        with contextlib.suppress(OSError):
            descriptor = locks.try_open(os.path.join(folder, name))
            if descriptor is not None:
                status = os.fstat(descriptor)
                inodes.add((status.st_ino, status.st_dev))
                os.close(descriptor)
    stale = []
    if any(name.endswith(_CLAIM) for name in names):
        with _abandoned_claims(location) as abandoned:
            stale = [path for path in abandoned if os.path.isdir(path)]
    for path in _lock_files(location) if inodes else ():
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            if (status.st_ino, status.st_dev) in inodes:
                stale.append(path)
    return stale


@contextlib.contextmanager
def _abandoned_claims(location: Location) -> Iterator[dict[str, list[str]]]:
    """The locks that only dead processes have claimed, each with its claims. While the caller uses the result, no other
    process removes such a lock, so no living process can have taken one of them."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    alive: set[str] = set()
    abandoned: dict[str, list[str]] = {}
    with locks.hold(os.path.join(location.shared_state_dir, "claims.turn")):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if not name.endswith(_CLAIM):
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    path = os.fsdecode(os.read(descriptor, 1 << 16))
                    if locks.try_acquire(descriptor):
                        abandoned.setdefault(path, []).append(os.path.join(folder, name))
                    else:
                        # A claim that is not written yet may name any lock; the next attempt reads it.
                        alive.add(path or os.fsdecode(os.pread(descriptor, 1 << 16, 0)))
                finally:
                    os.close(descriptor)
        yield {} if "" in alive else {path: claims for path, claims in abandoned.items() if path not in alive}


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
