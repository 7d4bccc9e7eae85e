"""Accepting a run: merging what was validated into a branch. It is a command of the orchestrator's own, and requires
that validation has passed.

What was validated (`validated`) and is in no commit is committed on the run's branch, once it is known that the merge
succeeds. Killed in between, `merge_validated` can be called again, and finds what it did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError, UsageError
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.run import cleanup as cleaning
from git_agentos.run import evidence_store, lock, rebuild, runner, sealing, validated
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.run.validated import NOTHING, NotAsValidated, ValidatedWork, acceptance_message, commit_message
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import agent_merge, layout
from git_agentos.worktree.agent_merge import Merge

__all__ = [
    "NOTHING", "Acceptance", "NotAsValidated", "ValidatedWork", "accept", "acceptance_message", "base_branch",
    "commit_message", "merge_validated", "recording_failure",
]  # fmt: skip


class Acceptance(NamedTuple):
    """What accepting a run did: where `merge` has conflicts, nothing was changed."""

    run: Run
    merge: Merge


@authorize.entry("run", "accept")
def accept(
    context: OpenWorktree, run_id: str, *, into: str | None = None, squash: bool = False, cleanup: bool | None = None
) -> Acceptance:
    """Merge a run's work into `into` (its base's branch), as `worktree merge` does.

    What was validated and is in no commit is committed on the run's branch first. RunError where validation has not
    passed, the worktree has changed since, or the evidence is not intact. With conflicts nothing is changed. Evidence
    that could not be sealed before is sealed now. `cleanup` archives worktree and branch afterwards; None does what the
    run says. The caller has made sure that this is allowed (`guard.operator`).
    """
    evidence = evidence_store.open_or_rebuild(context.location, run_id)
    with lock.hold(context.location, run_id) as is_ours:
        evidence.pin(is_ours)
        state = evidence.state()
        if state.recorded.merge_commit is not None and not state.is_sealed:
            made = _finish_accepted(context, evidence)
            return Acceptance(cleaning.finish(context, evidence, wanted=cleanup), made)
        checkpoints = validated.validations(evidence.run())
        run = evidence_store.workspace_of(context, evidence)
        target = into if into is not None else base_branch(context, run)
        here = run_context(context, run)
        rebuild.unlock(here.location, run)
        if not state.is_sealed:  # that failed when the run ended
            sealing.seal(here, evidence, evidence.run(), again=True)
        _require_intact(context, evidence)
        try:
            made = merge_validated(
                context,
                ValidatedWork(run, here, *checkpoints),
                into=target,
                message=acceptance_message(evidence.run()),
                squash=squash,
                check=lambda: _require_intact(context, evidence),
            )
        except NotAsValidated as error:
            rolled_back = _rolled_back(evidence.run())
            if rolled_back is None:
                raise
            raise rolled_back from error
        if made.conflicts:
            return Acceptance(evidence.run(), made)
        with recording_failure(run_id, made):
            evidence.event("accepted", into=made.target, merge_commit=made.merge_commit)
            sealing.seal(here, evidence, evidence.run())
        return Acceptance(cleaning.finish(context, evidence, wanted=cleanup), made)


def _require_intact(context: OpenWorktree, evidence: Evidence) -> None:
    """RunError where the evidence of a run is not what was sealed, or cannot be verified."""
    evidence.check()
    found = evidence_store.verify(context, evidence.run_id)
    if not found.ok:
        raise RunError(
            f"the evidence of run '{evidence.run_id}' is not intact: {found.problems[0]}",
            f"git agentos run verify {evidence.run_id} shows details; {NOTHING}",
        )


@contextlib.contextmanager
def recording_failure(run_id: str, made: Merge) -> Iterator[None]:
    """Say of an error in the block that the branch was moved before it."""
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


def _finish_accepted(context: OpenWorktree, evidence: Evidence) -> Merge:
    """Seal the evidence of a run that was accepted, where that failed then."""
    runner.seal_run(context, evidence, again=True)
    run = evidence.run()
    commit = str(run.merge_commit)
    return Merge(merged=False, target=str(run.accepted_into), before=commit, merge_commit=commit)


def base_branch(context: OpenWorktree, run: WorkspaceContext) -> str:
    """The branch that a run began at; UsageError where that was none."""
    name = run.base_ref.removeprefix(layout.HEADS)
    if refs.resolve(context.location, layout.HEADS + name) is None:
        raise UsageError(f"run '{run.run_id}' did not begin at a branch", "say where to merge it: --into BRANCH")
    return name


def _rolled_back(run: Run) -> RunError | None:
    """The error for a run that was rolled back after it was validated; None where it was not."""
    if run.rolled_back_to is None or run.context is None:
        return None
    return RunError(
        f"run '{run.run_id}' was rolled back to {run.rolled_back_to[:12]}: its work is not in its worktree any more",
        f"git -C '{run.context.worktree_path}' agentos undo restores it; {NOTHING}",
    )


def merge_validated(
    context: OpenWorktree,
    work: ValidatedWork,
    *,
    into: str,
    message: bytes,
    squash: bool = False,
    check: Callable[[], object] = lambda: None,
) -> Merge:
    """Merge validated work into the branch `into`, as `worktree merge` does; the caller holds the run's lock.

    What is in no commit is committed with `message` on the run's branch first. NotAsValidated where the worktree has
    changed since; RunError where it cannot be committed. `check` is called right before the branch is moved, and raises
    where it must not be moved. With conflicts nothing is changed. Called again after it succeeded, nothing is changed
    either: `merged` is False and `merge_commit` is the commit that merged it.
    """
    id_ = worktree_id(work.run.run_id)
    authorize.require(context, "worktree", "merge", operands=(id_,))
    ready = validated.as_commit(work, message)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, dry_run=True, commits={id_: ready.commit})
    if made.conflicts:
        return replace(made, dry_run=False)
    check()
    validated.move_branch(work.worktree, work.run, ready)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, commits={id_: ready.commit})
    made = replace(made, warnings=[*made.warnings, *map(_not_merged, ready.nested)])
    if made.conflicts or made.merge_commit is not None:
        return made
    return replace(made, merge_commit=_merged_by(context, made.before, ready.commit) or made.before)


def _not_merged(path: str) -> str:
    return f"'{path}' is a repository of its own: it stays in the run's worktree, and is not merged"


def _merged_by(context: OpenWorktree, tip: str, commit: str) -> str | None:
    """The first commit of a branch's first-parent line that contains `commit`; None where it was squashed."""
    if not context.repository.is_ancestor(commit, tip):
        return None
    args = ("rev-list", "--first-parent", "--ancestry-path", f"{commit}..{tip}")
    line = context.repository.git(*args).split()
    return line[-1].decode() if line else commit
