"""A run's work goes into a branch: the orchestrator's own act, and only where validation has passed.

What was validated is the visible state in which the last validation ended, without the new files that validations left
behind and nobody added (reports, caches): those are not the run's work. As far as no commit has it, it becomes one on
the run's own branch. That happens only once it is known that the merge goes through; killed in between, `accept` is
done again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from git_agentos.checkpoint import format, take
from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.state import State
from git_agentos.errors import GitCommandError, RunError, UsageError
from git_agentos.git import refs, trees
from git_agentos.git.repository import Writer
from git_agentos.run import lock
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.record import evidence as folders
from git_agentos.run.record.events import ACCEPTED, OK, PASSED, Run, Step, fold
from git_agentos.run.workspace import inner
from git_agentos.worktree import merge, place
from git_agentos.worktree.merge import Merge

_NOTHING = "nothing was changed"


class _Ready(NamedTuple):
    """The commit that is merged, HEAD's, and whether that is one which an earlier `accept` made."""

    commit: str
    head: str
    again: bool


class _Validated(NamedTuple):
    """The checkpoints before and after what was validated: of the first validation since an agent was at work, and of
    the last."""

    before: str
    after: str


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
        ready = _commit(here, run, validated)
        id_ = worktree_id(run_id)
        made = merge.merge(context, [id_], into=target, squash=squash, dry_run=True, commits={id_: ready.commit})
        if made.conflicts:
            return run, replace(made, dry_run=False)
        _bring(here, run.context, ready)
        made = merge.merge(context, [id_], into=target, squash=squash)
        if made.conflicts:
            return run, made
        kept.event("accepted", into=made.target, merge_commit=made.merge_commit or made.before)
        folders.seal(here, kept, fold(run_id, kept.folder, kept.events(), alive=False))
        return fold(run_id, kept.folder, kept.events(), alive=False), made


def _validated(run: Run) -> _Validated:
    """What there is to accept; RunError where that is nothing."""
    name = run.run_id
    if run.state == ACCEPTED:
        raise RunError(
            f"run '{name}' was accepted already: into '{run.accepted_into}' as {str(run.merge_commit)[:12]}", _NOTHING
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


# -- what was validated, as a commit ---------------------------------------------------------------------------------


def _commit(here: Context, run: Run, validated: _Validated) -> _Ready:
    """The commit that has what was validated; no branch need have it yet. RunError where the worktree is not as it was
    validated."""
    assert run.context is not None
    origin = here.origin(
        trigger="before_merge",
        description=f"before accepting run {run.run_id}",
        task_id=run.task_id,
        run_id=run.run_id,
    )
    now = take.take(here.repository, here.settings, origin).state
    head = now.head.commit
    if now.operation is not None or now.stages or head is None:
        raise RunError(
            f"a {now.operation or 'merge'} is in progress in the worktree of run '{run.run_id}'",
            f"finish or abort it first; {_NOTHING}",
        )
    with here.repository.writer() as writer:
        was = _state(here, writer, validated.after)
        tree = _work(writer, _state(here, writer, validated.before), now)
        done = _is_ours(here, head, was.head.commit, tree)
        if now.visible_tree != was.visible_tree or not (head == was.head.commit or done):
            raise _another(run, run.context, validated)
        if tree == here.repository.commit_tree(head):
            return _Ready(head, head, done)
        if now.head.ref != place.HEADS + run.context.branch_name:
            raise RunError(
                f"HEAD of run '{run.run_id}' is not on its branch '{run.context.branch_name}', and not all of its work"
                " is committed",
                f"commit it in '{run.context.worktree_path}'; {_NOTHING}",
            )
        seconds = int(time.time())
        commit = writer.write_commit(tree, [head], _message(run), here.settings.committer, seconds)
        writer.flush()
    return _Ready(commit, head, again=False)


def _another(run: Run, context: WorkspaceContext, validated: _Validated) -> RunError:
    if run.rolled_back_to is not None:
        return RunError(
            f"run '{run.run_id}' was taken back to {run.rolled_back_to[:12]}: its work is not there any more",
            f"git -C '{context.worktree_path}' agentos undo brings it back; {_NOTHING}",
        )
    return RunError(
        f"the worktree of run '{run.run_id}' is not as it was validated",
        f"git agentos rollback {run.run_id} --to {validated.after[:12]} brings that back; {_NOTHING}",
    )


def _state(here: Context, writer: Writer, checkpoint: str) -> State:
    return format.with_visible_tree(here.repository, writer, format.read_state(here.repository, checkpoint))


def _work(writer: Writer, before: State, now: State) -> str:
    """The tree to commit: everything visible, but for new files that only validations made."""
    delta = trees.diff(writer, before.visible_tree, now.visible_tree)
    new = [path for path, (old, _) in delta.items() if old is None]
    return trees.edit(
        writer, now.visible_tree, {path: None for path in new if trees.find(writer, now.index_tree, path) is None}
    )


def _is_ours(here: Context, head: str, before: str | None, tree: str) -> bool:
    """Whether HEAD is the commit that an earlier `accept` has made of the same work."""
    commit = here.repository.commit(head)
    return before is not None and commit.parents == (before,) and commit.tree == tree


def _message(run: Run) -> bytes:
    subject = f"run {run.run_id}" + (f": {' '.join(run.task_id.split())}" if run.task_id else "")
    trailers = [f"Agentos-Agent: {worktree_id(run.run_id)}"]
    if run.task_id:
        trailers.append(f"Agentos-Task: {' '.join(run.task_id.split())}")
    return os.fsencode(subject + "\n\n" + "\n".join(trailers) + "\n")


def _bring(here: Context, run: WorkspaceContext, ready: _Ready) -> None:
    """Put the commit on the run's branch, and the index where it is; files stay as they are."""
    location, who = here.location, os.fsdecode(here.settings.committer)
    commit, head = ready.commit, ready.head
    if commit == head:
        if ready.again:
            _index(here, commit)
        return
    ref, reason = place.HEADS + run.branch_name, f"agentos accept: {run.run_id}"
    try:
        refs.update(location, ref, commit, head, reason=reason, who=who)
    except refs.RefMoved as error:
        raise RunError(f"the branch '{run.branch_name}' has just moved", f"try again; {_NOTHING}") from error
    try:
        _index(here, commit)
    except GitCommandError:
        refs.update(location, ref, head, commit, reason=f"{reason}, taken back", who=who)
        raise
    refs.log(location, "HEAD", head, commit, reason, who)


def _index(here: Context, commit: str) -> None:
    """Every entry as the commit has it; what is known of unchanged files is kept."""
    here.repository.git("read-tree", "--reset", commit)
    here.repository.git("update-index", "-q", "--refresh", "--ignore-submodules", ok=(0, 1))
