"""`repo.runs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

from git_agentos.api.conversion import convert
from git_agentos.api.results import AcceptResult, MergeResult, RollbackResult, RunResult, RunStep, VerifyResult
from git_agentos.workspace import Workspace

if TYPE_CHECKING:
    from git_agentos.run.events import Run, Step


class RunObserver(Protocol):
    """Is called with the progress of a run."""

    def prepared(self, run: RunResult) -> None:
        """The worktree of the run is ready."""

    def step_begins(self, run: RunResult, step: RunStep) -> None:
        """A step is about to begin."""

    def output(self, line: bytes) -> None:
        """The step's command has written a line; secrets are redacted."""

    def step_ended(self, run: RunResult, step: RunStep) -> None:
        """A step has ended."""


class RunOptions(TypedDict, total=False):
    """Options of a run.

    `run_id` is its id, by default the time; `base_ref` is the commit at which it starts, by default HEAD; `on_failure`
    is `keep` (the default) or `rollback`, `retry_from` `here` (the default) or `pre_run`; `timeout` is in seconds, for
    each command; `protected` are patterns of branches that the run must not move.
    """

    run_id: str
    task_id: str
    base_ref: str
    max_attempts: int
    on_failure: str
    retry_from: str
    timeout: float
    protected: tuple[str, ...]


_NAMES = {"task_id": "task"}  # the domain's names


class Runs:
    """Runs: an agent's commands and their validation, in a worktree of their own."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def start(
        self,
        agents: Sequence[str],
        validations: Sequence[str] = (),
        *,
        observer: RunObserver | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run the agents' commands (shell text), then the validations, and return how the run ended.

        Call it in the main thread: signals interrupt it.
        """
        from git_agentos.run import commands, spec

        given: dict[str, Any] = {_NAMES.get(name, name): value for name, value in options.items()}
        wanted = spec.from_options(_texts(agents), _texts(validations), **given)
        return run_result(commands.start(self._workspace.context, wanted, _observer(observer)))

    def resume(self, run_id: str, *, observer: RunObserver | None = None) -> RunResult:
        """Continue an interrupted run at its current step."""
        from git_agentos.run import commands

        return run_result(commands.resume(self._workspace.context, run_id, _observer(observer)))

    def cancel(self, run_id: str) -> RunResult:
        """End a run permanently that is running (in another process) or interrupted."""
        from git_agentos.run import commands

        return run_result(commands.cancel(self._workspace.context, run_id))

    def rollback(self, run_id: str, to: str = "pre_run", *, dry_run: bool = False) -> RollbackResult:
        """Reset a run's worktree to a point: `pre_run`, `step:N`, or a checkpoint of it. The state before is saved."""
        from git_agentos.run import commands

        return convert(RollbackResult, commands.rollback(self._workspace.context, run_id, to, dry_run=dry_run))

    def accept(self, run_id: str, *, into: str | None = None, squash: bool = False) -> AcceptResult:
        """Merge the work of a run that passed into `into`, by default the branch of its base.

        With conflicts in the result, nothing was changed. RunError if the run has not passed, or its worktree has
        changed since.
        """
        from git_agentos.run import accept

        done = accept.accept(self._workspace.context, run_id, into=into, squash=squash)
        return AcceptResult(run_result(done.run), convert(MergeResult, done.merge))

    def list(self) -> tuple[RunResult, ...]:
        """All runs, newest first."""
        from git_agentos.run import query

        return tuple(map(run_result, query.list_runs(self._workspace.context)))

    def show(self, run_id: str) -> RunResult:
        """One run. RunError if there is none with that id."""
        from git_agentos.run import query

        return run_result(query.show(self._workspace.context, run_id))

    def diff(self, run_id: str) -> bytes:
        """The changes of the run since its base, as a patch."""
        from git_agentos.run import query

        return query.diff(self._workspace.context, run_id)

    def verify(self, run_id: str) -> VerifyResult:
        """Check the evidence of a run."""
        from git_agentos.run import evidence_store

        return convert(VerifyResult, evidence_store.verify(self._workspace.context, run_id))


class _ObserverOfResults:
    """Gives an observer the API's results."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer

    def prepared(self, run: Run) -> None:
        self._observer.prepared(run_result(run))

    def step_begins(self, run: Run, step: Step) -> None:
        self._observer.step_begins(run_result(run), convert(RunStep, step))

    def output(self, line: bytes) -> None:
        self._observer.output(line)

    def step_ended(self, run: Run, step: Step) -> None:
        self._observer.step_ended(run_result(run), convert(RunStep, step))


def _observer(observer: RunObserver | None) -> _ObserverOfResults | None:
    return None if observer is None else _ObserverOfResults(observer)


def _texts(commands: Sequence[str]) -> Sequence[str]:
    """One command may be given as text."""
    return [commands] if isinstance(commands, str) else commands


def run_result(run: Run) -> RunResult:
    """A run of the domain as the API's."""
    workspace = run.context
    return convert(
        RunResult,
        run,
        worktree_path=None if workspace is None else workspace.worktree_path,
        branch=None if workspace is None else workspace.branch_name,
        base_commit=None if workspace is None else workspace.base_sha,
    )
