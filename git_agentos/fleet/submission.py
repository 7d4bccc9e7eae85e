"""Submitting a fleet: its tasks are recorded on the remote, and an engine starts a worker for each that has no result.

What counts is on the remote: results, and the tasks that were recorded first. So a fleet goes on where the same file is
submitted again, whatever has ended the first time.
"""

from __future__ import annotations

import contextlib
import os
import re
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
from git_agentos.errors import (
    AgentosError,
    ContextError,
    FleetError,
    LockedError,
    PolicyError,
    TddError,
    UsageError,
)
from git_agentos.fleet import attempts, cancellation, clearing, clones, contents, names, records, tasks
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.engines.port import LOCAL, Ended, Engine, Order, Unfit
from git_agentos.fleet.records import CANCELLED, LOST, Fleet
from git_agentos.fleet.remote import REFUSED, TAKEN, FleetRefs, Remote
from git_agentos.fleet.status import Reader, Status
from git_agentos.fleet.tasks import Task, TaskFile
from git_agentos.git import process
from git_agentos.guard import authorize
from git_agentos.process import programs
from git_agentos.redact import redact
from git_agentos.sync import scanner
from git_agentos.util import directories, files, locks, times

_PATIENCE = 0.5  # seconds that an engine waits for a worker to end
_LOOK = 2.0  # seconds between two looks at the remote, at least
_SHARE = 20  # a look takes at most one part in so many of the time
_PAUSE = 2.0  # seconds before a worker is started again, for the first time; then twice as long, and so on
_NOT_BEGUN = 900.0  # seconds after which it is said that nothing is known of a task; then twice as many, and so on
_BUSY = 10.0  # seconds between two workers of a task that another one of this machine still has
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Request:
    """What is submitted: the file of tasks; the name of the fleet (None: as the file is called); the remote (None: the
    usual one); the variables that workers get, by their names; how often a worker is started again that has left no
    result; whether the data policy of workflows is accepted."""

    path: str
    name: str | None = None
    remote: str | None = None
    pass_env: tuple[str, ...] = ()
    retries: int = 2
    accepts_policy: bool = False


@dataclass(frozen=True)
class Submitted:
    """What was submitted. `started` are the tasks for which workers were started, or would be; `is_interrupted` says
    that a signal has ended the wait, `policy` is the data policy of workflows that are new."""

    status: Status
    started: tuple[Task, ...] = ()
    is_interrupted: bool = False
    policy: tuple[str, ...] = ()


class Observer(Protocol):
    """Gets called as a fleet proceeds."""

    def changed(self, status: Status) -> None:
        """A task has another state than before."""

    def away(self, reason: str) -> None:
        """The remote cannot be reached, and is tried again."""

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
        prepared = _Prepared(context, request, engine, environment)
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
        prepared = _Prepared(context, request, engine, environment)
    found = prepared.found or prepared.new()
    return Submitted(prepared.reader.status(found), tuple(prepared.open_tasks(found)), policy=prepared.policy)


@authorize.entry("fleet", "submit")
def detach(
    context: OpenWorktree, request: Request, engine: Engine, words: Sequence[str], *, environment: Mapping[str, str]
) -> Submitted:
    """Submit a fleet, and have a process of its own wait for it; `words` are the options of that one's `fleet submit`.
    Errors as those of `submit`."""
    with _ending(engine):
        prepared = _Prepared(context, request, engine, environment)
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


