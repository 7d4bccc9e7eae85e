"""The workflow database without some texts: rows are written again, and what was deleted is overwritten.

SQLite leaves deleted rows in free pages, in its write-ahead log, and in the index for searches. So the file is written
anew (`VACUUM`), the log is emptied, and the index is built again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping

from git_agentos.errors import DatabaseError
from git_agentos.store import database
from git_agentos.store.rows import LOG, MEMORY, has_index
from git_agentos.util.named_tuple import NamedTuple

_WAIT = 10.0  # seconds for readers that keep the write-ahead log in use
_PAUSE = 0.05
_ENDS = ("", "-wal", "-journal")


class Change(NamedTuple):
    """How rows are changed: `text` changes any text, `ids` are checkpoints and the ids that they have now, and `more`
    changes the tables of others, if there are any; whether it did."""

    text: Callable[[str], str]
    ids: Mapping[str, str]
    more: Callable[[sqlite3.Connection], bool]


def clean_file(path: str, repository: str, change: Change) -> None:
    """Change the rows of a repository in the database at `path`. DatabaseError if it cannot be used, or if another
    process keeps its log in use."""
    with database.opened(path) as opened:
        connection = opened.connection
        connection.execute("PRAGMA secure_delete = ON")
        with database.transaction(connection):
            _change(connection, change, repository)
        connection.execute("VACUUM")
        _empty_log(connection, path)


def clean_copy(data: bytes, change: Change) -> bytes | None:
    """A copy of a database, made by `database.backup`, with its rows changed; None where nothing changes or it cannot
    be read. It is never written to a file."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            connection.deserialize(data)
            connection.execute("PRAGMA trusted_schema = OFF")
            with database.transaction(connection):
                changed = _change(connection, change, None)
            if not changed:
                return None
            connection.execute("VACUUM")
            return connection.serialize()
        except sqlite3.Error:
            return None


def files(path: str) -> Iterator[str]:
    """The files of a database that exist."""
    yield from (path + end for end in _ENDS if os.path.lexists(path + end))


def _change(connection: sqlite3.Connection, change: Change, repository: str | None) -> bool:
    """Change all rows, or those of one repository; whether any did."""
    changed = False
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in (each for each in (LOG, MEMORY) if each in tables):
        changed = _change_table(connection, table, change, repository) or changed
    if LOG in tables and has_index(connection):
        connection.execute("INSERT INTO agentos_log_search (agentos_log_search) VALUES ('rebuild')")
    return change.more(connection) or changed


def _change_table(connection: sqlite3.Connection, table: str, change: Change, repository: str | None) -> bool:
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    columns = [name for name in names if name not in ("seq", "repository", "worktree")]
    changed = False
    for row in connection.execute(f"SELECT seq, repository, {', '.join(columns)} FROM {table}").fetchall():
        seq, owner, *values = row
        if repository not in (None, owner):
            continue
        new = [change.text(value) if isinstance(value, str) else value for value in values]
        fields = dict(zip(columns, new, strict=True))
        fields["carried"] = change.ids.get(fields["carried"], fields["carried"])
        if fields.get("type") == "checkpoint" and _checkpoint_of(fields["body"]) in change.ids:
            connection.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))  # it is read again from the timeline
            changed = True
        elif list(fields.values()) != values:
            marks = ", ".join(f"{name} = ?" for name in columns)
            connection.execute(f"UPDATE {table} SET {marks} WHERE seq = ?", (*fields.values(), seq))
            changed = True
    return changed


def _checkpoint_of(body: str) -> str:
    """The checkpoint for which an entry of type `checkpoint` stands."""
    return body.partition('"checkpoint_id":"')[2].partition('"')[0]


def _empty_log(connection: sqlite3.Connection, path: str) -> None:
    deadline = time.monotonic() + _WAIT
    while True:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return
        if time.monotonic() >= deadline:
            raise DatabaseError(
                f"another process keeps the log of the workflow database '{path}' in use", "try again when it has ended"
            )
        time.sleep(_PAUSE)
