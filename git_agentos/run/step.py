"""Doing one step of a run: its record, a checkpoint before and after, its command, and the judgement of it.

Exit codes and the diff judge. An agent that ends with 0 and has changed nothing has not done its work, and is told
apart; one that has moved a protected branch has failed, whatever else it did.
"""

from __future__ import annotations

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
from git_agentos.guard.exec import launch
from git_agentos.process import contained
from git_agentos.process.contained import Command, Result
from git_agentos.redact import redact, redact_value
from git_agentos.run import branches, changes, environment, feedback, patches, query, rebuild, rollback, snapshot
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
    """The run is to stop: a signal has come, or somebody cancels it."""


@dataclass(frozen=True)
class StepContext:
    """Where the steps of a run are done, and for whom. `mark` is what the run's processes are known by."""

    context: OpenWorktree
    spec: RunSpec
    evidence: Evidence
    protected: Sequence[str]
    mark: str
    stop: Stop
    watcher: Observer


class _Begun(NamedTuple):
    """A step that has begun: its number, the position in the spec, its folder in the evidence; the run's workspace and
    the OpenWorktree in it; the state before; where protected branches were, all of them, and all other refs (None: not
    known), and the run's timeline."""

    n: int
    position: int
    step: StepSpec
    folder: str
    run: WorkspaceContext
    inner: OpenWorktree
    before: State
    branches: Mapping[str, str]
    heads: Mapping[str, str] | None
    others: Mapping[str, str] | None
    tip: str | None


_Seen = tuple[WorkspaceSnapshot, State]


class _Result(NamedTuple):
    """How it ended: `checkpoint` holds the state afterwards, None where that was wrecked."""

    outcome: str
    detail: str | None
    checkpoint: str | None
    changed: int | None
    exit_code: int | None = None
    seconds: float | None = None


def run_step(site: StepContext, run: WorkspaceContext) -> None:
    """Do the step that is next. Stopped where that was interrupted: then it is still under way by the record."""
    begun = _begin(site, run)
    if begun.step.kind == ROLLBACK:
        result = _roll_back(site, begun)
    elif begun.step.kind == CHECKPOINT:
        result = _checkpoint(begun)
    else:
        result = _command(site, begun)
    site.evidence.event(
        "step-ended",
        n=begun.n,
        outcome=result.outcome,
        exit_code=result.exit_code,
        seconds=result.seconds,
        checkpoint=result.checkpoint,
        changed=result.changed,
        detail=result.detail,
        moved=_moved(site, begun),
        moved_refs=_moved_refs(site, begun),
        **_streams(begun.step, begun.folder),
    )
    site.watcher.step_ended(site.evidence.run(alive=True), site.evidence.state().step(begun.n))


