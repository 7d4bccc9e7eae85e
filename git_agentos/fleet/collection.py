"""Bringing the results of a fleet into this repository: for each one that verifies

    refs/heads/fleet/<fleet>/<task>        the branch of its work
    refs/agentos/timelines/run-<run id>    the checkpoints of its run
    refs/agentos/runs/<run id>             the evidence of its run

so that the commands for runs know of it as of a run of this repository. Nothing of it is run. What is here
already is left as it is, so that it can be given again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import FleetError
from git_agentos.fleet import contents, names, verification
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.tasks import Task
from git_agentos.fleet.verification import Refused, Work
from git_agentos.git import refs, trees
from git_agentos.git.repository import Repository
from git_agentos.guard import authorize
from git_agentos.run import evidence_copy, snapshot
from git_agentos.run.context import evidence_path, worktree_id
from git_agentos.worktree import layout


@dataclass(frozen=True)
class Collected:
    """A result that is here: `commit` is the tip of its branch, `checkpoint` the final one of its run, and `state` how
    that has ended. `uncommitted` is how many files of the checkpoint are not on the branch as they are there."""

    task: str
    commit: str
    checkpoint: str
    run_id: str
    state: str
    uncommitted: int


@dataclass(frozen=True)
class RefusedResult:
    """A result that is not used, and why. `held_back`: because secrets in it were not pushed."""

    task: str
    reason: str
    held_back: bool = False


@dataclass(frozen=True)
class Collection:
    """What was collected; the fields are the keys of the JSON kind `fleet-collect`, in the order of the tasks."""

    results: tuple[Collected, ...]
    refused: tuple[RefusedResult, ...]


@authorize.entry("fleet", "collect")
def collect(context: OpenWorktree, fleet: str, *, remote: str | None = None) -> Collection:
    """Fetch a fleet, and bring all results that verify; the others are named. FleetError where there is none."""
    known = contents.fetch(contents.open_remote(context, remote), fleet)
    found, refused = [], []
    for work in read_all(context.repository, known, known.fleet.tasks):
        if isinstance(work, Refused):
            refused.append(RefusedResult(*work))
            continue
        try:
            found.append(bring(context, known, work))
        except FleetError as error:
            refused.append(RefusedResult(work.result.task, error.message))
    return Collection(tuple(found), tuple(refused))


def read_all(repository: Repository, known: Contents, tasks: Iterable[Task]) -> Iterable[Work | Refused]:
    """The work of these tasks, as far as they have any, verified."""
    for task in tasks:
        oid = known.results.get(task.id)
        if oid is None:
            continue
        result = verification.read(repository, oid, known.fleet.id, task.id)
        if isinstance(result, Refused):
            yield result
        elif verification.has_work(result):
            yield verification.verify(repository, known.fleet, task, result)


def bring(context: OpenWorktree, known: Contents, work: Work) -> Collected:
    """Make the refs of one result that verifies. FleetError where something else has their names."""
    location, run_id = context.location, work.run_id
    if os.path.lexists(evidence_path(location, run_id)):
        raise FleetError(f"there is another run '{run_id}' in this repository")
    branch = layout.HEADS + names.branch(known.fleet.id, work.result.task)
    wanted = {
        timeline.PREFIX + worktree_id(run_id): work.timeline,
        evidence_copy.PREFIX + run_id: work.evidence,
        branch: work.commit,
    }
    there = {ref: refs.resolve(location, ref) for ref in wanted}
    for ref, oid in wanted.items():
        at = there[ref]
        if at is not None and at != oid and not (ref == branch and context.repository.is_ancestor(oid, at)):
            raise FleetError(f"'{ref}' is here already, at {at[:12]} and not at {oid[:12]}")
    who = os.fsdecode(context.settings.committer)
    for ref, oid in wanted.items():
        if there[ref] is None:
            reflog = refs.ReflogEntry(f"agentos fleet collect: {known.fleet.id}", who) if ref == branch else None
            refs.update(location, ref, oid, None, reflog)
    differing = _uncommitted(context.repository, work)
    return Collected(work.result.task, work.commit, work.checkpoint, run_id, work.run.state, differing)


def _uncommitted(repository: Repository, work: Work) -> int:
    """How many files the branch does not have as the final checkpoint has them: what validations made, and all of the
    work where it could not be committed."""
    state = snapshot.saved_state(repository, work.checkpoint)
    with repository.writer() as writer:
        return len(trees.diff(writer, repository.commit_tree(work.commit), state.visible_tree))
