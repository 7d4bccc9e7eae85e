"""What checkpoints carry of log and memory, and how the workflow database is kept in step with the timeline.

A row is written to the database first; the next checkpoint puts the rows that wait into S, as `log.jsonl` and
`memory.jsonl` (one JSON object a line: `store.entries`, `store.items`), and marks them once the timeline has it. A
checkpoint itself is an entry of type `checkpoint`, made from its metadata whenever it is read: it never waits.

The database notes how far the timeline has been read into it. Whoever opens it reads the rest first: so a kill between
the two writes costs nothing, a database that is new or was damaged is filled from the checkpoints, and one that was
brought along with the worktree catches up. A checkpoint that has `database/log.jsonl` (an archive's) holds everything
before it, and reading ends there.

This module is loaded only where there is a database or somebody asks for one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.timeline import TimelineEntry
from git_agentos.config import Settings
from git_agentos.errors import (
    AgentosError,
    AgentosWarning,
    CheckpointFormatError,
    DamagedDatabase,
    DatabaseError,
    MissingObjectsError,
    RepositoryError,
)
from git_agentos.git import trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.redact import redact
from git_agentos.store import database, database_path, entries, items, rows, salvage
from git_agentos.store.database import Connection
from git_agentos.store.entries import Entry
from git_agentos.store.items import Item
from git_agentos.store.rows import RowOwner
from git_agentos.util import times

T = TypeVar("T")

LOG = b"log.jsonl"
MEMORY = b"memory.jsonl"
ARCHIVE = b"database"
MOST_FILES = 1000


# Why what was read is not all that there is.
Problems = list[AgentosError]


class TimelineCut(AgentosError):
    """A timeline cannot be read to its end."""


class NewerFormat(AgentosError):
    """A checkpoint cannot be understood: a newer version may."""


class Unread(DatabaseError):
    """A database cannot be read, and checkpoints are read in its place; `cause` says why."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(f"{what}: {cause}", cause.hint if isinstance(cause, AgentosError) else None)
        self.cause = cause


class PendingLog(NamedTuple):
    """What waits to be carried: the lines, and the numbers of their rows."""

    log: list[rows.PendingRow]
    memory: list[rows.PendingRow]

    def __bool__(self) -> bool:
        return bool(self.log or self.memory)

    def files(self, writer: Writer) -> dict[bytes, trees.Entry]:
        """The files of S that carry it."""
        found = {}
        for name, part in ((LOG, self.log), (MEMORY, self.memory)):
            if part:
                found[name] = (trees.REGULAR, writer.write("blob", lines(row.line for row in part)))
        return found


class CheckpointLog(NamedTuple):
    """What one checkpoint says: its own entry, what it carries, and whether that is everything before it too."""

    link: TimelineEntry
    own: Entry
    log: list[Entry]
    memory: list[Item]
    whole: bool


def lines(rows: Any) -> bytes:
    """Lines as they stand in a file."""
    return "".join(f"{row}\n" for row in rows).encode("ascii")


# -- a checkpoint is made ---------------------------------------------------------------------------------------------


def pending(repository: Repository, settings: Settings, worktree: str) -> PendingLog | None:
    """What a checkpoint of `worktree` has to carry; None where there is no database, or none that can be used.

    A log never keeps a checkpoint from being made: what is wrong with it is a warning.
    """
    try:
        return with_database(
            repository,
            settings,
            worktree,
            lambda connection, scope: PendingLog(
                rows.pending(connection, rows.LOG, scope), rows.pending(connection, rows.MEMORY, scope)
            ),
            make=False,
        )
    except (AgentosError, OSError) as error:
        warn(f"the log was not saved with the checkpoint: {error}")
        return None


class Appended(NamedTuple):
    """A checkpoint that was appended to the timeline of `worktree`, whose tip it moved from `previous` to `tip`."""

    worktree: str
    previous: str
    tip: str
    checkpoint: Checkpoint


def mark_saved(repository: Repository, settings: Settings, load: PendingLog, appended: Appended) -> None:
    """Note that the timeline has a checkpoint: its rows are not pending any more. What is not noted here is found again
    later."""
    checkpoint = appended.checkpoint
    try:
        path = database_path.check(repository.location, settings.workflow_db)
        scope = RowOwner(database_path.repository_id(repository.location), appended.worktree)
        with database.opened(path) as opened:
            database.relax_sync(opened)
            connection = opened.connection
            with database.transaction(connection):
                rows.mark_rows_saved(connection, rows.LOG, (row.seq for row in load.log), checkpoint.id)
                rows.mark_rows_saved(connection, rows.MEMORY, (row.seq for row in load.memory), checkpoint.id)
                entries.insert(connection, scope, [entry_of(checkpoint)], checkpoint.id)
                connection.execute(
                    "UPDATE agentos_worktrees SET tip = ? WHERE repository = ? AND worktree = ? AND tip = ?",
                    (appended.tip, *scope, appended.previous),
                )
                drop_old(connection, scope, settings)
    except (AgentosError, OSError) as error:
        warn(f"the checkpoint was not noted in the log: {error}")


