"""Rows of one workflow in LangGraph's tables: copied out of a database, and into another.

Copied are the newest row of a thread, which has its whole state, the first row, which says to whom it belongs, and the
pending writes of the newest. Rows are copied unchanged, with their MAC: if one was changed, reading it reports that.
"""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

from git_agentos.errors import DatabaseError
from git_agentos.store import database

if TYPE_CHECKING:
    from sqlite3 import Connection

CHECKPOINTS = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata")
WRITES = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel", "type", "value")
_TABLES = (  # as LangGraph creates them
    """CREATE TABLE IF NOT EXISTS checkpoints (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT,
        type TEXT,
        checkpoint BLOB,
        metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    )""",
    """CREATE TABLE IF NOT EXISTS writes (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL,
        channel TEXT NOT NULL,
        type TEXT,
        value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    )""",
)
MISSING, FRESH, WITHOUT, THERE = "missing", "fresh", "without", "there"


def names(connection: Connection) -> list[str]:
    """The ids of all threads; none if the database never had a workflow."""
    if not has_table(connection):
        return []
    return [str(row[0]) for row in connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]


def take(connection: Connection, thread: str) -> bytes | None:
    """The rows of a thread as a document; None if there are none. Nothing else may write to it meanwhile."""
    columns = ", ".join(CHECKPOINTS)
    found = connection.execute(
        f"SELECT {columns} FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = '' AND checkpoint_id IN"
        " (SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = ''"
        " UNION SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = '')"
        " ORDER BY checkpoint_id",
        (thread,),
    ).fetchall()
    if not found:
        return None
    newest = found[-1][CHECKPOINTS.index("checkpoint_id")]
    writes = connection.execute(
        f"SELECT {', '.join(WRITES)} FROM writes WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
        (thread, newest),
    ).fetchall()
    body = {
        "checkpoints": [list(map(packed, row)) for row in found],
        "writes": [list(map(packed, row)) for row in writes],
    }
    return json.dumps(body, indent=1).encode("ascii") + b"\n"


def give(path: str, thread: str, data: bytes) -> None:
    """Insert the rows of a document into the database at `path`, which is created if necessary. Rows of other threads
    and invalid rows are left out. DatabaseError if it is not such a document."""
    try:
        body = json.loads(data)
        checkpoints = [[unpacked(each) for each in row] for row in body["checkpoints"]]
        writes = [[unpacked(each) for each in row] for row in body["writes"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatabaseError(f"the copy of the state of workflow '{thread}' is damaged") from error
    with database.opened(path) as opened, database.transaction(opened.connection):
        for statement in _TABLES:
            opened.connection.execute(statement)
        for table, columns, rows in (("checkpoints", CHECKPOINTS, checkpoints), ("writes", WRITES, writes)):
            marks = ", ".join("?" * len(columns))
            opened.connection.executemany(
                f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})",
                [row for row in rows if len(row) == len(columns) and row[0] == thread],
            )


def state(path: str, thread: str) -> str:
    """Whether a database has a thread: MISSING (there is no file), FRESH (it never had a workflow), WITHOUT (it has
    others), or THERE. THERE also for a damaged or foreign file, to which nothing may be added."""
    if not os.path.lexists(path):
        return MISSING
    try:
        with database.opened_to_read(path) as opened:
            if not has_table(opened.connection):
                return FRESH
            row = opened.connection.execute("SELECT 1 FROM checkpoints WHERE thread_id = ?", (thread,)).fetchone()
            return WITHOUT if row is None else THERE
    except DatabaseError:
        return THERE


def has_table(connection: Connection, name: str = "checkpoints") -> bool:
    """Whether a database has a table of LangGraph's."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone())


def packed(value: Any) -> Any:
    """A value of a row, for a document."""
    return {"bytes": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


def unpacked(value: Any) -> Any:
    """A value of a row, from a document; ValueError for anything else."""
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"], validate=True)
    if value is None or isinstance(value, str | int):
        return value
    raise ValueError("not a value of a row")
