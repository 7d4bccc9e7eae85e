"""The tasks of a fleet: read from the file of the person who submits, and recorded.

The file is TOML, with a `[[task]]` for each, or JSON lines, an object for each:

    [[task]]
    id = "fix-1"                        # as a run's
    agent = 'claude -p "$(cat task.md)"'
    validate = ["make test", "make lint"]    # or one text
    base = "main"                       # default: the fleet's base
    max_attempts = 3
    time_limit = "30m"                  # of each command
    cpus = 2                            # what it needs of a machine
    gpus = 0
    memory = "512m"
    labels = {zone = "a"}
    samples = 3                         # three tasks: fix-1.1, fix-1.2, fix-1.3

Instead of `agent` and `validate`, a task can have `steps`, which are as `[[step]]` of a file of `run start`.
`tdd = {issue, lld}`, a workflow in which tests come first (`agent` is its model then), is read, but workers cannot do
it: `submission` refuses a file with such a task.

It is recorded as JSON lines of another form (`to_lines`): one object for each task, samples numbered, keys sorted.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, cast

from git_agentos.errors import FleetError, UsageError, system_reason
from git_agentos.fleet import names
from git_agentos.run.spec import AGENT, VALIDATE, RunSpec, StepSpec, duration, read_step
from git_agentos.tdd.state import check_issue
from git_agentos.util import files, quote
from git_agentos.util.values import is_of_type, parse_size

MOST = 50_000  # tasks of a fleet: each has up to two refs on the remote, of which 200,000 are read
LARGEST = 64 << 20  # bytes of a file
_MOST_COUNT = 1000
_LEAST_CPUS, _MOST_NUMBER = 0.01, 100_000.0
_KEYS = (
    "id", "agent", "validate", "steps", "tdd", "base", "max_attempts", "time_limit", "cpus", "gpus", "memory", "labels",
    "samples",
)  # fmt: skip


@dataclass(frozen=True)
class Tdd:
    """A workflow of `git agentos tdd run`: the id of its issue, the path of its design document in the base, and the
    model. `accepts_policy`: the person who has submitted it accepts the data policy."""

    issue: str
    lld: str
    agent: str
    accepts_policy: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Task:
    """One task, which has one result. It has either `spec`, whose `run_id` and `base_ref` are None, or `tdd`.

    `sample_of` is the id in the file of which this is one of several samples, None where it is the only one; `base` is
    as it was written (None: the fleet's base), `Fleet.base_of` has the commit. `memory` is in bytes; None for `cpus`,
    `gpus` and `memory` is what the engine takes.
    """

    id: str
    sample_of: str | None = None
    spec: RunSpec | None = None
    tdd: Tdd | None = None
    base: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskFile:
    """The tasks in the file `path`, and where they are: id -> line, None where that is not known."""

    path: str
    tasks: tuple[Task, ...]
    lines: Mapping[str, int | None]

    def wrong(self, task: str, problem: str, hint: str | None = None) -> UsageError:
        """The error for a task."""
        return _wrong(self.path, self.lines.get(task), problem, hint)


def read_file(path: str) -> TaskFile:
    """The tasks in a file, samples numbered: JSON lines where its name ends with `.jsonl` or `.ndjson` or its first
    character is `{`, else TOML. UsageError, which names the file and the line, for anything that is wrong with it."""
    try:
        data = files.read(path, limit=LARGEST, follow=True)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {system_reason(error)}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is not UTF-8") from error
    is_json = path.endswith((".jsonl", ".ndjson")) or text.lstrip().startswith("{")
    found: dict[str, Task] = {}
    lines: dict[str, int | None] = {}  # folded id -> its line: some file systems ignore case
    for entry in _json_entries(text, path) if is_json else _toml_entries(text, path):
        for task in _read(entry):
            folded = task.id.lower()
            if folded in lines:
                there = "" if lines[folded] is None else f" in line {lines[folded]}"
                how = "is there already" if task.id in found else "differs only in case from another one"
                raise entry.wrong("id", f"the task '{task.id}' {how}{there}")
            found[task.id], lines[folded] = task, entry.line
    if not found:
        hint = "begin each task with [[task]]" if not is_json else "give one object a line"
        raise UsageError(f"'{path}' has no task", hint)
    if len(found) > MOST:
        raise UsageError(f"'{path}' has {len(found)} tasks, and a fleet at most {MOST}", "make several fleets of it")
    return TaskFile(path, tuple(found.values()), {task: lines[task.lower()] for task in found})


def accepted(task: Task) -> Task:
    """The task, with the data policy accepted where it is a workflow."""
    return task if task.tdd is None else replace(task, tdd=replace(task.tdd, accepts_policy=True))


def to_lines(tasks: Iterable[Task]) -> bytes:
    """The tasks as they are recorded; the same for the same tasks."""
    return b"".join(json.dumps(_row(task), sort_keys=True).encode("ascii") + b"\n" for task in tasks)


def from_lines(data: bytes, source: str) -> tuple[Task, ...]:
    """The tasks that `to_lines` wrote; FleetError, which names `source`, for anything else."""
    found: dict[str, Task] = {}
    try:
        for line in data.splitlines():
            task = _from_row(json.loads(line))
            found[task.id] = task
        if to_lines(found.values()) != data:
            raise ValueError
    except (UsageError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f": {error}" if str(error) else ""
        raise FleetError(f"'{source}' is damaged: its tasks are not what git-agentos writes{reason}") from error
    return tuple(found.values())


def lines_of(data: bytes, task: str) -> bytes:
    """The lines of what `to_lines` wrote that may be of one task, which is quick to find among thousands."""
    mark = b'"id": ' + json.dumps(task).encode("ascii")
    return b"".join(line for line in data.splitlines(keepends=True) if mark in line)


# -- the recorded form -------------------------------------------------------------------------------------------------


def _row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": task.id,
        "sample_of": task.sample_of,
        "base": task.base,
        "cpus": task.cpus,
        "gpus": task.gpus,
        "memory": task.memory,
        "labels": dict(task.labels) or None,
        "tdd": None if task.tdd is None else _given(vars(task.tdd)),
    }
    if task.spec is not None:
        row["steps"] = [_given(vars(step)) for step in task.spec.steps]
        row["max_attempts"], row["timeout"] = task.spec.max_attempts, task.spec.timeout
    return _given(row)


def _from_row(row: dict[str, Any]) -> Task:
    id_ = names.check_task_id(row.pop("id"))
    steps, attempts, timeout = (row.pop(key, None) for key in ("steps", "max_attempts", "timeout"))
    tdd = row.pop("tdd", None)
    spec = None
    if steps is not None:
        read = tuple(read_step(step, n, id_) for n, step in enumerate(steps, 1))
        spec = RunSpec(read, task=id_, max_attempts=attempts, timeout=timeout)
    task = Task(id_, spec=spec, tdd=None if tdd is None else Tdd(**tdd), **row)
    if (task.spec is None) == (task.tdd is None) or not all(map(_has_types, filter(None, (task, spec, task.tdd)))):
        raise ValueError(f"the task '{id_}'")
    return task


def _has_types(value: Any) -> bool:
    """Whether the plain fields of a dataclass have values of their types."""
    return (
        all(is_of_type(getattr(value, name), type_) for name, type_ in _plain_fields(cast(Any, type(value))))
        and all(isinstance(each, str) for each in getattr(value, "labels", {}).values())
        and isinstance(getattr(value, "accepts_policy", False), bool)
    )


@cache
def _plain_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """Name and type of those fields of a dataclass: there are thousands of tasks."""
    named = ((each.name, str(each.type)) for each in fields(kind))
    return tuple((name, type_) for name, type_ in named if type_.removesuffix(" | None") in ("str", "int", "float"))


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


# -- one task of a file ------------------------------------------------------------------------------------------------


@dataclass
class _Entry:
    """One task of a file: its values, the line where it begins, and those of its keys, as far as they are known."""

    path: str
    values: dict[str, Any]
    line: int | None
    lines: Mapping[str, int]

    def wrong(self, key: str, problem: str, hint: str | None = None) -> UsageError:
        """The error for a key."""
        return _wrong(self.path, self.lines.get(key, self.line), problem, hint)

    def takes(self, key: str, wanted: str) -> UsageError:
        """The error for a value that is not what its key takes."""
        value = self.values[key]
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        return self.wrong(key, f"'{key}' takes {wanted}, not '{value if plain else json.dumps(value, default=str)}'")


def _wrong(path: str, line: int | None, problem: str, hint: str | None) -> UsageError:
    where = f"'{path}'" if line is None else f"'{path}', line {line}"
    return UsageError(f"{where}: {problem}", hint)


def _read(entry: _Entry) -> Iterator[Task]:
    """The task of an entry, or its samples."""
    given = entry.values
    if "id" not in given:
        raise entry.wrong("id", "this task has no 'id'")
    id_ = _checked_id(entry, _line(entry, "id"))
    for key in given:
        if key not in _KEYS:
            raise entry.wrong(key, f"'{key}' is not known", f"one of: {', '.join(_KEYS)}")
    tdd, spec = _tdd(entry), None
    if tdd is None:
        spec = _spec(entry)
    task = Task(
        id_,
        spec=spec,
        tdd=tdd,
        base=_line(entry, "base") if "base" in given else None,
        cpus=_number(entry, "cpus", least=_LEAST_CPUS),
        gpus=_number(entry, "gpus", least=0.0),
        memory=_memory(entry),
        labels=_labels(entry),
    )
    if "samples" not in given:
        yield _of_run(task)
        return
    for n in range(1, _count(entry, "samples") + 1):
        yield _of_run(replace(task, id=_checked_id(entry, f"{id_}.{n}"), sample_of=id_))


def _of_run(task: Task) -> Task:
    """The task, whose run says which task it is of."""
    return task if task.spec is None else replace(task, spec=replace(task.spec, task=task.id))


def _checked_id(entry: _Entry, id_: str) -> str:
    try:
        return names.check_task_id(id_, source="id")
    except UsageError as error:
        raise entry.wrong("id", error.message, error.hint) from None


def _spec(entry: _Entry) -> RunSpec:
    given = entry.values
    if "steps" in given:
        for key in ("agent", "validate"):
            if key in given:
                raise entry.wrong(key, f"'steps' and '{key}' cannot be used together", "the steps have the commands")
        tables = given["steps"]
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise entry.takes("steps", "a list of tables")
        try:
            steps = [read_step(table, n, given["id"]) for n, table in enumerate(tables, 1)]
        except UsageError as error:
            raise entry.wrong("steps", error.message, error.hint) from None
        if not any(step.kind == AGENT for step in steps):
            raise entry.wrong("steps", "there is no agent to run", "give a step of kind 'agent'")
    else:
        if "agent" not in given:
            raise entry.wrong("agent", "there is no agent to run", "give 'agent', 'steps' or 'tdd'")
        steps = [StepSpec(AGENT, _text(entry, "agent"))]
        validate = given.get("validate", [])
        for command in [validate] if isinstance(validate, str) else validate if isinstance(validate, list) else [None]:
            if not _is_text(command):
                raise entry.takes("validate", "a text or a list of texts")
            steps.append(StepSpec(VALIDATE, command))
    attempts = _count(entry, "max_attempts") if "max_attempts" in given else 1
    return RunSpec(tuple(steps), max_attempts=attempts, timeout=_duration(entry))


def _tdd(entry: _Entry) -> Tdd | None:
    given = entry.values
    if "tdd" not in given:
        return None
    for key in ("steps", "validate", "max_attempts", "time_limit"):
        if key in given:
            raise entry.wrong(key, f"'tdd' and '{key}' cannot be used together")
    table = given["tdd"]
    if (
        not isinstance(table, dict)
        or table.keys() != {"issue", "lld"}
        or not all(_is_text(each) or (isinstance(each, int) and not isinstance(each, bool)) for each in table.values())
    ):
        raise entry.takes("tdd", "a table with 'issue' and 'lld'")
    if "agent" not in given:
        raise entry.wrong(
            "tdd", "there is no agent to write tests and code", "give 'agent': command:TEXT or model:NAME"
        )
    try:
        issue = check_issue(str(table["issue"]))
    except UsageError as error:
        raise entry.wrong("tdd", error.message, error.hint) from None
    return Tdd(issue, str(table["lld"]), _text(entry, "agent"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value and _is_unicode(value)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: JSON may have halves of characters."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _text(entry: _Entry, key: str) -> str:
    value = entry.values[key]
    if not _is_text(value):
        raise entry.takes(key, "a text")
    return str(value)


def _line(entry: _Entry, key: str) -> str:
    value = entry.values[key]
    if not _is_text(value) or not value.isprintable():
        raise entry.takes(key, "one line of text")
    return str(value)


def _count(entry: _Entry, key: str) -> int:
    value = entry.values[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_COUNT:
        raise entry.takes(key, f"a number from 1 to {_MOST_COUNT}")
    return value


def _number(entry: _Entry, key: str, *, least: float) -> float | None:
    value = entry.values.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= _MOST_NUMBER:
        raise entry.takes(key, f"a number from {least:g} to {_MOST_NUMBER:g}")
    return float(value)


def _memory(entry: _Entry) -> int | None:
    value = entry.values.get("memory")
    if value is None:
        return None
    size = parse_size(value) if isinstance(value, str) else value
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise entry.takes("memory", "a size such as '512m' or '4g'")
    return size


def _labels(entry: _Entry) -> Mapping[str, str]:
    value = entry.values.get("labels", {})
    if not isinstance(value, dict) or not all(_is_text(each) for pair in value.items() for each in pair):
        raise entry.takes("labels", "a table of texts")
    return {str(key): str(each) for key, each in sorted(value.items())}


def _duration(entry: _Entry) -> float | None:
    value = entry.values.get("time_limit")
    if value is None:
        return None
    try:
        return duration(value if isinstance(value, str) else f"{value}")
    except UsageError as error:
        raise entry.wrong("time_limit", f"'time_limit': {error.message}", error.hint) from None


# -- the two forms of a file -------------------------------------------------------------------------------------------


def _json_entries(text: str, path: str) -> Iterator[_Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_once)
        except _Twice as error:
            raise UsageError(f"'{path}', line {number}: '{error}' is there twice") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"'{path}', line {number}: this is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError(f"'{path}', line {number}: this is no object", "give one object a line")
        yield _entry(path, values, number, {})


class _Twice(Exception):
    """An object of JSON has a key twice, of which `json` would take the last one."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(quote.line(key))
        found[key] = value
    return found


def _toml_entries(text: str, path: str) -> Iterator[_Entry]:
    try:
        body = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not TOML: {error}") from error
    places = _toml_lines(text)
    tables = body.pop("task", [])
    if body:
        key = next(iter(body))
        raise UsageError(f"'{path}': '{key}' is not known", "begin each task with [[task]]")
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"'{path}': 'task' is not a list of tables", "begin each task with [[task]]")
    if len(places) != len(tables):  # they are not written as [[task]]
        places = [(None, {})] * len(tables)
    for values, (line, lines) in zip(tables, places, strict=True):
        yield _entry(path, values, line, lines)


