"""What a run is to do: from options, or from a file in TOML.

    task = "T-42"                       # all keys may be left out; they are called as the options are
    from = "main"
    max-attempts = 3
    on-failure = "rollback"             # or "keep"
    retry-from = "here"                 # or "pre_run"
    timeout = "30m"                     # of each command
    protected = ["main", "release/*"]
    guard = true
    cleanup = true                      # worktree and branch go once nobody waits for them

    [[step]]
    kind = "agent"
    command = 'claude -p "$(cat task.md)"'

    [[step]]
    kind = "validate"
    command = "make test"
    timeout = "10m"

    [[step]]
    kind = "checkpoint"
    message = "tests pass"

    [[step]]
    kind = "rollback"
    to = "step:1"                       # or "pre_run": the state in which the first of these steps began

An attempt does the steps in this order, up to the first that fails.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from git_agentos.errors import UsageError, system_reason
from git_agentos.run.context import check_id
from git_agentos.util.values import parse_duration

AGENT, VALIDATE, ROLLBACK, CHECKPOINT = "agent", "validate", "rollback", "checkpoint"
KEEP, ROLL_BACK = "keep", "rollback"
FROM_HERE, FROM_PRE_RUN = "here", "pre_run"
SCHEMA = "agentos.run-spec.v1"
_LONGEST = 10**15  # seconds
_STEP_POINT = re.compile(r"step:([1-9]\d{0,5})\Z")


@dataclass(frozen=True)
class StepSpec:
    """One step: `command` is shell text (agent, validate); `to` a point (rollback): `pre_run`, or `step:N` for where
    the N-th step of the same attempt began; `message` a checkpoint's description; `timeout` seconds, None for the
    run's."""

    kind: str
    command: str | None = None
    to: str | None = None
    message: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run: `base_ref` None is `agentos.runBase`, else HEAD of the repository; `timeout` seconds for each command;
    `on_failure` `keep` or `rollback`; `retry_from` `here` or `pre_run`; `protected` are patterns of branches that are
    protected beside those that always are (`run.branches`); `cleanup` None is `agentos.runCleanup`."""

    steps: tuple[StepSpec, ...]
    run_id: str | None = None
    task: str | None = None
    base_ref: str | None = None
    max_attempts: int = 1
    on_failure: str = KEEP
    retry_from: str = FROM_HERE
    timeout: float | None = None
    protected: tuple[str, ...] | None = None
    guard: bool = True
    cleanup: bool | None = None


def from_options(agents: Sequence[str], validations: Sequence[str], **fields: Any) -> RunSpec:
    """Steps: every agent, then every validation. UsageError for a bad value."""
    kinds = [*((AGENT, each) for each in agents), *((VALIDATE, each) for each in validations)]
    steps = [read_step({"kind": kind, "command": command}, n, None) for n, (kind, command) in enumerate(kinds, 1)]
    return _run({**_given(fields), "steps": steps}, None)


def from_file(path: str, **given: Any) -> RunSpec:
    """The run that a TOML file describes; what was given as an option wins. UsageError names the key that is wrong."""
    try:
        with open(path, "rb") as file:
            body = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {system_reason(error)}") from error
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UsageError(f"'{path}' is not TOML: {error}") from error
    found: dict[str, Any] = {}
    for key, value in body.items():
        name = _name(key)
        if name not in _KEYS:
            raise UsageError(f"'{key}' in '{path}' is not known", f"one of: {', '.join(_KEYS)}")
        if name in found:
            raise UsageError(f"'{key}' in '{path}' is there twice")
        found[name] = value
    tables = found.pop("step", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"'step' in '{path}' is not a list of tables", "begin each step with [[step]]")
    steps = [read_step(each, n, path) for n, each in enumerate(tables, 1)]
    named = {_KEYS[name]: value for name, value in found.items()}
    return _run({**named, **_given(given), "steps": steps}, path, given=frozenset(_given(given)))


def from_json(text: str, source: str) -> RunSpec:
    """The run that `to_json` wrote; UsageError for anything else."""
    try:
        body = json.loads(text)
    except ValueError as error:
        raise UsageError(f"'{source}' is no description of a run: {error}") from error
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise UsageError(f"'{source}' is no description of a run")
    steps = body.get("steps")
    if not isinstance(steps, list) or not all(isinstance(each, dict) for each in steps):
        raise UsageError(f"'steps' in '{source}' is not a list of objects")
    read = [read_step(_given(each), n, source) for n, each in enumerate(steps, 1)]
    return _run({**_given({key: body[key] for key in _FIELDS if key in body}), "steps": read}, source)


def to_json(spec: RunSpec) -> str:
    """One JSON document, with `schema`."""
    return json.dumps({"schema": SCHEMA, **asdict(spec)}, indent=2) + "\n"


def duration(text: str) -> float:
    """`90`, `90s`, `30m`, `1.5h` as seconds; UsageError for anything else."""
    seconds = parse_duration(text, words=False)
    if not seconds or seconds > _LONGEST:
        raise UsageError(f"'{text}' is not a time limit", "give seconds, or a number with s, m, h or d: 90s, 30m, 1.5h")
    return seconds


# -- reading one value -------------------------------------------------------------------------------------------------

# Which keys a step of each kind has; the first is the one that it must have.
_STEP_KEYS = {
    AGENT: ("command", "timeout"),
    VALIDATE: ("command", "timeout"),
    ROLLBACK: ("to",),
    CHECKPOINT: ("message",),
}


def _name(key: str) -> str:
    return key.replace("_", "-")


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given at all."""
    return {key: value for key, value in fields.items() if value is not None}


