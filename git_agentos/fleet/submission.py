"""Submitting a fleet: its tasks are recorded on the remote, and an engine starts a worker for each that has no result.

What counts is on the remote: results, and the tasks that were recorded first. So a fleet goes on where the same file is
submitted again, whatever has ended the first time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Protocol

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError
from git_agentos.fleet import cancellation, clearing, clones, contents, tasks
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.engines.port import LOCAL, Ended, Engine, Order
from git_agentos.fleet.prepared import Prepared, Request
from git_agentos.fleet.records import CANCELLED, LOST
from git_agentos.fleet.remote import FleetRefs, Remote
from git_agentos.fleet.status import Status
from git_agentos.fleet.tasks import Task
from git_agentos.guard import authorize
from git_agentos.process import programs
from git_agentos.util import directories, files, locks

_PATIENCE = 0.5  # seconds that an engine waits for a worker to end
_LOOK = 2.0  # seconds between two looks at the remote, at least
_SHARE = 20  # a look takes at most one part in so many of the time
_PAUSE = 2.0  # seconds before a worker is started again, for the first time; then twice as long, and so on
_NOT_BEGUN = 900.0  # seconds after which it is said that nothing is known of a task; then twice as many, and so on
_BUSY = 10.0  # seconds between two workers of a task that another one of this machine still has
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Submitted:
    """What was submitted. `started` are the tasks for which workers were started, or would be; `is_interrupted` says
    that a signal has ended the wait."""

    status: Status
    started: tuple[Task, ...] = ()
    is_interrupted: bool = False


class Observer(Protocol):
    """Gets called as a fleet proceeds."""

    def changed(self, status: Status) -> None:
        """A task has another state than before."""

    def away(self, reason: str) -> None:
        """The remote cannot be reached, or changed, for this reason; it is tried again."""

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        """No worker of these tasks has said that it has begun, so many seconds after they were handed over, the first
        one by `command`. Told again after twice the time."""


@authorize.entry("fleet", "submit")
def submit(
    context: OpenWorktree, request: Request, engine: Engine, observer: Observer, *, environment: Mapping[str, str]
) -> Submitted:
    """Submit a fleet, and wait until every task has a result.

    UsageError for anything wrong with the file or the request, or if the fleet has other tasks; FleetError if the
    remote or the engine does not take it; nothing was started then. LockedError where another process of this clone
    submits it. SIGINT, SIGTERM and SIGHUP end the wait, and the workers of this machine, whose runs can be continued.
    """
    with _ending(engine):
        prepared = Prepared(context, request, engine, environment)
        with _only_one(context, prepared.id):
            found = prepared.record()
            work = _Work(prepared, found, observer)
            try:
                with _raising():
                    work.do()
                is_interrupted = False
            except KeyboardInterrupt:
                is_interrupted = True
            finally:
                engine.end()
            if engine.name == LOCAL:
                _clear(prepared.url, environment)
            return Submitted(work.status(), tuple(prepared.open_tasks(found)), is_interrupted)


@authorize.entry("fleet", "submit")
def plan(context: OpenWorktree, request: Request, engine: Engine, *, environment: Mapping[str, str]) -> Submitted:
    """What `submit` would do; it raises the same errors, but for what the remote says to a push. Nothing is pushed."""
    with _ending(engine):
        prepared = Prepared(context, request, engine, environment)
    found = prepared.found or prepared.new()
    status = replace(prepared.reader.status(found), policy=prepared.policy)
    return Submitted(status, tuple(prepared.open_tasks(found)))


@authorize.entry("fleet", "submit")
def detach(
    context: OpenWorktree, request: Request, engine: Engine, words: Sequence[str], *, environment: Mapping[str, str]
) -> Submitted:
    """Submit a fleet, and have a process of its own wait for it; `words` are the options of that one's `fleet submit`.
    Errors as those of `submit`."""
    with _ending(engine):
        prepared = Prepared(context, request, engine, environment)
    with _only_one(context, prepared.id):
        found = prepared.record()
    open_tasks = tuple(prepared.open_tasks(found))
    if open_tasks:
        base = os.path.join(_folder(context), prepared.id)
        copy = base + os.path.splitext(request.path)[1]
        files.replace(copy, files.read(request.path, limit=tasks.LARGEST, follow=True), mode=0o600)
        argv = [
            *(sys.executable or "python3", "-m", "git_agentos", "-C", context.location.root, "fleet", "submit", copy),
            *("--name", prepared.id, "--remote", prepared.remote.name, *words),
        ]
        shell = 'log=$1; shift; exec "$@" >"$log" 2>&1'
        programs.start_in_background(["/bin/sh", "-c", shell, "sh", base + ".log", *argv], env=dict(environment))
    return Submitted(prepared.reader.status(found), open_tasks)


def _clear(url: str, environment: Mapping[str, str]) -> None:
    """Remove what killed workers have left in this machine's clone; where that fails, the next worker does it."""
    with contextlib.suppress(AgentosError):
        if clones.is_made(url, environment):
            context = clones.open_clone(url, environment)
            remote = Remote(context.repository, clones.REMOTE)
            clearing.left_by_others(context, remote.list(), remote, but="")


def _folder(context: OpenWorktree) -> str:
    return directories.make_own(context.location.shared_state_dir, "fleets")


@contextlib.contextmanager
def _ending(engine: Engine) -> Iterator[None]:
    """What an engine has connected to, or started, ends with it, whatever happens."""
    try:
        yield
    finally:
        engine.end()


