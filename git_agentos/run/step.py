"""One step of a run: its events, a checkpoint before and after, its command, and its outcome.

Exit codes and the diff decide. An agent that exits with 0 and has changed nothing gets an outcome of its own; one that
has moved a protected branch has failed, whatever else it did.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from git_agentos import redact_lines
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RunError, StorageError
from git_agentos.git import authorship, process
from git_agentos.git.repository import Repository
from git_agentos.guard.exec import launch
from git_agentos.process import contained, marked
from git_agentos.process.contained import Command, Result
from git_agentos.process.marked import MARK
from git_agentos.redact import redact, redact_value
from git_agentos.run import branches, evidence_store, patches, rebuild, rollback, snapshot
from git_agentos.run.context import WorkspaceContext, run_metadata, worktree_id
from git_agentos.run.events import (
    FAILED_STEP,
    NO_CHANGES,
    OK,
    PROTECTED,
    TIMED_OUT,
    Event,
    Run,
    RunState,
    Step,
    with_current_ids,
)
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.lock import Stop
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.snapshot import WorkspaceSnapshot
from git_agentos.run.spec import AGENT, CHECKPOINT, ROLLBACK, RunSpec, StepSpec
from git_agentos.store import database_path
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout, ports

_FEEDBACK = "AGENTOS_FEEDBACK_FILE"
# Variables of another run, or another workflow, that started the process which starts this one.
_OF_A_RUN = (
    "AGENTOS_TASK_ID", "AGENTOS_RUN_ID", "AGENTOS_ATTEMPT", "AGENTOS_STEP", _FEEDBACK, MARK,
    "AGENTOS_PROMPT_FILE", "AGENTOS_TDD_NODE", *ports.VARIABLES,
)  # fmt: skip


class Observer(Protocol):
    """Gets called as a run proceeds."""

    def prepared(self, run: Run) -> None:
        """The workspace is ready."""

    def step_begins(self, run: Run, step: Step) -> None:
        """A step begins."""

    def output(self, line: bytes) -> None:
        """The step's command has written a line; secrets are redacted."""

    def step_ended(self, run: Run, step: Step) -> None:
        """A step has ended."""


class SilentObserver:
    """An Observer that does nothing."""

    def prepared(self, run: Run) -> None:
        pass

    def step_begins(self, run: Run, step: Step) -> None:
        pass

    def output(self, line: bytes) -> None:
        pass

    def step_ended(self, run: Run, step: Step) -> None:
        pass


class Stopped(Exception):
    """The run is to stop: a signal came, or it is being cancelled."""


@dataclass(frozen=True)
class RunSetup:
    """A run whose lock is held, and what runs it. With `commits`, what it has left and is in no commit is committed on
    its branch once it has passed or failed, before the evidence is sealed."""

    context: OpenWorktree
    evidence: Evidence
    spec: RunSpec
    stop: Stop
    observer: Observer = field(default_factory=SilentObserver)
    commits: bool = False

    @property
    def state(self) -> RunState:
        """How far the run has come."""
        return self.evidence.state()

    @property
    def begun(self) -> Event:
        """The event with which the run began."""
        return begun_of(self.evidence)

    def workspace(self) -> WorkspaceContext:
        """The run's workspace, with paths as they are now."""
        return evidence_store.workspace_of(self.context, self.evidence)


def begun_of(evidence: Evidence) -> Event:
    """The event with which a run began; RunError where the record does not have it."""
    begun, id_ = evidence.state().begun, evidence.run_id
    if begun is None:
        hint = f"git agentos rollback {id_} resets its worktree"
        raise RunError(f"the record of run '{id_}' is damaged: it has no beginning", hint)
    return begun


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


def run_step(setup: RunSetup) -> None:
    """Run the next step. Stopped where it was interrupted: by its record it is still under way then."""
    begun = _begin(setup)
    if begun.step.kind == ROLLBACK:
        result = _roll_back(setup, begun)
    elif begun.step.kind == CHECKPOINT:
        result = _checkpoint(begun)
    else:
        result = _command(setup, begun)
    setup.evidence.event(
        "step-ended",
        n=begun.n,
        **result._asdict(),
        **_moved(setup, begun),
        **_streams(begun.step, begun.folder),
    )
    setup.observer.step_ended(setup.evidence.run(alive=True), setup.state.step(begun.n))


