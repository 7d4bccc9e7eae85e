"""The backend for reftable: refs are read from the tables (`tables`) and changed by git.

A change is `git update-ref --stdin`, which prepares the transaction (it locks the tables and compares the present
value), waits for us, and commits. If we are killed, it reads the end of its input, and gives up without a change. If
it is killed itself, the ref has its old value or the new one, and its lock may stay: `stale_locks` proves that nobody
holds it. One lock, `tables.list.lock`, holds all refs of a stack, so it is waited for.

No hook runs: `process` switches them off. Refs are synced before the change is reported, as objects are.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from git_agentos.errors import (
    GitCommandError,
    LockedError,
    MissingObjectsError,
    RepositoryError,
    storage_error,
    system_reason,
)
from git_agentos.git import process, stale_locks
from git_agentos.git.location import Location
from git_agentos.git.refs import files
from git_agentos.git.refs.files import is_head_file
from git_agentos.git.refs.model import Head, ReflogEntry, RefMoved, is_per_worktree
from git_agentos.git.refs.tables import Ref, Stack
from git_agentos.process import occupants, table
from git_agentos.util import directories
from git_agentos.util.files import replace

_PATIENCE = 15.0
_LOOK_AFTER = 1.0  # seconds, then a lock may be stale
_DURABLE = ("-c", "core.fsync=reference", "-c", "core.fsyncMethod=fsync")
_FILES = ("MERGE_HEAD", "FETCH_HEAD")  # which git keeps in files in every format
_DEEPEST = 6  # symbolic refs that point at each other
_ROOM = 1 << 16  # bytes that a change may need for a while
# git's messages (refs/reftable-backend.c) if the new object does not exist, if nothing can be written (whatever
# prevents it), and if another process has the lock or has changed the tables.
_GONE = re.compile(r"with nonexistent object (?P<oid>[0-9a-f]+)")
_UNWRITTEN = re.compile(r"I/O error|general error")
_BUSY = re.compile(r"cannot lock references|data is locked|data is outdated|outdated")


# -- reading ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RepositoryError(f"the refs cannot be read: {system_reason(error)}", "git fsck shows details") from error
    except (ValueError, IndexError) as error:
        raise RepositoryError(f"the refs cannot be read: {error}", "git fsck shows details") from error


def _stack(location: Location, name: str) -> Stack:
    """The stack that has a ref, or the refs below a prefix."""
    return Stack(_folder(location, name))


def _folder(location: Location, name: str) -> str:
    git_dir = location.git_dir if is_per_worktree(name) else location.common_dir
    return os.path.join(git_dir, stale_locks.TABLES)


def _find(location: Location, name: str) -> Ref:
    with _errors():
        return _stack(location, name).find(name)


def _head(location: Location) -> Ref:
    """RepositoryError also where the file HEAD is damaged, which has no value here: git finds no repository then."""
    if not is_head_file(os.path.join(location.git_dir, "HEAD")):
        raise RepositoryError("the file HEAD is missing or damaged", "git fsck shows details")
    found = _find(location, "HEAD")
    if found == Ref():
        raise RepositoryError("HEAD is missing", "git fsck shows details")
    return found


def read_head(location: Location) -> Head:
    found = _head(location)
    return Head(None, found.oid) if found.target is None else Head(found.target, resolve(location, found.target))


def resolve(location: Location, name: str) -> str | None:
    if is_file(name):
        return files.resolve(location, name)
    for _ in range(_DEEPEST):
        found = _find(location, name)
        if found.target is None:
            return found.oid
        name = found.target
    raise RepositoryError(f"the symbolic ref '{name}' is circular")


def target(location: Location, name: str) -> str:
    for _ in range(_DEEPEST):
        found = _find(location, name)
        if found.target is None:
            break
        name = found.target
    return name


def list_refs(location: Location, prefix: str, *, skip_broken: bool) -> dict[str, str]:
    with _errors():
        found = _stack(location, prefix).refs(prefix)
    oids = {}
    for name, ref in found.items():
        try:
            oids[name] = ref.oid or resolve(location, name)
        except RepositoryError:
            if not skip_broken:
                raise
    return {name: oid for name, oid in oids.items() if oid is not None}


def symbolic(location: Location) -> dict[str, str]:
    with _errors():
        found = _stack(location, "refs/").refs("refs/")
    return {name: ref.target for name, ref in found.items() if ref.target is not None}


def is_file(name: str) -> bool:
    return name in _FILES


def root_refs(location: Location) -> dict[str, str]:
    return {name: oid for name, oid in own_refs(location).items() if not name.startswith("refs/")}


def own_refs(location: Location) -> dict[str, str]:
    with _errors():
        found = _stack(location, "HEAD").refs()
    own = {name: ref.oid for name, ref in found.items() if is_per_worktree(name) and name != "HEAD"}
    return {name: oid for name, oid in own.items() if oid is not None}


def same_name(location: Location, name: str) -> None:
    """None: names of refs are not names of files."""
    del location, name


def damaged(location: Location, prefix: str) -> dict[str, str]:
    """Symbolic refs that lead nowhere but to themselves. Where a table is damaged, no ref can be read, and git does not
    open the repository: RepositoryError."""
    found = {}
    for name in symbolic(location):
        if name.startswith(prefix):
            try:
                resolve(location, name)
            except RepositoryError as error:
                found[name] = error.message
    return found


def read_log(location: Location, name: str) -> list[bytes]:
    try:
        return _stack(location, name).logs(name).get(name, [])
    except (OSError, ValueError, IndexError):
        return []


def logs(location: Location) -> dict[str, list[bytes]]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        own, shared = _stack(location, "HEAD").logs(), _stack(location, "refs/").logs()
        pairs = ((found, *each) for found in (own, shared) for each in found.items())
        return {name: lines for found, name, lines in pairs if is_per_worktree(name) == (found is own)}
    return {}


def shortened_logs(location: Location, since: int) -> list[str]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        own, shared = (_stack(location, each).shortened_logs(since) for each in ("HEAD", "refs/"))
        return sorted(name for found in (own, shared) for name in found if is_per_worktree(name) == (found is own))
    return []


# -- changing ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def transaction(
    location: Location, name: str, new: str, old: str | None, reflog: ReflogEntry | None
) -> Iterator[Callable[[], None]]:
    child = _prepare(location, _update(name, new, old or location.hash.zero), name, old, reflog)
    try:

        def commit() -> None:
            if not child.commit() and resolve(location, name) != new:
                raise child.failure()

        yield commit
    finally:
        child.end()


def _update(name: str, new: str, old: str) -> bytes:
    return b"update %b\0%b\0%b\0" % (os.fsencode(name), new.encode(), old.encode())


def has_head(location: Location) -> bool:
    try:
        _head(location)
    except RepositoryError:
        return False
    return True


def rebuild_head(location: Location, head: Head) -> None:
    """A stack that cannot be read is kept beside the new one."""
    folder = os.path.join(location.git_dir, stale_locks.TABLES)
    if not has_head(location):
        # What git writes there for programs that do not know the format (refs/reftable-backend.c).
        replace(os.path.join(location.git_dir, "HEAD"), b"ref: refs/heads/.invalid\n")
        directories.make(os.path.join(location.git_dir, "refs"))
        replace(os.path.join(location.git_dir, "refs", "heads"), b"this repository uses the reftable format\n")
        try:
            Stack(folder)
        except (OSError, ValueError, IndexError):
            os.rename(folder, f"{folder}.damaged-{os.urandom(4).hex()}")
        directories.make(folder)
        if not os.path.lexists(os.path.join(folder, "tables.list")):
            replace(os.path.join(folder, "tables.list"), b"")
    # An entry may be made in another folder than it will be in.
    _point_head(location, head, None, {} if location.is_main else {"GIT_COMMON_DIR": location.common_dir})


def set_head(location: Location, head: Head, reflog: ReflogEntry) -> None:
    _point_head(location, head, reflog, {})


def _point_head(location: Location, head: Head, reflog: ReflogEntry | None, extra: Mapping[str, str]) -> None:
    if head.ref is None:
        assert head.commit is not None
        args = [*_DURABLE, "update-ref", "--no-deref", *_message(reflog), "HEAD", head.commit]
    else:
        args = [*_DURABLE, "symbolic-ref", *_message(reflog), "HEAD", head.ref]
    env = {**_environment(location, reflog), **extra}
    for wait in _attempts(location):
        status, _, err = process.finish(process.spawn(args, env=env))
        if status == 0:
            return
        wait(_failure(location, args, status, err))


def delete(location: Location, name: str, *, with_log: bool) -> None:
    del with_log  # git removes it with the ref
    if resolve(location, name) is not None:
        _remove(location, name)


def _remove(location: Location, name: str) -> None:
    _change(location, b"delete %b\0\0" % os.fsencode(name), None)


def drop(location: Location, name: str, old: str | None) -> None:
    actual = resolve(location, name)
    if actual is None:
        return
    if actual != old:
        raise RefMoved(name, actual)
    child = _prepare(location, b"delete %b\0%b\0" % (os.fsencode(name), actual.encode()), name, old, None)
    try:
        if not child.commit() and resolve(location, name) is not None:
            raise child.failure()
    finally:
        child.end()


def repair(location: Location, name: str, new: str | None) -> None:
    if new is None:
        _remove(location, name)
    else:
        _change(location, _update(name, new, ""), None)


def _change(location: Location, command: bytes, reflog: ReflogEntry | None) -> None:
    """Make a change that does not depend on the present value."""
    child = _prepare(location, command, None, None, reflog)
    try:
        if not child.commit():
            raise child.failure()
    finally:
        child.end()


def _prepare(
    location: Location, command: bytes, name: str | None, old: str | None, reflog: ReflogEntry | None
) -> _Transaction:
    """A git that has prepared a change; RefMoved if the ref `name` is not at `old`."""
    for wait in _attempts(location):
        child = _Transaction(location, command, reflog)
        if child.is_prepared:
            return child
        child.end()
        if name is not None:
            actual = resolve(location, name)
            if actual != old:
                raise RefMoved(name, actual)
        wait(child.failure())
    raise AssertionError  # the last wait raises


class _Transaction:
    """A `git update-ref` that makes one change in a transaction."""

    def __init__(self, location: Location, command: bytes, reflog: ReflogEntry | None) -> None:
        self._args = [*_DURABLE, *(() if reflog is not None else ("-c", "core.logAllRefUpdates=false")), "update-ref"]
        self._args += ["--no-deref", "-z", "--stdin", *_message(reflog)]
        self._location = location
        self._child = process.spawn(self._args, env=_environment(location, reflog), stdin=subprocess.PIPE)
        self._send(b"start\0" + command + b"prepare\0")
        self.is_prepared = self._hears(b"start: ok\n") and self._hears(b"prepare: ok\n")

    def commit(self) -> bool:
        """Commit; whether git reports that it has done so."""
        self._send(b"commit\0")
        return self._hears(b"commit: ok\n")

    def end(self) -> None:
        """End it, without the change if it was not committed."""
        if self._child.returncode is None:
            self._error = self._child.communicate()[1]  # closes its input

    def failure(self) -> GitCommandError:
        """The error if it has failed."""
        self.end()
        if self._child.returncode < 0:
            text = f"git update-ref was ended by signal {-self._child.returncode}"
            return GitCommandError(text, "try again", status=self._child.returncode, stderr="")
        return _failure(self._location, self._args, self._child.returncode, self._error)

    def _send(self, data: bytes) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer shows it
            self._child.stdin.write(data)
            self._child.stdin.flush()

    def _hears(self, answer: bytes) -> bool:
        assert self._child.stdout is not None
        return self._child.stdout.readline() == answer


def _failure(location: Location, args: list[str], status: int, said: bytes) -> GitCommandError:
    """The error of a git that has failed. MissingObjectsError if the object that the ref was to name is gone;
    StorageError if nothing can be written."""
    error = process.failure(args, status, said)
    gone = _GONE.search(error.stderr)
    if gone is not None:
        raise MissingObjectsError(f"object {gone['oid'][:8]} is not there any more", "try again") from error
    if _UNWRITTEN.search(error.stderr):
        for folder in (location.common_dir, location.git_dir):
            _require_room(os.path.join(folder, stale_locks.TABLES))
    return error


def _require_room(folder: str) -> None:
    """StorageError if nothing can be written in a folder."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
            file.flush()
    except OSError as error:
        raise storage_error(OSError(error.errno, os.strerror(error.errno or 0), folder)) from error