@contextlib.contextmanager
def _only_one(context: OpenWorktree, fleet: str) -> Iterator[None]:
    """LockedError where another process of this clone submits the fleet: its workers would meet those of that one."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locks.hold(os.path.join(_folder(context), f"{fleet}.turn"), wait=False))
        except LockedError as error:
            raise LockedError(
                f"the fleet '{fleet}' is being submitted by another process",
                f"git agentos fleet status {fleet} --follow waits for it",
            ) from error
        yield


@contextlib.contextmanager
def _raising() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does; in the main thread, which alone gets signals."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            # A process that was started to ignore one (nohup, a job in the background) keeps ignoring it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


# -- waiting -----------------------------------------------------------------------------------------------------------


@dataclass
class _Try:
    """A task for which a worker was started: the result that it had then (one that is lost); when the first worker was
    started; how often one was started again; how the last one has ended, and when the next one is started."""

    order: Order
    lost: str | None
    began: float
    retries: int = 0
    ended: Ended | None = None
    due: float | None = None


@dataclass
class _Work:
    """The work on a fleet, from the first worker to the last result."""

    prepared: Prepared
    found: Contents
    observer: Observer
    tries: dict[str, _Try] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)  # tasks whose workers the engine has not reported
    shown: Status | None = None
    refs: FleetRefs | None = None
    patience: float = field(default_factory=lambda: _NOT_BEGUN)  # for tasks of which nothing is known

    def __post_init__(self) -> None:
        given = self.prepared
        wait = config.fleet_remote_wait(given.context.settings.values)
        self._remote = Remote(given.context.repository, given.remote.name, wait=wait, away=self.observer.away)
        self._engine = given.engine

    def status(self) -> Status:
        """What is known of the fleet."""
        return self.prepared.reader.status(self.found)

    def do(self) -> None:
        """Start workers, and wait until every task has a result."""
        for task in self.prepared.open_tasks(self.found):
            order = self.prepared.order(task)
            self.tries[task.id] = _Try(order, self.found.results.get(task.id), time.monotonic())
            self._start(order)
        self._show()
        next_look = time.monotonic() + _LOOK
        while self.tries or self.running:
            for ended in self._engine.poll(_PATIENCE):
                self.running.discard(ended.task)
                if ended.task in self.tries:
                    self.tries[ended.task].ended = ended
            now = time.monotonic()
            open_ = self.tries.values()
            if now >= next_look or (self.tries and all(each.ended is not None and each.due is None for each in open_)):
                self._look()
                took = time.monotonic() - now
                next_look = time.monotonic() + max(_LOOK, _SHARE * took)
            self._start_again()
            self._tell_not_begun()
        for at in self.status().tasks:
            # A worker that was killed just when it had begun, and met a result, leaves it.
            if at.result is not None and at.state != LOST:
                self._remote.delete_live(self.prepared.id, at.id, self.found.live.get(at.id))

    def _start(self, order: Order) -> None:
        self._engine.start(order)
        if self._engine.reports_ends:
            self.running.add(order.task)

    def _look(self) -> None:
        """Ask the remote what there is."""
        fleet = self.prepared.id
        refs = self._remote.fetch_fleet(fleet)
        if refs != self.refs:
            self.refs = refs
            if refs.end is not None:
                self.found = contents.read(self.prepared.context.repository, refs, self._remote.name)
                self.tries.clear()
            else:
                self.found = Contents(self.found.fleet, self.found.tasks, refs.results, refs.live)
            self._show()
        states = {task.id: task.state for task in self.status().tasks}
        gone: dict[str, str] = {}
        for task, at in list(self.tries.items()):
            result = self.found.results.get(task)
            if result is not None and result != at.lost:
                del self.tries[task]
                if task in self.running and states[task] == CANCELLED:
                    self._engine.cancel(task)
            elif at.ended is not None and at.due is None:
                if self._engine.name == LOCAL and self.prepared.is_worked_on(task):
                    at.due = time.monotonic() + _BUSY
                elif at.ended.code is not None and at.retries < self.prepared.request.retries:
                    at.due = time.monotonic() + _PAUSE * 2**at.retries
                    at.retries += 1
                else:
                    gone[task] = _why(at.ended)
        if gone:
            who = self.prepared.context.settings.committer
            cancellation.settle(self._remote, self.found, gone, LOST, who)
            for task in gone:
                del self.tries[task]
            refs = self.refs = self._remote.fetch_fleet(fleet)
            self.found = Contents(self.found.fleet, self.found.tasks, refs.results, refs.live)
            self._show()

    def _start_again(self) -> None:
        now = time.monotonic()
        for at in self.tries.values():
            if at.due is not None and now >= at.due:
                at.due = at.ended = None
                self._start(at.order)

    def _tell_not_begun(self) -> None:
        """Report tasks that were handed long ago to an engine that reports nothing about its workers."""
        due = time.monotonic() - self.patience
        silent = [task for task, at in self.tries.items() if at.began <= due and task not in self.found.live]
        command = self._engine.describe(silent[0]) if silent else None
        if command is not None:
            self.observer.not_begun(silent, self.patience, command)
            self.patience *= 2

    def _show(self) -> None:
        status = self.status()
        if status != self.shown:
            self.shown = status
            self.observer.changed(status)


def _why(ended: Ended) -> str:
    """Why a task was lost."""
    if ended.code is None:
        return ended.detail or "the engine has given it up"
    return f"its worker has ended with exit code {ended.code}" + (f": {ended.detail}" if ended.detail else "")
