"""Opening the workflow database: journal, busy timeout, foreign keys, migrations; and what to do with a damaged one.

The journal is a write-ahead log, which needs memory that all its processes share (https://sqlite.org/wal.html,
"Overview"). Where the file system does not give that (`mounts.can_share_memory`), it is a rollback journal.

A process that has the file open holds a shared flock(2) on `<file>.lock`; one that sets it up or moves a damaged one
aside holds an exclusive lock. SQLite does not notice that a file is renamed: a process that still has it open would
finally remove the write-ahead log of the new file.

A file of a newer version is refused before anything in it or beside it is written. Our tables are added to a file that
does not have them, whatever else it contains.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Literal

from git_agentos.errors import DamagedDatabase, DatabaseError, system_reason
from git_agentos.process import mounts
from git_agentos.store.migrations import LATEST, MIGRATIONS, SEARCH
from git_agentos.store.rows import LOG, MEMORY, RowOwner
from git_agentos.util import files, locks, times
from git_agentos.util.named_tuple import NamedTuple

BUSY_SECONDS = 60.0
_MAGIC = b"SQLite format 3\0"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ENDS = ("-wal", "-shm", "-journal")

Inode = tuple[int, int]
Connection = sqlite3.Connection  # for signatures in modules that must not import sqlite3


class InUse(DatabaseError):
    """Another process keeps the file locked, or has it open when the exclusive lock is needed."""


class NotSetUp(DatabaseError):
    """There is no database yet, or it does not have our tables."""


class Database(NamedTuple):
    """An open database; `lock` is the descriptor of the lock that keeps the file from being moved."""

    connection: sqlite3.Connection
    path: str
    lock: int | None


@contextlib.contextmanager
def opened(path: str, *, across_threads: bool = False) -> Iterator[Database]:
    """The database at `path`, created and migrated if necessary. Writes are durable when they return.

    `across_threads` is for a library that relies on the defaults of Python's sqlite3: its threads use the connection
    one after the other, and its writes are one transaction until it commits. Raises DamagedDatabase, or DatabaseError
    if the database cannot be used.
    """
    database = _open(path, across_threads=across_threads)
    try:
        with sqlite_errors(path):
            yield database
    finally:
        _close(database)


@contextlib.contextmanager
def opened_to_read(path: str) -> Iterator[Database]:
    """A database for reading only; DatabaseError if it has not been set up."""
    lock = None
    with sqlite_errors(path):
        with contextlib.suppress(FileNotFoundError):
            lock = _lock(path, exclusive=False, make=False)
        try:
            if _inode(path) is None:
                raise NotSetUp(f"there is no workflow database '{path}'")
            database = Database(_connect(path, read_only=_is_read_only(path)), path, lock)
        except BaseException:
            _unlock(lock)
            raise
    try:
        with sqlite_errors(path):
            database.connection.execute("PRAGMA query_only = ON")
            if _version(database.connection, path) < LATEST:
                raise NotSetUp(f"the workflow database '{path}' has not been set up", "use the log in its worktree")
            yield database
    finally:
        _close(database)


@contextlib.contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as DatabaseError, InUse or DamagedDatabase."""
    inode = _inode(path)
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF in _DAMAGE or code == sqlite3.SQLITE_IOERR_SHORT_READ:
            raise DamagedDatabase(path, _one_line(str(error)), inode) from error
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise InUse(
                f"another process keeps the workflow database '{path}' locked", "try again when it has finished"
            ) from error
        if code & 0xFF == sqlite3.SQLITE_FULL:
            raise DatabaseError(
                f"no space left to write the workflow database '{path}'", "free some space and try again"
            ) from error
        raise DatabaseError(f"the workflow database '{path}' cannot be used: {error}") from error
    except OSError as error:
        raise _failed(path, error) from error


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing; other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def relax_sync(database: Database) -> None:
    """From here on, do not wait for the disk after each write: checkpoints contain the same rows."""
    database.connection.execute("PRAGMA synchronous = NORMAL")


def check(database: Database) -> None:
    """Check the whole file; DamagedDatabase if SQLite finds it inconsistent."""
    inode = _inode(database.path)
    answer = database.connection.execute("PRAGMA integrity_check(1)").fetchone()
    if answer is None or answer[0] != "ok":
        raise DamagedDatabase(database.path, _one_line(str(answer[0])) if answer else "it cannot be checked", inode)


