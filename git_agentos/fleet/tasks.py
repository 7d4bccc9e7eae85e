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

Instead of `agent` and `validate`, a task can have `steps`, which are as `[[step]]` of a file of `run start`, or
`tdd = {issue, lld}`: a workflow in which tests come first (`agent` is its model then).

It is recorded as JSON lines of another form (`to_lines`): one object for each task, samples numbered, keys sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from git_agentos.run.spec import RunSpec


@dataclass(frozen=True)
class Tdd:
    """A workflow of `git agentos tdd run`: the id of its issue, the path of its design in the base (None: it is looked
    for), and the model (None: as configured)."""

    issue: str
    lld: str | None = None
    agent: str | None = None


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


def read_file(path: str) -> tuple[Task, ...]:
    """The tasks in a file, samples numbered: JSON lines where its name ends with `.jsonl` or `.ndjson` or its first
    character is `{`, else TOML. UsageError, which names the file and the line, for anything that is wrong with it."""
    raise NotImplementedError


def to_lines(tasks: tuple[Task, ...]) -> bytes:
    """The tasks as they are recorded; the same for the same tasks."""
    raise NotImplementedError


def from_lines(data: bytes, source: str) -> tuple[Task, ...]:
    """The tasks that `to_lines` wrote; FleetError, which names `source`, for anything else."""
    raise NotImplementedError
