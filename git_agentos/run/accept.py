"""Accepting a run: merging what was validated into a branch. It is a command of the orchestrator's own, and requires
that validation has passed.

What was validated is the visible state at the end of the last attempt's validations, without new files that the
validations made and nobody added (reports, caches). What of it is in no commit is committed on the run's branch, once
it is known that the merge succeeds. Killed in between, `merge_validated` can be called again, and finds what it did.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from git_agentos.checkpoint import format
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, GitCommandError, RunError, UsageError
from git_agentos.git import index, refs, trees
from git_agentos.git.repository import Writer
from git_agentos.guard import authorize
from git_agentos.run import cleanup as cleaning
from git_agentos.run import evidence_store, lock, rebuild, runner, sealing
from git_agentos.run.context import WorkspaceContext, run_metadata, worktree_id
from git_agentos.run.events import ACCEPTED, OK, PASSED, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import agent_merge, layout
from git_agentos.worktree.agent_merge import Merge

NOTHING = "nothing was changed"


class Acceptance(NamedTuple):
    """What accepting a run did: where `merge` has conflicts, nothing was changed."""

    run: Run
    merge: Merge


class ValidatedWork(NamedTuple):
    """What is to be merged: a run, its worktree, and the checkpoints before and after the validation."""

    run: WorkspaceContext
    worktree: OpenWorktree
    before: str
    after: str


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
        validated = _validated(evidence.run())
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
                ValidatedWork(run, here, *validated),
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


def _validated(run: Run) -> tuple[str, str]:
    """The checkpoints before the first and after the last validation since an agent ran; RunError where there are
    none."""
    name = run.run_id
    if run.state == ACCEPTED:
        raise RunError(
            f"run '{name}' was accepted already: into '{run.accepted_into}' as {str(run.merge_commit)[:12]}", NOTHING
        )
    if run.state != PASSED or not run.attempts or run.context is None:
        why = f": {run.reason}" if run.reason else ""
        raise RunError(f"run '{name}' has not passed, it is {run.state}{why}", f"git agentos run show {name}")
    steps = [step for step in run.steps if step.n in run.attempts[-1].steps]
    last = max((n for n, step in enumerate(steps) if step.kind in ("agent", "rollback")), default=-1)
    validations = [step for step in steps[last + 1 :] if step.kind == "validate"]
    if not validations:
        raise RunError(
            f"run '{name}' was not validated",
            f"start runs with --validate; git agentos worktree merge {worktree_id(name)} merges it as it is",
        )
    before, after = validations[0].checkpoint_before, validations[-1].checkpoint_after
    if any(step.outcome != OK for step in validations) or before is None or after is None:
        raise RunError(f"not every validation passed in run '{name}'", f"git agentos run show {name}")
    return before, after


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


def acceptance_message(run: Run) -> bytes:
    """The message of the commit for what is in no commit of the run."""
    subject = f"run {run.run_id}" + (f": {' '.join(run.task_id.split())}" if run.task_id else "")
    trailers = [("Agentos-Agent", worktree_id(run.run_id)), ("Agentos-Task", run.task_id)]
    return commit_message(subject, trailers)


# -- merging what was validated -------------------------------------------------------------------------------------


class NotAsValidated(RunError):
    """The worktree has changed since it was validated."""


class _Ready(NamedTuple):
    """The commit to merge, HEAD's commit, whether an earlier call made that one, and the repositories inside of the
    worktree, which are in no commit."""

    commit: str
    head: str
    again: bool
    nested: list[str]


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
    ready = _validated_commit(work, message)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, dry_run=True, commits={id_: ready.commit})
    if made.conflicts:
        return replace(made, dry_run=False)
    check()
    _commit_to_branch(work.worktree, work.run, ready)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, commits={id_: ready.commit})
    made = replace(made, warnings=[*made.warnings, *map(_not_merged, ready.nested)])
    if made.conflicts or made.merge_commit is not None:
        return made
    return replace(made, merge_commit=_merged_by(context, made.before, ready.commit) or made.before)


def _not_merged(path: str) -> str:
    return f"'{path}' is a repository of its own: it stays in the run's worktree, and is not merged"


def commit_message(subject: str, trailers: Sequence[tuple[str, str | None]]) -> bytes:
    """The message of a commit; trailers without a value are left out, and each is one line."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers if value]
    return os.fsencode(f"{subject}\n\n" + "\n".join(lines) + "\n")


