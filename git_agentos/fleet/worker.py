"""A worker: one task of a fleet, done in a clone of this machine, and its result brought to the remote.

    1  the clone is opened, or made; the refs of the task are read, and its fleet fetched, if it is not here
    2  the run is continued: as it is here, if this machine has it, or as the remote has it; else it is begun
    3  what the run has left is committed, validated or not, and the evidence sealed; all of it is searched for secrets
    4  the result is pushed, if the task has none
    5  the worktree is freed, and nothing of the run is left here

Killed in between, the next worker of the task does again what was not done. The remote may be away at any moment: the
worker waits for it, and has its result in the clone meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, FleetError, GitCommandError, LockedError
from git_agentos.fleet import (
    attempts,
    change_size,
    clearing,
    clones,
    evidence,
    fetches,
    kinds,
    names,
    progress,
    records,
)
from git_agentos.fleet.attempts import Attempt
from git_agentos.fleet.evidence import Search
from git_agentos.fleet.kinds import Kind
from git_agentos.fleet.records import Fleet, Live, Result
from git_agentos.fleet.remote import DONE, TAKEN, Remote, RemoteAway
from git_agentos.fleet.tasks import Task
from git_agentos.git import process, transport
from git_agentos.git.repository import Repository
from git_agentos.run.events import CANCELLED, INTERRUPTED, PASSED, Run
from git_agentos.run.step import Observer as RunObserver
from git_agentos.sync import scanner
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

_LONGEST_OID = 64  # digits
_WITH_BASES = 2  # commits of the history of the tasks: theirs, whose parents are the bases
PUSHED, THERE, REFUSED, STOPPED = "pushed", "there", "refused", "stopped"


class Observer(RunObserver, Protocol):
    """Gets called as a worker proceeds."""

    def away(self, reason: str) -> None:
        """The remote cannot be reached, or changed, for this reason; it is tried again."""


class Request(NamedTuple):
    """What a worker is to do: a task of a fleet on the remote `url`; `from_start` takes nothing of earlier attempts."""

    fleet: str
    task: str
    url: str
    from_start: bool = False


@dataclass(frozen=True)
class Done:
    """What a worker has done; the fields are the keys of the JSON kind `fleet-worker`.

    `state` is PUSHED (`result` is the task's), THERE (the task has a result already: `result`, and there is no `run`),
    REFUSED (another result counts: `result`; the evidence of `run` is in the folder that it names) or STOPPED (a signal
    has interrupted the run, which can be continued)."""

    fleet: str
    task: str
    state: str
    result: str | None = None
    run: Run | None = None


def work(request: Request, environment: Mapping[str, str], observer: Observer) -> Done:
    """Do a task. LockedError where another worker of this machine does it, FleetError where there is no such fleet or
    task, or the remote refuses the result; RemoteAway where it could not be reached for long."""
    names.check_fleet_id(request.fleet)
    names.check_task_id(request.task)
    context = clones.open_clone(request.url, environment, hash_algorithm=_hash_of(request.url, environment))
    with attempts.working(context.location, request.fleet, request.task):
        return _Worker(context, request, environment, observer).work()


class _Worker:
    """The worker of one task, in a clone."""

    def __init__(
        self, context: OpenWorktree, request: Request, environment: Mapping[str, str], observer: Observer
    ) -> None:
        values = context.settings.values
        self._context = context
        self._request = request
        self._environment = environment
        self._observer = observer
        self._wait = config.fleet_remote_wait(values)
        self._remote = Remote(context.repository, clones.REMOTE, wait=self._wait, away=observer.away)
        self._pause = config.fleet_live_interval(values)
        self._wants_history = config.fleet_history(values) == "full"
        self._run_id = names.run_id(request.fleet, request.task)
        self._instead_of: str | None = None
        self._fleet: Fleet
        self._kind: Kind

    def work(self) -> Done:
        fetches.remove_left(self._context.location, patience=0.0)
        there = self._remote.list()
        self._fetch_tasks(there)  # first: a result is fetched with what leads to its base, not with all of the history
        clearing.left_by_others(self._context, there, self._remote, but=self._run_id)
        settled = self._settled(there)
        if settled is not None:
            return settled
        self._fleet = self._fetch(there)
        self._kind = kinds.of(self._context, self._fleet, self._task, self._environment)
        live_oid = there.get(names.live_ref(self._request.fleet, self._request.task))
        attempt = self._begin(live_oid)
        run, superseded = self._run(attempt, live_oid)
        if superseded is not None:
            return self._give_way(attempt, run, superseded)
        if run.state == INTERRUPTED:
            return self._done(STOPPED, None, run)
        return self._deliver(attempt, run)

    @property
    def _task(self) -> Task:
        return self._fleet.task(self._request.task)

    @property
    def _base(self) -> str:
        return self._fleet.base_of(self._task)

    # -- what is there -------------------------------------------------------------------------------------------------

    def _settled(self, there: Mapping[str, str]) -> Done | None:
        """What there is to say of a task that has a result, which counts; None where it has none. One that is lost does
        not."""
        fleet, task = self._request.fleet, self._request.task
        result = there.get(names.result_ref(fleet, task))
        end = there.get(names.end_ref(fleet))
        if end is None and result is not None and self._is_lost(result):
            self._instead_of = result
            return None
        if end is None and result is None:
            return None
        known = attempts.read(self._context.location, fleet, task)
        if known is not None:
            clearing.done(self._context, known)
        # A worker that was killed as it announced itself too late has left it.
        with contextlib.suppress(RemoteAway):
            self._remote.delete_live(fleet, task, there.get(names.live_ref(fleet, task)))
        return self._done(THERE, result or end)

    def _is_lost(self, result: str) -> bool:
        """Whether a result says that the task is lost."""
        return clearing.is_lost(self._context, self._remote, self._request.fleet, self._request.task, result)

    def _fetch_tasks(self, there: Mapping[str, str]) -> None:
        """Fetch the tasks of the fleet with their bases, if it is there and this clone does not have them."""
        ref = names.tasks_ref(self._request.fleet)
        if ref not in there or self._has_tasks(there[ref]):
            return
        with clones.fetching(self._context):
            if not self._has_tasks(there[ref]):  # else another worker has fetched them
                self._remote.fetch_tasks(self._request.fleet, transport.WHOLE if self._wants_history else _WITH_BASES)
                clones.identify(self._context, _author(self._context.repository, there[ref]))
        self._reopen()

    def _has_tasks(self, oid: str) -> bool:
        is_here = self._remote.tracked(names.tasks_ref(self._request.fleet)) == oid
        is_cut = self._wants_history and clones.is_shallow(self._context)
        return is_here and not is_cut and self._context.repository.exists(oid)

    def _fetch(self, there: Mapping[str, str]) -> Fleet:
        """The fleet, with the task alone, as it was fetched."""
        fleet = self._request.fleet
        ref = names.tasks_ref(fleet)
        if ref not in there:
            raise FleetError(
                f"there is no fleet '{fleet}' on the remote", "git agentos fleet list shows those there are"
            )
        found = records.read_task(self._context.repository, there[ref], fleet, self._request.task)
        clones.keep_at(self._context, found.base)
        return found

    def _reopen(self) -> None:
        """Read the repository again: there are new packs, and the configuration may have the user's name now."""
        self._context = clones.open_clone(self._request.url, self._environment)
        self._remote = Remote(self._context.repository, clones.REMOTE, wait=self._wait, away=self._observer.away)

    # -- the run -------------------------------------------------------------------------------------------------------

    def _begin(self, live_oid: str | None) -> Attempt:
        """Note that this worker begins, and take over what the remote has, unless this clone has more."""
        fleet, task = self._request.fleet, self._request.task
        mine = attempts.read(self._context.location, fleet, task)
        live = self._live(live_oid)
        number = max(mine.number if mine else 0, live.attempt if live else 0) + 1
        if self._instead_of is not None and number == 1:
            number += records.read_result(self._context.repository, self._instead_of, fleet, task).attempts
        since = (mine.started_at if mine else None) or (live.started_at if live else None) or times.now_text()
        attempt = Attempt(fleet, task, number, since, self._task.tdd is not None)
        attempts.write(self._context.location, attempt)  # before anything is here that has to be removed
        begun = self._kind.begun()
        if begun is None or self._request.from_start or _is_behind(begun, live, mine):
            self._kind.discard()  # or what may be left of one that was half-made
            tree = records.evidence_tree(self._context.repository, str(live_oid)) if live is not None else None
            if live is not None and tree is not None and not self._request.from_start:
                self._kind.adopt(live, tree)
        return attempt

    def _live(self, oid: str | None) -> Live | None:
        """What the remote says about an attempt before; None where there is nothing that can be read."""
        if oid is None:
            return None
        ref = names.live_ref(self._request.fleet, self._request.task)
        try:
            found = self._remote.fetch([ref]).get(ref)
            if found is None:
                return None
            return records.read_live(self._context.repository, found, self._request.fleet, self._request.task)
        except (RemoteAway, LockedError):
            raise
        except AgentosError:
            return None

    def _run(self, attempt: Attempt, live_oid: str | None) -> tuple[Run, str | None]:
        """Go on with the run until it ends; with it, the result of another worker that counts."""
        now = times.now_text()
        said = Live(
            task=attempt.task,
            attempt=attempt.number,
            worker=_machine(),
            started_at=attempt.started_at,
            updated_at=now,
            run_id=self._run_id,
        )
        begun = self._kind.begun()
        if begun is not None and begun.state not in (INTERRUPTED, "running") and begun.final_checkpoint is not None:
            return begun, None
        quiet = Remote(Repository(self._context.location), clones.REMOTE)
        started = progress.Attempt(attempt.fleet, said, self._base, live_oid, self._instead_of)
        with progress.Progress(
            self._context, started, quiet, scanner.installed(self._context.location), self._observer, self._pause
        ) as telling:
            run = self._kind.do(begun, telling)
        if telling.result is not None:
            return run, telling.result
        if run.state == INTERRUPTED:
            with contextlib.suppress(AgentosError, OSError):
                telling.push_now()
        return run, None

    # -- the result ----------------------------------------------------------------------------------------------------

    def _deliver(self, attempt: Attempt, run: Run) -> Done:
        """Push the result; where another one is there, keep the evidence."""
        fetches.remove_left(self._context.location, patience=0.0)  # of workers that were killed meanwhile
        oid = self._write_result(attempt, run)
        answer = self._remote.settle(attempt.fleet, attempt.task, oid, instead_of=self._instead_of)
        while answer.state == TAKEN and answer.at is not None and self._is_lost(answer.at):
            self._instead_of = answer.at
            answer = self._remote.settle(attempt.fleet, attempt.task, oid, instead_of=answer.at)
        if answer.state == DONE:
            clearing.done(self._context, attempt)
            clones.pack_if_many(self._context)
            return self._done(PUSHED, oid, run)
        if answer.state == TAKEN:
            return self._give_way(attempt, run, answer.at)
        raise FleetError(
            f"the remote refuses the result of task '{attempt.task}': {answer.reason}",
            f"it is in '{self._context.location.root}': start the worker again once the remote takes it",
        )

    def _give_way(self, attempt: Attempt, run: Run, result: str | None) -> Done:
        clearing.refused(self._context, attempt)
        return self._done(REFUSED, result, run)

    def _done(self, state: str, result: str | None, run: Run | None = None) -> Done:
        return Done(self._request.fleet, self._request.task, state, result, run)

    def _write_result(self, attempt: Attempt, run: Run) -> str:
        context = self._context
        work = evidence.find(context, self._run_id)
        base = self._base
        search = Search(
            context.repository, self._run_id, work, [base], scanner.installed(context.location), frozenset()
        )
        tree = evidence.final_tree(context, run, work)
        lines, files = (None, None) if tree is None else change_size.measure(context.repository, base, tree)
        with context.repository.writer() as writer:
            found = search.pushable(writer)
            result = Result(
                task=attempt.task,
                state={PASSED: records.PASSED, CANCELLED: records.CANCELLED}.get(run.state, records.FAILED),
                attempts=attempt.number,
                outcome=run.attempts[-1].outcome if run.attempts else None,
                worker=_machine(),
                started_at=attempt.started_at,
                ended_at=run.ended_at,
                detail="; ".join(filter(None, [run.reason, found.detail])) or None,
                run_id=self._run_id,
                base=base,
                lines=lines,
                files=files,
                held_back=found.fingerprints,
                commit=found.work.commit,
                timeline=found.work.timeline,
                checkpoint=run.final_checkpoint,
            )
            who = context.settings.committer
            oid = records.write_result(writer, attempt.fleet, result, who, found.work.evidence)
            writer.flush()
        return oid


def _is_behind(begun: Run, live: Live | None, mine: Attempt | None) -> bool:
    """Whether another machine has come further with the run than this one."""
    if live is None or begun.final_checkpoint is not None:
        return False
    ended = sum(step.outcome is not None for step in begun.steps)
    return live.attempt > (mine.number if mine else 0) and live.step > ended


def _machine() -> str:
    return os.uname().nodename


def _author(repository: Repository, oid: str) -> bytes:
    """`Name <email>` of a commit's author."""
    return repository.git("log", "-1", "--format=%an <%ae>", oid).strip()


def _hash_of(url: str, environment: Mapping[str, str]) -> str:
    """The hash algorithm for a new clone of a remote; where the remote cannot say, that of nearly all."""
    if not clones.is_made(url, environment):
        with contextlib.suppress(GitCommandError):
            oid = process.run(["ls-remote", "--quiet", "--", url], env=process.environment()).partition(b"\t")[0]
            return "sha256" if len(oid) == _LONGEST_OID else "sha1"
    return "sha1"
