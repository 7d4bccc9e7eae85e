"""Rows of the agent log and of the working memory: `Entry` or `Item` <-> row <-> line of `log.jsonl` or `memory.jsonl`.

A line is the row as one JSON object in ASCII; its keys are the fields of `Entry` or `Item`. A reader ignores keys that
it does not know, and lines that are neither. Rows with the same id are the same row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import is_of_type

if TYPE_CHECKING:
    from sqlite3 import Connection

LOG, MEMORY = "agentos_log", "agentos_memory"  # tables
WRITABLE_TYPES = ("action", "decision", "error", "checkpoint", "nudge")
TURN, SESSION = "turn", "session"
TYPES = (*WRITABLE_TYPES, TURN, SESSION)
_MOST = (1 << 63) - 1  # the largest integer of SQLite
_SHORTEST = 3  # the shortest text that the search index finds


class RowOwner(NamedTuple):
    """The owner of rows: a repository's id (`database_path.repository_id`) and a worktree's."""

    repository: str
    worktree: str


class PendingRow(NamedTuple):
    """A row that is in no checkpoint yet. One that `can_wait` is carried by the next checkpoint, but is no reason to
    create one."""

    seq: int
    line: str
    can_wait: bool = False


class Entry(NamedTuple):
    """One entry of an agent's log; the fields are the keys of the JSON kind `log-entry`.

    `timestamp` is ISO 8601 UTC; `type` one of TYPES; `details` any JSON object; `files_changed` are paths relative to
    the worktree's root; `redacted` counts the secrets that were removed before it was written. `id` sorts by time.
    """

    id: str
    timestamp: str
    type: str
    summary: str
    details: dict[str, Any]
    commit: str | None
    files_changed: list[str]
    task_id: str | None
    checkpoint_id: str | None
    agent_id: str
    worktree: str
    redacted: int = 0


class Contribution(NamedTuple):
    """What one worktree contributed to a merge: its checkpoints, oldest first."""

    worktree: str
    checkpoints: list[str]


class Item(NamedTuple):
    """One item of the working memory; the fields are the keys of the JSON kind `memory-item`.

    An `artifact` is a file: its `type`, `path` and `description`, and the `commit` and `checkpoint_id` when it was
    recorded. Of a `merge`, `commit` is the merge commit, `target` the branch, `sources` are the worktrees and
    `contributions` their checkpoints.
    """

    id: str
    kind: str
    created_at: str
    created_by: str
    worktree: str
    type: str | None = None
    path: str | None = None
    description: str | None = None
    commit: str | None = None
    checkpoint_id: str | None = None
    target: str | None = None
    sources: list[str] = []  # noqa: RUF012 (a tuple's field; no value is changed in place)
    contributions: list[Contribution] = []  # noqa: RUF012


Row = TypeVar("Row", bound=Entry | Item)
_FIELDS: dict[type, dict[str, str]] = {kind: kind.__annotations__ for kind in (Entry, Item)}


# -- lines ------------------------------------------------------------------------------------------------------------


def line(row: Entry | Item) -> str:
    """The row as a line of its file."""
    body = row._asdict()
    if isinstance(row, Item):
        body["contributions"] = [each._asdict() for each in row.contributions]
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def parse(kind: type[Row], text: str | bytes) -> Row | None:
    """The row of this kind in a line; None if there is none."""
    try:
        body: dict[str, Any] = json.loads(text)
        types = _FIELDS[kind]
        known = {name: body[name] for name in types if name in body}
        if "contributions" in known:
            known["contributions"] = [
                Contribution(str(each["worktree"]), [str(oid) for oid in each["checkpoints"]])
                for each in known["contributions"]
            ]
        row = kind(**known)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return row if all(is_of_type(value, types[name]) for name, value in known.items()) else None


def order(row: Entry | Item) -> tuple[str, str]:
    """The key by which rows are sorted: by time."""
    return (row.timestamp if isinstance(row, Entry) else row.created_at, row.id)


# -- the rows of a checkpoint -----------------------------------------------------------------------------------------


def pending(connection: Connection, table: str, owner: RowOwner) -> list[PendingRow]:
    """The rows that are in no checkpoint yet, in the order in which they were added."""
    can_wait = f"type = '{SESSION}'" if table == LOG else "0"
    rows = connection.execute(
        f"SELECT seq, body, {can_wait} FROM {table}"
        " WHERE repository = ? AND worktree = ? AND carried IS NULL ORDER BY seq",
        owner,
    )
    return [PendingRow(seq, body, bool(can_wait)) for seq, body, can_wait in rows]


def mark_saved(connection: Connection, table: str, owner: RowOwner, ids: Iterable[str], checkpoint: str) -> None:
    """Record the checkpoint that carries the rows with these ids, unless one is recorded."""
    connection.executemany(
        f"UPDATE {table} SET carried = ? WHERE repository = ? AND worktree = ? AND id = ? AND carried IS NULL",
        ((checkpoint, *owner, storable(each)) for each in ids),
    )


def mark_rows_saved(connection: Connection, table: str, numbers: Iterable[int], checkpoint: str) -> None:
    """Record the checkpoint that carries the rows with these numbers, unless one is recorded."""
    connection.executemany(
        f"UPDATE {table} SET carried = ? WHERE seq = ? AND carried IS NULL", ((checkpoint, seq) for seq in numbers)
    )


def storable(text: str) -> str:
    """Text that SQLite can store: bytes that are not UTF-8, and NUL, at which its functions stop, are replaced."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\0", "\ufffd")


# -- memory -----------------------------------------------------------------------------------------------------------