def _run(body: Mapping[str, Any], source: str | None, *, given: frozenset[str] = frozenset()) -> RunSpec:
    """A checked run; `source` is the file that the values come from, those in `given` apart."""
    values: dict[str, Any] = {}
    for name, value in body.items():
        if name not in _FIELDS:
            raise TypeError(f"RunSpec has no field '{name}'")
        key, read = _FIELDS[name]
        values[name] = read(value, _Source(key, None if name in given else source))
    steps: tuple[StepSpec, ...] = values["steps"]
    where = f" in '{source}'" if source is not None else ""
    if not any(step.kind == AGENT for step in steps):
        raise UsageError(f"there is no agent to run{where}", "give one: --agent COMMAND, or a [[step]] of kind 'agent'")
    return RunSpec(**values)


class _Source:
    """The name of a value for messages: the option, or the key and the file."""

    def __init__(self, name: str, source: str | None) -> None:
        self.name = f"--{name}" if source is None else f"'{name}' in '{source}'"

    def wrong(self, wanted: str, value: Any) -> UsageError:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        shown = value if plain else json.dumps(value, default=str)
        return UsageError(f"{self.name} takes {wanted}, not '{shown}'")


def _text(value: Any, source: _Source) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise source.wrong("a text", value)
    return value


def _line(value: Any, source: _Source) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise source.wrong("one line of text", value)
    return value


def _id(value: Any, source: _Source) -> str:
    return check_id(_line(value, source), source=source.name)


def _count(value: Any, source: _Source) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1000:
        raise source.wrong("a number from 1 to 1000", value)
    return value


def _seconds(value: Any, source: _Source) -> float:
    if isinstance(value, str):
        try:
            return duration(value)
        except UsageError as error:
            raise UsageError(f"{source.name}: {error}", error.hint) from None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _LONGEST:
        raise source.wrong("a time limit such as 90s or 30m", value)
    return float(value)


def _one_of(*words: str) -> Any:
    def read(value: Any, source: _Source) -> str:
        if value not in words:
            raise source.wrong(" or ".join(f"'{word}'" for word in words), value)
        return str(value)

    return read


def _patterns(value: Any, source: _Source) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise source.wrong("names of branches", value)
    read = [_line(each, source).strip() for each in items]
    return tuple(each.removeprefix("refs/heads/") for each in read)


def _flag(value: Any, source: _Source) -> bool:
    if not isinstance(value, bool):
        raise source.wrong("true or false", value)
    return value


# The fields of RunSpec, each with its key in the file, which is the option too, and how its value is read.
_FIELDS: Mapping[str, tuple[str, Callable[[Any, _Source], Any]]] = {
    "run_id": ("id", _id),
    "task": ("task", _line),
    "base_ref": ("from", _line),
    "max_attempts": ("max-attempts", _count),
    "on_failure": ("on-failure", _one_of(ROLL_BACK, KEEP)),
    "retry_from": ("retry-from", _one_of(FROM_HERE, FROM_PRE_RUN)),
    "timeout": ("timeout", _seconds),
    "protected": ("protected", _patterns),
    "guard": ("guard", _flag),
    "steps": ("step", lambda value, _: tuple(value)),
    "cleanup": ("cleanup", _flag),
}
_KEYS = {key: name for name, (key, _) in _FIELDS.items()}


def read_step(body: Mapping[str, Any], n: int, source: str | None) -> StepSpec:
    """Step `n` of a run, of which `body` has the keys of a `[[step]]`. UsageError names `source`; None: an option."""
    found = {_name(key): value for key, value in body.items()}
    kind = found.pop("kind", None)

    def named(key: str) -> _Source:
        return _Source(key if source is None else f"{key} of step {n}", source)

    if not isinstance(kind, str) or kind not in _STEP_KEYS:
        raise named("kind").wrong(", ".join(f"'{each}'" for each in _STEP_KEYS), kind)
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key not in _STEP_KEYS[kind]:
            raise UsageError(
                f"{named(key).name} is not known", f"a step of kind '{kind}' has: {', '.join(_STEP_KEYS[kind])}"
            )
        if key == "to":
            values[key] = _point(value, n, named(key))
        elif key == "timeout":
            values[key] = _seconds(value, named(key))
        else:
            values[key] = _text(value, _Source(kind, None) if source is None else named(key))
    if kind != CHECKPOINT and _STEP_KEYS[kind][0] not in values:
        raise UsageError(f"{named(_STEP_KEYS[kind][0]).name} is missing")
    return StepSpec(kind, **values)


def _point(value: Any, n: int, source: _Source) -> str:
    if value == FROM_PRE_RUN:
        return FROM_PRE_RUN
    match = _STEP_POINT.match(value) if isinstance(value, str) else None
    if match is None or int(match[1]) >= n:
        raise source.wrong(f"'pre_run' or a step before it ('step:1' to 'step:{n - 1}')", value)
    return str(value)