def _begin(setup: RunSetup) -> _Begun:
    """Save the state before the step, and record its beginning."""
    at, run = setup.state, setup.workspace()
    position, again = at.index, at.under_way is not None
    step = setup.spec.steps[position]
    n = at.under_way["n"] if at.under_way is not None else at.count + 1
    inner = snapshot.run_context(setup.context, run)
    metadata = run_metadata(inner, run, trigger="pre_step", description=f"before step {n} of run {run.run_id}")
    before = create_checkpoint(inner, metadata)
    heads = branches.branch_heads(setup.context.location)
    protected = branches.only_protected(heads, setup.begun["protected"])
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
    setup.observer.step_begins(setup.evidence.run(alive=True), at.step(n))
    tip = timeline.tip(inner.location, inner.worktree_id)
    # What moved before an interruption is not known.
    known, others = (None, None) if again else (heads, branches.other_refs(setup.context.location))
    return _Begun(n, position, step, folder, run, inner, before.state, protected, known, others, tip)


def _moved(setup: RunSetup, begun: _Begun) -> dict[str, list[str] | None]:
    """The branches and the other refs that have moved since the step began, without the run's own branch; None where
    that is not known."""
    if begun.heads is None or begun.others is None:
        return {"moved": None, "moved_refs": None}
    location, own = setup.context.location, layout.HEADS + begun.run.branch_name
    heads = branches.moved(begun.heads, branches.branch_heads(location))
    others = branches.moved(begun.others, branches.other_refs(location))
    return {"moved": [name.removeprefix(layout.HEADS) for name in heads if name != own], "moved_refs": others}


def _check_timeline(setup: RunSetup, begun: _Begun) -> None:
    """Tampered where the run's timeline does not contain its tip of when the step began. `forget` writes the timeline
    again, with all checkpoints that the events name."""
    location, repository, name = begun.inner.location, begun.inner.repository, worktree_id(begun.run.run_id)
    try:
        now = timeline.tip(location, name)
        known = now is not None and begun.tip is not None and bool(repository.exists_on_disk([begun.tip]))
        if known and repository.is_ancestor(str(begun.tip), str(now)):
            return
        events = with_current_ids(setup.evidence.events())
        named = {each["checkpoint"] for each in events if each.get("checkpoint") is not None}
        if named and named <= {link.checkpoint for link in timeline.walk(repository, name)}:
            return
    except AgentosError:
        pass
    raise Tampered(setup.evidence.run_id, f"'{timeline.PREFIX}{worktree_id(begun.run.run_id)}' was moved or removed")


def _streams(step: StepSpec, folder: str) -> dict[str, str | None]:
    return {name: f"{folder}/{name}" if step.command is not None else None for name in ("stdout", "stderr")}


# -- the four kinds ----------------------------------------------------------------------------------------------------


def _roll_back(setup: RunSetup, begun: _Begun) -> _Outcome:
    point = begun.step.to or rollback.PRE_RUN
    if point != rollback.PRE_RUN:  # the spec counts the steps of an attempt; points count those of the run
        point = f"step:{setup.state.numbers[int(point.removeprefix('step:')) - 1]}"
    done = rollback_and_record(setup.context, begun.run, setup.evidence, point)
    return _Outcome(OK, f"to {point}", done.checkpoint, len(done.changed) + len(done.removed))


def _checkpoint(begun: _Begun) -> _Outcome:
    inner, run = begun.inner, begun.run
    message = begun.step.message or f"step {begun.n} of run {run.run_id}"
    metadata = run_metadata(inner, run, trigger="milestone", description=message)
    return _Outcome(OK, None, create_checkpoint(inner, metadata).checkpoint.id, 0)


def _command(setup: RunSetup, begun: _Begun) -> _Outcome:
    result = _run_command(setup, begun)
    _check_timeline(setup, begun)
    setup.evidence.put(f"{begun.folder}/exit_code", f"{result.exit_code}\n".encode())
    violations = branches.check_branches(setup.context, begun.run, begun.protected, setup.begun["protected"])
    captured, damage = _capture(setup, begun)
    outcome, detail = _judge(setup, begun, result, captured)
    if violations:
        outcome, detail = PROTECTED, "; ".join(violations)
    if damage is not None:
        outcome = FAILED_STEP if outcome in (OK, NO_CHANGES) else outcome
    details = [each for each in (detail, damage, _left_behind(result)) if each is not None]
    changed = None
    if captured is not None:
        repository = setup.context.repository  # the worktree may have been moved
        tree, environment = begun.before.visible_tree, _variables(setup, begun)
        record_changes(setup.evidence, begun.folder, repository, tree, captured[0], environment=environment)
        changed = len(snapshot.changed_paths(repository, begun.before, captured[1]))
    return _Outcome(
        outcome=outcome,
        detail="; ".join(details) or None,
        checkpoint=captured[0].checkpoint if captured is not None else None,
        changed=changed,
        exit_code=result.exit_code,
        seconds=round(result.seconds, 3),
    )