def _begin(site: StepContext, run: WorkspaceContext) -> _Begun:
    """The state before is saved, and the step on record."""
    at = site.evidence.state()
    position, again = at.index, at.under_way is not None
    step = site.spec.steps[position]
    n = at.under_way["n"] if at.under_way is not None else at.count + 1
    inner = snapshot.run_context(site.context, run)
    metadata = inner.metadata(
        trigger="pre_step", description=f"before step {n} of run {run.run_id}", task_id=run.task_id, run_id=run.run_id
    )
    before = create_checkpoint(inner, metadata)
    heads = branches.branch_heads(site.context.location)
    protected = branches.only_protected(heads, site.protected)
    folder = site.evidence.step_folder(n, step.kind)
    site.evidence.event(
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
    site.watcher.step_begins(site.evidence.run(alive=True), at.step(n))
    tip = timeline.tip(inner.location, inner.worktree_id)
    # What moved before an interruption is not known.
    known, others = (None, None) if again else (heads, branches.other_refs(site.context.location))
    return _Begun(n, position, step, folder, run, inner, before.state, protected, known, others, tip)


def _moved(site: StepContext, begun: _Begun) -> list[str] | None:
    """The branches that are elsewhere than when the step began, but for the run's own."""
    if begun.heads is None:
        return None
    now, own = branches.branch_heads(site.context.location), layout.HEADS + begun.run.branch_name
    moved = [name for name in sorted({*begun.heads, *now}) if begun.heads.get(name) != now.get(name) and name != own]
    return [name.removeprefix(layout.HEADS) for name in moved]


def _moved_refs(site: StepContext, begun: _Begun) -> list[str] | None:
    """The refs other than branches that are elsewhere than when the step began."""
    if begun.others is None:
        return None
    now = branches.other_refs(site.context.location)
    return [name for name in sorted({*begun.others, *now}) if begun.others.get(name) != now.get(name)]


def _check_timeline(site: StepContext, begun: _Begun) -> None:
    """Tampered where the run's timeline does not go on from where it was when the step began."""
    location = begun.inner.location
    try:
        now = timeline.tip(location, worktree_id(begun.run.run_id))
        if now is not None and begun.tip is not None and begun.inner.repository.is_ancestor(begun.tip, now):
            return
    except AgentosError:
        pass
    raise Tampered(site.evidence.run_id, f"'{timeline.PREFIX}{worktree_id(begun.run.run_id)}' was moved or removed")


def _streams(step: StepSpec, folder: str) -> dict[str, str | None]:
    return {name: f"{folder}/{name}" if step.command is not None else None for name in ("stdout", "stderr")}


# -- the four kinds ----------------------------------------------------------------------------------------------------


def _roll_back(site: StepContext, begun: _Begun) -> _Result:
    assert begun.step.to is not None
    point = begun.step.to
    if point != rollback.PRE_RUN:  # it counts the steps of the attempt; points count those of the run
        point = f"step:{site.evidence.state().numbers[int(point.removeprefix('step:')) - 1]}"
    done = rollback_and_record(site.context, begun.run, site.evidence, point)
    return _Result(OK, f"to {point}", done.checkpoint, len(done.changed) + len(done.removed))


def _checkpoint(begun: _Begun) -> _Result:
    inner, run = begun.inner, begun.run
    said = begun.step.message or f"step {begun.n} of run {run.run_id}"
    metadata = inner.metadata(trigger="milestone", description=said, task_id=run.task_id, run_id=run.run_id)
    return _Result(OK, None, create_checkpoint(inner, metadata).checkpoint.id, 0)


def _command(site: StepContext, begun: _Begun) -> _Result:
    ended = _run(site, begun)
    _check_timeline(site, begun)
    site.evidence.put(f"{begun.folder}/exit_code", f"{ended.exit_code}\n".encode())
    touched = branches.check_branches(site.context, begun.run, begun.branches, site.protected)
    seen, wreck = _look(site, begun)
    outcome, detail = _judge(site, begun, ended, seen)
    if touched:
        outcome, detail = PROTECTED, "; ".join(touched)
    if wreck is not None:
        outcome = FAILED_STEP if outcome in (OK, NO_CHANGES) else outcome
    said = [each for each in (detail, wreck, _left_behind(ended)) if each is not None]
    changed = None
    if seen is not None:
        _keep(site, begun, seen[0])
        changed = len(changes.changed_paths(site.context.repository, begun.before, seen[1]))
    return _Result(
        outcome=outcome,
        detail="; ".join(said) or None,
        checkpoint=seen[0].checkpoint if seen is not None else None,
        changed=changed,
        exit_code=ended.exit_code,
        seconds=round(ended.seconds, 3),
    )


# -- a command ---------------------------------------------------------------------------------------------------------


def _run(site: StepContext, begun: _Begun) -> Result:
    assert begun.step.command is not None
    location = begun.inner.location
    words, env = contained.shell(begun.step.command), _environment(site, begun)
    if site.spec.guard:
        words, env = launch.with_shim(location, begun.run.agent_id, words, env)
    limit = begun.step.timeout if begun.step.timeout is not None else site.spec.timeout
    command = Command(words, location.root, env, limit)
    names = [f"{begun.folder}/{name}" for name in ("stdout", "stderr")]
    with site.evidence.create(names[0]) as out, site.evidence.create(names[1]) as err:
        ended = contained.run(command, out, err, show=site.watcher.output, stop=site.stop)
        for file in (out, err):
            file.flush()
            os.fsync(file.fileno())
    site.evidence.check()
    for name in names:
        site.evidence.wrote(name)
    # What was killed may have been a git: nobody is to wait for it.
    rebuild.unlock(begun.inner.location, begun.run, killed=ended.is_killed)
    if ended.interrupted:
        raise Stopped
    return ended


def _environment(site: StepContext, begun: _Begun) -> dict[str, str]:
    """What a command is given: the variables, and who the user is to git."""
    env = _variables(site, begun)
    return env | authorship.variables(begun.inner.location.root, process.user_environment({}), env)


def _variables(site: StepContext, begun: _Begun) -> dict[str, str]:
    run, at = begun.run, site.evidence.state()
    base = process.user_environment({})
    env = environment.for_command(base, run_id=run.run_id, agent=run.agent_id, task=run.task_id, mark=site.mark)
    env |= {"AGENTOS_ATTEMPT": str(at.attempt), "AGENTOS_STEP": str(begun.n), "PWD": begun.inner.location.root}
    env.pop(feedback.VARIABLE, None)
    if at.attempt > 1:
        env[feedback.VARIABLE] = os.path.join(site.evidence.folder, feedback.name_of(at.attempt))
    return env


def _judge(site: StepContext, begun: _Begun, ended: Result, seen: _Seen | None) -> tuple[str, str | None]:
    if ended.timed_out:
        limit = begun.step.timeout if begun.step.timeout is not None else site.spec.timeout
        return TIMED_OUT, f"after {limit:g} s"
    if ended.exit_code != 0:
        return FAILED_STEP, None
    if begun.step.kind == AGENT and seen is not None and _is_last_agent(site.spec, begun.position):
        snapshot, state = seen
        first = changes.initial_state(site.context, site.evidence.state())
        if not snapshot.commits and not changes.changed_paths(site.context.repository, first, state):
            return NO_CHANGES, _but(site, begun, snapshot)
    return OK, None


def _but(site: StepContext, begun: _Begun, seen: WorkspaceSnapshot) -> str | None:
    """What an agent that changed no file that git sees has done all the same."""
    did = []
    if seen.branch != begun.run.branch_name:
        did.append("HEAD is detached" if seen.branch is None else f"HEAD is on the branch '{seen.branch}'")
    if _moved(site, begun) or _moved_refs(site, begun):
        did.append("other refs have moved")
    if changes.has_ignored_changes(snapshot.run_context(site.context, begun.run)):
        did.append("ignored files have changed")
    return "; ".join(did) or None


def _is_last_agent(spec: RunSpec, index: int) -> bool:
    """Whether what comes next judges what agents have done so far."""
    return index + 1 == len(spec.steps) or spec.steps[index + 1].kind != AGENT


def _left_behind(ended: Result) -> str | None:
    if not ended.left_behind or ended.timed_out:
        return None
    many = "process" if ended.left_behind == 1 else "processes"
    return f"{ended.left_behind} {many} left behind and ended"


def _look(site: StepContext, begun: _Begun) -> tuple[_Seen | None, str | None]:
    """How the worktree stands, saved; or what is wrong with it, where nothing can be saved of it as it is."""
    try:
        return snapshot.capture_snapshot(snapshot.run_context(site.context, begun.run), begun.run), None
    except LockedError:
        raise
    except StorageError:
        try:
            snapshot.run_context(site.context, begun.run)
        except RunError as error:
            return None, str(error)
        raise
    except AgentosError as error:
        return None, str(error)


def _keep(site: StepContext, begun: _Begun, snapshot: WorkspaceSnapshot) -> None:
    """Put the state after the step, and what the step changed, into the evidence."""
    repository = site.context.repository  # the worktree may have been moved
    body = json.dumps(redact_value(asdict(snapshot))[0], indent=1) + "\n"
    site.evidence.put(f"{begun.folder}/snapshot.json", body.encode("ascii"))
    patch = query.patch(repository, begun.before.visible_tree, snapshot.tree)
    values = redact_lines.secrets_of(_variables(site, begun))
    site.evidence.put(f"{begun.folder}/diff.patch", patches.without_secrets(repository, patch, values))
