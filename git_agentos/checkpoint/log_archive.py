"""The whole log and memory of a worktree: rebuilt from the timeline, put into an archive, restored from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from git_agentos.checkpoint import format, log_sync, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import DamagedDatabase
from git_agentos.git import state_dir, trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.store import database, database_path, items
from git_agentos.store import entries as rows
from git_agentos.store.database import Connection
from git_agentos.store.entries import Entry, LogQuery
from git_agentos.store.rows import RowOwner

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
    repository, settings = context.repository, context.settings
    path = database_path.prepare(context.location, settings.workflow_db)
    aside = None
    if os.path.lexists(path):
        try:
            with database.opened(path) as opened:
                database.check(opened)
        except DamagedDatabase as damaged:
            aside = log_sync.rebuild_damaged(repository, settings, context.worktree_id, damaged)

    def work(connection: Connection, scope: RowOwner) -> Rebuilt:
        read = log_sync.catch_up(connection, repository, settings, scope, anew=True)
        for each in database.moved_aside(path):  # the process that moved it may have been killed before it read it
            log_sync.take_over(connection, each)
        if rows.has_index(connection):
            connection.execute("INSERT INTO agentos_log_search (agentos_log_search) VALUES ('rebuild')")
        counts = [
            connection.execute(f"SELECT count(*) FROM {table} WHERE repository = ? AND worktree = ?{more}", scope)
            for table in ("agentos_log", "agentos_memory")
            for more in ("", " AND carried IS NULL")
        ]
        log, log_waiting, memory, memory_waiting = (int(each.fetchone()[0]) for each in counts)
        return Rebuilt(path, log, memory, log_waiting + memory_waiting, read, aside)

    done = _using(context, work, make=True)
    assert isinstance(done, Rebuilt)
    return done


def archive_files(context: OpenWorktree, writer: Writer) -> Mapping[bytes, trees.Entry]:
    """The files of an archive for log, memory and database: all rows as JSON lines, and a copy of the worktree's own
    database file (not of one that worktrees share). Empty if there is no database."""

    def read(connection: Connection, scope: RowOwner) -> tuple[list[Entry], list[items.Item]]:
        found = rows.find(connection, scope.repository, LogQuery(worktree=scope.worktree, newest_first=False))
        return found, items.find(connection, *scope)[::-1]

    repository = context.repository
    found = _using(context, read, make=False)
    if found is None:
        return {}
    log = {entry.id: entry for entry in found[0]}
    memory = {item.id: item for item in found[1]}
    for part in log_sync.parts_of(repository, context.worktree_id):  # rows that agentos.logRetention has deleted
        log = {**{entry.id: entry for entry in (*part.log, part.own)}, **log}
        memory = {**{item.id: item for item in part.memory}, **memory}
    lines = log_sync.lines(rows.line(entry) for entry in sorted(log.values(), key=rows.order))
    files = {b"database/" + log_sync.LOG: (trees.REGULAR, writer.write("blob", lines))}
    if memory:
        lines = log_sync.lines(items.line(item) for item in sorted(memory.values(), key=items.order))
        files[b"database/" + log_sync.MEMORY] = (trees.REGULAR, writer.write("blob", lines))
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
    repository, settings = context.repository, context.settings
    path = database_path.prepare(context.location, settings.workflow_db)
    if database_path.shared_file(settings.workflow_db) is None and not os.path.lexists(path):
        data = _archived(repository, context.worktree_id)
        if data is not None:
            database.install_copy(path, data)
    _using(context, lambda _connection, _owner: None, make=True)  # creates the database if there is none


def _archived(repository: Repository, name: str) -> bytes | None:
    """The database in the newest archive of a timeline."""
    for link in timeline.walk(repository, name):
        extra = repository.commit(format.open_checkpoint(repository, link.checkpoint).metadata_commit).tree
        found = trees.find(repository, extra, b"database/" + _DATABASE)
        if found is not None:
            return repository.blob(found[1])
    return None


def _using(context: OpenWorktree, work: Callable[[Connection, RowOwner], Any], *, make: bool) -> Any:
    return log_sync.with_database(context.repository, context.settings, context.worktree_id, work, make=make)
