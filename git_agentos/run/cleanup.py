"""Cleaning up after runs that have ended: each worktree is archived, and its branch is deleted.

Nothing is lost. `worktree.end` saves all that is in the worktree and every commit that only it or the branch reaches,
and `worktree create run-<run id> --revive` restores all of it; evidence and timeline stay. A run that is running or can
be resumed is kept, and so is a branch that an orchestrator has named, unless its work was accepted. The next cleanup
finishes one that was killed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RunError, UsageError
from git_agentos.git import refs, worktrees
from git_agentos.guard import authorize
from git_agentos.run import evidence_store, lock, query
from git_agentos.run.context import worktree_id
from git_agentos.run.events import ACCEPTED, CANCELLED, FAILED, PASSED, TAMPERED, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.runner import seal_run
from git_agentos.util import times
from git_agentos.util.progress import counted
from git_agentos.util.values import parse_duration
from git_agentos.worktree import journal, layout, record, removal, removal_checks, repair
from git_agentos.worktree.final_checkpoint import RemovalRequest

_ENDED = (PASSED, FAILED, CANCELLED, ACCEPTED, TAMPERED)


@dataclass(frozen=True)
class Cleaned:
    """A run that was cleaned up; in a dry run, that would be.

    `path` is where the worktree was (None: it was gone before), `archive` the checkpoint that has everything in it
    (None in a dry run). `branch_sha` is where the branch is or was, `branch_deleted` whether it is gone. `not_saved`
    is what no checkpoint can hold; `get_back` are commands.
    """

    run_id: str
    path: str | None
    archive: str | None
    branch: str
    branch_sha: str | None
    branch_deleted: bool
    not_saved: list[Skipped] = field(default_factory=list)
    get_back: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """A run that was kept, and why, for people."""

    run_id: str
    reason: str


@dataclass(frozen=True)
class Cleanup:
    """What a cleanup did; the fields are the keys of the JSON kind `run-cleanup`. A run with nothing to clean up is in
    neither list."""

    cleaned: list[Cleaned]
    kept: list[Kept]
    dry_run: bool


class _KeepRun(Exception):
    """A run is kept, for this reason."""


@authorize.entry("run", "cleanup")
def cleanup(
    context: OpenWorktree,
    run_ids: Sequence[str] = (),
    *,
    all_: bool = False,
    older_than: str | float | None = None,
    dry_run: bool = False,
) -> Cleanup:
    """Archive the worktrees of ended runs, and delete their branches: of those named, or with `all_` of all but the
    ones that were tampered with. `older_than` (seconds, or text as `14d`) leaves out those that ended later. Runs
    without a worktree and a branch are left out.

    UsageError where neither or both are given; RunError where a run that is named does not exist: nothing was done.
    """
    if bool(run_ids) == all_:
        raise UsageError("name the runs, or give --all", "git agentos run list shows the runs")
    limit = _seconds(older_than)
    found = list(query.list_runs(context)) if all_ else [query.show(context, each) for each in dict.fromkeys(run_ids)]
    if all_:
        found = [each for each in found if each.state != TAMPERED and (limit is None or _age(each) >= limit)]
    found = _with_something(context, found)
    cleaned: list[Cleaned] = []
    kept: list[Kept] = []
    for run in counted(context.progress, "Checking runs", found):
        try:
            if limit is not None and _age(run) < limit and run.state in _ENDED:
                raise _KeepRun("it ended later than that")
            done = _clean(context, run, dry_run=dry_run)
        except _KeepRun as why:
            kept.append(Kept(run.run_id, str(why)))
        except LockedError as error:
            kept.append(Kept(run.run_id, error.message))
        except (AgentosError, OSError) as error:
            kept.append(Kept(run.run_id, str(error)))
        else:
            cleaned += [done] if done is not None else []
    return Cleanup(cleaned, kept, dry_run)


def finish(context: OpenWorktree, kept: Evidence, *, wanted: bool | None = None) -> Run:
    """The run as a command reports it at its end, cleaned up first, unless it has passed, if that is `wanted` (None: if
    the run's spec says so); problems are added to the run's. The caller holds the run's lock."""
    run = query.current_run(context, kept, is_ours=True)
    if not (run.cleanup if wanted is None else wanted):
        return run
    problems = []
    if run.state in (FAILED, CANCELLED, ACCEPTED):
        try:
            archive_run(context, run)
        except (AgentosError, OSError) as error:
            problems = [f"run '{run.run_id}' was not cleaned up: {error}"]
    run = query.current_run(context, kept, is_ours=True)
    return replace(run, problems=[*run.problems, *problems])


def archive_run(context: OpenWorktree, run: Run, *, dry_run: bool = False) -> Cleaned | None:
    """Archive the worktree of a run that has ended, and delete its branch; None where there is neither. The caller
    holds the run's lock."""
    if run.context is None:
        return None
    id_, branch = worktree_id(run.run_id), run.context.branch_name
    if any(each.id == id_ for each in journal.interrupted(context.location)) and not dry_run:
        repair.repair(context, id_)  # of a command that was killed
    goes = run.state == ACCEPTED or branch == record.branch_of(id_, run.run_id)
    known = record.get(context.location.common_dir, id_)
    tip = refs.resolve(context.location, layout.HEADS + branch)
    own = known.git_dir if known is not None else None
    used = worktrees.branch_users(context.location, layout.HEADS + branch, except_git_dir=own)
    if known is None:
        if tip is None or not goes:
            return None
        if used:
            raise RunError(f"its branch '{branch}' is {layout.describe_use(used[0])}")
        if not _holds(context, id_, tip):
            raise RunError(f"its branch '{branch}' has commits that were made after its worktree was archived")
        if not dry_run:
            refs.drop(context.location, layout.HEADS + branch, tip)
            removal.forget_branch(context.repository, branch)
        return Cleaned(run.run_id, None, None, branch, tip, True, get_back=[f"git branch {quote(branch)} {tip}"])
    deletes = goes and not used and known.record.branch == branch
    if dry_run:
        removal_checks.check(context, id_, delete_branch=deletes)
        return Cleaned(run.run_id, known.root, None, branch, tip, deletes and tip is not None)
    done = removal.end_worktree(context, id_, RemovalRequest(journal.ARCHIVE, deletes))
    return Cleaned(
        run_id=run.run_id,
        path=done.path,
        archive=done.revives or done.checkpoint,
        branch=branch,
        branch_sha=tip,
        branch_deleted=done.branch_deleted,
        not_saved=done.not_saved,
        get_back=done.get_back,
    )


def _clean(context: OpenWorktree, run: Run, *, dry_run: bool) -> Cleaned | None:
    """Clean up after one run, if it has ended."""
    _refuse_unended(run)
    with lock.hold(context.location, run.run_id) as is_ours:
        run = query.show(context, run.run_id)  # read again under the lock
        _refuse_unended(run)
        if not dry_run and run.state != TAMPERED:
            try:
                found = evidence_store.open_or_rebuild(context.location, run.run_id)
            except RunError:
                pass  # its last checkpoint has it
            else:
                if found.is_foreign():
                    raise _KeepRun("its record was not written with your key")
                found.pin(is_ours)
                if not found.state().is_sealed:  # that failed when it ended
                    seal_run(context, found, again=True)
        return archive_run(context, run, dry_run=dry_run)


def _with_something(context: OpenWorktree, found: Sequence[Run]) -> list[Run]:
    """The runs that have something to clean up."""
    location = context.location
    ids = {each.id for each in record.agent_worktrees(location.common_dir)}
    ids |= {each.id for each in journal.interrupted(location)}
    heads = refs.list_refs(location, layout.HEADS, skip_broken=True)
    return [
        each
        for each in found
        if worktree_id(each.run_id) in ids
        or (each.context is not None and layout.HEADS + each.context.branch_name in heads)
        or each.state not in _ENDED
    ]


def _refuse_unended(run: Run) -> None:
    if run.state not in _ENDED:
        drives = f", and '{run.tool}' drives it" if run.is_external else ""
        raise _KeepRun(run.problems[0] if run.problems else f"it has not ended: it is {run.state}{drives}")


def _holds(context: OpenWorktree, id_: str, commit: str) -> bool:
    """Whether a timeline keeps a commit."""
    tip = timeline.tip(context.location, id_)
    return tip is not None and context.repository.is_ancestor(commit, tip)


def _age(run: Run) -> float:
    """How many seconds ago a run ended; 0 where it has not."""
    if run.ended_at is None:
        return 0.0
    return time.time() - times.to_seconds(run.ended_at)


def _seconds(given: str | float | None) -> float | None:
    found = parse_duration(given) if isinstance(given, str) else given
    if given is not None and (found is None or not found >= 0):
        raise UsageError(f"'{given}' is not a length of time", "give a number with s, m, h or d: 12h, 14d")
    return found
