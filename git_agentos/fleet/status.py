"""What became of a fleet's tasks, as far as it is known here: by what was fetched. Nothing is verified."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosWarning, FleetError
from git_agentos.fleet import contents, names, records
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.records import FAILED, LOST, RUNNING, STATES, WAITING, DamagedRecord, Fleet
from git_agentos.fleet.remote import FleetRefs, Remote
from git_agentos.git.repository import Repository


@dataclass(frozen=True)
class TaskStatus:
    """One task; the fields are the keys of `tasks` in the JSON kind `fleet`. `state` is one of `records.STATES`;
    `attempts` counts workers that began; `outcome` is that of the run's last attempt; `result` is the commit of the
    result, `commit` the tip of the branch. Times are ISO 8601, UTC."""

    id: str
    state: str
    attempts: int = 0
    worker: str | None = None
    outcome: str | None = None
    result: str | None = None
    commit: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Status:
    """A fleet; the fields are the keys of the JSON kind `fleet`. `base` is a commit id; `counts` has every state;
    `created_at` is when it was first submitted (ISO 8601, UTC); `policy` is the data policy of workflows, where it is
    still to be accepted."""

    id: str
    engine: str
    remote: str
    base: str
    tasks: tuple[TaskStatus, ...]
    counts: Mapping[str, int]
    created_at: str
    policy: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether every task has a result."""
        return not self.counts[WAITING] and not self.counts[RUNNING]

    @property
    def has_passed(self) -> bool:
        """Whether every task has passed."""
        return self.counts[records.PASSED] == len(self.tasks)


@dataclass(frozen=True)
class ListedFleet:
    """A fleet in a list; the fields are keys of the JSON kind `fleets`."""

    id: str
    created_at: str
    counts: Mapping[str, int]


_Read = Callable[[str, str, str], TaskStatus]


class Reader:
    """Reads what fleets have. Records are read once: a commit does not change."""

    def __init__(self, repository: Repository, remote: str) -> None:
        self._repository = repository
        self._remote = remote
        self._known: dict[tuple[str, str], TaskStatus] = {}

    def status(self, found: Contents) -> Status:
        """The status of a fleet with these contents."""
        return self.of(found.fleet, found.results, found.live)

    def of(self, fleet: Fleet, results: Mapping[str, str], live: Mapping[str, str]) -> Status:
        """The status of a fleet whose tasks have these results and `live` commits, by their ids."""
        tasks = tuple(self._task(fleet.id, task.id, results.get(task.id), live.get(task.id)) for task in fleet.tasks)
        counts = dict.fromkeys(STATES, 0)
        for each in tasks:
            counts[each.state] += 1
        return Status(fleet.id, fleet.engine, self._remote, fleet.base, tasks, counts, fleet.created_at)

    def _task(self, fleet: str, task: str, result: str | None, live: str | None) -> TaskStatus:
        ended = None if result is None else self._read(self._result, fleet, task, result)
        # A task that was lost may be started again.
        if live is not None and (ended is None or ended.state == LOST):
            return self._read(self._live, fleet, task, live)
        return ended or TaskStatus(task, WAITING)

    def _read(self, read: _Read, fleet: str, task: str, oid: str) -> TaskStatus:
        found = self._known.get((task, oid))
        if found is None:
            found = self._known[task, oid] = read(fleet, task, oid)
        return found

    def _result(self, fleet: str, task: str, oid: str) -> TaskStatus:
        try:
            found = records.read_result(self._repository, oid, fleet, task)
        except DamagedRecord as error:
            return TaskStatus(task, FAILED, result=oid, detail=error.message)
        return TaskStatus(
            id=task,
            state=found.state,
            attempts=found.attempts,
            worker=found.worker,
            outcome=found.outcome,
            result=oid,
            commit=found.commit,
            started_at=found.started_at,
            ended_at=found.ended_at,
            detail=found.detail,
        )

    def _live(self, fleet: str, task: str, oid: str) -> TaskStatus:
        try:
            found = records.read_live(self._repository, oid, fleet, task)
        except DamagedRecord as error:
            return TaskStatus(task, RUNNING, detail=error.message)
        detail = None if found.step == 0 else f"after step {found.step}"
        return TaskStatus(
            task, RUNNING, found.attempt, found.worker, commit=found.commit, started_at=found.started_at, detail=detail
        )


def status(context: OpenWorktree, fleet: str, *, remote: str | None = None, fetch: bool = True) -> Status:
    """A fleet; FleetError where there is no such fleet. With `fetch=False`, as it was when it was last fetched."""
    there = contents.open_remote(context, remote)
    names.check_fleet_id(fleet)
    found = contents.fetch(there, fleet) if fetch else contents.read(there.repository, there.fetched(fleet), there.name)
    return Reader(there.repository, there.name).status(found)


def follow(remote: Remote, fleet: str, pause: Callable[[], object]) -> Iterator[Status]:
    """The status of a fleet, now and whenever it has changed, until every task has a result. `pause` is called before
    the remote is asked again."""
    reader = Reader(remote.repository, remote.name)
    before: FleetRefs | None = None
    while True:
        refs = remote.fetch_fleet(fleet)
        if refs != before:
            found = reader.status(contents.read(remote.repository, refs, remote.name))
            before = refs
            yield found
            if found.is_over:
                return
        pause()


def list_fleets(context: OpenWorktree, *, remote: str | None = None, fetch: bool = True) -> tuple[ListedFleet, ...]:
    """All fleets of a remote, newest first. One that cannot be read is left out, with a warning."""
    there = contents.open_remote(context, remote)
    reader = Reader(there.repository, there.name)
    found = []
    for refs in there.fetch_all() if fetch else there.all_fetched():
        if refs.tasks is None and refs.end is None:
            continue
        try:
            each = contents.read(there.repository, refs, there.name)
        except FleetError as error:
            warnings.warn(AgentosWarning(error.message), stacklevel=2)
            continue
        found.append(ListedFleet(refs.fleet, each.fleet.created_at, reader.status(each).counts))
    return tuple(sorted(found, key=lambda each: (each.created_at, each.id), reverse=True))
