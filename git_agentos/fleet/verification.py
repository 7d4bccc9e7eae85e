"""Whether a result is what a worker has made: its evidence verifies by itself, and is that of the task's run.

Who may push to the remote may push anything. What is checked here needs nothing but the commit of the result:

* its evidence is as the final checkpoint has sealed it, on the timeline that is the commit's second parent (`run
  verify`, but for the codes of events, which are made with the key of the worker's user);
* the commit that was HEAD's in that checkpoint is the first parent: what was validated is what is merged;
* the run is the task's: its id, its base, its steps, and how it has ended.

A result that was forged as a whole, by somebody who has run other commands under the same names, cannot be told from
another one: that is what the remote's own rules are for.
"""

from __future__ import annotations

from git_agentos.checkpoint import format
from git_agentos.errors import AgentosError
from git_agentos.fleet import names, records
from git_agentos.fleet.records import CANCELLED, FAILED, LOST, PASSED, Fleet, Result
from git_agentos.fleet.tasks import Task
from git_agentos.git import tree_refs, trees
from git_agentos.git.repository import Repository
from git_agentos.redact import redact
from git_agentos.run import evidence_copy, sealing, spec
from git_agentos.run.context import CONTEXT
from git_agentos.run.events import EVENTS, FLEET, MANIFEST, Run, state_of
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import parse_events
from git_agentos.run.sealing import Elsewhere
from git_agentos.run.spec import AGENT
from git_agentos.util.named_tuple import NamedTuple

_SPEC = "spec.json"
_LARGEST = 256 << 20  # bytes of a file that is read as a whole


class Work(NamedTuple):
    """What a result that verifies brings: the tip of the branch, the newest commit of the timeline, the final
    checkpoint, the tree of the evidence, and the run as that evidence has it."""

    result: Result
    run_id: str
    commit: str
    timeline: str
    checkpoint: str
    evidence: str
    run: Run


class Refused(NamedTuple):
    """Why a result is not used. `is_held_back`: because of secrets that were not pushed; everything else was not looked
    at then."""

    task: str
    reason: str
    is_held_back: bool = False


def read(repository: Repository, oid: str, fleet: str, task: str) -> Result | Refused:
    """The result in a commit, of which nothing is verified yet, or why there is none."""
    try:
        return records.read_result(repository, oid, fleet, task)
    except AgentosError as error:
        return Refused(task, error.message)


def has_work(result: Result) -> bool:
    """Whether a result claims to be that of a run: one that was cancelled, given up or never begun does not."""
    return result.state == PASSED or any((result.commit, result.timeline, result.checkpoint))


def verify(repository: Repository, fleet: Fleet, task: Task, result: Result) -> Work | Refused:
    """The work of a result that verifies, or why it does not."""
    if result.held_back:
        why = result.detail or f"secrets were not pushed: {', '.join(result.held_back)}"
        return Refused(task.id, why, is_held_back=True)
    try:
        found = _verified(repository, fleet, task, result)
    except AgentosError as error:
        return Refused(task.id, error.message)
    return Refused(task.id, found) if isinstance(found, str) else found


def _verified(repository: Repository, fleet: Fleet, task: Task, result: Result) -> Work | str:
    assert result.result is not None
    run_id, commit, timeline = names.run_id(fleet.id, task.id), result.commit, result.timeline
    evidence = records.evidence_tree(repository, result.result)
    if commit is None or timeline is None or evidence is None:
        missing = {"commit": commit, "timeline": timeline, "evidence": evidence}
        return f"it has no {next(name for name, value in missing.items() if value is None)}"
    problem = _unexpected(repository, evidence)
    if problem is not None:
        return problem
    copy = evidence_copy.SavedFolder(f"evidence of {task.id}", repository, tree_refs.files_of(repository, evidence))
    kept = Evidence(copy.path, run_id, files=copy)
    verification = sealing.verify(repository, kept, Elsewhere(timeline))
    if not verification.ok:
        return verification.problems[0]
    seal = verification.final_checkpoint
    assert seal is not None
    if format.read_state(repository, seal).head.commit != commit:
        return f"its branch is at {commit[:12]}, which is not what checkpoint {seal[:8]} was made of"
    run = _run(kept, run_id)
    problem = _differs(fleet, task, result, run, kept)
    return problem if problem is not None else Work(result, run_id, commit, timeline, seal, evidence, run)


def _unexpected(repository: Repository, tree: str) -> str | None:
    """What is in the evidence that no worker puts there."""
    plain = tree_refs.files_of(repository, tree)
    for path, (_, oid) in trees.walk(repository, tree):
        name = path.decode("utf-8", "replace")
        if path not in plain:
            return f"'{name}' in its evidence is not a file"
        is_read = name in (EVENTS, MANIFEST, CONTEXT, _SPEC) or name.endswith("/snapshot.json")
        if is_read and repository.is_large(oid, _LARGEST):
            return f"'{name}' in its evidence is too large"
    return None


def _run(kept: Evidence, run_id: str) -> Run:
    return state_of(run_id, parse_events(kept.read(EVENTS) or b"", run_id)).run(kept.folder, alive=False)


def _differs(fleet: Fleet, task: Task, result: Result, run: Run, kept: Evidence) -> str | None:
    """In what the run of the evidence is not the one that the task asks for and the result names."""
    base = fleet.base_of(task)
    if run.context is None or run.context.base_sha != base:
        return f"its run did not begin at {base[:12]}"
    if result.state in (PASSED, FAILED, CANCELLED) and run.state != result.state:
        return f"it says that it {_SAID[result.state]}, and its run is {run.state}"
    if task.tdd is not None:
        asked = {step.command for step in run.steps if step.kind == AGENT}
        if run.tool != FLEET or run.task_id != task.tdd.issue or asked - {redact(task.tdd.agent)[0]}:
            return f"its run is not the workflow of issue '{task.tdd.issue}' with the task's agent"
    if task.spec is not None:
        wanted = [(step.kind, None if step.command is None else redact(step.command)[0]) for step in task.spec.steps]
        recorded = spec.from_json((kept.read(_SPEC) or b"").decode("utf-8", "surrogateescape"), _SPEC)
        if [(step.kind, step.command) for step in recorded.steps] != wanted:
            return "its run has other steps than the task"
    return None


_SAID = {PASSED: "has passed", FAILED: "has failed", CANCELLED: "was cancelled", LOST: "was lost"}
