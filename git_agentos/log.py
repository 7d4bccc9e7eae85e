"""The agent log: what agents did and decided, and errors; written by agents and by the commands that they run.

Entries are rows of the worktree's workflow database. Every checkpoint carries those that are in no checkpoint yet
(`checkpoint.log_sync`), so the log outlives its worktree.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from git_agentos.checkpoint import format, log_sync, timeline
from git_agentos.checkpoint.log_sync import MOST_FILES, CheckpointLog
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointNotFound, DamagedDatabase, UsageError
from git_agentos.git import state_dir, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.redact import redact, redact_value
from git_agentos.row_reader import Reading, RowReader
from git_agentos.store import database, database_path, rows
from git_agentos.store.database import Connection
from git_agentos.store.rows import TYPES, WRITABLE_TYPES, Entry, Item, LogQuery, RowOwner
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import ordered_id

__all__ = [
    "MOST_FILES", "TYPES", "Entry", "Rebuilt", "add", "archive_files", "entries", "follow",
    "last", "read", "rebuild", "revive", "try_add", "write",
]  # fmt: skip

_DATABASE = b"database/issue_workflow.db"  # where an archive has it


class Fields(TypedDict, total=False):
    """Optional fields of a new entry: `details` is any JSON object; `files` are paths relative to the worktree's root;
    `commit` is any name of a commit; `checkpoint_id` is named as in `restore`; `redacted` counts secrets
    that the caller has removed."""

    details: Mapping[str, Any] | None
    files: Sequence[str]
    commit: str | None
    task_id: str | None
    checkpoint_id: str | None
    redacted: int


class Filter(TypedDict, total=False):
    """Which entries to read: this worktree's; with `agent`, those that it wrote and those of its worktree; with
    `every`, all. `kinds` are some of TYPES; `text` must occur in an entry (case does not matter); `limit` counts from
    the beginning of the result."""

    agent: str | None
    every: bool
    kinds: Sequence[str] | None
    since: datetime | None
    limit: int | None
    newest_first: bool
    text: str | None


class Rebuilt(NamedTuple):
    """What `rebuild` did; the fields are the keys of the JSON kind `log-rebuild`.

    `entries` and `items` are the numbers of rows of this worktree in the database, `uncarried` how many of both are in
    no checkpoint yet, `checkpoints` how many were read. `moved_aside` is the new path of a damaged database, None if it
    was not damaged.
    """

    path: str
    entries: int
    items: int
    uncarried: int
    checkpoints: int
    moved_aside: str | None


# -- writing ----------------------------------------------------------------------------------------------------------


def add(context: OpenWorktree, kind: str, summary: str, **fields: Unpack[Fields]) -> Entry:
    """Write an entry of one of WRITABLE_TYPES by `context.agent`; it is on disk when this returns.

    Secrets are removed first. The database is created if there is none.
    """
    if kind not in WRITABLE_TYPES:
        raise UsageError(
            f"'{kind}' is not a type of log entry that can be written", f"one of: {', '.join(WRITABLE_TYPES)}"
        )
    return write(context, kind, summary, **fields)


def write(context: OpenWorktree, kind: str, summary: str, **fields: Unpack[Fields]) -> Entry:
    """As `add`, with any type."""
    entry = _new_entry(context, kind, summary, fields)

    def write(connection: Connection, owner: RowOwner) -> None:
        with database.transaction(connection):
            rows.insert_entries(connection, owner, [entry], None)
            log_sync.drop_old(connection, owner, context.settings)

    log_sync.with_database(context, write, make=True)
    return entry


def is_by_guard(entry: Entry) -> bool:
    """Whether the decision in an entry is the guard's, not the agent's."""
    return entry.type == "decision" and {"layer", "identity", "operations", "run"} <= entry.details.keys()


def try_add(context: OpenWorktree, kind: str, summary: str, **fields: Unpack[Fields]) -> None:
    """Write an automatic entry. An error is only a warning (`AgentosWarning`), and the command continues."""
    try:
        add(context, kind, summary, **fields)
    except (AgentosError, OSError) as error:
        log_sync.warn(f"this was not written to the log: {error}")


note = try_add  # the old name (docs/api.md)


def _new_entry(context: OpenWorktree, kind: str, summary: str, fields: Fields) -> Entry:
    now = time.time_ns()
    task_id = fields.get("task_id")
    clean_summary, first = redact(summary)
    clean_details, second = redact_value(dict(fields.get("details") or {}))
    clean_files, third = redact_value([os.fspath(each) for each in fields.get("files", ())])
    clean_task, fourth = redact(task_id) if task_id is not None else (None, 0)
    entry = Entry(
        id=ordered_id(now),
        timestamp=times.seconds_to_text(now / 1e9),
        type=kind,
        summary=clean_summary,
        details=clean_details,
        commit=_commit(context.repository, fields.get("commit")),
        files_changed=clean_files,
        task_id=clean_task,
        checkpoint_id=_checkpoint(context, fields.get("checkpoint_id")),
        agent_id=context.agent,
        worktree=context.worktree_id,
        redacted=first + second + third + fourth + fields.get("redacted", 0),
    )
    try:
        rows.line(entry)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"details must be a JSON object: {error}") from error
    return entry


def _commit(repository: Repository, name: str | None) -> str | None:
    if name is None or repository.hash.is_oid(name):
        return name
    oid = repository.find_commit(name)
    if oid is None:
        raise UsageError(f"'{name}' is not a commit")
    return oid


def _checkpoint(context: OpenWorktree, spec: str | None) -> str | None:
    if spec is None or context.repository.hash.is_oid(spec):
        return spec
    return timeline.find(context.repository, spec, [context.worktree_id]).checkpoint


# -- reading ----------------------------------------------------------------------------------------------------------


def entries(context: OpenWorktree, **wanted: Unpack[Filter]) -> list[Entry]:
    """The entries that `read` finds. Problems are warnings; if there is no entry, the first is raised."""
    found = read(context, **wanted)
    found.report(empty=not found.rows and wanted.get("limit") != 0)
    return found.rows


def read(context: OpenWorktree, **wanted: Unpack[Filter]) -> Reading[Entry]:
    """Entries by time.

    Logs of removed worktrees, and databases that cannot be read, are read from the timelines. CheckpointNotFound if
    there is no agent or worktree with the name `agent`.
    """
    agent, limit = wanted.get("agent"), wanted.get("limit")
    query = _query(wanted)

    def find(connection: Connection, owner: RowOwner) -> list[Entry]:
        return rows.find_entries(connection, owner, query)

    def carried(part: CheckpointLog, worktree: str) -> Iterator[Entry]:
        return (entry for entry in part.entries if _matches(entry, query, worktree))

    reader = RowReader(context, "log", find, carried)
    found = reader.read(every=agent is not None or wanted.get("every", False))
    if agent is not None and not found and agent not in reader.worktrees:
        _refuse_unknown(context, agent, query)
    if not query.newest_first:
        found.reverse()
    return Reading(found[:limit], reader.problems)


def _query(wanted: Filter) -> LogQuery:
    kinds, since, limit = wanted.get("kinds"), wanted.get("since"), wanted.get("limit")
    for kind in kinds or ():
        if kind not in TYPES:
            raise UsageError(f"'{kind}' is not a type of log entry", f"one of: {', '.join(TYPES)}")
    if limit is not None and limit < 0:
        raise UsageError("the number of entries cannot be negative")
    return LogQuery(
        agent=wanted.get("agent"),
        kinds=tuple(kinds) if kinds is not None else None,
        since=times.to_text(since) if since is not None else None,
        text=wanted.get("text"),
        limit=limit,
        newest_first=wanted.get("newest_first", True),
    )


def _matches(entry: Entry, query: LogQuery, worktree: str) -> bool:
    """Whether an entry that a checkpoint of `worktree` carries matches the query."""
    return (
        (query.agent is None or query.agent in (entry.agent_id, worktree))
        and (query.kinds is None or entry.type in query.kinds)
        and (query.since is None or entry.timestamp >= query.since)
        and (not query.text or rows.contains(entry, query.text))
    )


def last(context: OpenWorktree, location: Location) -> Entry | None:
    """The last entry of the log of the worktree at `location`; None if there is none. Never raises an error.

    It is taken from the newest checkpoint if the database is missing or cannot be read.
    """
    name = timeline.worktree_id(location)
    with contextlib.suppress(AgentosError, OSError):
        path = database_path.check(location, context.settings.workflow_db)
        with database.opened_to_read(path) as opened:
            owner = RowOwner(database_path.repository_id(location, make=False), name)
            found = rows.find_entries(opened.connection, owner, LogQuery(limit=1))
            return found[0] if found else None
    with contextlib.suppress(AgentosError, OSError):
        part = next(log_sync.parts_of(context.repository, name, problems=[]), None)
        return None if part is None else max(part.entries, key=rows.order, default=None)
    return None


def follow(
    context: OpenWorktree, *, stop: Callable[[], bool] = lambda: False, pause: float = 0.3, **wanted: Unpack[Filter]
) -> Iterator[Entry]:
    """The entries that `read` finds (the newest `limit`), oldest first, then new ones as they are written.

    Ends when `stop()` returns true; it is called between two reads, which are at least `pause` seconds apart.
    """
    seen: set[str] = set()
    first = True
    start = wanted.get("since") or datetime.fromtimestamp(0, UTC)
    while True:
        began = time.monotonic()
        found = read(context, **wanted)
        if first:
            found.report(empty=not found.rows and wanted.get("limit") != 0)
        for entry in reversed(found.rows):
            if entry.id not in seen:
                seen.add(entry.id)
                yield entry
        first = False
        if stop():
            return
        # Reading many worktrees takes time: sleep four times as long.
        time.sleep(max(pause, 4 * (time.monotonic() - began)))
        # An entry may be written later than its time says, since writers wait for each other.
        recent = datetime.fromtimestamp(time.time() - 2 * database.BUSY_SECONDS, UTC)
        wanted = {**wanted, "since": max(start, recent), "limit": None}


def _refuse_unknown(context: OpenWorktree, agent: str, query: LogQuery) -> None:
    if query.kinds is None and query.since is None and not query.text and query.limit != 0:
        raise CheckpointNotFound(
            f"there is no agent or worktree '{agent}' in this log", "git agentos log list --all shows all entries"
        )
    read(context, agent=agent, limit=1)


# -- the whole log -----------------------------------------------------------------------------------------------------


def rebuild(context: OpenWorktree) -> Rebuilt:
    """Rebuild the database from the rows that checkpoints carry, or complete it; nothing that can be read is lost.

    A damaged one is moved aside first. Rows that are in no checkpoint yet are kept as far as they can be read.
    """
    path = database_path.prepare(context.location, context.settings.workflow_db)
    aside = None
    if os.path.lexists(path):
        try:
            with database.opened(path) as opened:
                database.check(opened)
        except DamagedDatabase as damaged:
            aside = log_sync.rebuild_damaged(context, damaged)

    def work(connection: Connection, owner: RowOwner) -> Rebuilt:
        read = log_sync.catch_up(connection, context, owner, anew=True)
        for each in database.moved_aside(path):  # the process that moved it may have been killed before it read it
            log_sync.take_over(connection, each)
        if rows.has_index(connection):
            connection.execute("INSERT INTO agentos_log_search (agentos_log_search) VALUES ('rebuild')")
        counts = [
            connection.execute(f"SELECT count(*) FROM {table} WHERE repository = ? AND worktree = ?{more}", owner)
            for table in (rows.LOG, rows.MEMORY)
            for more in ("", " AND carried IS NULL")
        ]
        log, log_waiting, memory, memory_waiting = (int(each.fetchone()[0]) for each in counts)
        return Rebuilt(path, log, memory, log_waiting + memory_waiting, read, aside)

    done = log_sync.with_database(context, work, make=True)
    assert done is not None
    return done


def archive_files(context: OpenWorktree, writer: Writer) -> Mapping[bytes, trees.Entry]:
    """The files of an archive for log, memory and database: all rows as JSON lines, and a copy of the worktree's own
    database file (not of one that worktrees share). Empty if there is no database."""

    def read(connection: Connection, owner: RowOwner) -> tuple[list[Entry], list[Item]]:
        return rows.find_entries(connection, owner, LogQuery()), rows.find_items(connection, owner)

    found = log_sync.with_database(context, read, make=False)
    if found is None:
        return {}
    log = {entry.id: entry for entry in found[0]}
    memory = {item.id: item for item in found[1]}
    for part in log_sync.parts_of(
        context.repository, context.worktree_id
    ):  # rows that agentos.logRetention has deleted
        log = {**{entry.id: entry for entry in part.entries}, **log}
        memory = {**{item.id: item for item in part.memory}, **memory}
    files = {}
    for name, every in ((log_sync.LOG, log), (log_sync.MEMORY, memory)):
        if every or name == log_sync.LOG:
            lines = log_sync.lines(rows.line(row) for row in sorted(every.values(), key=rows.order))
            files[b"database/" + name] = (trees.REGULAR, writer.write("blob", lines))
    if database_path.shared_file(context.settings.workflow_db) is None:
        path = database_path.check(context.location, "")
        with state_dir.scratch(context.location) as folder:
            copy = os.path.join(folder, "copy.db")
            with database.opened(path) as opened:
                database.backup(opened, copy)
            with open(copy, "rb") as file:
                files[_DATABASE] = (trees.REGULAR, writer.write("blob", file.read()))
    return files


def revive(context: OpenWorktree, fetched: str | None = None) -> None:
    """Restore log and memory of a revived worktree: the database of its newest archive, if it has one, and all rows
    that its checkpoints carry.

    With `fetched`, the timeline of another host, only the rows: they are then in this worktree's own next checkpoint.
    No database is opened that somebody else has made.
    """
    if fetched is not None:
        log_sync.with_database(
            context, lambda connection, owner: log_sync.import_rows(connection, context, owner, fetched), make=True
        )
        return
    variable = context.settings.workflow_db
    path = database_path.prepare(context.location, variable)
    if database_path.shared_file(variable) is None and not os.path.lexists(path):
        data = _archived(context.repository, context.worktree_id)
        if data is not None:
            database.install_copy(path, data)
    log_sync.with_database(
        context, lambda _connection, _owner: None, make=True
    )  # creates the database if there is none


def _archived(repository: Repository, name: str) -> bytes | None:
    """The database in the newest archive of a timeline."""
    for link in timeline.walk(repository, name):
        extra = repository.commit(format.open_checkpoint(repository, link.checkpoint).metadata_commit).tree
        found = trees.find(repository, extra, _DATABASE)
        if found is not None:
            return repository.blob(found[1])
    return None
