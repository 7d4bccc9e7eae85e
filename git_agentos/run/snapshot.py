"""The worktree of a run: its context for the run's agent, snapshots of it, and what the run has changed in it.

Changed are paths that git sees (new, changed, deleted, other modes, submodules), paths that are staged otherwise,
repositories inside of the worktree that were made, changed or deleted, and empty folders. Ignored files do not count,
since nobody merges them; whether they differ is reported where nothing else has changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from git_agentos import log
from git_agentos.checkpoint import format, state_fields
from git_agentos.checkpoint.capture.state import capture_state
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.git import refs, trees, worktrees
from git_agentos.git.repository import Repository
from git_agentos.run import baseline
from git_agentos.run.context import WorkspaceContext, run_metadata, worktree_id
from git_agentos.run.events import Left, RunState
from git_agentos.util import times
from git_agentos.worktree import record


@dataclass(frozen=True)
class WorkspaceSnapshot:
    """The state of a run's worktree; the fields are the keys of its JSON.

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
    """The worktree of a run, opened as the run's agent; RunError where it is gone or damaged. The paths of `run` are
    the current ones (`with_current_paths`)."""
    id_ = worktree_id(run.run_id)
    hint = f"git agentos rollback {run.run_id} saves what can be read, and rebuilds it"
    managed = record.get(context.location.common_dir, id_)
    if managed is None:
        revived = f"git agentos worktree create {id_} --revive restores it, if it was archived"
        raise RunError(f"the worktree of run '{run.run_id}' is gone", f"{revived}\n{hint}")
    root = managed.root
    if os.path.islink(root) or not os.path.isdir(root):
        if run.worktree_path != root and os.path.isdir(run.worktree_path):
            hint = f"git agentos worktree repair {id_} finds it again in '{run.worktree_path}'"
        raise RunError(f"the worktree of run '{run.run_id}' is not in '{root}'", hint)
    pointed = worktrees.read_gitfile(root)
    if pointed is None or os.path.realpath(pointed) != os.path.realpath(managed.git_dir):
        raise RunError(f"'{root}' is not the worktree of run '{run.run_id}' any more: its '.git' leads elsewhere", hint)
    try:
        refs.read_head(managed.location)
        return context.in_worktree(managed.location)._replace(agent=run.agent_id)
    except (AgentosError, OSError) as error:
        raise RunError(f"the worktree of run '{run.run_id}' is damaged: {error}", hint) from error


def add_log_entry(
    context: OpenWorktree, run: WorkspaceContext, kind: str, summary: str, details: Mapping[str, Any] | None = None
) -> None:
    """Add an entry to the log of a run's worktree; RunError where that is gone or damaged."""
    log.try_add(run_context(context, run), kind, summary, details=dict(details or {}), task_id=run.task_id)


def take_snapshot(here: OpenWorktree, run: WorkspaceContext) -> WorkspaceSnapshot:
    """The state of a run's worktree `here`, saved in a checkpoint; nothing in the worktree changes."""
    return capture_snapshot(here, run)[0]


def capture_snapshot(here: OpenWorktree, run: WorkspaceContext) -> tuple[WorkspaceSnapshot, State]:
    """`take_snapshot`, with the complete state."""
    metadata = run_metadata(here, run, trigger="post_step", description=f"run {run.run_id}")
    taken = create_checkpoint(here, metadata)
    state = taken.state
    base = here.repository.commit_tree(run.base_sha)
    with here.repository.writer() as store:
        changed = trees.diff(store, base, state.visible_tree)
    commits = here.repository.git("rev-list", f"{run.base_sha}..{state.head.commit}") if state.head.commit else b""
    snapshot = WorkspaceSnapshot(
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
        digest=state_fields.digest(state),
        taken_at=times.now_text(),
    )
    return snapshot, state


# -- what a run changed ----------------------------------------------------------------------------------------------


def changed_paths(repository: Repository, before: State, after: State) -> list[bytes]:
    """The paths by which two states of a worktree differ."""
    with repository.writer() as store:
        found = {
            *trees.diff(store, before.visible_tree, after.visible_tree),
            *trees.diff(store, before.index_tree, after.index_tree),
        }
    for one, other in (
        (before.nested, after.nested), (before.stages, after.stages), (before.intent_to_add, after.intent_to_add)
    ):  # fmt: skip
        found |= {path for path in {*one, *other} if one.get(path) != other.get(path)}
    empty, now = set(before.empty_directories), set(after.empty_directories)
    # Of a complete state, those among ignored files are known as well.
    found |= empty ^ now if before.complete == after.complete else now - empty - set(before.folders)
    return sorted(found)


def initial_state(context: OpenWorktree, at: RunState) -> State:
    """The state at the beginning of a run's first step, its visible tree included; RunError where the run has no
    worktree."""
    if at.prepared is None:
        id_ = at.recorded.run_id
        raise RunError(f"run '{id_}' has no worktree", f"git agentos run show {id_} shows details")
    checkpoint = at.points[min(at.points)] if at.points else at.prepared["checkpoint"]
    return saved_state(context.repository, str(checkpoint))


def saved_state(repository: Repository, checkpoint: str) -> State:
    """The state in a checkpoint, its visible tree included."""
    with repository.writer() as writer:
        state = format.with_visible_tree(repository, writer, format.read_state(repository, checkpoint))
        writer.flush()
    return state


def visible_tree(here: OpenWorktree) -> str:
    """The tree of all visible files of a worktree, which is in the store afterwards."""
    with here.repository.writer() as writer:
        state = capture_state(here.repository, writer, here.settings)
        writer.flush()
    return state.visible_tree


def describe_end(context: OpenWorktree, run: WorkspaceContext, at: RunState) -> dict[str, Any] | None:
    """How the run has left its worktree: the fields of `events.Left`. None where that cannot be read."""
    try:
        here = run_context(context, run)
        seen, state = capture_snapshot(here, run)
        changed = changed_paths(here.repository, initial_state(context, at), state)
        ignored = None if changed else has_ignored_changes(here)
    except (AgentosError, OSError):
        return None
    left = Left(len(changed), len(seen.commits), seen.branch, seen.head_sha, ignored, here.location.root)
    return asdict(left)


def has_ignored_changes(here: OpenWorktree) -> bool | None:
    """Whether a worktree differs from its baseline where git sees no difference; None where there is no baseline."""
    known = baseline.read(here.location)
    if known is None:
        return None
    found = baseline.compare(here.location, known)
    tracked = set(here.repository.git("ls-files", "-z").split(b"\0"))
    # Of a file that was made right before the recording, the baseline has nothing that could differ.
    touched = {path for path in found.touched or () if known.young.get(path, ()) is not None}
    return bool(touched) or {*found.walked.names} - tracked != {*known.known.others} - tracked
