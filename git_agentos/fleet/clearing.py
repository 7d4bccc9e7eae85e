"""Removing what workers of this clone have left that were killed, or are done.

A worker that is done leaves nothing but the pool. What a killed one has left stays for the next worker of its task,
which goes on with it; once the task has a result, it is removed by whichever worker comes next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, DatabaseError, LockedError
from git_agentos.fleet import attempts, clones, fetches, kinds, names, records
from git_agentos.fleet.attempts import Attempt
from git_agentos.fleet.clones import REMOTE
from git_agentos.fleet.remote import Remote, RemoteAway
from git_agentos.git import refs, state_dir, worktrees
from git_agentos.git.lockfile import remove_stale
from git_agentos.run import discard
from git_agentos.util import files
from git_agentos.worktree import journal, pool, pool_filling, trash

_FOLDERS = ("fleet", "runs", "worktrees")  # where files are written beside others, of `attempts`, runs and journals


def done(context: OpenWorktree, attempt: Attempt) -> None:
    """Remove everything that is here of a task whose result is on the remote. Its worker calls it. What cannot be
    removed now stays noted, and the next worker of this clone removes it."""
    is_forgotten = _forget(context, attempt)
    discard.everything(context, attempt.run_id)
    fetched(context, attempt.fleet, attempt.task)
    if is_forgotten:
        attempts.remove(context.location, attempt)


def refused(context: OpenWorktree, attempt: Attempt) -> None:
    """Free the worktree of a task of which another result counts. Its timeline and its evidence stay."""
    _forget(context, attempt)
    discard.workspace(context, attempt.run_id)
    fetched(context, attempt.fleet, attempt.task)
    attempts.remove(context.location, attempt)


def _forget(context: OpenWorktree, attempt: Attempt) -> bool:
    """Remove the state of a workflow; whether there is none now. Its database may be away, and the result is there."""
    try:
        if attempt.is_workflow:
            kinds.forget_workflow(context, attempt.run_id)
    except DatabaseError:
        return False
    return True


def fetched(context: OpenWorktree, fleet: str, task: str) -> None:
    """Remove the refs here of what the remote has of a task."""
    for ref in (names.live_ref, names.result_ref):
        here = names.fetched_ref(REMOTE, ref(fleet, task))
        with contextlib.suppress(refs.RefMoved):
            refs.drop(context.location, here, refs.resolve(context.location, here))


def is_lost(context: OpenWorktree, remote: Remote, fleet: str, task: str, result: str) -> bool:
    """Whether the result of a task, which the remote has, says that it is lost: then it does not count."""
    remote.fetch([names.result_ref(fleet, task)])
    found = records.read_result(context.repository, result, fleet, task)
    fetched(context, fleet, task)
    return found.state == records.LOST


def left_by_others(context: OpenWorktree, there: Mapping[str, str], remote: Remote, *, but: str) -> None:
    """Remove what killed workers have left of tasks that have a result by now, or whose fleet was ended; `there` are
    the refs of the remote. Of the run `but`, nothing is removed. What there is of a lost task is still worth something.
    """
    location = context.location
    for each in attempts.listed(location):
        result = there.get(names.result_ref(each.fleet, each.task))
        if each.run_id == but or (result is None and names.end_ref(each.fleet) not in there):
            continue
        with contextlib.suppress(AgentosError, OSError), attempts.working(location, each.fleet, each.task):
            if result is not None and is_lost(context, remote, each.fleet, each.task, result):
                continue
            done(context, each)
            _delete_live(there, remote, each)
    attempts.remove_unused(location)
    if any(each.id.startswith(pool.UNFINISHED) for each in journal.interrupted(location)):
        pool_filling.clean(context)
    state_dir.remove_abandoned(location)
    if journal.without_journal(location):
        with worktrees.lock(location):
            journal.remove_unused(location)
    trash.delete_leftovers(location)
    for folder in _FOLDERS:
        files.remove_unfinished(os.path.join(location.shared_state_dir, folder))
    remove_stale(location)
    fetches.remove_unfinished_packs(location)
    _ended_fleets(context, there)


def _ended_fleets(context: OpenWorktree, there: Mapping[str, str]) -> None:
    """Remove the refs here of fleets whose tasks the remote has no more, and of which nothing was begun here."""
    location = context.location
    begun = {each.fleet for each in attempts.listed(location)}
    gone = {
        ref: (oid, found[1].fleet)
        for ref, oid in refs.list_refs(location, f"{names.FETCHED}{REMOTE}/", skip_broken=True).items()
        if (found := names.parse_fetched(ref)) is not None
        and found[1].fleet not in begun
        and names.tasks_ref(found[1].fleet) not in there
    }
    if not gone:
        return
    with clones.fetching(context), contextlib.suppress(RemoteAway):
        # Another worker may have fetched a fleet that was submitted after the remote was asked.
        now = Remote(context.repository, REMOTE).list()
        for ref, (oid, fleet) in gone.items():
            if names.tasks_ref(fleet) not in now:
                with contextlib.suppress(refs.RefMoved, LockedError):
                    refs.drop(location, ref, oid)


def _delete_live(there: Mapping[str, str], remote: Remote, attempt: Attempt) -> None:
    """Delete the ref that a worker has created after its task had a result, and was killed."""
    ref = names.live_ref(attempt.fleet, attempt.task)
    if ref in there:
        with contextlib.suppress(RemoteAway):
            remote.replace(ref, None, there[ref])