def usual_name(path: str) -> str:
    """The name of a fleet without another one: that of its file. UsageError where it is no name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        return names.check_fleet_id(re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-."))
    except UsageError as error:
        raise UsageError(f"no fleet can be called as the file '{path}'", "give it a name: --name ID") from error


# -- before anything is started ----------------------------------------------------------------------------------------


class _Prepared:
    """A fleet that can be submitted: its file is good, the remote is there, and the engine can do what is open."""

    def __init__(self, context: OpenWorktree, request: Request, engine: Engine, environment: Mapping[str, str]) -> None:
        self.context = context
        self.request = request
        self.engine = engine
        self.environment = environment
        self.file: TaskFile = tasks.read_file(request.path)
        given = request.name
        self.id = usual_name(request.path) if given is None else names.check_fleet_id(given, source="--name")
        self._variables = _variables(request.pass_env, environment)
        self.remote = contents.open_remote(context, request.remote)
        self.reader = Reader(context.repository, self.remote.name)
        refs = self.remote.fetch_fleet(self.id)
        self.found: Contents | None = None
        if refs.tasks is not None or refs.end is not None:
            self.found = contents.read(context.repository, refs, self.remote.name)
            self._require_same(self.found.fleet)
        self.url = _url(context, self.remote.name)
        if self.found is None:
            self._search()
        new = self.found or self.new()
        self.policy = self._policy(new.fleet, environment) if self.found is None else ()
        self._check(new)

    def new(self) -> Contents:
        """The fleet, if there is none of that name yet."""
        repository = self.context.repository
        usual = config.run_base(self.context.settings.values) or "HEAD"
        base = repository.find_commit(usual)
        if base is None:
            raise UsageError(f"there is no commit '{usual}' at which the fleet could begin")
        bases = {}
        for task in self.file.tasks:
            if task.base is not None and task.base not in bases:
                found = repository.find_commit(task.base)
                if found is None:
                    raise self.file.wrong(
                        task.id, f"there is no commit '{task.base}', the base of the task '{task.id}'"
                    )
                bases[task.base] = found
        fleet = Fleet(self.id, base, self.file.tasks, times.now_text(), self.engine.name, bases)
        return Contents(fleet, "", {})

    def record(self) -> Contents:
        """The fleet as the remote has it, which records it if it has none of that name."""
        if self.found is not None:
            return self.found
        if self.policy and not self.request.accepts_policy:
            raise PolicyError(
                "the data policy of its workflows was not accepted: nothing was recorded or sent",
                "--dry-run shows it, --yes-data-policy accepts it",
            )
        repository, fleet = self.context.repository, self.new().fleet
        fleet = replace(fleet, tasks=tuple(map(tasks.accepted, fleet.tasks)))
        ref = names.tasks_ref(self.id)
        with repository.writer() as writer:
            oid = records.write_tasks(writer, fleet, self.context.settings.committer)
            writer.flush()
            answer = self.remote.create(ref, oid)
        if answer.state == REFUSED:
            raise FleetError(
                f"the remote '{self.remote.name}' refuses '{ref}': {answer.reason}",
                "it must take refs below refs/agentos/fleet/; nothing was started",
            )
        if answer.state == TAKEN:  # somebody else has submitted it just now
            found = contents.fetch(self.remote, self.id)
            self._require_same(found.fleet)
            return found
        return Contents(fleet, oid, {})

    def open_tasks(self, found: Contents) -> Iterator[Task]:
        """The tasks for which a worker is to be started: those that have no result, or were lost."""
        if found.ended_at is not None:
            return
        status = self.reader.status(found)
        for task, at in zip(found.fleet.tasks, status.tasks, strict=True):
            if at.result is None or at.state == LOST:
                yield task

    def is_worked_on(self, task: str) -> bool:
        """Whether a worker of this machine has a task: one of a `submit` that was killed, which has not ended yet."""
        if not clones.is_made(self.url, self.environment):
            return False
        return attempts.is_taken(clones.open_clone(self.url, self.environment).location, self.id, task)

    def order(self, task: Task) -> Order:
        """The order for a worker of a task."""
        words = ("fleet", "worker", self.id, task.id, "--remote", self.url)
        return Order(
            task.id, (*self.engine.program, *words), self._variables, task.cpus, task.gpus, task.memory, task.labels
        )

    def _check(self, found: Contents) -> None:
        try:
            self.engine.check([self.order(task) for task in self.open_tasks(found)])
        except Unfit as error:
            raise self.file.wrong(error.task, error.message, error.hint) from error

    def _search(self) -> None:
        """UsageError where a task has a secret in it: everybody who reads the remote would."""
        texts = ((task.id.encode(), _text(task).encode()) for task in self.file.tasks)
        for task, found in zip(self.file.tasks, scanner.installed(self.context.location).scan_all(texts), strict=True):
            if found:
                raise self.file.wrong(
                    task.id,
                    f"the task '{task.id}' has what looks like a secret ({found[0].kind}), and tasks are pushed",
                    "give it to the workers as a variable: --pass-env NAME",
                )

    def _policy(self, fleet: Fleet, environment: Mapping[str, str]) -> tuple[str, ...]:
        """The data policy of all workflows. UsageError, with the line of the file, for what must not be sent."""
        found: dict[tuple[str, ...], None] = {}  # many tasks may send the same
        for task in fleet.tasks:
            if task.tdd is not None:
                from git_agentos.tdd.context import source_files
                from git_agentos.tdd.models import selection

                context, lld = self.context, task.tdd.lld
                try:
                    agent = selection.choose(task.tdd.agent, context.settings, environment, context.location.root)
                    documents = source_files.of_commit(context.repository, fleet.base_of(task), lld)
                except (ContextError, TddError, UsageError) as error:
                    raise self.file.wrong(task.sample_of or task.id, error.message, error.hint) from error
                found[tuple(source_files.policy_lines(documents, agent.recipient))] = None
        return tuple(line for lines in found for line in lines)

    def _require_same(self, fleet: Fleet) -> None:
        """UsageError where a fleet has other tasks than the file."""
        ours, theirs = self.file.tasks, fleet.tasks
        if ours == theirs:
            return
        both = {task.id: task for task in theirs}
        other = next((task.id for task in ours if both.get(task.id) != task), None)
        missing = next((task.id for task in theirs if task not in ours), None)
        what = f"the task '{other or missing}' is not the same" if other or missing else "they are in another order"
        raise UsageError(
            f"the fleet '{self.id}' was submitted with other tasks than '{self.file.path}' has: {what}",
            "--name ID gives these another name",
        )


def _text(task: Task) -> str:
    """What people have written into a task, a line for each command or value."""
    steps = () if task.spec is None else task.spec.steps
    written = [text for step in steps for text in (step.command, step.message) if text]
    if task.tdd is not None:
        written += [task.tdd.agent, task.tdd.issue, task.tdd.lld]
    return "\n".join([*written, *(f"{key}={value}" for key, value in task.labels.items())]) + "\n"


def _variables(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if name not in environment:
            raise UsageError(f"there is no variable '{name}' (--pass-env)", "it is passed by its name alone")
    return {name: environment[name] for name in given}


def _url(context: OpenWorktree, remote: str) -> str:
    """The URL of a remote to push to, as it can be used from any folder."""
    location = context.location
    out = process.run(["remote", "get-url", "--push", remote], cwd=location.root, env=location.environment())
    url = out.decode("utf-8", "surrogateescape").splitlines()[0]
    if re.match(r"[^/]+://[^/@]*:[^/@]*@", url) or redact(url)[1]:
        raise UsageError(
            f"the URL of the remote '{remote}' has a password, which would be in the command line of workers",
            "leave it out of the URL: a credential helper keeps it (git help credentials)",
        )
    is_path = "://" not in url and not re.match(r"[^/]+:", url)
    return os.path.join(location.root, url) if is_path else url


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

    prepared: _Prepared
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
        """Tell of tasks that were handed over long ago, to an engine that does not know what becomes of its workers."""
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
