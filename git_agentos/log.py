"""The agent log: what agents did, decided and met, told by themselves and by the commands that they ran.

Entries are rows of the worktree's workflow database; every checkpoint carries those that none has yet
(`checkpoint.carry`), so the log outlives its worktree. What is read of others' comes from their databases while they
live, and from their timelines afterwards.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from git_agentos.checkpoint import carry, timeline
from git_agentos.checkpoint.carry import MOST_FILES, Problems
from git_agentos.checkpoint.context import Context
from git_agentos.config import Settings
from git_agentos.errors import AgentosError, CheckpointNotFound, DamagedDatabase, UsageError
from git_agentos.git import locks, moment, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer, is_hex
from git_agentos.redact import redact, redact_value
from git_agentos.store import database, items
from git_agentos.store import entries as rows
from git_agentos.store import location as place
from git_agentos.store.database import Connection
from git_agentos.store.entries import TYPES, Entry, Scope, Wanted

__all__ = [
    "MOST_FILES", "TYPES", "Entry", "Reading", "Rebuilt", "add", "archive_files", "entries", "follow", "is_open",
    "last", "note", "read", "rebuild", "revive",
]  # fmt: skip

_DATABASE = b"issue_workflow.db"


@dataclass(frozen=True)
class Rebuilt:
    """What `rebuild` did; the fields are the keys of the JSON kind `log-rebuild`.

    `entries` and `items` are what the database holds of this worktree now, `uncarried` how many of both no checkpoint
    carries yet, `checkpoints` how many were read; `moved_aside` is where a damaged database went, None if it was sound.
    """

    path: str
    entries: int
    items: int
    uncarried: int
    checkpoints: int
    moved_aside: str | None


class Reading(NamedTuple):
    """Entries, and why they are not all that there are; no reason where they are."""

    entries: list[Entry]
    problems: Problems

    @property
    def complete(self) -> bool:
        """Whether these are all entries."""
        return not self.problems

    def tell(self, *, empty: bool) -> None:
        """Warn of what is wrong; raise it where the answer would be `empty`."""
        carry.tell(self.problems, empty=empty)


# -- writing ----------------------------------------------------------------------------------------------------------


def add(
    context: Context,
    kind: str,
    summary: str,
    *,
    details: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    commit: str | None = None,
    task_id: str | None = None,
    checkpoint_id: str | None = None,
) -> Entry:
    """Write an entry, made by `context.agent`; it is on disk when this returns.

    `kind` is one of TYPES; `details` any JSON object; `files` paths relative to the worktree's root; `commit` any name
    of a commit, `checkpoint_id` as in `restore`. Secrets are taken out first. Makes the database where there is none.
    """
    if kind not in TYPES:
        raise UsageError(f"'{kind}' is not a type of log entry", f"one of: {', '.join(TYPES)}")
    entry = _entry(
        context,
        kind,
        summary,
        details=details or {},
        files=files,
        commit=_commit(context.repository, commit),
        task_id=task_id,
        checkpoint_id=_checkpoint(context, checkpoint_id),
    )

    def write(connection: Connection, scope: Scope) -> Entry:
        with database.transaction(connection):
            rows.insert(connection, scope, [entry], None)
            carry.drop_old(connection, scope, context.settings)
        return entry

    _using(context, write)
    return entry


def is_by_guard(entry: Entry) -> bool:
    """Whether an entry tells what the guard decided about a command, and not what its agent decided."""
    return entry.type == "decision" and {"layer", "identity", "operations", "run"} <= entry.details.keys()


def note(
    context: Context,
    kind: str,
    summary: str,
    *,
    details: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    commit: str | None = None,
    task_id: str | None = None,
    checkpoint_id: str | None = None,
) -> None:
    """Write an automatic entry: what goes wrong is a warning (`AgentosWarning`), and the command around it goes on."""
    try:
        add(
            context,
            kind,
            summary,
            details=details,
            files=files,
            commit=commit,
            task_id=task_id,
            checkpoint_id=checkpoint_id,
        )
    except (AgentosError, OSError) as error:
        carry.warn(f"this was not written to the log: {error}")


def is_open(context: Context) -> bool:
    """Whether the worktree has a workflow database."""
    return carry.exists(context.repository, context.settings)


def _entry(
    context: Context,
    kind: str,
    summary: str,
    *,
    details: Mapping[str, Any],
    files: Sequence[str],
    commit: str | None,
    task_id: str | None,
    checkpoint_id: str | None,
) -> Entry:
    now = time.time_ns()
    told, first = redact(summary)
    cleaned, second = redact_value(dict(details))
    names, third = redact_value([os.fspath(each) for each in files])
    task, fourth = redact(task_id) if task_id is not None else (None, 0)
    entry = Entry(
        id=f"{now:016x}{os.urandom(8).hex()}",
        timestamp=moment.stamp(datetime.fromtimestamp(now / 1e9, UTC)),
        type=kind,
        summary=told,
        details=cleaned,
        commit=commit,
        files_changed=names,
        task_id=task,
        checkpoint_id=checkpoint_id,
        agent_id=context.agent,
        worktree=context.timeline,
        redacted=first + second + third + fourth,
    )
    try:
        rows.line(entry)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the details are no JSON object: {error}") from error
    return entry


def _commit(repository: Repository, name: str | None) -> str | None:
    if name is None or _is_id(name):
        return name
    found = repository.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128))
    if not found.strip():
        raise UsageError(f"'{name}' is not a commit")
    return found.strip().decode("ascii")


def _is_id(text: str) -> bool:
    return len(text) == 40 and is_hex(text)


def _checkpoint(context: Context, spec: str | None) -> str | None:
    if spec is None or _is_id(spec):
        return spec
    return timeline.find(context.repository, spec, [context.timeline]).checkpoint


def _using(context: Context, work: Callable[[Connection, Scope], Any], *, make: bool = True) -> Any:
    return carry.using(context.repository, context.settings, context.timeline, work, make=make)


# -- reading ----------------------------------------------------------------------------------------------------------


def entries(
    context: Context,
    *,
    agent: str | None = None,
    every: bool = False,
    kinds: Sequence[str] | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    newest_first: bool = True,
    text: str | None = None,
) -> list[Entry]:
    """The entries that `read` finds. What keeps them from being all there are is a warning; where no entry is left, it
    is raised."""
    found = read(
        context,
        agent=agent,
        every=every,
        kinds=kinds,
        since=since,
        limit=limit,
        newest_first=newest_first,
        text=text,
    )
    found.tell(empty=not found.entries and limit != 0)
    return found.entries


def read(
    context: Context,
    *,
    agent: str | None = None,
    every: bool = False,
    kinds: Sequence[str] | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    newest_first: bool = True,
    text: str | None = None,
) -> Reading:
    """Entries by time: this worktree's; with `agent` those that it made or whose worktree is its; or all.

    `kinds` are some of TYPES; `text` has to occur in an entry (case does not matter); `limit` takes from the side that
    comes first. Worktrees that are gone, and databases that cannot be read, are read from their timelines.
    CheckpointNotFound where nothing here knows `agent`.
    """
    for kind in kinds or ():
        if kind not in TYPES:
            raise UsageError(f"'{kind}' is not a type of log entry", f"one of: {', '.join(TYPES)}")
    if limit is not None and limit < 0:
        raise UsageError("the number of entries cannot be negative")
    wanted = Wanted(
        agent=agent,
        kinds=tuple(kinds) if kinds is not None else None,
        since=moment.stamp(since) if since is not None else None,
        text=text,
        limit=limit,
        newest_first=newest_first,
    )
    problems: Problems = []
    found = _own(context, wanted, problems)
    if agent is not None or every:
        others = _others(context)
        for name, where in others.items():
            found += _of_other(context, name, where, wanted, problems)
        if agent is not None and not found and agent not in (context.timeline, *others):
            _refuse_unknown(context, agent, wanted)
    unique = {entry.id: entry for entry in found}
    merged = sorted(unique.values(), key=rows.order, reverse=newest_first)
    return Reading(merged if limit is None else merged[:limit], problems)


def last(where: Location, settings: Settings | None = None, repository: Repository | None = None) -> Entry | None:
    """The last entry of a worktree's log that is in its database; None where there is none. Never an error.

    Without `settings` it is the worktree's own file that is looked into. Where that is missing, or cannot be read, the
    newest checkpoint is asked, if `repository` is given.
    """
    path = place.file_of(where, settings.workflow_db if settings is not None else "")
    name = timeline.name_of(where)
    with contextlib.suppress(AgentosError, OSError):
        place.check_place(where, settings.workflow_db if settings is not None else "")
        with database.opened_to_read(path) as opened:
            found = rows.find(opened.connection, place.repository_id(where, make=False), Wanted(worktree=name, limit=1))
            return found[0] if found else None
    with contextlib.suppress(AgentosError, OSError):
        part = None if repository is None else next(carry.parts_of(repository, name, problems=[]), None)
        return None if part is None else max((*part.log, part.own), key=rows.order)
    return None


def follow(
    context: Context,
    *,
    agent: str | None = None,
    every: bool = False,
    kinds: Sequence[str] | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    pause: float = 0.3,
) -> Iterator[Entry]:
    """The entries as `entries` gives them (the newest `limit`), the oldest first, then new ones as they come.

    Ends when `stop()` says so; it is asked between two looks, which are at least `pause` seconds apart.
    """
    seen: set[str] = set()
    first = True
    begin = since
    start = since or datetime.fromtimestamp(0, UTC)
    while True:
        began = time.monotonic()
        # An entry may be written a while after its time: writers wait for each other.
        found = read(context, agent=agent, every=every, kinds=kinds, since=begin, limit=limit if first else None)
        if first:
            found.tell(empty=not found.entries and limit != 0)
        for entry in reversed(found.entries):
            if entry.id not in seen:
                seen.add(entry.id)
                yield entry
        first = False
        if stop():
            return
        # Many worktrees take a while to look into: most of the time nothing is to be done.
        time.sleep(max(pause, 4 * (time.monotonic() - began)))
        begin = max(start, datetime.fromtimestamp(time.time() - 2 * database.BUSY_SECONDS, UTC))


def _own(context: Context, wanted: Wanted, problems: Problems) -> list[Entry]:
    def find(connection: Connection, scope: Scope) -> list[Entry]:
        return rows.find(connection, scope.repository, wanted._replace(worktree=scope.worktree))

    own: Problems = []
    try:
        where = (context.repository, context.settings, context.timeline)
        found = list(carry.using(*where, find, make=True, problems=own) or ())
    except (AgentosError, OSError):  # nothing can be written to it; it may be readable
        return _of_other(context, context.timeline, context.location, wanted, problems)
    problems += own
    return found


def _others(context: Context) -> dict[str, Location | None]:
    """The other worktrees that this repository knows of, by id; None for those that are gone."""
    core = context.settings.values.get("core.worktree", [None])[-1]
    found: dict[str, Location | None] = dict.fromkeys(timeline.all_names(context.location))
    for where in worktrees.living(context.location, core):
        found[timeline.name_of(where)] = where
    found.pop(context.timeline, None)
    return found


def _of_other(context: Context, name: str, where: Location | None, wanted: Wanted, problems: Problems) -> list[Entry]:
    repository = context.repository
    if where is None or not os.path.lexists(place.file_of(where, context.settings.workflow_db)):
        return _of_timeline(repository, name, wanted, problems)
    try:
        path = place.check_place(where, context.settings.workflow_db)
        scope = Scope(place.repository_id(where), name)
        with database.opened_to_read(path) as opened:
            known, reached = carry.reached_of(opened.connection, scope)
            found = rows.find(opened.connection, scope.repository, wanted._replace(worktree=name))
    except database.NotSetUp:
        return _of_timeline(repository, name, wanted, problems)
    except (AgentosError, OSError) as error:
        problems.append(carry.Unread(f"the log of '{name}' is read from its checkpoints alone", error))
        return _of_timeline(repository, name, wanted, problems)
    return found + _of_timeline(repository, name, wanted, problems, reached if known else None)


def _of_timeline(
    repository: Repository, name: str, wanted: Wanted, problems: Problems, until: str | None = None
) -> list[Entry]:
    """What the checkpoints of a worktree carry, after the timeline commit `until`."""
    if until is not None and timeline.tip(repository.location, name) == until:
        return []
    return [
        entry
        for part in carry.parts_of(repository, name, until, problems)
        for entry in (*part.log, part.own)
        if (wanted.agent is None or wanted.agent in (entry.agent_id, name))
        and (wanted.kinds is None or entry.type in wanted.kinds)
        and (wanted.since is None or entry.timestamp >= wanted.since)
        and (not wanted.text or rows.contains(entry, wanted.text))
    ]


def _refuse_unknown(context: Context, agent: str, wanted: Wanted) -> None:
    if wanted.kinds is None and wanted.since is None and not wanted.text and wanted.limit != 0:
        raise CheckpointNotFound(
            f"there is no agent or worktree '{agent}' in this log", "git agentos log list --all shows everybody's"
        )
    read(context, agent=agent, limit=1)


# -- outliving the worktree -------------------------------------------------------------------------------------------


def rebuild(context: Context) -> Rebuilt:
    """Make the database again from what the checkpoints carry, or complete it; nothing that can be read is lost.

    A damaged one is moved aside first. Rows that no checkpoint carries yet are kept as far as they can be read.
    """
    repository, settings = context.repository, context.settings
    path = place.make_place(context.location, settings.workflow_db)
    aside = None
    if os.path.lexists(path):
        try:
            with database.opened(path) as opened:
                database.check(opened)
        except DamagedDatabase as damaged:
            aside = carry.mend(repository, settings, context.timeline, damaged)

    def work(connection: Connection, scope: Scope) -> Rebuilt:
        read = carry.catch_up(connection, repository, settings, scope, anew=True)
        for each in database.moved_aside(path):  # whoever moved it may have been killed before it read it
            carry.take_over(connection, each)
        if rows.has_index(connection):
            connection.execute("INSERT INTO agentos_log_search (agentos_log_search) VALUES ('rebuild')")
        counts = [
            connection.execute(f"SELECT count(*) FROM {table} WHERE repository = ? AND worktree = ?{more}", scope)
            for table in ("agentos_log", "agentos_memory")
            for more in ("", " AND carried IS NULL")
        ]
        log, log_waiting, memory, memory_waiting = (int(each.fetchone()[0]) for each in counts)
        return Rebuilt(path, log, memory, log_waiting + memory_waiting, read, aside)

    done = _using(context, work)
    assert isinstance(done, Rebuilt)
    return done


def archive_files(context: Context, writer: Writer) -> Mapping[bytes, trees.Entry]:
    """What an archive holds of log, memory and database: the whole of both as JSON lines, and a copy of the worktree's
    own file (of one that worktrees share, nothing but the lines). Empty where there is no database."""

    def read(connection: Connection, scope: Scope) -> tuple[list[Entry], list[items.Item]]:
        found = rows.find(connection, scope.repository, Wanted(worktree=scope.worktree, newest_first=False))
        return found, items.find(connection, *scope)[::-1]

    repository = context.repository
    found = _using(context, read, make=False)
    if found is None:
        return {}
    log = {entry.id: entry for entry in found[0]}
    memory = {item.id: item for item in found[1]}
    for part in carry.parts_of(repository, context.timeline):  # what agentos.logRetention has dropped
        log = {**{entry.id: entry for entry in (*part.log, part.own)}, **log}
        memory = {**{item.id: item for item in part.memory}, **memory}
    lines = carry.lines(rows.line(entry) for entry in sorted(log.values(), key=rows.order))
    files = {b"database/" + carry.LOG: (trees.REGULAR, writer.write("blob", lines))}
    if memory:
        lines = carry.lines(items.line(item) for item in sorted(memory.values(), key=items.order))
        files[b"database/" + carry.MEMORY] = (trees.REGULAR, writer.write("blob", lines))
    if place.shared_file(context.settings.workflow_db) is None:
        path = place.check_place(context.location, "")
        with locks.scratch(context.location) as folder:
            copy = os.path.join(folder, "copy.db")
            with database.opened(path) as opened:
                database.copy_into(opened, copy)
            with open(copy, "rb") as file:
                files[b"database/" + _DATABASE] = (trees.REGULAR, writer.write("blob", file.read()))
    return files


def revive(context: Context) -> None:
    """Give a worktree that was made again its log and memory: the database of its newest archive, if it has one, and
    everything that its checkpoints carry."""
    repository, settings = context.repository, context.settings
    path = place.make_place(context.location, settings.workflow_db)
    if place.shared_file(settings.workflow_db) is None and not os.path.lexists(path):
        data = _archived(repository, context.timeline)
        if data is not None:
            database.put(path, data)
    _using(context, rows.waiting)


def _archived(repository: Repository, name: str) -> bytes | None:
    """The database that the newest archive of a timeline holds."""
    from git_agentos.checkpoint import format

    for link in timeline.walk(repository, name):
        extra = repository.commit(format.parts(repository, link.checkpoint).extra).tree
        found = trees.find(repository, extra, b"database/" + _DATABASE)
        if found is not None:
            return repository.blob(found[1])
    return None
