"""The worktree of a run from inside: the run's agent at work in it, and how it stands."""

from __future__ import annotations

import os
from dataclasses import dataclass

from git_agentos.checkpoint import format
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.git import refs, trees, worktrees
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.util import times
from git_agentos.worktree import record


@dataclass(frozen=True)
class WorkspaceSnapshot:
    """How a run's worktree stands; the fields are the keys of its JSON.

    `head_sha` and `branch` are HEAD's (None: unborn, detached); `tree` is the tree of all visible files; `checkpoint`
    the id that holds this state; `commits` the run's own, newest first; `staged`, `unstaged`, `untracked` and
    `changed` (all that differs from the base) are paths; `digest` is the same for the same state.
    """

    run_id: str
    head_sha: str | None
    branch: str | None
    tree: str
    checkpoint: str
    commits: list[str]
    staged: list[str]
    unstaged: list[str]
    untracked: list[str]
    changed: list[str]
    digest: str
    taken_at: str


def run_context(context: OpenWorktree, run: WorkspaceContext) -> OpenWorktree:
    """The run's agent at work in the run's worktree; RunError where that is not what was made. The paths of `run` are
    those of now (`located`)."""
    id_ = worktree_id(run.run_id)
    hint = f"git agentos rollback {run.run_id} saves what can be read, and makes it again"
    managed = record.get(context.location.common_dir, id_)
    if managed is None:
        revived = f"git agentos worktree create {id_} --revive brings it back, if it was archived"
        raise RunError(f"the worktree of run '{run.run_id}' is gone", f"{revived}\n{hint}")
    root = managed.root
    if os.path.islink(root) or not os.path.isdir(root):
        if run.worktree_path != root and os.path.isdir(run.worktree_path):
            hint = f"git agentos worktree repair {id_} finds it again in '{run.worktree_path}'"
        raise RunError(f"the worktree of run '{run.run_id}' is not in '{root}'", hint)
    pointed = worktrees.read_gitfile(root)
    if pointed is None or os.path.realpath(pointed) != os.path.realpath(managed.git_dir):
        raise RunError(f"'{root}' is not the worktree of run '{run.run_id}' any more: its '.git' is another", hint)
    try:
        refs.read_head(managed.location)
        return context.in_worktree(managed.location)._replace(agent=run.agent_id)
    except (AgentosError, OSError) as error:
        raise RunError(f"the worktree of run '{run.run_id}' is damaged: {error}", hint) from error


def take_snapshot(here: OpenWorktree, run: WorkspaceContext) -> WorkspaceSnapshot:
    """How a run's worktree `here` stands; nothing in it changes, and a checkpoint holds it."""
    return capture_snapshot(here, run)[0]


def capture_snapshot(here: OpenWorktree, run: WorkspaceContext) -> tuple[WorkspaceSnapshot, State]:
    """`snapshot`, and the complete state."""
    metadata = here.metadata(
        trigger="post_step", description=f"run {run.run_id}", task_id=run.task_id, run_id=run.run_id
    )
    taken = create_checkpoint(here, metadata)
    state = taken.state
    base = here.repository.commit_tree(run.base_sha)
    with here.repository.writer() as store:
        changed = trees.diff(store, base, state.visible_tree)
    commits = here.repository.git("rev-list", f"{run.base_sha}..{state.head.commit}") if state.head.commit else b""
    seen = WorkspaceSnapshot(
        run_id=run.run_id,
        head_sha=state.head.commit,
        branch=state.head.branch,
        tree=state.visible_tree,
        checkpoint=taken.checkpoint.id,
        commits=commits.decode().split(),
        staged=[os.fsdecode(path) for path in state.staged],
        unstaged=[os.fsdecode(path) for path in state.unstaged],
        untracked=[os.fsdecode(path) for path in state.untracked],
        changed=[os.fsdecode(path) for path in sorted({*changed, *state.nested})],
        digest=format.digest(state),
        taken_at=now(),
    )
    return seen, state


def now() -> str:
    """The time now, as documents have it."""
    return times.now_text()
