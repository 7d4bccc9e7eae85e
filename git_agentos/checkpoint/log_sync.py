"""What checkpoints carry of log and memory, and how the workflow database is synchronised with the timeline.

A row is written to the database first. The next checkpoint puts the pending rows into S, as `log.jsonl` and
`memory.jsonl` (one JSON object per line: `store.rows`), and marks them after the timeline has it. A
checkpoint itself is an entry of type `checkpoint`, derived from its metadata whenever it is read: it is never pending.

The database records how far it has read the timeline, and the next process that opens it reads the rest first. So
nothing is lost by a kill between the two writes; a new or damaged database is filled from the checkpoints; and one that
was copied with the worktree catches up. A checkpoint that has `database/log.jsonl` (an archive's) contains everything
before it, so reading ends there.

This module is imported only if there is a database, or one is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from git_agentos.checkpoint import carrier, format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
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
from git_agentos.store import database, database_path, rows
from git_agentos.store.database import Connection
from git_agentos.store.rows import Entry, Item, RowOwner
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

T = TypeVar("T")

LOG, MEMORY = carrier.LOG, carrier.MEMORY
ARCHIVE = b"database"
MOST_FILES = 1000


# Errors because of which rows may be missing.
Problems = list[AgentosError]


class TimelineCut(AgentosError):
    """A timeline cannot be read to its end."""


class NewerFormat(AgentosError):
    """A checkpoint has a format that only a newer version can read."""


class Unread(DatabaseError):
    """A database cannot be read, because of `cause`; checkpoints are read instead."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(f"{what}: {cause}", cause.hint if isinstance(cause, AgentosError) else None)
        self.cause = cause


class PendingLog(NamedTuple):
    """The pending rows: their lines, and their row ids."""

    log: list[rows.PendingRow]
    memory: list[rows.PendingRow]

    def __bool__(self) -> bool:
        return bool(self.log or self.memory)

    @property
    def is_reason(self) -> bool:
        """Whether a checkpoint has to be created for the rows, although nothing else has changed."""
        return any(not row.can_wait for row in (*self.log, *self.memory))

    def files(self, writer: Writer) -> dict[bytes, trees.Entry]:
        """The files of S that carry the rows."""
        found = {}
        for name, part in ((LOG, self.log), (MEMORY, self.memory)):
            if part:
                found[name] = (trees.REGULAR, writer.write("blob", lines(row.line for row in part)))
        return found


class CheckpointLog(NamedTuple):
    """The rows of one checkpoint: its own entry, those that it carries, and whether these include all earlier ones.

    A carrier has no entry of its own.
    """

    link: TimelineEntry
    own: Entry | None
    log: list[Entry]
    memory: list[Item]
    whole: bool

    @property
    def entries(self) -> list[Entry]:
        """All entries."""
        return self.log if self.own is None else [*self.log, self.own]


def lines(rows: Any) -> bytes:
    """Rows as lines of a file."""
    return "".join(f"{row}\n" for row in rows).encode("ascii")


# -- creating a checkpoint --------------------------------------------------------------------------------------------


def pending(worktree: OpenWorktree) -> PendingLog | None:
    """The rows that a checkpoint of the worktree must carry; None if there is no database, or it cannot be used.

    An error of the log never prevents a checkpoint: it is a warning.
    """

    def read(connection: Connection, owner: RowOwner) -> PendingLog:
        return PendingLog(*(rows.pending(connection, table, owner) for table in (rows.LOG, rows.MEMORY)))

    try:
        return with_database(worktree, read, make=False)
    except (AgentosError, OSError) as error:
        warn(f"the log was not saved with the checkpoint: {error}")
        return None


def mark_saved(worktree: OpenWorktree, load: PendingLog, checkpoint: Checkpoint, previous: str, tip: str) -> None:
    """Mark the rows of a checkpoint as saved: the worktree's timeline has it, and moved from `previous` to `tip`. If
    this fails, they are found in the timeline later."""
    try:
        path = database_path.check(worktree.location, worktree.settings.workflow_db)
        owner = RowOwner(database_path.repository_id(worktree.location), worktree.worktree_id)
        with database.opened(path) as opened:
            database.relax_sync(opened)
            connection = opened.connection
            with database.transaction(connection):
                rows.mark_rows_saved(connection, rows.LOG, (row.seq for row in load.log), checkpoint.id)
                rows.mark_rows_saved(connection, rows.MEMORY, (row.seq for row in load.memory), checkpoint.id)
                rows.insert_entries(connection, owner, [entry_of(checkpoint)], checkpoint.id)
                connection.execute(
                    "UPDATE agentos_worktrees SET tip = ? WHERE repository = ? AND worktree = ? AND tip = ?",
                    (tip, *owner, previous),
                )
                drop_old(connection, owner, worktree.settings)
    except (AgentosError, OSError) as error:
        warn(f"the checkpoint was not recorded in the log: {error}")


