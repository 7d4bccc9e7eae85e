"""What a fleet has, as its refs were when they were fetched: its tasks, and what there is of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import FleetError
from git_agentos.fleet import folded, names, records
from git_agentos.fleet.records import Fleet
from git_agentos.fleet.remote import FleetRefs, Remote
from git_agentos.git.repository import Repository
from git_agentos.sync import remotes


@dataclass(frozen=True)
class Contents:
    """A fleet: the commit of its `tasks`, and task -> commit of its `live` and `results`, for tasks that it has. With
    `ended_at` the fleet was ended: the results are those in its chain, and what other refs there are does not count."""

    fleet: Fleet
    tasks: str
    results: Mapping[str, str]
    live: Mapping[str, str] = field(default_factory=dict)
    ended_at: str | None = None


def read(repository: Repository, found: FleetRefs, remote: str) -> Contents:
    """What the refs of a fleet lead to; FleetError where there is no such fleet, DamagedRecord where its tasks or its
    end cannot be read."""
    if found.end is not None:
        ended = folded.read(repository, found.end, found.fleet)
        return Contents(ended.fleet, ended.tasks, ended.results, ended_at=ended.ended_at)
    if found.tasks is None:
        raise FleetError(
            f"there is no fleet '{found.fleet}' on '{remote}'", "git agentos fleet list shows the fleets of the remote"
        )
    fleet = records.read_tasks(repository, found.tasks, found.fleet)
    ids = {task.id for task in fleet.tasks}
    results = {task: oid for task, oid in found.results.items() if task in ids}
    live = {task: oid for task, oid in found.live.items() if task in ids}
    return Contents(fleet, found.tasks, results, live)


def open_remote(context: OpenWorktree, given: str | None) -> Remote:
    """The remote for a command of a person, which is asked once; UsageError where there is none, or another one."""
    return Remote(context.repository, remotes.of_fleets(context.settings.values, given))


def fetch(remote: Remote, fleet: str) -> Contents:
    """What a fleet has on the remote now; errors as those of `read`."""
    return read(remote.repository, remote.fetch_fleet(names.check_fleet_id(fleet)), remote.name)
