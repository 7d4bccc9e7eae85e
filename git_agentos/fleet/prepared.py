"""What is submitted as a fleet, looked at before anything is started: whether its file, the remote and the engine fit.

What is wrong with a task is said with the line of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import ContextError, FleetError, PolicyError, TddError, UsageError
from git_agentos.fleet import attempts, clones, contents, names, records, tasks
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.engines.port import Engine, Order, Unfit
from git_agentos.fleet.records import LOST, Fleet
from git_agentos.fleet.remote import REFUSED, TAKEN
from git_agentos.fleet.status import Reader
from git_agentos.fleet.tasks import Task, TaskFile
from git_agentos.git import process
from git_agentos.redact import redact
from git_agentos.sync import scanner
from git_agentos.util import times


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


class Prepared:
    """A fleet that can be submitted: its file is good, the remote is there, and the engine can do what is open.

    Making one raises UsageError for what is wrong, with the line of the file, and FleetError for the remote or the
    engine.
    """

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
        self.url = push_url(context, self.remote.name)
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


def usual_name(path: str) -> str:
    """The name of a fleet without another one: that of its file. UsageError where it is no name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        return names.check_fleet_id(re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-."))
    except UsageError as error:
        raise UsageError(f"no fleet can be called as the file '{path}'", "give it a name: --name ID") from error


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


def push_url(context: OpenWorktree, remote: str) -> str:
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
