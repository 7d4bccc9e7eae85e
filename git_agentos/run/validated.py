"""What was validated in a run, as a commit on its branch; or what a run has left that nothing has validated.

It is the visible state at the end of the last attempt's validations, without new files that the validations made and
nobody added (reports, caches). Killed in between, `as_commit` can be called again, and finds what it did.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from git_agentos.checkpoint import format
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, RunError
from git_agentos.git import index, refs, trees
from git_agentos.git.repository import Writer
from git_agentos.run.context import WorkspaceContext, run_metadata, worktree_id
from git_agentos.run.events import ACCEPTED, FAILED, OK, PASSED, Run
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout

NOTHING = "nothing was changed"


class ValidatedWork(NamedTuple):
    """What is to be merged: a run, its worktree, and the checkpoints before and after the validation. For a commit
    (`as_commit`), also what a run has left, with the checkpoints of `left`."""

    run: WorkspaceContext
    worktree: OpenWorktree
    before: str
    after: str


class NotAsValidated(RunError):
    """The worktree has changed since it was validated."""


class Commit(NamedTuple):
    """The commit to merge, HEAD's commit, whether an earlier call made that one, and the repositories inside of the
    worktree, which are in no commit."""

    commit: str
    head: str
    again: bool
    nested: list[str]


def validations(run: Run) -> tuple[str, str]:
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
    found = [step for step in steps[last + 1 :] if step.kind == "validate"]
    if not found:
        raise RunError(
            f"run '{name}' was not validated",
            f"start runs with --validate; git agentos worktree merge {worktree_id(name)} merges it as it is",
        )
    before, after = found[0].checkpoint_before, found[-1].checkpoint_after
    if any(step.outcome != OK for step in found) or before is None or after is None:
        raise RunError(f"not every validation passed in run '{name}'", f"git agentos run show {name}")
    return before, after


def left(run: Run) -> tuple[str, str]:
    """The checkpoints before what validations there were since an agent ran, and at the end of the last step;
    RunError where there is no step that was saved."""
    wanted = run.attempts[-1].steps if run.attempts else []
    steps = [step for step in run.steps if step.n in wanted]
    end = (steps[-1].checkpoint_after or steps[-1].checkpoint_before) if steps else None
    if end is None:
        raise RunError(f"nothing that run '{run.run_id}' did was saved", f"git agentos run show {run.run_id}")
    last = max((n for n, step in enumerate(steps) if step.kind in ("agent", "rollback")), default=-1)
    begin = next((step.checkpoint_before for step in steps[last + 1 :] if step.kind == "validate"), None)
    return begin or end, end


def acceptance_message(run: Run) -> bytes:
    """The message of the commit for what is in no commit of the run."""
    return commit_message(_subject(run), _trailers(run))


def left_message(run: Run) -> bytes:
    """The message of the commit for what a run has left that nothing has validated."""
    why = "The run has failed." if run.state == FAILED else "Nothing has validated this."
    return commit_message(f"{_subject(run)}\n\n{why}", _trailers(run))


def _subject(run: Run) -> str:
    return f"run {run.run_id}" + (f": {' '.join(run.task_id.split())}" if run.task_id else "")


def _trailers(run: Run) -> list[tuple[str, str | None]]:
    return [("Agentos-Agent", worktree_id(run.run_id)), ("Agentos-Task", run.task_id)]


def commit_message(subject: str, trailers: Sequence[tuple[str, str | None]]) -> bytes:
    """The message of a commit; trailers without a value are left out, and each is one line."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers if value]
    return os.fsencode(f"{subject}\n\n" + "\n".join(lines) + "\n")


def as_commit(work: ValidatedWork, text: bytes) -> Commit:
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
            return Commit(head, head, done, nested)
        if now.head.ref != layout.HEADS + run.branch_name:
            raise RunError(
                f"HEAD of run '{run.run_id}' is not on its branch '{run.branch_name}', and not all of its work"
                " is committed",
                f"commit it in '{run.worktree_path}'; {NOTHING}",
            )
        commit = writer.write_commit(tree, [head], text, here.settings.committer, int(time.time()))
        writer.flush()
    return Commit(commit, head, again=False, nested=nested)


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


def move_branch(here: OpenWorktree, run: WorkspaceContext, made: Commit) -> None:
    """Move the run's branch and the index to the commit; files stay as they are."""
    location, who = here.location, os.fsdecode(here.settings.committer)
    commit, head = made.commit, made.head
    if commit == head:
        if made.again:
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
