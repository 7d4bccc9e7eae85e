"""What a task is, and how it is done in a clone: commands, as `git agentos run` does them, or a workflow, as
`git agentos tdd` does.

Either way it is a run with the same id, a branch, a timeline and evidence that is sealed once it has ended, so that all
else is the same for both.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, PolicyError, RunError
from git_agentos.fleet import names
from git_agentos.fleet.records import Fleet, Live
from git_agentos.fleet.tasks import Task, Tdd
from git_agentos.run import adoption, commands, discard, evidence_store, query
from git_agentos.run.adoption import Begun
from git_agentos.run.events import Run
from git_agentos.run.spec import RunSpec
from git_agentos.run.step import Observer

if TYPE_CHECKING:
    from git_agentos.tdd.state import Record, Review, Workflow


class Kind(Protocol):
    """A task that is done in a clone."""

    def begun(self) -> Run | None:
        """The run as this clone has it; None where it has none that can be continued."""

    def adopt(self, live: Live, evidence: str) -> None:
        """Continue the run of another machine, or take over its work; where that is not possible, it is begun anew.
        `evidence` is a tree."""

    def discard(self) -> None:
        """Remove everything that is here of the run, which no process has."""

    def do(self, begun: Run | None, telling: Observer) -> Run:
        """Begin the run, or continue it, until it has ended or was interrupted."""


def of(context: OpenWorktree, fleet: Fleet, task: Task, environment: Mapping[str, str]) -> Kind:
    """How a task is done. PolicyError for a workflow whose data policy nobody has accepted."""
    run_id, base = names.run_id(fleet.id, task.id), fleet.base_of(task)
    if task.tdd is not None:
        return _Workflow(context, run_id, task.tdd, base, environment)
    assert task.spec is not None
    return _Commands(context, replace(task.spec, run_id=run_id, base_ref=base, on_failure="keep", cleanup=False))


def forget_workflow(context: OpenWorktree, run_id: str) -> None:
    """Remove what there is of a workflow beside its run: its state. DatabaseError where that cannot be done now."""
    from git_agentos.tdd import handover

    handover.forget(context, run_id, os.environ)


class _Commands:
    def __init__(self, context: OpenWorktree, spec: RunSpec) -> None:
        self._context = context
        self._spec = spec
        self._run_id = str(spec.run_id)

    def begun(self) -> Run | None:
        try:
            found = query.show(self._context, self._run_id)
        except (AgentosError, OSError):
            return None
        return found if not found.problems else None

    def adopt(self, live: Live, evidence: str) -> None:
        if live.timeline is None:
            return
        begun = Begun(self._run_id, live.timeline, evidence)
        try:
            adoption.adopt(self._context, begun, self._spec, origin=live.worker)
        except (AgentosError, OSError, KeyError, TypeError, ValueError):
            self.discard()

    def discard(self) -> None:
        discard.everything(self._context, self._run_id)

    def do(self, begun: Run | None, telling: Observer) -> Run:
        if begun is None:
            return commands.begin(self._context, self._spec, telling, commits=True)
        try:
            return commands.go_on(self._context, self._run_id, telling, commits=True)
        except LockedError:
            raise
        except RunError:
            found = evidence_store.open_to_read(self._context.location, self._run_id).state()
            if found.ended is not None and found.is_sealed:
                return query.show(self._context, self._run_id)
            self.discard()
            return commands.begin(self._context, self._spec, telling, commits=True)


class _Workflow:
    def __init__(
        self, context: OpenWorktree, run_id: str, task: Tdd, base: str, environment: Mapping[str, str]
    ) -> None:
        from git_agentos.tdd.handover import Assignment

        if not task.accepts_policy:
            raise PolicyError(
                f"nobody has accepted the data policy of the workflow '{run_id}': nothing was begun or sent",
                "git agentos fleet submit --yes-data-policy accepts it",
            )
        self._context = context
        self._task = Assignment(run_id, task.issue, task.lld, task.agent, base)
        self._environment = environment

    def begun(self) -> Run | None:
        from git_agentos.tdd import handover

        return handover.begun(self._context, self._task.id, self._environment)

    def adopt(self, live: Live, evidence: str) -> None:
        """Its state is that of the other clone, with the paths and the interpreter of that machine: here the workflow
        begins, and takes over the tests and the code that are written."""
        from git_agentos.tdd.inherited_work import Elsewhere

        if live.timeline is not None:
            self._task = self._task._replace(there=Elsewhere(live.timeline, evidence, live.worker))

    def discard(self) -> None:
        forget_workflow(self._context, self._task.id)
        discard.everything(self._context, self._task.id)

    def do(self, begun: Run | None, telling: Observer) -> Run:
        from git_agentos.tdd import handover

        seen = _Nodes(self._context, self._task.id, telling)
        return handover.work(self._context, self._task, self._environment, seen, is_new=begun is None)


class _Nodes:
    """A `tdd.state.Observer` that tells one of a run: the nodes that write or test are its steps."""

    def __init__(self, context: OpenWorktree, run_id: str, telling: Observer) -> None:
        self._context = context
        self._run_id = run_id
        self._telling = telling
        self._steps = 0

    def began(self, workflow: Workflow) -> None:  # noqa: ARG002 (the protocol's)
        with contextlib.suppress(AgentosError):  # there is none yet
            run = query.show(self._context, self._run_id)
            self._steps = sum(step.outcome is not None for step in run.steps)

    def node_begins(self, workflow: Workflow, node: str) -> None:
        """A step begins, which the record does not have yet."""

    def output(self, line: bytes) -> None:
        self._telling.output(line)

    def node_ended(self, workflow: Workflow, record: Record) -> None:  # noqa: ARG002 (the protocol's)
        run = query.show(self._context, self._run_id)
        ended = [step for step in run.steps if step.outcome is not None]
        if len(ended) > self._steps:
            self._steps = len(ended)
            self._telling.step_ended(run, ended[-1])
        elif not ended:
            self._telling.prepared(run)

    def ask(self, review: Review) -> str | None:  # noqa: ARG002 (the protocol's)
        """A worker has nobody to ask: `fleet accept` is the decision."""
        return None
