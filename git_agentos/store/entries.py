"""Rows of the agent log: `Entry` <-> row <-> line of `log.jsonl`.

A line is the entry as one JSON object in ASCII; its keys are the fields of `Entry`. A reader ignores keys that it does
not know, and lines that are not an entry. Entries with the same id are the same entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from git_agentos.store.rows import RowOwner, storable

if TYPE_CHECKING:
    from sqlite3 import Connection

TYPES = ("action", "decision", "error", "checkpoint", "nudge")
_MOST = (1 << 63) - 1  # the largest integer of SQLite
_SHORTEST = 3  # the shortest text that the search index finds


@dataclass(frozen=True)
class Entry:
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


_FIELDS = frozenset(each.name for each in fields(Entry))


class LogQuery(NamedTuple):
    """Conditions that entries must meet: `agent` wrote them or owns their worktree; `text` occurs in them; `since` is a
    timestamp, `after` a row number."""

    worktree: str | None = None
    agent: str | None = None
    kinds: Sequence[str] | None = None
    since: str | None = None
    text: str | None = None
    after: int = 0
    limit: int | None = None
    newest_first: bool = True


def line(entry: Entry) -> str:
    """The entry as a line of `log.jsonl`."""
    return json.dumps(vars(entry), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def parse(text: str | bytes) -> Entry | None:
    """The entry in a line; None if it is not an entry."""
    try:
        body: dict[str, Any] = json.loads(text)
        known = {name: body[name] for name in _FIELDS if name in body}
        entry = Entry(**known)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return entry if _is_sound(known) else None


def _is_sound(known: dict[str, Any]) -> bool:
    return (
        all(isinstance(known[name], str) for name in ("id", "timestamp", "type", "summary", "agent_id", "worktree"))
        and all(isinstance(known[name], str | None) for name in ("commit", "task_id", "checkpoint_id"))
        and isinstance(known["details"], dict)
        and isinstance(known["files_changed"], list)
        and all(isinstance(each, str) for each in known["files_changed"])
        and isinstance(known.get("redacted", 0), int)
    )


def _of_row(body: str) -> Entry:
    """The entry of a row, which was valid when it was written. It is not created by `Entry(...)`, because a frozen
    dataclass sets its fields one by one, which is slow for a whole log."""
    known = json.loads(body)
    if known.keys() != _FIELDS:
        known = {name: known[name] for name in _FIELDS if name in known}
        return Entry(**known)
    entry = object.__new__(Entry)
    vars(entry).update(known)
    return entry


def order(entry: Entry) -> tuple[str, str]:
    """The key by which entries are sorted."""
    return (entry.timestamp, entry.id)


def insert(connection: Connection, scope: RowOwner, entries: Iterable[Entry], carried: str | None) -> int:
    """Add entries, within a transaction; existing ones are not changed. Returns how many were new."""
    before = last_row(connection)
    done = connection.executemany(
        "INSERT OR IGNORE INTO agentos_log (repository, worktree, id, timestamp, type, agent, body, text, carried)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *scope, storable(entry.id), storable(entry.timestamp), storable(entry.type), storable(entry.agent_id),
                line(entry), searchable(entry), carried,
            )
            for entry in entries
        ),
    )  # fmt: skip
    if done.rowcount and has_index(connection):
        connection.execute(
            "INSERT INTO agentos_log_search (rowid, text) SELECT seq, text FROM agentos_log WHERE seq > ?", (before,)
        )
    return done.rowcount


def find(connection: Connection, repository: str, query: LogQuery) -> list[Entry]:
    """Entries of one repository, by time."""
    conditions, values = ["repository = ?"], [repository]
    if query.worktree is not None:
        conditions.append("worktree = ?")
        values.append(query.worktree)
    if query.agent is not None:
        conditions.append("(agent = ? OR worktree = ?)")
        values += [query.agent, query.agent]
    if query.kinds is not None:
        conditions.append(f"type IN ({', '.join('?' * len(query.kinds))})")
        values += query.kinds
    if query.since is not None:
        conditions.append("timestamp >= ?")
        values.append(query.since)
    more: list[object] = [*values]
    if query.after:
        conditions.append("seq > ?")
        more.append(query.after)
    if query.text:
        condition, value = _containing(connection, query.text)
        conditions.append(condition)
        more.append(value)
    direction = "DESC" if query.newest_first else "ASC"
    statement = (
        f"SELECT body FROM agentos_log WHERE {' AND '.join(conditions)} ORDER BY timestamp {direction}, id {direction}"
    )
    if query.limit is not None:
        statement += " LIMIT ?"
        more.append(min(query.limit, _MOST))
    return [_of_row(body) for (body,) in connection.execute(statement, more)]


def first_by_other_agent(connection: Connection, scope: RowOwner, agent: str, after: str) -> Entry | None:
    """The first entry about files, other than checkpoints, that another agent wrote in a worktree after a time."""
    rows = connection.execute(
        "SELECT body FROM agentos_log WHERE repository = ? AND worktree = ? AND timestamp > ? AND agent != ?"
        " AND type != 'checkpoint' ORDER BY timestamp, id",
        (*scope, after, agent),
    )
    found = (_of_row(body) for (body,) in rows)
    return next((entry for entry in found if entry.files_changed), None)


def last_row(connection: Connection) -> int:
    """The highest row number ever used."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'agentos_log'").fetchone()
    return int(row[0]) if row is not None else 0


def drop_older(connection: Connection, scope: RowOwner, timestamp: str) -> int:
    """Delete entries from before a time that are in a checkpoint, within a transaction; how many."""
    which = "repository = ? AND worktree = ? AND timestamp < ? AND carried IS NOT NULL"
    if has_index(connection):
        connection.execute(
            "INSERT INTO agentos_log_search (agentos_log_search, rowid, text)"
            f" SELECT 'delete', seq, text FROM agentos_log WHERE {which}",
            (*scope, timestamp),
        )
    return connection.execute(f"DELETE FROM agentos_log WHERE {which}", (*scope, timestamp)).rowcount


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
    return storable(text).casefold() in searchable(entry).casefold()


def searchable(entry: Entry) -> str:
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
