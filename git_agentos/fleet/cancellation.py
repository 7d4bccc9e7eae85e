"""Cancelling tasks: they get a result that says so. Workers see it, and end their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import FleetError
from git_agentos.fleet import contents, records
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.records import CANCELLED, LOST, DamagedRecord, Result
from git_agentos.fleet.remote import REFUSED, Remote
from git_agentos.fleet.status import Reader, Status
from git_agentos.guard import authorize
from git_agentos.util import times


@authorize.entry("fleet", "cancel")
def cancel(context: OpenWorktree, fleet: str, tasks: Sequence[str] = (), *, remote: str | None = None) -> Status:
    """Cancel these tasks of a fleet, or all, as far as they have no result; what was lost counts as none. FleetError
    where there is no such fleet or task, it was ended, or the remote refuses it."""
    there = contents.open_remote(context, remote)
    found = contents.fetch(there, fleet)
    for task in tasks:
        found.fleet.task(task)
    if found.ended_at is not None:
        raise FleetError(f"fleet '{fleet}' was ended", f"git agentos fleet status {fleet} shows its results")
    wanted = tasks or [task.id for task in found.fleet.tasks]
    settle(there, found, dict.fromkeys(dict.fromkeys(wanted), "cancelled"), CANCELLED, context.settings.committer)
    return Reader(there.repository, there.name).status(contents.fetch(there, fleet))


def settle(remote: Remote, found: Contents, details: Mapping[str, str], state: str, who: bytes) -> None:
    """Give tasks that have no result one of that state: task -> what is said of it. Where another result arrives first,
    that one counts. FleetError where the remote refuses it."""
    repository, fleet = remote.repository, found.fleet.id
    lost = _lost(found, remote, details)
    open_ = [task for task in details if task not in found.results or task in lost]
    if not open_:
        return
    with repository.writer() as writer:
        written = {
            task: records.write_result(writer, fleet, _result(found, remote, task, state, details[task]), who)
            for task in open_
        }
        writer.flush()
        answers = remote.settle_all(fleet, {task: (oid, lost.get(task)) for task, oid in written.items()})
    for task, answer in answers.items():
        if answer.state == REFUSED:
            raise FleetError(f"the remote '{remote.name}' refuses a result of the task '{task}': {answer.reason}")


def _lost(found: Contents, remote: Remote, tasks: Iterable[str]) -> dict[str, str]:
    """The results of these tasks that say that they were lost."""
    lost = {}
    for task in tasks:
        oid = found.results.get(task)
        if oid is None:
            continue
        try:
            if records.read_result(remote.repository, oid, found.fleet.id, task).state == LOST:
                lost[task] = oid
        except DamagedRecord:
            continue  # it counts: `status` and `collect` say so
    return lost


def _result(found: Contents, remote: Remote, task: str, state: str, detail: str) -> Result:
    """The result, with what is known of the worker."""
    ended_at = times.now_text()
    oid = found.live.get(task)
    if oid is not None:
        try:
            live = records.read_live(remote.repository, oid, found.fleet.id, task)
        except DamagedRecord:
            pass
        else:
            return Result(
                task,
                state,
                attempts=live.attempt,
                worker=live.worker,
                started_at=live.started_at,
                ended_at=ended_at,
                detail=detail,
                run_id=live.run_id,
            )
    return Result(task, state, ended_at=ended_at, detail=detail)