def _entry(path: str, values: Mapping[str, Any], line: int | None, lines: Mapping[str, int]) -> _Entry:
    """The entry, whose keys are written with `_`; `max-attempts` is as good."""
    found: dict[str, Any] = {}
    entry = _Entry(path, found, line, {key.replace("-", "_"): each for key, each in lines.items()})
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in found:
            raise entry.wrong(name, f"'{key}' is there twice")
        found[name] = value
    return entry


_TOML_TOKEN = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*')
_TOML_TASK = re.compile(r'\s*\[\[\s*(["\']?)task\1\s*\]\]')
_TOML_KEY = re.compile(r'\s*(?:\[+\s*(?:task\s*\.\s*)?)?["\']?([A-Za-z_-]+)["\']?\s*[=.\]]')


def _toml_lines(text: str) -> list[tuple[int | None, dict[str, int]]]:
    """Of each `[[task]]`, its line and those of its keys. tomllib does not say them; what is in texts of several lines
    is left out."""
    found: list[tuple[int | None, dict[str, int]]] = []
    until: str | None = None  # the end of a text of several lines
    for number, line in enumerate(text.split("\n"), 1):
        rest = line
        if until is None:
            if _TOML_TASK.match(line):
                found.append((number, {}))
            elif found and (key := _TOML_KEY.match(line)) is not None:
                found[-1][1].setdefault(key[1], number)
        else:
            _, end, rest = line.partition(until)
            if not end:
                continue
            until = None
        while (token := _TOML_TOKEN.search(rest)) is not None:
            rest = rest[token.end() :]
            if token[0] in ('"""', "'''"):
                _, end, rest = rest.partition(token[0])
                if not end:
                    until = token[0]
                    break
    return found