# -- the database -----------------------------------------------------------------------------------------------------


def exists(repository: Repository, settings: Settings) -> bool:
    """Whether the worktree has a workflow database."""
    return os.path.lexists(database_path.path_of(repository.location, settings.workflow_db))


def with_database(
    repository: Repository,
    settings: Settings,
    worktree: str,
    work: Callable[[Connection, RowOwner], T],
    *,
    make: bool,
    problems: Problems | None = None,
) -> T | None:
    """Do `work` with the database of a worktree, in step with its timeline; None where there is none and `make` is not
    set. A damaged one is moved aside and made again from the checkpoints, with a warning; `work` may then run twice.
    `problems` is told what of the timeline cannot be read; without it that is a warning.
    """
    where = repository.location
    if not make and not exists(repository, settings):
        return None
    path = (database_path.prepare if make else database_path.check)(where, settings.workflow_db)
    for attempt in range(3):
        try:
            scope = RowOwner(database_path.repository_id(where), worktree)
            with database.opened(path) as opened:
                catch_up(opened.connection, repository, settings, scope, problems=problems)
                return work(opened.connection, scope)
        except DamagedDatabase as damaged:
            if attempt == 2:
                raise
            rebuild_damaged(repository, settings, worktree, damaged)
    raise AssertionError("the loop returns or raises")


def rebuild_damaged(repository: Repository, settings: Settings, worktree: str, damaged: DamagedDatabase) -> str | None:
    """Move a damaged database aside and make it again; where the old one is now, None if another process was faster."""
    aside = database.move_aside(damaged.path, damaged.inode)
    if aside is None:
        return None
    with database.opened(damaged.path) as opened:
        scope = RowOwner(database_path.repository_id(repository.location), worktree)
        catch_up(opened.connection, repository, settings, scope)
        found = take_over(opened.connection, aside)
    warn(
        f"the workflow database was damaged ({damaged.reason}): it was moved to '{aside}' and made again from the"
        f" checkpoints; {found} rows that no checkpoint had were read out of it"
    )
    return aside


def take_over(connection: Connection, aside: str) -> int:
    """Bring in the rows of a damaged database that no checkpoint carries, as far as they can be read; how many."""
    salvaged = salvage.pending_rows(aside)
    count = 0
    with database.transaction(connection):
        for scope, line in salvaged.log:
            entry = entries.parse(line)
            count += entries.insert(connection, scope, [entry], None) if entry is not None else 0
        for scope, line in salvaged.memory:
            item = items.parse(line)
            count += items.insert(connection, scope, [item], None) if item is not None else 0
    return count


def catch_up(
    connection: Connection,
    repository: Repository,
    settings: Settings,
    scope: RowOwner,
    *,
    anew: bool = False,
    problems: Problems | None = None,
) -> int:
    """Read what the database does not know of the timeline yet, or with `anew` all of it; how many checkpoints."""
    tip = timeline.tip(repository.location, scope.worktree)
    known, reached = reached_of(connection, scope)
    if known and reached == tip and not anew:
        return 0
    parts, complete = _collect(repository, scope.worktree, None if anew else reached, problems)
    oldest = _oldest_kept(settings)
    with database.transaction(connection):
        for part in reversed(parts):
            checkpoint = part.link.checkpoint
            rows.mark_saved(connection, rows.LOG, scope, (each.id for each in part.log), checkpoint)
            rows.mark_saved(connection, rows.MEMORY, scope, (each.id for each in part.memory), checkpoint)
            kept = [each for each in (*part.log, part.own) if each.timestamp >= oldest]
            entries.insert(connection, scope, kept, checkpoint)
            items.insert(connection, scope, part.memory, checkpoint)
        if complete:
            connection.execute(
                "INSERT INTO agentos_worktrees (repository, worktree, tip) VALUES (?, ?, ?)"
                " ON CONFLICT (repository, worktree) DO UPDATE SET tip = excluded.tip",
                (*scope, tip),
            )
    return len(parts)


def reached_of(connection: Connection, scope: RowOwner) -> tuple[bool, str | None]:
    """Whether the worktree's timeline has been read into the database, and up to which commit."""
    row = connection.execute(
        "SELECT tip FROM agentos_worktrees WHERE repository = ? AND worktree = ?", scope
    ).fetchone()
    return (True, row[0]) if row is not None else (False, None)


def _collect(
    repository: Repository, worktree: str, until: str | None, problems: Problems | None
) -> tuple[list[CheckpointLog], bool]:
    """The parts of a timeline, and whether all of it has been read: one that a newer version wrote is tried again."""
    found: Problems = []
    parts = list(parts_of(repository, worktree, until, found))
    if problems is None:
        for each in found:
            warn(str(each))
    else:
        problems += found
    return parts, not any(isinstance(each, NewerFormat | TimelineCut) for each in found)


