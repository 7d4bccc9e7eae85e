"""What an agent has committed: HEAD of its worktree, or its branch where the worktree is gone.

HEAD is not always on the branch `agent/<id>`: after a restore an agent works on another branch, and its next commit
follows HEAD. In a rebase or a bisection HEAD is somewhere in between.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from git_agentos import config
from git_agentos.checkpoint import operation, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointFormatError, MissingObjectsError, WorktreeError
from git_agentos.findings import reason_of
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.git.scan import Scan
from git_agentos.worktree import record
from git_agentos.worktree.record import BRANCHES, RUN_BRANCHES, Record


@dataclass(frozen=True)
class AgentBranch:
    """What an agent has committed: `branch` is the short name of the branch that its HEAD is on (None: detached);
    `location` is None where its worktree is gone; `operation` is the git operation that is in progress there; `task` is
    what it was for."""

    id: str
    branch: str | None
    commit: str
    location: Location | None
    record: Record | None
    operation: str | None
    task: str | None = None


@dataclass(frozen=True)
class UnreadableAgent:
    """An agent whose HEAD could not be read, and why."""

    id: str
    reason: str


class NothingCommittedError(WorktreeError):
    """An agent is on a branch without a commit."""


def find(context: OpenWorktree, id_: str) -> AgentBranch:
    """What agent `id_` has committed: in its worktree, in another linked one of this id, or on its branch alone.

    WorktreeError where there is neither, or nothing committed.
    """
    config.agent_id(id_, source="ID")
    location = context.location
    worktree = record.get(location.common_dir, id_)
    if worktree is not None:
        return _at(worktree.id, worktree.location, worktree.record)
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        with contextlib.suppress(OSError):
            there = location.worktree(worktrees.root_of(git_dir), git_dir)
            if timeline.worktree_id(there) == id_:
                return _at(id_, there, None)
    for branch in dict.fromkeys((*_recorded_branch(context, id_), BRANCHES + id_, RUN_BRANCHES + id_)):
        commit = refs.resolve(location, "refs/heads/" + branch)
        if commit is not None:
            return AgentBranch(id_, branch, commit, None, None, None)
    raise WorktreeError(
        f"there is no agent '{id_}': no worktree of that id and no branch '{BRANCHES}{id_}'",
        "git agentos worktree list shows the agents",
    )


def _recorded_branch(context: OpenWorktree, id_: str) -> list[str]:
    """The branch that an ended worktree was given."""
    with contextlib.suppress(AgentosError):
        known = record.record_from_timeline(context.repository, id_)
        if known is not None:
            return [known.branch]
    return []


def readable_agents(context: OpenWorktree) -> tuple[list[AgentBranch], list[UnreadableAgent]]:
    """All agents that have a worktree with a commit, by id, and those whose worktree is damaged."""
    found, left_out = [], []
    for git_dir in worktrees.linked_git_dirs(context.location.common_dir):
        id_ = record.identify(git_dir)
        if id_ is None:
            continue
        try:
            known = record.read(git_dir)
            if known is None:
                left_out.append(UnreadableAgent(id_, "its record is missing"))
            else:
                found.append(_at(id_, context.location.worktree(worktrees.root_of(git_dir), git_dir), known))
        except NothingCommittedError:
            continue
        except (AgentosError, OSError) as error:
            left_out.append(UnreadableAgent(id_, reason_of(error)[0]))
    return sorted(found, key=lambda each: each.id), sorted(left_out, key=lambda each: each.id)


def _at(id_: str, location: Location, known: Record | None) -> AgentBranch:
    unreadable = worktrees.unreadable_file(location.git_dir)
    try:
        if unreadable is not None:
            raise WorktreeError(f"'{unreadable}' is not a file")
        head = refs.read_head(location)
        if not refs.has_head(location):
            raise WorktreeError(f"HEAD names no branch: '{head.ref}'")
        under_way = operation.name_of(operation.read(location))
    except (AgentosError, OSError) as error:
        reason = error.message if isinstance(error, AgentosError) else f"HEAD cannot be read: {error.strerror}"
        raise WorktreeError(
            f"the worktree '{id_}' is damaged: {reason}", f"git agentos worktree repair {id_}"
        ) from error
    if head.commit is None:
        raise NothingCommittedError(f"'{id_}' has not committed anything", "there is nothing to merge")
    there = location if os.path.isdir(location.root) else None
    task = known.task if known is not None else None
    return AgentBranch(id_, head.branch, head.commit, there, known, under_way, task)


def uncommitted(location: Location | None) -> set[bytes]:
    """The paths in a worktree that are changed, staged, in conflict or untracked; none where there is no worktree."""
    if location is None:
        return set()
    found = Scan(location).read()
    return {*(change.path for change in found.changed), *(each.path for each in found.unmerged), *found.untracked}


def last_link(context: OpenWorktree, work: AgentBranch) -> timeline.TimelineEntry | None:
    """The newest step of the agent's timeline; None where there is none that can be read."""
    try:
        return timeline.newest(context.repository, work.id)
    except (CheckpointFormatError, MissingObjectsError):
        return None