def insert_items(connection: Connection, owner: RowOwner, items: Iterable[Item], carried: str | None) -> int:
    """Add items; existing ones are not changed. Returns how many were new."""
    done = connection.executemany(
        "INSERT OR IGNORE INTO agentos_memory (repository, worktree, id, created_at, body, carried)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        ((*owner, storable(each.id), storable(each.created_at), line(each), carried) for each in items),
    )
    return done.rowcount


def find_items(connection: Connection, owner: RowOwner) -> list[Item]:
    """The items of a worktree, newest first."""
    rows = connection.execute(
        "SELECT body FROM agentos_memory WHERE repository = ? AND worktree = ? ORDER BY created_at DESC, id DESC", owner
    )
    found = (parse(Item, body) for (body,) in rows)
    return [item for item in found if item is not None]


# -- log --------------------------------------------------------------------------------------------------------------


class LogQuery(NamedTuple):
    """Conditions that entries must meet: `agent` wrote them or owns their worktree; `text` occurs in them; `since` is a
    timestamp."""

    agent: str | None = None
    kinds: Sequence[str] | None = None
    since: str | None = None
    text: str | None = None
    limit: int | None = None
    newest_first: bool = True


def insert_entries(connection: Connection, owner: RowOwner, entries: Iterable[Entry], carried: str | None) -> int:
    """Add entries, within a transaction; existing ones are not changed. Returns how many were new."""
    before = _last_row(connection)
    done = connection.executemany(
        "INSERT OR IGNORE INTO agentos_log (repository, worktree, id, timestamp, type, agent, body, text, carried)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *owner, storable(entry.id), storable(entry.timestamp), storable(entry.type), storable(entry.agent_id),
                line(entry), _searchable(entry), carried,
            )
            for entry in entries
        ),
    )  # fmt: skip
    if done.rowcount and has_index(connection):
        connection.execute(
            "INSERT INTO agentos_log_search (rowid, text) SELECT seq, text FROM agentos_log WHERE seq > ?", (before,)
        )
    return done.rowcount


def find_entries(connection: Connection, owner: RowOwner, query: LogQuery) -> list[Entry]:
    """Entries of a worktree, by time."""
    conditions = ["repository = ?", "worktree = ?"]
    values: list[object] = [*owner]
    if query.agent is not None:
        conditions.append("(agent = ? OR worktree = ?)")
        values += [query.agent, query.agent]
    if query.kinds is not None:
        conditions.append(f"type IN ({', '.join('?' * len(query.kinds))})")
        values += query.kinds
    if query.since is not None:
        conditions.append("timestamp >= ?")
        values.append(query.since)
    if query.text:
        condition, value = _containing(connection, query.text)
        conditions.append(condition)
        values.append(value)
    direction = "DESC" if query.newest_first else "ASC"
    statement = (
        f"SELECT body FROM agentos_log WHERE {' AND '.join(conditions)} ORDER BY timestamp {direction}, id {direction}"
    )
    if query.limit is not None:
        statement += " LIMIT ?"
        values.append(min(query.limit, _MOST))
    return [_entry_of_row(body) for (body,) in connection.execute(statement, values)]


def _entry_of_row(body: str) -> Entry:
    """The entry of a row, which was valid when it was written."""
    known = json.loads(body)
    return Entry(**{name: known[name] for name in _FIELDS[Entry] if name in known})


def first_by_other_agent(connection: Connection, owner: RowOwner, agent: str, after: str) -> Entry | None:
    """The first entry about files that another agent wrote in a worktree after a time. Those of checkpoints, turns and
    sessions do not count."""
    rows = connection.execute(
        "SELECT body FROM agentos_log WHERE repository = ? AND worktree = ? AND timestamp > ? AND agent != ?"
        " AND type NOT IN ('checkpoint', 'turn', 'session') ORDER BY timestamp, id",
        (*owner, after, agent),
    )
    found = (_entry_of_row(body) for (body,) in rows)
    return next((entry for entry in found if entry.files_changed), None)


def _last_row(connection: Connection) -> int:
    """The highest row number ever used."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'agentos_log'").fetchone()
    return int(row[0]) if row is not None else 0


def drop_older(connection: Connection, owner: RowOwner, timestamp: str) -> None:
    """Delete entries from before a time that are in a checkpoint, but not turns, within a transaction."""
    which = "repository = ? AND worktree = ? AND timestamp < ? AND carried IS NOT NULL AND type != 'turn'"
    if has_index(connection):
        connection.execute(
            "INSERT INTO agentos_log_search (agentos_log_search, rowid, text)"
            f" SELECT 'delete', seq, text FROM agentos_log WHERE {which}",
            (*owner, timestamp),
        )
    connection.execute(f"DELETE FROM agentos_log WHERE {which}", (*owner, timestamp))


def _containing(connection: Connection, text: str) -> tuple[str, str]:
    """The condition that `text` occurs: by the search index if possible, else by LIKE."""
    plain = storable(text)
    if len(plain) >= _SHORTEST and has_index(connection):
        phrase = '"' + plain.replace('"', '""') + '"'
        return "seq IN (SELECT rowid FROM agentos_log_search WHERE agentos_log_search MATCH ?)", phrase
    escaped = plain.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return "text LIKE ? ESCAPE '\\'", f"%{escaped}%"


def has_index(connection: Connection) -> bool:
    """Whether the database has the index for searches."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'agentos_log_search'").fetchone())


def contains(entry: Entry, text: str) -> bool:
    """Whether `text` occurs in an entry that is not in a database."""
    return storable(text).casefold() in _searchable(entry).casefold()


def _searchable(entry: Entry) -> str:
    """The text that is searched."""
    parts = [entry.summary, *_texts(entry.details), *entry.files_changed, entry.task_id, entry.commit]
    parts += [entry.checkpoint_id, entry.agent_id, entry.type]
    return storable("\n".join(part for part in parts if part))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)