def drop_old(connection: Connection, scope: RowOwner, settings: Settings) -> None:
    """Let go of what is older than agentos.logRetention and is in a checkpoint."""
    oldest = _oldest_kept(settings)
    if oldest:
        entries.drop_older(connection, scope, oldest)


def _oldest_kept(settings: Settings) -> str:
    """agentos.logRetention as a time stamp: what is older and carried leaves the database; empty for no limit."""
    if not settings.log_retention:
        return ""
    return times.to_text(datetime.now(UTC) - timedelta(days=settings.log_retention))


# -- reading a timeline -----------------------------------------------------------------------------------------------


def parts_of(
    repository: Repository, worktree: str, until: str | None = None, problems: Problems | None = None
) -> Iterator[CheckpointLog]:
    """What the checkpoints of a timeline say, the newest first, down to the timeline commit `until` without it.

    A checkpoint that cannot be read is left out, and `problems` is told so; without that it is a warning, and a
    timeline that is cut off an error.
    """
    links = timeline.walk(repository, worktree)
    while True:
        try:
            link = next(links, None)
        except (MissingObjectsError, RepositoryError) as error:
            if problems is None:
                raise
            problems.append(TimelineCut(f"the timeline of '{worktree}' cannot be read to its end: {error}"))
            return
        if link is None or link.commit == until:
            return
        try:
            part = part_of(repository, link)
        except (CheckpointFormatError, MissingObjectsError) as error:
            _left_out(problems, link, error)
            continue
        yield part
        if part.whole:
            return


def _left_out(problems: Problems | None, link: TimelineEntry, error: AgentosError) -> None:
    text = f"what checkpoint {link.checkpoint[:8]} says to the log cannot be read: {error}"
    if problems is None:
        warn(text)
    elif isinstance(error, CheckpointFormatError):
        problems.append(NewerFormat(text, error.hint))
    else:
        problems.append(AgentosError(text, error.hint))


def part_of(repository: Repository, link: TimelineEntry) -> CheckpointLog:
    """What one checkpoint says."""
    found = format.open_checkpoint(repository, link.checkpoint)
    top = trees.parse(repository.read_tree(repository.commit(found.metadata_commit).tree))
    kept = trees.parse(repository.read_tree(top[ARCHIVE][1])) if ARCHIVE in top else {}
    both = (kept, top)
    log = {each.id: each for tree in both for each in map(entries.parse, _lines(repository, tree, LOG)) if each}
    memory = {each.id: each for tree in both for each in map(items.parse, _lines(repository, tree, MEMORY)) if each}
    own = entry_of(format.describe(link.checkpoint, found.meta))
    return CheckpointLog(link, own, list(log.values()), list(memory.values()), LOG in kept)


def _lines(repository: Repository, top: Mapping[bytes, trees.Entry], name: bytes) -> list[bytes]:
    """The lines of a file in a tree; none if there is no such file."""
    data = repository.blob(top[name][1]) if name in top else b""
    return [line for line in data.split(b"\n") if line.strip()]


def entry_of(checkpoint: Checkpoint) -> Entry:
    """The entry that a checkpoint itself is; always the same for the same checkpoint."""
    summary, count = redact(checkpoint.description or f"{checkpoint.trigger.replace('_', ' ')} checkpoint")
    files = [*checkpoint.staged_changes, *checkpoint.unstaged_changes, *checkpoint.untracked_files]
    files = list(dict.fromkeys(files))
    details: dict[str, Any] = {"trigger": checkpoint.trigger}
    if checkpoint.branch is not None:
        details["branch"] = checkpoint.branch
    if len(files) > MOST_FILES:
        details["files"] = len(files)
    return Entry(
        id=_id_of(checkpoint),
        timestamp=checkpoint.created_at,
        type="checkpoint",
        summary=summary,
        details=details,
        commit=checkpoint.commit,
        files_changed=files[:MOST_FILES],
        task_id=checkpoint.task_id,
        checkpoint_id=checkpoint.id,
        agent_id=checkpoint.created_by,
        worktree=checkpoint.timeline,
        redacted=count,
    )


def _id_of(checkpoint: Checkpoint) -> str:
    try:
        taken = times.to_seconds(checkpoint.created_at)
    except ValueError:
        taken = 0.0
    return f"{max(0, round(taken * 1000)) * 1_000_000:016x}{checkpoint.id[:16]}"


def warn(text: str) -> None:
    warnings.warn(AgentosWarning(text), stacklevel=3)


def report(problems: Problems, *, empty: bool) -> None:
    """Warn of problems; where the answer would be `empty`, raise the first: there is more."""
    if problems and empty:
        first = problems[0]
        raise first.cause if isinstance(first, Unread) and isinstance(first.cause, AgentosError) else first
    for each in problems:
        warn(str(each))
