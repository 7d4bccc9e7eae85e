"""What the refs of a fleet lead to. Each is a commit; nothing in it is trusted when it is read.

    tasks             fleet.json ({"schema", "id", "base", "bases", "created_at", "engine"}) and tasks.jsonl (`tasks`);
                      parents: the fleet's base, then every other base of a task
    live/<task>       live.json, and the evidence so far as the folder `evidence`; parents: the branch's tip, then the
                      newest commit of the run's timeline
    results/<task>    result.json, and the rest as above

`live.json` and `result.json` are objects with `schema`, `fleet` and the fields of `Live` and `Result`. Of these,
`commit` and `timeline` are the parents; the key `parents` says which of the two there are.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, cast

from git_agentos.errors import AgentosError, FleetError
from git_agentos.fleet import names, tasks
from git_agentos.fleet.tasks import Task
from git_agentos.git import trees
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.util import times, values

FLEET_SCHEMA = "agentos.fleet-tasks.v1"
LIVE_SCHEMA = "agentos.fleet-live.v1"
RESULT_SCHEMA = "agentos.fleet-result.v1"

# The states of a task. A result has one of the last four; the others are seen by its refs.
WAITING, RUNNING = "waiting", "running"
PASSED, FAILED, CANCELLED, LOST = "passed", "failed", "cancelled", "lost"
STATES = (WAITING, RUNNING, PASSED, FAILED, LOST, CANCELLED)  # as they are listed
EVIDENCE = b"evidence"
_FLEET, _TASKS, _LIVE, _RESULT = b"fleet.json", b"tasks.jsonl", b"live.json", b"result.json"
_LARGEST, _LARGEST_TASKS = 256 << 10, 256 << 20  # bytes of a document, and of the tasks
_LARGEST_NUMBER = 1 << 53
_PARENTS = ("commit", "timeline")  # in this order
_NOT_WRITTEN = (*_PARENTS, "result")
_HINT = "it was changed by somebody else than git-agentos; nothing of it is used"


class DamagedRecord(FleetError):
    """A ref leads to something else than it should."""


class _Wrong(ValueError):
    """What is wrong with a record, as a sentence."""


@dataclass(frozen=True)
class Fleet:
    """A fleet: `base` is a commit id, `bases` the commits of other bases by how tasks have written them; `created_at`
    ISO 8601, UTC; `engine` the name of the engine that it was created for."""

    id: str
    base: str
    tasks: tuple[Task, ...]
    created_at: str
    engine: str
    bases: Mapping[str, str] = field(default_factory=dict)

    def base_of(self, task: Task) -> str:
        """The commit at which a task begins."""
        return self.base if task.base is None else self.bases[task.base]

    def task(self, id_: str) -> Task:
        """The task of that id; FleetError where there is none."""
        for task in self.tasks:
            if task.id == id_:
                return task
        raise FleetError(f"fleet '{self.id}' has no task '{id_}'", f"git agentos fleet status {self.id} lists them")


@dataclass(frozen=True)
class Live:
    """What a task that runs has reached. Times are ISO 8601, UTC; `attempt` counts workers that began, from 1;
    `worker` names the machine; `step` is the number of the last step that ended, 0 before the first. `commit` is the
    tip of the branch, `timeline` the newest commit of the run's timeline, `checkpoint` its checkpoint; None: there is
    none."""

    task: str
    attempt: int
    worker: str
    started_at: str
    updated_at: str
    run_id: str
    step: int = 0
    checkpoint: str | None = None
    commit: str | None = None
    timeline: str | None = None


@dataclass(frozen=True)
class Result:
    """The result of a task. `state` is PASSED, FAILED, CANCELLED or LOST; `outcome` that of the run's last attempt
    (None: no run has ended); `attempts` is how many workers began. `commit` is the tip of the branch as it was pushed,
    `timeline` the newest commit of the run's timeline as it was pushed, `checkpoint` the run's last one; `base` the
    commit at which it began. `lines` and `files` count what the work adds and removes. `held_back` are fingerprints of
    secrets that were not pushed; `detail` is for people. `result` is the id of the commit that has this record."""

    task: str
    state: str
    attempts: int = 0
    outcome: str | None = None
    worker: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    detail: str | None = None
    run_id: str | None = None
    base: str | None = None
    lines: int | None = None
    files: int | None = None
    held_back: tuple[str, ...] = ()
    commit: str | None = None
    timeline: str | None = None
    checkpoint: str | None = None
    result: str | None = None


def write_tasks(writer: Writer, fleet: Fleet, who: bytes) -> str:
    """Write the commit of `tasks`; `who` (`Name <email>`) is its author. The id."""
    body = {"id": fleet.id, "base": fleet.base, "bases": dict(fleet.bases), "created_at": fleet.created_at}
    files = {
        _FLEET: (trees.REGULAR, writer.write("blob", _document(FLEET_SCHEMA, body | {"engine": fleet.engine}))),
        _TASKS: (trees.REGULAR, writer.write("blob", tasks.to_lines(fleet.tasks))),
    }
    parents = list(dict.fromkeys((fleet.base, *fleet.bases.values())))
    return _commit(writer, files, parents, f"fleet {fleet.id}: {values.count(len(fleet.tasks), 'task')}", who)


def read_tasks(repository: Repository, oid: str, fleet: str) -> Fleet:
    """The fleet that a commit of `tasks` records; DamagedRecord for anything else."""
    return _read_tasks(repository, oid, fleet, None)


def read_task(repository: Repository, oid: str, fleet: str, task: str) -> Fleet:
    """The same, with that task alone: for a worker, which needs no other. FleetError where there is no such task."""
    found = _read_tasks(repository, oid, fleet, task)
    found.task(task)
    return found


def _read_tasks(repository: Repository, oid: str, fleet: str, task: str | None) -> Fleet:
    with _reading(names.tasks_ref(fleet)) as source:
        commit = repository.commit(oid)
        body = _read_document(repository, commit, _FLEET, FLEET_SCHEMA)
        text = {key: body[key] for key in ("id", "base", "created_at", "engine")}
        bases = body["bases"]
        _check_time("created_at", text["created_at"])
        data = _read_file(repository, commit, _TASKS, _LARGEST_TASKS)
        listed = tasks.from_lines(data if task is None else tasks.lines_of(data, task), source)
        if (
            not isinstance(bases, dict)
            or not all(isinstance(each, str) for each in (*text.values(), *bases.values()))
            or text["id"] != fleet
            or list(commit.parents) != list(dict.fromkeys((text["base"], *bases.values())))
            or not {each.base for each in listed} - {None} <= bases.keys()
        ):
            raise _Wrong(f"'{_FLEET.decode()}' does not fit the commit, or the tasks")
        return Fleet(**text, tasks=listed, bases=bases)


def write_live(writer: Writer, fleet: str, live: Live, who: bytes, evidence: str | None = None) -> str:
    """Write the commit of `live/<task>`, with the tree `evidence` as that folder; the id."""
    files = {_LIVE: (trees.REGULAR, writer.write("blob", _record(LIVE_SCHEMA, fleet, live)))}
    if evidence is not None:
        files[EVIDENCE] = (trees.DIRECTORY, evidence)
    subject = f"fleet {fleet}: {live.task} after step {live.step}"
    return _commit(writer, files, [each for each in (live.commit, live.timeline) if each is not None], subject, who)


def read_live(repository: Repository, oid: str, fleet: str, task: str) -> Live:
    """What a commit of `live/<task>` records; DamagedRecord for anything else."""
    with _reading(names.live_ref(fleet, task)):
        commit = repository.commit(oid)
        found = Live(**_fields(Live, _read_document(repository, commit, _LIVE, LIVE_SCHEMA), commit, fleet, task))
        if found.run_id != names.run_id(fleet, task):
            raise _Wrong("it is of another run")
        return found


def write_result(writer: Writer, fleet: str, result: Result, who: bytes, evidence: str | None = None) -> str:
    """Write the commit of `results/<task>`, with the tree `evidence` as that folder; the id."""
    files = {_RESULT: (trees.REGULAR, writer.write("blob", _record(RESULT_SCHEMA, fleet, result)))}
    if evidence is not None:
        files[EVIDENCE] = (trees.DIRECTORY, evidence)
    parents = [each for each in (result.commit, result.timeline) if each is not None]
    return _commit(writer, files, parents, f"fleet {fleet}: {result.task} {result.state}", who)


def read_result(repository: Repository, oid: str, fleet: str, task: str) -> Result:
    """The result that a commit of `results/<task>` records; DamagedRecord for anything else. Whether the evidence
    verifies is not looked at."""
    with _reading(names.result_ref(fleet, task)):
        commit = repository.commit(oid)
        found = _fields(Result, _read_document(repository, commit, _RESULT, RESULT_SCHEMA), commit, fleet, task)
        if found["state"] not in (PASSED, FAILED, CANCELLED, LOST):
            raise _Wrong("its state is not one of a result")
        if found["run_id"] not in (None, names.run_id(fleet, task)):
            raise _Wrong("it is of another run")
        return Result(**found | {"held_back": tuple(found["held_back"]), "result": oid})


def evidence_tree(repository: Repository, oid: str) -> str | None:
    """The tree of the evidence in a commit of `results/<task>` or `live/<task>`; None where it has none."""
    entry = repository.entries(repository.commit(oid).tree).get(EVIDENCE)
    return entry[1] if entry is not None and entry[0] == trees.DIRECTORY else None


# -- one commit --------------------------------------------------------------------------------------------------------


def _record(schema: str, fleet: str, record: Live | Result) -> bytes:
    body = {each.name: getattr(record, each.name) for each in fields(record) if each.name not in _NOT_WRITTEN}
    return _document(schema, {"fleet": fleet, **body, "parents": [key for key in _PARENTS if getattr(record, key)]})


def _document(schema: str, body: Mapping[str, Any]) -> bytes:
    return json.dumps({"schema": schema, **body}, indent=1).encode("ascii") + b"\n"


def _commit(writer: Writer, files: Mapping[bytes, trees.Entry], parents: list[str], subject: str, who: bytes) -> str:
    tree = writer.write_tree(trees.serialise(files))
    return writer.write_commit(tree, parents, subject.encode() + b"\n", who, int(time.time()))


@contextlib.contextmanager
def _reading(ref: str) -> Iterator[str]:
    """Raise whatever is wrong with a commit as a DamagedRecord that names the ref, which is what is yielded."""
    try:
        yield ref
    except DamagedRecord:
        raise
    except FleetError as error:
        raise DamagedRecord(error.message, error.hint) from error
    except (AgentosError, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError, OSError) as error:
        raise DamagedRecord(f"'{ref}' is damaged: {_reason(error)}", _HINT) from error


def _reason(error: Exception) -> str:
    if isinstance(error, AgentosError):
        return error.message
    if isinstance(error, KeyError):
        return f"'{error.args[0]}' is missing"
    if isinstance(error, _Wrong):
        return str(error)
    return "it has another form than git-agentos writes"


def _read_file(repository: Repository, commit: CommitData, name: bytes, limit: int) -> bytes:
    mode, oid = repository.entries(commit.tree).get(name, (0, ""))
    if mode == trees.REGULAR and not repository.is_large(oid, limit):
        kind, data = repository.read(oid)
        if kind == "blob":
            return data
    raise _Wrong(f"it has no file '{name.decode()}', or one that is too large")


def _read_document(repository: Repository, commit: CommitData, name: bytes, schema: str) -> dict[str, Any]:
    try:
        body = json.loads(_read_file(repository, commit, name, _LARGEST))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Wrong(f"'{name.decode()}' is no JSON that can be read") from error
    if not isinstance(body, dict) or body.get("schema") != schema:
        raise _Wrong(f"'{name.decode()}' has not the schema '{schema}'")
    return body


def _check_time(name: str, value: str) -> None:
    try:
        times.to_seconds(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise _Wrong(f"'{name}' is no time") from error


def _fields(
    kind: type[Live | Result], body: Mapping[str, Any], commit: CommitData, fleet: str, task: str
) -> dict[str, Any]:
    """The fields of a record, each of the type that it has, with the parents."""
    if body["fleet"] != fleet or body["task"] != task:
        raise _Wrong("it is of another task")
    parents = body["parents"]
    if (
        not isinstance(parents, list)
        or len(parents) != len(commit.parents)
        or [*filter(parents.count, _PARENTS)] != parents
    ):
        raise _Wrong("the commit has other parents than it says")
    found: dict[str, Any] = dict(zip(parents, commit.parents, strict=True))
    for name, type_ in _written_fields(cast(Any, kind)):
        value = body[name]
        if not values.is_of_type(value, type_) or (isinstance(value, int) and not 0 <= value < _LARGEST_NUMBER):
            raise _Wrong(f"'{name}' has a value that it cannot have")
        if name.endswith("_at") and value is not None:
            _check_time(name, value)
        found[name] = value
    return found


@cache
def _written_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """Name and type in JSON of the fields that are written: there are thousands of records."""
    named = ((each.name, str(each.type)) for each in fields(kind) if each.name not in _NOT_WRITTEN)
    return tuple((name, "list[str]" if name == "held_back" else type_) for name, type_ in named)