# -- the database -----------------------------------------------------------------------------------------------------


def with_database(
    worktree: OpenWorktree, work: Callable[[Connection, RowOwner], T], *, make: bool, problems: Problems | None = None
) -> T | None:
    """Call `work` with the database of a worktree, after it has caught up with the timeline.

    Returns None if there is no database and `make` is false. A damaged database is moved aside and rebuilt from the
    checkpoints, with a warning; `work` may then run twice. What cannot be read of the timeline is added to `problems`;
    without it, that is a warning.
    """
    if not make and not worktree.has_database:
        return None
    # The id first: where the git directory is read-only, no folder is left in the worktree.
    owner = RowOwner(database_path.repository_id(worktree.location), worktree.worktree_id)
    path = (database_path.prepare if make else database_path.check)(worktree.location, worktree.settings.workflow_db)
    for attempt in range(3):
        try:
            with database.opened(path) as opened:
                catch_up(opened.connection, worktree, owner, problems=problems)
                return work(opened.connection, owner)
        except DamagedDatabase as damaged:
            if attempt == 2:
                raise
            rebuild_damaged(worktree, damaged)
    raise AssertionError("the loop returns or raises")


def rebuild_damaged(worktree: OpenWorktree, damaged: DamagedDatabase) -> str | None:
    """Move a damaged database aside and rebuild it; its new path, or None if another process was faster."""
    aside = database.move_aside(damaged.path, damaged.inode)
    if aside is None:
        return None
    with database.opened(damaged.path) as opened:
        owner = RowOwner(database_path.repository_id(worktree.location), worktree.worktree_id)
        catch_up(opened.connection, worktree, owner)
        found = take_over(opened.connection, aside)
    warn(
        f"the workflow database was damaged ({damaged.reason}): it was moved to '{aside}' and rebuilt from the"
        f" checkpoints; {found} rows that were in no checkpoint were read from it"
    )
    return aside


def take_over(connection: Connection, aside: str) -> int:
    """Import the rows of a damaged database that are in no checkpoint, as far as they can be read; how many."""
    salvaged = database.read_pending(aside)
    count = 0
    with database.transaction(connection):
        for owner, line in salvaged.log:
            entry = rows.parse(Entry, line)
            count += rows.insert_entries(connection, owner, [entry], None) if entry is not None else 0
        for owner, line in salvaged.memory:
            item = rows.parse(Item, line)
            count += rows.insert_items(connection, owner, [item], None) if item is not None else 0
    return count


def import_rows(connection: Connection, worktree: OpenWorktree, owner: RowOwner, name: str) -> None:
    """Import the rows of another timeline, those that stand for its checkpoints included. No checkpoint of this one
    carries them yet, so the next one will."""
    with database.transaction(connection):
        for part in parts_of(worktree.repository, name, problems=[]):
            rows.insert_entries(connection, owner, part.entries, None)
            rows.insert_items(connection, owner, part.memory, None)


def catch_up(
    connection: Connection,
    worktree: OpenWorktree,
    owner: RowOwner,
    *,
    anew: bool = False,
    problems: Problems | None = None,
) -> int:
    """Read the part of the timeline that the database does not have yet, or with `anew` all; how many checkpoints."""
    repository = worktree.repository
    tip = timeline.tip(repository.location, owner.worktree)
    known, reached = reached_of(connection, owner)
    if known and reached == tip and not anew:
        return 0
    parts, complete = _collect(repository, owner.worktree, None if anew else reached, problems)
    oldest = _oldest_kept(worktree.settings)
    with database.transaction(connection):
        for part in reversed(parts):
            checkpoint = part.link.checkpoint
            rows.mark_saved(connection, rows.LOG, owner, (each.id for each in part.log), checkpoint)
            rows.mark_saved(connection, rows.MEMORY, owner, (each.id for each in part.memory), checkpoint)
            kept = [each for each in part.entries if each.timestamp >= oldest or each.type == "turn"]
            rows.insert_entries(connection, owner, kept, checkpoint)
            rows.insert_items(connection, owner, part.memory, checkpoint)
        if complete:
            connection.execute(
                "INSERT INTO agentos_worktrees (repository, worktree, tip) VALUES (?, ?, ?)"
                " ON CONFLICT (repository, worktree) DO UPDATE SET tip = excluded.tip",
                (*owner, tip),
            )
    return len(parts)