def move_aside(path: str, inode: Inode | None) -> str | None:
    """Rename a damaged database (it is never deleted); its new path, or None if `path` is another file by now."""
    stamp = times.name_stamp()
    with sqlite_errors(path):
        lock = _lock(path, exclusive=True)
        try:
            if inode is None or _inode(path) != inode:
                return None
            target, n = f"{path}.damaged-{stamp}", 1
            while any(os.path.lexists(target + end) for end in ("", *_ENDS)):
                n += 1
                target = f"{path}.damaged-{stamp}-{n}"
            # Its log first: a log that is left behind could be used for the next database.
            for end in (*_ENDS, ""):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path + end, target + end)
            return target
        finally:
            _unlock(lock)


def moved_aside(path: str) -> list[str]:
    """The paths that `move_aside` gave to damaged databases of `path`, the oldest first."""
    folder, name = os.path.split(path)
    found = [each for each in os.listdir(folder) if each.startswith(f"{name}.damaged-") and not each.endswith(_ENDS)]
    return [os.path.join(folder, each) for each in sorted(found)]


class PendingLines(NamedTuple):
    """Rows that are in no checkpoint, each with its owner and its line."""

    log: list[tuple[RowOwner, str]]
    memory: list[tuple[RowOwner, str]]


def read_pending(path: str) -> PendingLines:
    """The rows of a damaged database that are in no checkpoint, as far as it can be read. Nothing is written to it."""
    with contextlib.suppress(sqlite3.Error, ValueError):
        connection = sqlite3.connect(f"file:{_in_uri(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            return PendingLines(_pending_lines(connection, LOG), _pending_lines(connection, MEMORY))
        finally:
            connection.close()
    return PendingLines([], [])


def _pending_lines(connection: sqlite3.Connection, table: str) -> list[tuple[RowOwner, str]]:
    """Read by the index; if that is damaged, row by row from both ends as far as possible."""
    found: dict[int, tuple[RowOwner, str]] = {}
    query = f"SELECT seq, repository, worktree, body FROM {table}"
    for rest in (
        " WHERE carried IS NULL",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq DESC",
    ):
        try:
            for seq, repository, worktree, body in connection.execute(query + rest):
                if all(isinstance(each, str) for each in (repository, worktree, body)):
                    found[seq] = (RowOwner(repository, worktree), body)
        except sqlite3.Error:
            continue
        break
    return [found[seq] for seq in sorted(found)]


def backup(database: Database, path: str) -> None:
    """Write a copy of the whole database as a new file, without a write-ahead log."""
    database.connection.execute("VACUUM INTO ?", (path,))


def install_copy(path: str, data: bytes) -> None:
    """Install `data`, a copy made by `backup`, as the database at `path`, if there is none."""
    with sqlite_errors(path):
        lock = _lock(path, exclusive=True)
        try:
            # The lock is exclusive, so no other process creates a database here meanwhile.
            if not os.path.lexists(path):
                files.replace(path, data)
        finally:
            _unlock(lock)


# -- inside -----------------------------------------------------------------------------------------------------------


def _open(path: str, *, across_threads: bool = False) -> Database:
    """Open the database with a shared lock. If it must be set up, do that with an exclusive lock, and start again.

    A complete database with another journal than it should have is used as it is while another process has it open.
    """
    set_up = False
    journal = "wal" if mounts.can_share_memory(path) else "delete"
    while True:
        complete = False
        with sqlite_errors(path):
            _refuse_foreign(path)
            lock = _lock(path, exclusive=False)
            try:
                if _inode(path) is not None:
                    database = Database(_connect(path, across_threads=across_threads), path, lock)
                    try:
                        complete = _version(database.connection, path) == LATEST
                        if complete and (set_up or _journal(database.connection) == journal):
                            return database
                    except BaseException:
                        database.connection.close()
                        raise
                    database.connection.close()
            except BaseException:
                _unlock(lock)
                raise
            _unlock(lock)
            set_up = True
            try:
                lock = _lock(path, exclusive=True, patience=0 if complete else None)
            except InUse:
                if not complete:
                    raise
                continue
            try:
                _set_up(path, journal)
            finally:
                _unlock(lock)


def _close(database: Database) -> None:
    try:
        with contextlib.suppress(sqlite3.Error):
            database.connection.close()
    finally:
        _unlock(database.lock)


def _connect(path: str, *, across_threads: bool = False, read_only: bool = False) -> sqlite3.Connection:
    _check_header(path)
    level: Literal["DEFERRED"] | None = "DEFERRED" if across_threads else None
    name = path
    if read_only:
        # Without a log beside it, the file is complete; without `immutable`, SQLite would try to create a log.
        name = f"file:{_in_uri(path)}?mode=ro" + ("" if os.path.exists(path + "-wal") else "&immutable=1")
    connection = sqlite3.connect(
        name, timeout=BUSY_SECONDS, isolation_level=level, check_same_thread=not across_threads, uri=read_only
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_read_only(path: str) -> bool:
    """Whether nothing can be written beside the file, as on a file system that is mounted read-only."""
    return not os.access(os.path.dirname(path), os.W_OK)


def _in_uri(path: str) -> str:
    """A path in a URI. `urllib` would do it too, and takes longer to import than most commands take to ask here."""
    return "".join(f"%{byte:02X}" for byte in os.fsencode(path))


def _check_header(path: str) -> None:
    """Check the file before SQLite opens it, which may write files beside it."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except FileNotFoundError:
        return
    if head and head[:16] != _MAGIC:
        raise DamagedDatabase(path, "it does not have the header of a database", _inode(path))
    if len(head) == 64:
        _check_version(path, int.from_bytes(head[60:64], "big", signed=True))


def _check_version(path: str, found: int) -> int:
    if found > LATEST:
        raise DatabaseError(
            f"the workflow database '{path}' has version {found}; this version of git-agentos reads up to {LATEST}",
            "install a newer git-agentos; the database was not changed",
        )
    return found


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the database; an error if it is newer, or not ours."""
    found = _check_version(path, connection.execute("PRAGMA user_version").fetchone()[0])
    if found and not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'agentos_worktrees'").fetchone():
        raise DatabaseError(
            f"the database '{path}' has version {found}, but git-agentos did not create it",
            "name another file in AGENTOS_WORKFLOW_DB; this one was not changed",
        )
    return found


def _journal(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _set_up(path: str, journal: str) -> None:
    """Create the file with this kind of journal, and its tables, each version in a transaction of its own. The lock
    must be held exclusively."""
    connection = _connect(path)
    try:
        _version(connection, path)
        # On file systems that do not support it, there is a rollback journal, and readers wait for a writer.
        connection.execute(f"PRAGMA journal_mode = {journal}")
        while (version := _version(connection, path)) < LATEST:
            with transaction(connection):
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
                if version == 0 and _has_trigrams(connection):
                    for statement in SEARCH:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
    finally:
        connection.close()


def _has_trigrams(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite has FTS5 with its trigram tokenizer (3.34)."""
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.agentos_probe USING fts5 (x, tokenize = 'trigram')")
        connection.execute("DROP TABLE temp.agentos_probe")
    except sqlite3.OperationalError:
        return False
    return True


def _refuse_foreign(path: str) -> None:
    """Refuse a file that is not a database and that git-agentos has never opened: it is a user's, and is not moved."""
    if os.path.lexists(path + ".lock"):
        return
    try:
        _check_header(path)
    except DamagedDatabase as error:
        if os.path.basename(os.path.dirname(path)) != ".agentos":
            raise DatabaseError(
                f"'{path}' is not a database", "name another file in AGENTOS_WORKFLOW_DB; this one was not changed"
            ) from error


def _lock(path: str, *, exclusive: bool, make: bool = True, patience: float | None = None) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    if make or exclusive:
        descriptor = os.open(path + ".lock", os.O_RDWR | flags | (os.O_CREAT if make else 0), 0o644)
    else:
        descriptor = os.open(path + ".lock", os.O_RDONLY | flags)
    try:
        if locks.try_acquire(descriptor, shared=not exclusive, patience=BUSY_SECONDS if patience is None else patience):
            return descriptor
        raise InUse(f"the workflow database '{path}' is in use by another process", "try again when it has finished")
    except BaseException:
        os.close(descriptor)
        raise


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _inode(path: str) -> Inode | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_dev)


def _one_line(reason: str) -> str:
    """A message of SQLite on one line."""
    return " ".join(reason.replace("*** in database main ***", "").split())


def _failed(path: str, error: OSError) -> DatabaseError:
    return DatabaseError(f"the workflow database '{path}' cannot be used: {system_reason(error)}")
