"""The whole log and memory of a worktree: rebuilt from the timeline, put into an archive, restored from one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from git_agentos.checkpoint import format, log_sync, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import DamagedDatabase
from git_agentos.git import state_dir, trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.store import database, database_path, rows
from git_agentos.store.database import Connection
from git_agentos.store.rows import Entry, Item, LogQuery, RowOwner

_DATABASE = b"issue_workflow.db"


@dataclass(frozen=True)
class Rebuilt:
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
        log = {**{entry.id: entry for entry in (*part.log, part.own)}, **log}
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
                files[b"database/" + _DATABASE] = (trees.REGULAR, writer.write("blob", file.read()))
    return files


def revive(context: OpenWorktree) -> None:
    """Restore log and memory of a revived worktree: the database of its newest archive, if it has one, and all rows
    that its checkpoints carry."""
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
        found = trees.find(repository, extra, b"database/" + _DATABASE)
        if found is not None:
            return repository.blob(found[1])
    return None