def reached_of(connection: Connection, owner: RowOwner) -> tuple[bool, str | None]:
    """Whether the worktree's timeline has been read into the database, and up to which commit."""
    row = connection.execute(
        "SELECT tip FROM agentos_worktrees WHERE repository = ? AND worktree = ?", owner
    ).fetchone()
    return (True, row[0]) if row is not None else (False, None)


def _collect(
    repository: Repository, worktree: str, until: str | None, problems: Problems | None
) -> tuple[list[CheckpointLog], bool]:
    """The rows of a timeline, by checkpoint, and whether all of it was read: one of a newer format is tried again
    later."""
    found: Problems = []
    parts = list(parts_of(repository, worktree, until, found))
    if problems is None:
        for each in found:
            warn(str(each))
    else:
        problems += found
    return parts, not any(isinstance(each, NewerFormat | TimelineCut) for each in found)


def drop_old(connection: Connection, owner: RowOwner, settings: Settings) -> None:
    """Delete rows that are older than agentos.logRetention and in a checkpoint; turns are kept."""
    oldest = _oldest_kept(settings)
    if oldest:
        rows.drop_older(connection, owner, oldest)


def _oldest_kept(settings: Settings) -> str:
    """agentos.logRetention as a time stamp, before which saved rows are deleted; empty for no limit."""
    if not settings.log_retention:
        return ""
    return times.to_text(datetime.now(UTC) - timedelta(days=settings.log_retention))


# -- reading a timeline -----------------------------------------------------------------------------------------------


def parts_of(
    repository: Repository, worktree: str, until: str | None = None, problems: Problems | None = None
) -> Iterator[CheckpointLog]:
    """The rows of the checkpoints of a timeline, newest first, down to the timeline commit `until`, without it.

    A checkpoint that cannot be read is left out and added to `problems`. Without `problems`, that is a warning, and a
    timeline that cannot be read to its end is an error.
    """
    links = timeline.walk(repository, worktree, carriers=True)
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
    text = f"cannot read the log entries of checkpoint {link.checkpoint[:8]}: {error}"
    if problems is None:
        warn(text)
    elif isinstance(error, CheckpointFormatError):
        problems.append(NewerFormat(text, error.hint))
    else:
        problems.append(AgentosError(text, error.hint))


def part_of(repository: Repository, link: TimelineEntry) -> CheckpointLog:
    """The rows of one checkpoint, or of a carrier."""
    if link.is_carrier:
        held = carrier.read(repository, link.checkpoint)
        return CheckpointLog(link, None, _parsed([held.log], Entry), _parsed([held.memory], Item), False)
    found = format.open_checkpoint(repository, link.checkpoint)
    top = repository.entries(repository.commit(found.metadata_commit).tree)
    kept = repository.entries(top[ARCHIVE][1]) if ARCHIVE in top else {}
    log = _rows(repository, (kept, top), LOG, Entry)
    memory = _rows(repository, (kept, top), MEMORY, Item)
    own = entry_of(format.describe(link.checkpoint, found.meta))
    return CheckpointLog(link, own, log, memory, LOG in kept)


def _rows(
    repository: Repository, within: Sequence[Mapping[bytes, trees.Entry]], name: bytes, kind: type[rows.Row]
) -> list[rows.Row]:
    """The rows in the files of this name in some trees, each once; where trees differ, as the last has it."""
    return _parsed((repository.blob(tree[name][1]) for tree in within if name in tree), kind)


def _parsed(contents: Iterable[bytes], kind: type[rows.Row]) -> list[rows.Row]:
    found = {}
    for data in contents:
        for line in data.split(b"\n"):
            row = rows.parse(kind, line)
            if row is not None:
                found[row.id] = row
    return list(found.values())


def entry_of(checkpoint: Checkpoint) -> Entry:
    """The entry that stands for a checkpoint; always the same for the same checkpoint."""
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
    """Warn of problems. If the result would be `empty`, raise the first: there may be rows."""
    if problems and empty:
        first = problems[0]
        raise first.cause if isinstance(first, Unread) and isinstance(first.cause, AgentosError) else first
    for each in problems:
        warn(str(each))
