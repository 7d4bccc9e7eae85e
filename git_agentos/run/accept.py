"""A run's work goes into a branch: the orchestrator's own act, and only where validation has passed.

What is merged is what the validations of the last attempt have seen (`landing`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError, UsageError
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.run import cleanup as cleaning
from git_agentos.run import evidence_store, landing, located, lock, rebuild, sealing
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import ACCEPTED, OK, PASSED, Run, Step
from git_agentos.run.evidence import Evidence
from git_agentos.run.landing import NOTHING, NotAsValidated
from git_agentos.run.snapshot import run_context
from git_agentos.worktree import layout
from git_agentos.worktree.agent_merge import Merge


class Acceptance(NamedTuple):
    """What accepting a run did: where `merge` has conflicts, nothing was changed."""

    run: Run
    merge: Merge


class _Validated(NamedTuple):
    """The checkpoints before and after what was validated: of the first validation since an agent was at work, and of
    the last."""

    before: str
    after: str


@authorize.entry("run", "accept")
def accept(
    context: OpenWorktree, run_id: str, *, into: str | None = None, squash: bool = False, cleanup: bool | None = None
) -> Acceptance:
    """Merge a run's work into `into` (its base's branch), as `worktree merge` does.

    What was validated and is in no commit is committed on the run's branch first. RunError where validation has not
    passed, the worktree is not as it was validated, or the evidence is not intact. With conflicts nothing has changed.
    What could not be sealed is sealed now, before or after the merge. `cleanup` archives worktree and branch then; None
    is what the run says. Whether the one who asks may is asked before
    (`guard.approval.authority`).
    """
    kept = evidence_store.open_or_rebuild(context.location, run_id)
    with lock.hold(context.location, run_id) as is_ours:
        kept.pin(is_ours)
        state = kept.state()
        if state.merge_commit is not None and not state.is_sealed:
            made = _finish(context, kept)
            return Acceptance(cleaning.finish(context, kept, wanted=cleanup), made)
        validated = _validated(kept.run())
        run = located.workspace_of(context, kept)
        target = into if into is not None else base_branch(context, run)
        here = run_context(context, run)
        rebuild.unlock(here.location, run)
        if not state.is_sealed:  # that failed when the run ended
            sealing.seal(here, kept, kept.run(), again=True)
        _require_intact(context, kept)
        try:
            made = landing.merge_validated(
                context,
                here,
                run,
                validated.before,
                validated.after,
                into=target,
                message=message(kept.run()),
                squash=squash,
                check=lambda: _require_intact(context, kept),
            )
        except NotAsValidated as error:
            taken_back = _taken_back(kept.run())
            if taken_back is None:
                raise
            raise taken_back from error
        if made.conflicts:
            return Acceptance(kept.run(), made)
        with recording(run_id, made):
            kept.event("accepted", into=made.target, merge_commit=made.merge_commit)
            sealing.seal(here, kept, kept.run())
        return Acceptance(cleaning.finish(context, kept, wanted=cleanup), made)


def _require_intact(context: OpenWorktree, kept: Evidence) -> None:
    """RunError where the evidence of a run is not what was sealed, or nothing vouches for it."""
    kept.check()
    found = evidence_store.verify(context, kept.run_id)
    if not found.ok:
        raise RunError(
            f"the evidence of run '{kept.run_id}' is not intact: {found.problems[0]}",
            f"git agentos run verify {kept.run_id} tells more; {NOTHING}",
        )


@contextlib.contextmanager
def recording(run_id: str, made: Merge) -> Iterator[None]:
    """What fails in here fails after the branch was moved, and says so."""
    try:
        yield
    except (AgentosError, OSError) as error:
        moved = f"'{made.target}' was moved from {made.before[:12]} to {str(made.merge_commit)[:12]}"
        if not made.merged:
            moved = f"'{made.target}' has the work"
        raise RunError(
            f"{moved}, but that run '{run_id}' is accepted could not be put on record: {error}",
            f"git agentos run accept {run_id} finishes that; nothing has to be merged again",
        ) from error


def _finish(context: OpenWorktree, kept: Evidence) -> Merge:
    """The run was accepted, and its evidence could not be sealed then."""
    run = kept.run()
    try:
        here = run_context(context, located.workspace_of(context, kept))
    except RunError:
        here = context  # its worktree is gone: what is known of it is sealed
    sealing.seal(here, kept, run, again=True)
    run = kept.run()
    into, commit = str(run.accepted_into), str(run.merge_commit)
    return Merge(
        merged=False,
        target=into,
        before=commit,
        merge_commit=commit,
        sources=[],
        conflicts=[],
        saved=None,
        worktree_path=None,
        squashed=False,
        dry_run=False,
    )


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


def base_branch(context: OpenWorktree, run: WorkspaceContext) -> str:
    """The branch that a run began at; UsageError where that was none."""
    name = run.base_ref.removeprefix(layout.HEADS)
    if refs.resolve(context.location, layout.HEADS + name) is None:
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


def message(run: Run) -> bytes:
    """The message of the commit that has what no commit of the run has."""
    subject = f"run {run.run_id}" + (f": {' '.join(run.task_id.split())}" if run.task_id else "")
    trailers = [("Agentos-Agent", worktree_id(run.run_id)), ("Agentos-Task", run.task_id)]
    return landing.commit_message(subject, trailers)
