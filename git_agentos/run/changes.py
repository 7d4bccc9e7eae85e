"""What a run has changed in its worktree: more than a patch can tell.

Counted are paths that git sees (new, changed, deleted, other modes, submodules), paths that are staged otherwise,
repositories inside of the worktree that were made, changed or deleted, and empty folders. Ignored files are not
counted, since nobody merges them; that there are others is told where nothing else has changed.
"""

from __future__ import annotations

from typing import Any

from git_agentos.checkpoint import format
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.run import baseline, snapshot
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.events import RunState


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
    """The state that a run's first step began in, its visible tree included."""
    assert at.prepared is not None
    checkpoint = at.points[min(at.points)] if at.points else at.prepared["checkpoint"]
    state = format.read_state(context.repository, str(checkpoint))
    with context.repository.writer() as writer:
        state = format.with_visible_tree(context.repository, writer, state)
        writer.flush()
    return state


def describe_end(context: OpenWorktree, run: WorkspaceContext, at: RunState) -> dict[str, Any] | None:
    """How the run has left its worktree: the fields of `events.Left`. None where that cannot be looked at."""
    try:
        here = snapshot.run_context(context, run)
        seen, state = snapshot.capture_snapshot(here, run)
        changed = changed_paths(here.repository, initial_state(context, at), state)
        ignored = None if changed else has_ignored_changes(here)
    except (AgentosError, OSError):
        return None
    return {
        "changed": len(changed),
        "commits": len(seen.commits),
        "branch": seen.branch,
        "head_sha": seen.head_sha,
        "ignored": ignored,
        "worktree_path": here.location.root,
    }


def has_ignored_changes(here: OpenWorktree) -> bool | None:
    """Whether anything in a worktree is not as it was made, where git sees no difference; None where that is not
    known."""
    known = baseline.read(here.location)
    if known is None:
        return None
    found = baseline.compare(here.location, known)
    tracked = set(here.repository.git("ls-files", "-z").split(b"\0"))
    # Of a file that was made right before it was recorded, nothing is known that could differ.
    touched = {path for path in found.touched or () if known.young.get(path, ()) is not None}
    return bool(touched) or {*found.walked.names} - tracked != {*known.known.others} - tracked