def _message(reflog: ReflogEntry | None) -> list[str]:
    return [] if reflog is None else ["-m", reflog.reason]


def _environment(location: Location, reflog: ReflogEntry | None) -> Mapping[str, str]:
    place = {"GIT_WORK_TREE": location.git_dir}  # the folder of the worktree may be gone
    if reflog is None:
        return location.environment(place)
    name, _, email = reflog.who.rpartition(" <")
    who = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email.removesuffix(">")}
    return location.environment({**place, **who, "GIT_COMMITTER_DATE": f"{int(time.time())} +0000"})


# -- locks ------------------------------------------------------------------------------------------------------------


def _attempts(location: Location) -> Iterator[Callable[[GitCommandError], None]]:
    """Attempts at a change. A failed one calls what it is given with its error: this waits if another process had the
    lock, and raises otherwise, or if that takes too long. Where the lock is stale, it is removed. In a hook that git
    calls while it has the lock, waiting would be in vain."""
    began = time.monotonic()
    number = 0

    def wait(error: GitCommandError) -> None:
        waited = time.monotonic() - began
        if error.status >= 0 and not _BUSY.search(error.stderr):
            raise error
        if _caller_holds_one(stale_locks.of_tables(location)):
            raise LockedError(
                "the refs are locked by the git command that has called this hook",
                "git agentos checkpoint before such a command saves what it may lose",
            ) from error
        if waited >= _PATIENCE:
            raise LockedError(
                f"the refs are locked: {error.message}",
                "try again when other git commands have finished; `git agentos worktree repair` removes stale locks",
            ) from error
        if waited >= _LOOK_AFTER:
            stale_locks.remove(location, stale_locks.of_tables(location), patience=_PATIENCE - waited)
        time.sleep(random.uniform(0.0, min(0.002 * 2**number, 0.1)))

    while True:
        yield wait
        number += 1


def are_locked_by_caller(location: Location) -> bool:
    return _caller_holds_one(stale_locks.of_tables(location, own=False))


def _is_hook_with_lock(argv: Sequence[str]) -> bool:
    """Whether this is the hook that git calls when it has locked refs (githooks(5))."""
    return len(argv) > 1 and os.path.basename(argv[-2]) == "reference-transaction" and argv[-1] == "prepared"


def _caller_holds_one(locks: Iterable[stale_locks.Candidate]) -> bool:
    """Whether one of the locks is held by a process that has started this one, directly or not."""
    found = []
    for candidate in locks:
        with contextlib.suppress(OSError):
            found.append(os.lstat(candidate.path))
    if not found:
        return False
    callers = [process for pid in table.parents(table.own_pid()) if (process := table.identify(pid)) is not None]
    if not table.has_proc():  # it is not known who has a file open
        return any(_is_hook_with_lock(table.argv(each.pid)) for each in callers)
    return any(occupants.holders(lock, (), callers) for lock in found)