# -- what was validated, as a commit ---------------------------------------------------------------------------------


def _validated_commit(work: ValidatedWork, text: bytes) -> _Ready:
    """A commit of what was validated; it may be on no branch yet. RunError where the worktree has changed since."""
    run, here, before, after = work
    metadata = run_metadata(here, run, trigger="before_merge", description=f"before merging run {run.run_id}")
    now = create_checkpoint(here, metadata).state
    head = now.head.commit
    if now.operation is not None or now.stages or head is None:
        raise RunError(
            f"a {now.operation or 'merge'} is in progress in the worktree of run '{run.run_id}'",
            f"finish or abort it first; {NOTHING}",
        )
    with here.repository.writer() as writer:
        was = _state(here, writer, after)
        tree = _validated_tree(writer, _state(here, writer, before), now)
        done = _is_our_commit(here, head, was.head.commit, tree)
        if now.visible_tree != was.visible_tree or not (head == was.head.commit or done):
            raise NotAsValidated(
                f"the worktree of run '{run.run_id}' has changed since it was validated",
                f"git agentos rollback {run.run_id} --to {after[:12]} restores what was validated; {NOTHING}",
            )
        nested = [os.fsdecode(path) for path in now.nested if trees.find(writer, tree, path) is None]
        if tree == here.repository.commit_tree(head):
            return _Ready(head, head, done, nested)
        if now.head.ref != layout.HEADS + run.branch_name:
            raise RunError(
                f"HEAD of run '{run.run_id}' is not on its branch '{run.branch_name}', and not all of its work"
                " is committed",
                f"commit it in '{run.worktree_path}'; {NOTHING}",
            )
        commit = writer.write_commit(tree, [head], text, here.settings.committer, int(time.time()))
        writer.flush()
    return _Ready(commit, head, again=False, nested=nested)


def _state(here: OpenWorktree, writer: Writer, checkpoint: str) -> State:
    return format.with_visible_tree(here.repository, writer, format.read_state(here.repository, checkpoint))


def _validated_tree(writer: Writer, before: State, now: State) -> str:
    """The tree to commit: all visible files except new ones that only validations made."""
    delta = trees.diff(writer, before.visible_tree, now.visible_tree)
    new = [path for path, (old, _) in delta.items() if old is None]
    return trees.edit(
        writer, now.visible_tree, {path: None for path in new if trees.find(writer, now.index_tree, path) is None}
    )


def _is_our_commit(here: OpenWorktree, head: str, before: str | None, tree: str) -> bool:
    """Whether HEAD is the commit that an earlier call made of the same work."""
    commit = here.repository.commit(head)
    return before is not None and commit.parents == (before,) and commit.tree == tree


def _commit_to_branch(here: OpenWorktree, run: WorkspaceContext, ready: _Ready) -> None:
    """Move the run's branch and the index to the commit; files stay as they are."""
    location, who = here.location, os.fsdecode(here.settings.committer)
    commit, head = ready.commit, ready.head
    if commit == head:
        if ready.again:
            _reset_index(here, commit)
        return
    ref, reason = layout.HEADS + run.branch_name, f"agentos merge: {run.run_id}"
    try:
        refs.update(location, ref, commit, head, refs.ReflogEntry(reason, who))
    except refs.RefMoved as error:
        raise RunError(f"the branch '{run.branch_name}' has just moved", f"try again; {NOTHING}") from error
    try:
        _reset_index(here, commit)
    except GitCommandError:
        refs.update(location, ref, head, commit, refs.ReflogEntry(f"{reason}, reverted", who))
        raise


def _reset_index(here: OpenWorktree, commit: str) -> None:
    """Make the index equal to the commit; the stat data of unchanged files are evidence."""
    options = index.stat_options(here.settings.values)
    here.repository.git(*options, "read-tree", "--reset", commit)
    here.repository.git(*options, "update-index", "-q", "--refresh", "--ignore-submodules", ok=(0, 1))


def _merged_by(context: OpenWorktree, tip: str, commit: str) -> str | None:
    """The first commit of a branch's first-parent line that contains `commit`; None where it was squashed."""
    if not context.repository.is_ancestor(commit, tip):
        return None
    args = ("rev-list", "--first-parent", "--ancestry-path", f"{commit}..{tip}")
    line = context.repository.git(*args).split()
    return line[-1].decode() if line else commit
