"""One step of a run: its events, a checkpoint before and after, its command, and its outcome.

Exit codes and the diff decide. An agent that exits with 0 and has changed nothing gets an outcome of its own; one that
has moved a protected branch has failed, whatever else it did.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from git_agentos import redact_lines
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RunError, StorageError
from git_agentos.git import authorship, process
from git_agentos.git.repository import Repository
from git_agentos.guard.exec import launch
from git_agentos.process import contained
from git_agentos.process.contained import Command, Result
from git_agentos.redact import redact, redact_value
from git_agentos.run import branches, feedback, patches, query, rebuild, rollback, snapshot
from git_agentos.run import environment as environments
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import FAILED_STEP, NO_CHANGES, OK, PROTECTED, TIMED_OUT
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.observer import Observer
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.snapshot import WorkspaceSnapshot
from git_agentos.run.spec import AGENT, CHECKPOINT, ROLLBACK, RunSpec, StepSpec
from git_agentos.run.stop import Stop
from git_agentos.worktree import layout


class Stopped(Exception):
    """The run is to stop: a signal came, or it is being cancelled."""


@dataclass(frozen=True)
class StepSetup:
    """What the steps of a run have in common. `mark` is in the environment of every process of the run."""

    context: OpenWorktree
    spec: RunSpec
    evidence: Evidence
    protected: Sequence[str]
    mark: str
    stop: Stop
    watcher: Observer


class _Begun(NamedTuple):
    """A step that has begun.

    `position` counts from 0 in the spec, `folder` is in the evidence; `inner` is the run's context in its worktree. As
    they were before the step: `before` (the state), `protected` (heads of protected branches), `heads` (of all
    branches), `others` (all other refs; both None where that is not known) and `tip` (of the run's timeline).
    """

    n: int
    position: int
    step: StepSpec
    folder: str
    run: WorkspaceContext
    inner: OpenWorktree
    before: State
    protected: Mapping[str, str]
    heads: Mapping[str, str] | None
    others: Mapping[str, str] | None
    tip: str | None


_Captured = tuple[WorkspaceSnapshot, State]


class _Outcome(NamedTuple):
    """How a step ended: `checkpoint` has the state afterwards, None where the worktree could not be captured."""

    outcome: str
    detail: str | None
    checkpoint: str | None
    changed: int | None
    exit_code: int | None = None
    seconds: float | None = None


def run_step(setup: StepSetup, run: WorkspaceContext) -> None:
    """Run the next step. Stopped where it was interrupted: by its record it is still under way then."""
    begun = _begin(setup, run)
    if begun.step.kind == ROLLBACK:
        result = _roll_back(setup, begun)
    elif begun.step.kind == CHECKPOINT:
        result = _checkpoint(begun)
    else:
        result = _command(setup, begun)
    setup.evidence.event(
        "step-ended",
        n=begun.n,
        outcome=result.outcome,
        exit_code=result.exit_code,
        seconds=result.seconds,
        checkpoint=result.checkpoint,
        changed=result.changed,
        detail=result.detail,
        moved=_moved(setup, begun),
        moved_refs=_moved_refs(setup, begun),
        **_streams(begun.step, begun.folder),
    )
    setup.watcher.step_ended(setup.evidence.run(alive=True), setup.evidence.state().step(begun.n))


def _begin(setup: StepSetup, run: WorkspaceContext) -> _Begun:
    """Save the state before the step, and record its beginning."""
    at = setup.evidence.state()
    position, again = at.index, at.under_way is not None
    step = setup.spec.steps[position]
    n = at.under_way["n"] if at.under_way is not None else at.count + 1
    inner = snapshot.run_context(setup.context, run)
    metadata = inner.metadata(
        trigger="pre_step", description=f"before step {n} of run {run.run_id}", task_id=run.task_id, run_id=run.run_id
    )
    before = create_checkpoint(inner, metadata)
    heads = branches.branch_heads(setup.context.location)
    protected = branches.only_protected(heads, setup.protected)
    folder = setup.evidence.step_folder(n, step.kind)
    setup.evidence.event(
        "step-begun",
        n=n,
        index=position,
        kind=step.kind,
        attempt=at.attempt,
        command=redact(step.command)[0] if step.command is not None else None,
        checkpoint=before.checkpoint.id,
        branches=protected,
        **_streams(step, folder),
    )
    setup.watcher.step_begins(setup.evidence.run(alive=True), at.step(n))
    tip = timeline.tip(inner.location, inner.worktree_id)
    # What moved before an interruption is not known.
    known, others = (None, None) if again else (heads, branches.other_refs(setup.context.location))
    return _Begun(n, position, step, folder, run, inner, before.state, protected, known, others, tip)


def _moved(setup: StepSetup, begun: _Begun) -> list[str] | None:
    """The branches that have moved since the step began, without the run's own."""
    if begun.heads is None:
        return None
    now, own = branches.branch_heads(setup.context.location), layout.HEADS + begun.run.branch_name
    moved = [name for name in sorted({*begun.heads, *now}) if begun.heads.get(name) != now.get(name) and name != own]
    return [name.removeprefix(layout.HEADS) for name in moved]


def _moved_refs(setup: StepSetup, begun: _Begun) -> list[str] | None:
    """The refs other than branches that have moved since the step began."""
    if begun.others is None:
        return None
    now = branches.other_refs(setup.context.location)
    return [name for name in sorted({*begun.others, *now}) if begun.others.get(name) != now.get(name)]


def _check_timeline(setup: StepSetup, begun: _Begun) -> None:
    """Tampered where the run's timeline does not contain its tip of when the step began."""
    location = begun.inner.location
    try:
        now = timeline.tip(location, worktree_id(begun.run.run_id))
        if now is not None and begun.tip is not None and begun.inner.repository.is_ancestor(begun.tip, now):
            return
    except AgentosError:
        pass
    raise Tampered(setup.evidence.run_id, f"'{timeline.PREFIX}{worktree_id(begun.run.run_id)}' was moved or removed")


def _streams(step: StepSpec, folder: str) -> dict[str, str | None]:
    return {name: f"{folder}/{name}" if step.command is not None else None for name in ("stdout", "stderr")}


# -- the four kinds ----------------------------------------------------------------------------------------------------


def _roll_back(setup: StepSetup, begun: _Begun) -> _Outcome:
    point = begun.step.to or rollback.PRE_RUN
    if point != rollback.PRE_RUN:  # the spec counts the steps of an attempt; points count those of the run
        point = f"step:{setup.evidence.state().numbers[int(point.removeprefix('step:')) - 1]}"
    done = rollback_and_record(setup.context, begun.run, setup.evidence, point)
    return _Outcome(OK, f"to {point}", done.checkpoint, len(done.changed) + len(done.removed))


def _checkpoint(begun: _Begun) -> _Outcome:
    inner, run = begun.inner, begun.run
    message = begun.step.message or f"step {begun.n} of run {run.run_id}"
    metadata = inner.metadata(trigger="milestone", description=message, task_id=run.task_id, run_id=run.run_id)
    return _Outcome(OK, None, create_checkpoint(inner, metadata).checkpoint.id, 0)


def _command(setup: StepSetup, begun: _Begun) -> _Outcome:
    result = _run_command(setup, begun)
    _check_timeline(setup, begun)
    setup.evidence.put(f"{begun.folder}/exit_code", f"{result.exit_code}\n".encode())
    violations = branches.check_branches(setup.context, begun.run, begun.protected, setup.protected)
    captured, damage = _capture(setup, begun)
    outcome, detail = _judge(setup, begun, result, captured)
    if violations:
        outcome, detail = PROTECTED, "; ".join(violations)
    if damage is not None:
        outcome = FAILED_STEP if outcome in (OK, NO_CHANGES) else outcome
    details = [each for each in (detail, damage, _left_behind(result)) if each is not None]
    changed = None
    if captured is not None:
        _record_changes(setup, begun, captured[0])
        changed = len(snapshot.changed_paths(setup.context.repository, begun.before, captured[1]))
    return _Outcome(
        outcome=outcome,
        detail="; ".join(details) or None,
        checkpoint=captured[0].checkpoint if captured is not None else None,
        changed=changed,
        exit_code=result.exit_code,
        seconds=round(result.seconds, 3),
    )


# -- a command ---------------------------------------------------------------------------------------------------------


def _run_command(setup: StepSetup, begun: _Begun) -> Result:
    location = begun.inner.location
    words, env = contained.shell(begun.step.command or ""), _environment(setup, begun)
    if setup.spec.guard:
        words, env = launch.with_shim(location, begun.run.agent_id, words, env)
    limit = begun.step.timeout if begun.step.timeout is not None else setup.spec.timeout
    command = Command(words, location.root, env, limit)
    names = [f"{begun.folder}/{name}" for name in ("stdout", "stderr")]
    with setup.evidence.create(names[0]) as out, setup.evidence.create(names[1]) as err:
        result = contained.run(command, out, err, show=setup.watcher.output, stop=setup.stop)
        for file in (out, err):
            file.flush()
            os.fsync(file.fileno())
    setup.evidence.check()
    for name in names:
        setup.evidence.add_file(name)
    # A git may have been killed: its locks must not block anybody.
    rebuild.unlock(location, begun.run, killed=result.is_killed)
    if result.interrupted:
        raise Stopped
    return result


def _environment(setup: StepSetup, begun: _Begun) -> dict[str, str]:
    """The environment of a command: the run's variables, and the user's identity for git."""
    env = _variables(setup, begun)
    return env | authorship.variables(begun.inner.location.root, process.user_environment({}), env)


def _variables(setup: StepSetup, begun: _Begun) -> dict[str, str]:
    run, at = begun.run, setup.evidence.state()
    base = process.user_environment({})
    env = environments.for_command(base, run_id=run.run_id, agent=run.agent_id, task=run.task_id, mark=setup.mark)
    env |= {"AGENTOS_ATTEMPT": str(at.attempt), "AGENTOS_STEP": str(begun.n), "PWD": begun.inner.location.root}
    env.pop(feedback.VARIABLE, None)
    if at.attempt > 1:
        env[feedback.VARIABLE] = os.path.join(setup.evidence.folder, feedback.name_of(at.attempt))
    return env


def _judge(setup: StepSetup, begun: _Begun, result: Result, captured: _Captured | None) -> tuple[str, str | None]:
    if result.timed_out:
        limit = begun.step.timeout if begun.step.timeout is not None else setup.spec.timeout
        return TIMED_OUT, f"after {limit:g} s"
    if result.exit_code != 0:
        return FAILED_STEP, None
    if begun.step.kind == AGENT and captured is not None and _is_last_agent(setup.spec, begun.position):
        taken, state = captured
        first = snapshot.initial_state(setup.context, setup.evidence.state())
        if not taken.commits and not snapshot.changed_paths(setup.context.repository, first, state):
            return NO_CHANGES, _other_effects(setup, begun, taken)
    return OK, None


def _other_effects(setup: StepSetup, begun: _Begun, seen: WorkspaceSnapshot) -> str | None:
    """What an agent that changed no file that git sees has done nevertheless, for people."""
    effects = []
    if seen.branch != begun.run.branch_name:
        effects.append("HEAD is detached" if seen.branch is None else f"HEAD is on the branch '{seen.branch}'")
    if _moved(setup, begun) or _moved_refs(setup, begun):
        effects.append("other refs have moved")
    if snapshot.has_ignored_changes(snapshot.run_context(setup.context, begun.run)):
        effects.append("ignored files have changed")
    return "; ".join(effects) or None


def _is_last_agent(spec: RunSpec, index: int) -> bool:
    """Whether the step after this one is no agent's."""
    return index + 1 == len(spec.steps) or spec.steps[index + 1].kind != AGENT


def _left_behind(ended: Result) -> str | None:
    if not ended.left_behind or ended.timed_out:
        return None
    many = "process" if ended.left_behind == 1 else "processes"
    return f"{ended.left_behind} {many} left behind and ended"


def _capture(setup: StepSetup, begun: _Begun) -> tuple[_Captured | None, str | None]:
    """The state of the worktree, saved; or what is wrong with the worktree, where it cannot be captured."""
    try:
        return snapshot.capture_snapshot(snapshot.run_context(setup.context, begun.run), begun.run), None
    except LockedError:
        raise
    except StorageError:
        try:
            snapshot.run_context(setup.context, begun.run)
        except RunError as error:
            return None, str(error)
        raise
    except AgentosError as error:
        return None, str(error)


def _record_changes(setup: StepSetup, begun: _Begun, taken: WorkspaceSnapshot) -> None:
    repository = setup.context.repository  # the worktree may have been moved
    record_changes(
        setup.evidence, begun.folder, repository, begun.before.visible_tree, taken, environment=_variables(setup, begun)
    )


# -- shared with workflows -------------------------------------------------------------------------------------------


def record_changes(
    evidence: Evidence,
    folder: str,
    repository: Repository,
    before: str,
    after: WorkspaceSnapshot,
    *,
    environment: Mapping[str, str],
) -> None:
    """Write the state after a step, and the patch from the tree `before` to it, into the step's folder in the evidence,
    without secrets; `environment` is that of the step's command."""
    body = json.dumps(redact_value(asdict(after))[0], indent=1) + "\n"
    evidence.put(f"{folder}/snapshot.json", body.encode("ascii"))
    patch = query.patch(repository, before, after.tree)
    secrets = redact_lines.secrets_of(environment)
    evidence.put(f"{folder}/diff.patch", patches.without_secrets(repository, patch, secrets))


def end_leftovers(context: OpenWorktree, run: WorkspaceContext, mark: str | None) -> None:
    """End the processes that a killed run left, and remove the locks of its gits. Runs of other orchestrators have no
    `mark`."""
    if mark is not None:
        contained.sweep(mark)
    with contextlib.suppress(RunError):  # its worktree is damaged
        rebuild.unlock(snapshot.run_context(context, run).location, run, killed=True)
