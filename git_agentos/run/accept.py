"""A run's work goes into a branch: the orchestrator's own act, and only where validation has passed.

What is merged is what the validations of the last attempt have seen (`landing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from git_agentos.checkpoint.context import Context
from git_agentos.errors import RunError, UsageError
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.run import landing, lock
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.landing import NOTHING, NotAsValidated
from git_agentos.run.record import evidence as folders
from git_agentos.run.record.events import ACCEPTED, OK, PASSED, Run, Step, fold
from git_agentos.run.workspace import inner
from git_agentos.worktree import place
from git_agentos.worktree.merge import Merge


class _Validated(NamedTuple):
    """The checkpoints before and after what was validated: of the first validation since an agent was at work, and of
    the last."""

    before: str
    after: str


@authorize.entry("run", "accept")
def accept(context: Context, run_id: str, *, into: str | None = None, squash: bool = False) -> tuple[Run, Merge]:
    """Merge a run's work into `into` (its base's branch), as `worktree merge` does.

    What was validated and is in no commit is committed on the run's branch first. RunError where validation has not
    passed, or the worktree is not as it was validated. With conflicts nothing has changed. Whether the one who asks may
    is asked before (`guard.approval.authority`).
    """
    kept = folders.find(context.location, run_id)
    with lock.hold(context.location, run_id):
        run = fold(run_id, kept.folder, kept.events(), alive=False)
        validated = _validated(run)
        assert run.context is not None
        target = into if into is not None else _base_branch(context, run.context)
        here = inner(context, run.context)
        try:
            made = landing.land(
                context,
                here,
                run.context,
                validated.before,
                validated.after,
                into=target,
                message=_message(run),
                squash=squash,
            )
        except NotAsValidated as error:
            taken_back = _taken_back(run)
            if taken_back is None:
                raise
            raise taken_back from error
        if made.conflicts:
            return run, made
        kept.event("accepted", into=made.target, merge_commit=made.merge_commit)
        folders.seal(here, kept, fold(run_id, kept.folder, kept.events(), alive=False))
        return fold(run_id, kept.folder, kept.events(), alive=False), made


def _validated(run: Run) -> _Validated:
    """What there is to accept; RunError where that is nothing."""
    name = run.run_id
    if run.state == ACCEPTED:
        raise RunError(
            f"run '{name}' was accepted already: into '{run.accepted_into}' as {str(run.merge_commit)[:12]}", NOTHING
        )
    if run.state != PASSED or not run.attempts or run.context is None:
        why = f": {run.reason}" if run.reason else ""
        raise RunError(f"run '{name}' has not passed, it is {run.state}{why}", f"git agentos run show {name}")
    return _since_agent(run, [step for step in run.steps if step.n in run.attempts[-1].steps])


def _since_agent(run: Run, steps: Sequence[Step]) -> _Validated:
    last = max((n for n, step in enumerate(steps) if step.kind in ("agent", "rollback")), default=-1)
    validations = [step for step in steps[last + 1 :] if step.kind == "validate"]
    if not validations:
        raise RunError(
            f"no validation passed in run '{run.run_id}': nothing tells whether its work is good",
            f"give runs a --validate; git agentos worktree merge {worktree_id(run.run_id)} merges all the same",
        )
    before, after = validations[0].checkpoint_before, validations[-1].checkpoint_after
    if any(step.outcome != OK for step in validations) or before is None or after is None:
        raise RunError(f"not every validation passed in run '{run.run_id}'", f"git agentos run show {run.run_id}")
    return _Validated(before, after)


def _base_branch(context: Context, run: WorkspaceContext) -> str:
    name = run.base_ref.removeprefix(place.HEADS)
    if refs.resolve(context.location, place.HEADS + name) is None:
        raise UsageError(f"run '{run.run_id}' did not begin at a branch", "say where to merge it: --into BRANCH")
    return name


def _taken_back(run: Run) -> RunError | None:
    """Why a worktree is not as it was validated, where its run was taken back."""
    if run.rolled_back_to is None or run.context is None:
        return None
    return RunError(
        f"run '{run.run_id}' was taken back to {run.rolled_back_to[:12]}: its work is not there any more",
        f"git -C '{run.context.worktree_path}' agentos undo brings it back; {NOTHING}",
    )


def _message(run: Run) -> bytes:
    subject = f"run {run.run_id}" + (f": {' '.join(run.task_id.split())}" if run.task_id else "")
    trailers = [("Agentos-Agent", worktree_id(run.run_id)), ("Agentos-Task", run.task_id)]
    return landing.message(subject, trailers)
