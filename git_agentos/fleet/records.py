"""What the refs of a fleet lead to. Each is a commit; nothing in it is trusted when it is read.

    tasks             fleet.json ({"schema", "id", "base", "bases", "created_at", "engine"}) and tasks.jsonl (`tasks`);
                      parents: the fleet's base, then every other base of a task
    live/<task>       live.json; parents: the branch's tip, then the newest commit of the run's timeline, as far as
                      there are any
    results/<task>    result.json, and the run's evidence as the folder `evidence`; parents: as above

`live.json` and `result.json` are objects with `schema`, `fleet` and the fields of `Live` and `Result`; `commit` and
`timeline` are the parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from git_agentos.errors import FleetError
from git_agentos.fleet.tasks import Task
from git_agentos.git.repository import Repository, Writer

# The states of a task. A result has one of the last four; the others are seen by its refs.
WAITING, RUNNING = "waiting", "running"
PASSED, FAILED, CANCELLED, LOST = "passed", "failed", "cancelled", "lost"
STATES = (WAITING, RUNNING, PASSED, FAILED, LOST, CANCELLED)  # as they are listed
EVIDENCE = b"evidence"


class DamagedRecord(FleetError):
    """A ref leads to something else than it should."""


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
        raise NotImplementedError


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
    raise NotImplementedError


def read_tasks(repository: Repository, oid: str, fleet: str) -> Fleet:
    """The fleet that a commit of `tasks` records; DamagedRecord for anything else."""
    raise NotImplementedError


def write_live(writer: Writer, fleet: str, live: Live, who: bytes) -> str:
    """Write the commit of `live/<task>`; the id."""
    raise NotImplementedError


def read_live(repository: Repository, oid: str, fleet: str, task: str) -> Live:
    """What a commit of `live/<task>` records; DamagedRecord for anything else."""
    raise NotImplementedError


def write_result(writer: Writer, fleet: str, result: Result, who: bytes, evidence: str | None = None) -> str:
    """Write the commit of `results/<task>`, with the tree `evidence` as that folder; the id."""
    raise NotImplementedError


def read_result(repository: Repository, oid: str, fleet: str, task: str) -> Result:
    """The result that a commit of `results/<task>` records; DamagedRecord for anything else. Whether the evidence
    verifies is not looked at."""
    raise NotImplementedError


def evidence_tree(repository: Repository, oid: str) -> str | None:
    """The tree of the evidence in a commit of `results/<task>`; None where it has none."""
    raise NotImplementedError
