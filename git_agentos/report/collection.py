"""`report`: what all agents of a repository did, which of them conflict, what they take on disk, and the runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from git_agentos import history
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import WorktreeError
from git_agentos.report import lanes, merges
from git_agentos.report.lanes import Lane
from git_agentos.retention import commands as retention
from git_agentos.retention.storage import Storage
from git_agentos.run import query
from git_agentos.run.events import Run
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import conflicts, status
from git_agentos.worktree.conflicts import Conflicts
from git_agentos.worktree.status import Worktree


class Report(NamedTuple):
    """The fields are the keys of the JSON kind `report`; `agents` are in the order of their ids, `runs` newest first.

    `since` is the time before which no mark is shown. `complete` is False if a log or a memory could not be read as a
    whole, so that there may be more marks.
    """

    agents: tuple[Lane, ...]
    conflicts: Conflicts
    storage: Storage
    runs: Sequence[Run]
    since: str | None
    complete: bool = True


def collect(context: OpenWorktree, agents: Iterable[str] = (), *, since: datetime | None = None) -> Report:
    """The report of all agents that have a worktree, archived and broken ones too; or of these `agents` alone, with
    the conflicts, the storage and the runs of all.

    `since` leaves out older marks, and nothing else. WorktreeError if there is no such agent.
    """
    worktrees = _chosen(status.list_worktrees(context).worktrees, list(agents))
    runs = query.list_runs(context)
    histories = history.collect_all(context, [each.id for each in worktrees])
    merged, is_memory_whole = merges.of_agents(context, {agent: each.range for agent, each in histories.items()})
    of_runs = lanes.of_runs(runs)
    found = []
    for worktree in worktrees:
        own = histories[worktree.id]
        marks = [*lanes.of_history(own), *merged[worktree.id], *of_runs.get(worktree.id, ())]
        found.append(lanes.lane(worktree, marks, since))
    return Report(
        agents=tuple(found),
        conflicts=conflicts.conflicts(context),
        storage=retention.measure(context, all_timelines=True),
        runs=runs,
        since=None if since is None else times.to_text(since),
        complete=is_memory_whole and all(each.complete for each in histories.values()),
    )


def _chosen(worktrees: Sequence[Worktree], agents: Sequence[str]) -> Sequence[Worktree]:
    known = {each.id for each in worktrees}
    for agent in agents:
        if agent not in known:
            raise WorktreeError(f"there is no agent's worktree '{agent}'", "git agentos worktree list shows them")
    return [each for each in worktrees if not agents or each.id in agents]