# -- a command ---------------------------------------------------------------------------------------------------------


def _run_command(setup: RunSetup, begun: _Begun) -> Result:
    location = begun.inner.location
    words, env = contained.shell(begun.step.command or ""), _variables(setup, begun)
    env |= authorship.variables(location.root, process.user_environment({}), env)  # the user's identity for git
    if setup.spec.guard:
        words, env = launch.with_shim(location, begun.run.agent_id, words, env)
    limit = begun.step.timeout if begun.step.timeout is not None else setup.spec.timeout
    command = Command(words, location.root, env, limit)
    names = [f"{begun.folder}/{name}" for name in ("stdout", "stderr")]
    with setup.evidence.create(names[0]) as out, setup.evidence.create(names[1]) as err:
        result = contained.run(command, out, err, show=setup.observer.output, stop=setup.stop)
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


def _variables(setup: RunSetup, begun: _Begun) -> dict[str, str]:
    """The variables of the run for a command, added to the user's environment."""
    run, attempt = begun.run, setup.state.attempt
    base = process.user_environment({})
    env = command_environment(base, run_id=run.run_id, agent=run.agent_id, task=run.task_id, mark=setup.begun["mark"])
    env |= {"AGENTOS_ATTEMPT": str(attempt), "AGENTOS_STEP": str(begun.n), "PWD": begun.inner.location.root}
    env |= ports.variables_of(begun.inner.location.git_dir)
    if attempt > 1:
        env[_FEEDBACK] = os.path.join(setup.evidence.folder, feedback_file(attempt))
    return env


def _judge(setup: RunSetup, begun: _Begun, result: Result, captured: _Captured | None) -> tuple[str, str | None]:
    if result.timed_out:
        limit = begun.step.timeout if begun.step.timeout is not None else setup.spec.timeout
        return TIMED_OUT, f"after {limit:g} s"
    if result.exit_code != 0:
        return FAILED_STEP, None
    if begun.step.kind == AGENT and captured is not None and _is_last_agent(setup.spec, begun.position):
        taken, state = captured
        first = snapshot.initial_state(setup.context, setup.state)
        if not taken.commits and not snapshot.changed_paths(setup.context.repository, first, state):
            return NO_CHANGES, _other_effects(setup, begun, taken)
    return OK, None


def _other_effects(setup: RunSetup, begun: _Begun, seen: WorkspaceSnapshot) -> str | None:
    """What an agent that changed no file that git sees has done nevertheless, for people."""
    effects = []
    if seen.branch != begun.run.branch_name:
        effects.append("HEAD is detached" if seen.branch is None else f"HEAD is on the branch '{seen.branch}'")
    if any(_moved(setup, begun).values()):
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


def _capture(setup: RunSetup, begun: _Begun) -> tuple[_Captured | None, str | None]:
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


def feedback_file(attempt: int) -> str:
    """The file for an attempt, in the evidence of the run."""
    return f"feedback-{attempt}.txt"


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
    patch = patches.patch(repository, before, after.tree)
    secrets = redact_lines.secrets_of(environment)
    evidence.put(f"{folder}/diff.patch", patches.without_secrets(repository, patch, secrets))


def end_leftovers(context: OpenWorktree, run: WorkspaceContext, mark: str | None) -> None:
    """End the processes that a killed run left, and remove the locks of its gits. Runs of other orchestrators have no
    `mark`."""
    if mark is not None:
        marked.sweep(mark)
    with contextlib.suppress(RunError):  # its worktree is damaged
        rebuild.unlock(snapshot.run_context(context, run).location, run, killed=True)


def command_environment(
    base: Mapping[str, str], *, run_id: str, agent: str, task: str | None, mark: str
) -> dict[str, str]:
    """`base` without git's own variables and without the URL of a database, with the identity of the run."""
    found = {
        key: value
        for key, value in base.items()
        if not key.startswith("GIT_") and key not in _OF_A_RUN and key != "OLDPWD"
    }
    if "://" in found.get(database_path.VARIABLE, ""):  # it may hold a password
        del found[database_path.VARIABLE]
    found |= {"AGENTOS_AGENT_ID": agent, "AGENTOS_RUN_ID": run_id, MARK: mark}
    if task is not None:
        found["AGENTOS_TASK_ID"] = task
    return found
