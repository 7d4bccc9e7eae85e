"""What was validated in a run's worktree becomes a commit on the run's branch, and goes into another.

What was validated is the visible state in which the validation ended, without the new files that it left behind and
nobody added (reports, caches): those are not the run's work. As far as no commit has it, it becomes one. That happens
only once it is known that the merge goes through; killed in between, `land` is done again, and finds what it has done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from git_agentos.checkpoint import format
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, RunError
from git_agentos.git import index, refs, trees
from git_agentos.git.repository import Writer
from git_agentos.guard import authorize
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.worktree import agent_merge, layout
from git_agentos.worktree.agent_merge import Merge

NOTHING = "nothing was changed"


class NotAsValidated(RunError):
    """The worktree is not as it was validated."""


class _Ready(NamedTuple):
    """The commit that is merged, HEAD's, whether that is one which an earlier `land` made, and the repositories inside
    of the worktree, which no commit of it has."""

    commit: str
    head: str
    again: bool
    inside: list[str]


def merge_validated(
    context: OpenWorktree,
    here: OpenWorktree,
    run: WorkspaceContext,
    before: str,
    after: str,
    *,
    into: str,
    message: bytes,
    squash: bool = False,
    check: Callable[[], object] = lambda: None,
) -> Merge:
    """Merge what was validated between the checkpoints `before` and `after` into the branch `into`, as `worktree merge`
    does; `here` is the run's worktree, and the run's lock is held.

    What is in no commit is committed with `message` on the run's branch first. NotAsValidated where the worktree is
    another by now; RunError where it cannot be committed. `check` is called right before the branch is moved, and
    raises where it must not be. With conflicts nothing has changed. Done again after it went
    through, nothing changes either: `merged` is False and `merge_commit` the commit that has brought it.
    """
    id_ = worktree_id(run.run_id)
    authorize.require(context, "worktree", "merge", operands=(id_,))
    ready = _commit(here, run, before, after, message)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, dry_run=True, commits={id_: ready.commit})
    if made.conflicts:
        return replace(made, dry_run=False)
    check()
    _bring(here, run, ready)
    made = agent_merge.merge(context, [id_], into=into, squash=squash, commits={id_: ready.commit})
    made = replace(made, warnings=[*made.warnings, *map(_not_merged, ready.inside)])
    if made.conflicts or made.merge_commit is not None:
        return made
    return replace(made, merge_commit=_brought_by(context, made.before, ready.commit) or made.before)


def _not_merged(path: str) -> str:
    return f"'{path}' is a repository of its own: it stays in the run's worktree, and is not merged"


def commit_message(subject: str, trailers: Sequence[tuple[str, str | None]]) -> bytes:
    """The message of a commit; trailers without a value are left out, and each is one line."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers if value]
    return os.fsencode(f"{subject}\n\n" + "\n".join(lines) + "\n")


# -- what was validated, as a commit ---------------------------------------------------------------------------------


def _commit(here: OpenWorktree, run: WorkspaceContext, before: str, after: str, text: bytes) -> _Ready:
    """The commit that has what was validated; no branch need have it yet. RunError where the worktree is not as it was
    validated."""
    metadata = here.metadata(
        trigger="before_merge",
        description=f"before merging run {run.run_id}",
        task_id=run.task_id,
        run_id=run.run_id,
    )
    now = create_checkpoint(here, metadata).state
    head = now.head.commit
    if now.operation is not None or now.stages or head is None:
        raise RunError(
            f"a {now.operation or 'merge'} is in progress in the worktree of run '{run.run_id}'",
            f"finish or abort it first; {NOTHING}",
        )
    with here.repository.writer() as writer:
        was = _state(here, writer, after)
        tree = _work(writer, _state(here, writer, before), now)
        done = _is_ours(here, head, was.head.commit, tree)
        if now.visible_tree != was.visible_tree or not (head == was.head.commit or done):
            raise NotAsValidated(
                f"the worktree of run '{run.run_id}' is not as it was validated",
                f"git agentos rollback {run.run_id} --to {after[:12]} brings that back; {NOTHING}",
            )
        inside = [os.fsdecode(path) for path in now.nested if trees.find(writer, tree, path) is None]
        if tree == here.repository.commit_tree(head):
            return _Ready(head, head, done, inside)
        if now.head.ref != layout.HEADS + run.branch_name:
            raise RunError(
                f"HEAD of run '{run.run_id}' is not on its branch '{run.branch_name}', and not all of its work"
                " is committed",
                f"commit it in '{run.worktree_path}'; {NOTHING}",
            )
        commit = writer.write_commit(tree, [head], text, here.settings.committer, int(time.time()))
        writer.flush()
    return _Ready(commit, head, again=False, inside=inside)


def _state(here: OpenWorktree, writer: Writer, checkpoint: str) -> State:
    return format.with_visible_tree(here.repository, writer, format.read_state(here.repository, checkpoint))


def _work(writer: Writer, before: State, now: State) -> str:
    """The tree to commit: everything visible, but for new files that only validations made."""
    delta = trees.diff(writer, before.visible_tree, now.visible_tree)
    new = [path for path, (old, _) in delta.items() if old is None]
    return trees.edit(
        writer, now.visible_tree, {path: None for path in new if trees.find(writer, now.index_tree, path) is None}
    )


def _is_ours(here: OpenWorktree, head: str, before: str | None, tree: str) -> bool:
    """Whether HEAD is the commit that an earlier `land` has made of the same work."""
    commit = here.repository.commit(head)
    return before is not None and commit.parents == (before,) and commit.tree == tree


def _bring(here: OpenWorktree, run: WorkspaceContext, ready: _Ready) -> None:
    """Put the commit on the run's branch, and the index where it is; files stay as they are."""
    location, who = here.location, os.fsdecode(here.settings.committer)
    commit, head = ready.commit, ready.head
    if commit == head:
        if ready.again:
            _index(here, commit)
        return
    ref, reason = layout.HEADS + run.branch_name, f"agentos merge: {run.run_id}"
    try:
        refs.update(location, ref, commit, head, reason=reason, who=who)
    except refs.RefMoved as error:
        raise RunError(f"the branch '{run.branch_name}' has just moved", f"try again; {NOTHING}") from error
    try:
        _index(here, commit)
    except GitCommandError:
        refs.update(location, ref, head, commit, reason=f"{reason}, taken back", who=who)
        raise
    refs.log(location, "HEAD", head, commit, reason, who)


def _index(here: OpenWorktree, commit: str) -> None:
    """Every entry as the commit has it; what is known of unchanged files is kept."""
    options = index.stat_options(here.settings.values)
    here.repository.git(*options, "read-tree", "--reset", commit)
    here.repository.git(*options, "update-index", "-q", "--refresh", "--ignore-submodules", ok=(0, 1))


def _brought_by(context: OpenWorktree, tip: str, commit: str) -> str | None:
    """The first commit of a branch's own line that has `commit`; None where that was squashed."""
    if not context.repository.is_ancestor(commit, tip):
        return None
    args = ("rev-list", "--first-parent", "--ancestry-path", f"{commit}..{tip}")
    line = context.repository.git(*args).split()
    return line[-1].decode() if line else commit
