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
from datetime import UTC, datetime
from typing import Any, NamedTuple

from git_agentos.checkpoint import log_sync, timeline
from git_agentos.checkpoint.log_archive import Rebuilt, archive_files, rebuild, revive
from git_agentos.checkpoint.log_sync import MOST_FILES, Problems
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import Settings
from git_agentos.errors import AgentosError, CheckpointNotFound, UsageError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.redact import redact, redact_value
from git_agentos.store import database, database_path
from git_agentos.store import entries as rows
from git_agentos.store.database import Connection
from git_agentos.store.entries import TYPES, Entry, LogQuery
from git_agentos.store.rows import RowOwner
from git_agentos.util import times
from git_agentos.util.values import is_hex, ordered_id

__all__ = [
    "MOST_FILES", "TYPES", "Entry", "Reading", "Rebuilt", "add", "archive_files", "entries", "follow", "is_open",
    "last", "read", "rebuild", "revive", "try_add",
]  # fmt: skip


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
        log_sync.report(self.problems, empty=empty)


# -- writing ----------------------------------------------------------------------------------------------------------


def add(
    context: OpenWorktree,
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

    def write(connection: Connection, scope: RowOwner) -> Entry:
        with database.transaction(connection):
            rows.insert(connection, scope, [entry], None)
            log_sync.drop_old(connection, scope, context.settings)
        return entry

    _using(context, write)
    return entry


def is_by_guard(entry: Entry) -> bool:
    """Whether an entry tells what the guard decided about a command, and not what its agent decided."""
    return entry.type == "decision" and {"layer", "identity", "operations", "run"} <= entry.details.keys()


def try_add(
    context: OpenWorktree,
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
        log_sync.warn(f"this was not written to the log: {error}")


def is_open(context: OpenWorktree) -> bool:
    """Whether the worktree has a workflow database."""
    return log_sync.exists(context.repository, context.settings)


def _entry(
    context: OpenWorktree,
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
        id=ordered_id(now),
        timestamp=times.seconds_to_text(now / 1e9),
        type=kind,
        summary=told,
        details=cleaned,
        commit=commit,
        files_changed=names,
        task_id=task,
        checkpoint_id=checkpoint_id,
        agent_id=context.agent,
        worktree=context.worktree_id,
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
    oid = repository.find_commit(name)
    if oid is None:
        raise UsageError(f"'{name}' is not a commit")
    return oid


def _is_id(text: str) -> bool:
    return len(text) == 40 and is_hex(text)


def _checkpoint(context: OpenWorktree, spec: str | None) -> str | None:
    if spec is None or _is_id(spec):
        return spec
    return timeline.find(context.repository, spec, [context.worktree_id]).checkpoint


def _using(context: OpenWorktree, work: Callable[[Connection, RowOwner], Any], *, make: bool = True) -> Any:
    return log_sync.with_database(context.repository, context.settings, context.worktree_id, work, make=make)


# -- reading ----------------------------------------------------------------------------------------------------------


def entries(
    context: OpenWorktree,
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
    context: OpenWorktree,
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
    wanted = LogQuery(
        agent=agent,
        kinds=tuple(kinds) if kinds is not None else None,
        since=times.to_text(since) if since is not None else None,
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
        if agent is not None and not found and agent not in (context.worktree_id, *others):
            _refuse_unknown(context, agent, wanted)
    unique = {entry.id: entry for entry in found}
    merged = sorted(unique.values(), key=rows.order, reverse=newest_first)
    return Reading(merged if limit is None else merged[:limit], problems)


def last(where: Location, settings: Settings | None = None, repository: Repository | None = None) -> Entry | None:
    """The last entry of a worktree's log that is in its database; None where there is none. Never an error.

    Without `settings` it is the worktree's own file that is looked into. Where that is missing, or cannot be read, the
    newest checkpoint is asked, if `repository` is given.
    """
    path = database_path.path_of(where, settings.workflow_db if settings is not None else "")
    name = timeline.worktree_id(where)
    with contextlib.suppress(AgentosError, OSError):
        database_path.check(where, settings.workflow_db if settings is not None else "")
        with database.opened_to_read(path) as opened:
            found = rows.find(
                opened.connection, database_path.repository_id(where, make=False), LogQuery(worktree=name, limit=1)
            )
            return found[0] if found else None
    with contextlib.suppress(AgentosError, OSError):
        part = None if repository is None else next(log_sync.parts_of(repository, name, problems=[]), None)
        return None if part is None else max((*part.log, part.own), key=rows.order)
    return None


def follow(
    context: OpenWorktree,
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


def _own(context: OpenWorktree, wanted: LogQuery, problems: Problems) -> list[Entry]:
    def find(connection: Connection, scope: RowOwner) -> list[Entry]:
        return rows.find(connection, scope.repository, wanted._replace(worktree=scope.worktree))

    own: Problems = []
    try:
        where = (context.repository, context.settings, context.worktree_id)
        found = list(log_sync.with_database(*where, find, make=True, problems=own) or ())
    except (AgentosError, OSError):  # nothing can be written to it; it may be readable
        return _of_other(context, context.worktree_id, context.location, wanted, problems)
    problems += own
    return found


def _others(context: OpenWorktree) -> dict[str, Location | None]:
    """The other worktrees that this repository knows of, by id; None for those that are gone."""
    core = context.settings.values.get("core.worktree", [None])[-1]
    found: dict[str, Location | None] = dict.fromkeys(timeline.all_names(context.location))
    for where in worktrees.list_existing(context.location, core):
        found[timeline.worktree_id(where)] = where
    found.pop(context.worktree_id, None)
    return found


def _of_other(
    context: OpenWorktree, name: str, where: Location | None, wanted: LogQuery, problems: Problems
) -> list[Entry]:
    repository = context.repository
    if where is None or not os.path.lexists(database_path.path_of(where, context.settings.workflow_db)):
        return _of_timeline(repository, name, wanted, problems)
    try:
        path = database_path.check(where, context.settings.workflow_db)
        scope = RowOwner(database_path.repository_id(where), name)
        with database.opened_to_read(path) as opened:
            known, reached = log_sync.reached_of(opened.connection, scope)
            found = rows.find(opened.connection, scope.repository, wanted._replace(worktree=name))
    except database.NotSetUp:
        return _of_timeline(repository, name, wanted, problems)
    except (AgentosError, OSError) as error:
        problems.append(log_sync.Unread(f"the log of '{name}' is read from its checkpoints alone", error))
        return _of_timeline(repository, name, wanted, problems)
    return found + _of_timeline(repository, name, wanted, problems, reached if known else None)


def _of_timeline(
    repository: Repository, name: str, wanted: LogQuery, problems: Problems, until: str | None = None
) -> list[Entry]:
    """What the checkpoints of a worktree carry, after the timeline commit `until`."""
    if until is not None and timeline.tip(repository.location, name) == until:
        return []
    return [
        entry
        for part in log_sync.parts_of(repository, name, until, problems)
        for entry in (*part.log, part.own)
        if (wanted.agent is None or wanted.agent in (entry.agent_id, name))
        and (wanted.kinds is None or entry.type in wanted.kinds)
        and (wanted.since is None or entry.timestamp >= wanted.since)
        and (not wanted.text or rows.contains(entry, wanted.text))
    ]


def _refuse_unknown(context: OpenWorktree, agent: str, wanted: LogQuery) -> None:
    if wanted.kinds is None and wanted.since is None and not wanted.text and wanted.limit != 0:
        raise CheckpointNotFound(
            f"there is no agent or worktree '{agent}' in this log", "git agentos log list --all shows everybody's"
        )
    read(context, agent=agent, limit=1)
