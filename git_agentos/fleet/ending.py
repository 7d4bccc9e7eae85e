"""Ending a fleet: one ref keeps all of its results, and the others are deleted.

The first push creates `end` and deletes `tasks`, and the results that another could still replace, all or nothing: from
then on, what the chain has is what the fleet has. The refs that are left go in further pushes; ending the fleet
again finishes that.
"""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import FleetError
from git_agentos.fleet import contents, folded, names, verification
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.records import LOST, Result
from git_agentos.fleet.remote import DONE, REFUSED, Remote
from git_agentos.fleet.status import Reader, Status
from git_agentos.git.repository import Repository
from git_agentos.guard import authorize
from git_agentos.util.values import count

_MOST_REFS = 1000  # in one push: each is on git's command line twice
_MOST_NAMED = 5
_ATTEMPTS = 5


@authorize.entry("fleet", "end")
def end(context: OpenWorktree, fleet: str, *, remote: str | None = None) -> Status:
    """End a fleet; one that was ended is finished, where that was broken off. FleetError where there is no such fleet,
    where a task has no result, or where the remote refuses it."""
    there = contents.open_remote(context, remote)
    for _ in range(_ATTEMPTS):
        known = contents.fetch(there, fleet)
        if known.ended_at is not None:
            _delete_others(there, fleet)
            return Reader(there.repository, there.name).status(known)
        _require_results(context.repository, known)
        with context.repository.writer() as writer:
            chain = folded.write(writer, known.fleet, known.tasks, known.results, context.settings.committer)
            writer.flush()
        answer = there.swap(_first(context.repository, known, chain))
        if answer.state == REFUSED:
            raise _refused(there, fleet, answer.reason)
    raise FleetError(f"the fleet '{fleet}' changes while it is ended", "try again; nothing was deleted")


def _require_results(repository: Repository, known: Contents) -> None:
    """FleetError where a task has no result, was lost and runs again, or has something that no chain can have."""
    id_ = known.fleet.id
    again = {task for task in known.live if task in known.results and _is_lost(repository, known, task)}
    missing = [task.id for task in known.fleet.tasks if task.id not in known.results or task.id in again]
    if missing:
        raise FleetError(
            f"{count(len(missing), 'task')} of fleet '{id_}' {'has' if len(missing) == 1 else 'have'} no result:"
            f" {_some(missing)}",
            f"wait for them, or give them up: git agentos fleet cancel {id_}",
        )
    wrong = [task for task, oid in known.results.items() if repository.kind(oid) != "commit"]
    if wrong:
        raise FleetError(
            f"the result of '{wrong[0]}' in fleet '{id_}' is no commit",
            f"git push --delete deletes the ref '{names.result_ref(id_, wrong[0])}' of the remote",
        )


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:_MOST_NAMED]) + (f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else "")


def _first(repository: Repository, known: Contents, chain: str) -> Mapping[str, tuple[str | None, str | None]]:
    """What the first push changes: ref -> (new, old). Results that are lost go first, which workers may replace."""
    id_ = known.fleet.id
    lost = {task for task in known.results if _is_lost(repository, known, task)}
    chosen = sorted(known.results, key=lambda task: task not in lost)[: _MOST_REFS - 2]
    gone = {names.result_ref(id_, task): (None, known.results[task]) for task in chosen}
    return {names.end_ref(id_): (chain, None), names.tasks_ref(id_): (None, known.tasks), **gone}


def _is_lost(repository: Repository, known: Contents, task: str) -> bool:
    found = verification.read(repository, known.results[task], known.fleet.id, task)
    return isinstance(found, Result) and found.state == LOST


def _delete_others(there: Remote, fleet: str) -> None:
    """Delete all refs of a fleet but its end."""
    end_ref = names.end_ref(fleet)
    for _ in range(_ATTEMPTS):
        listed = ((names.parse(ref), ref, oid) for ref, oid in there.list().items())
        left = [(ref, oid) for parsed, ref, oid in listed if parsed is not None and parsed.fleet == fleet]
        left = [(ref, oid) for ref, oid in left if ref != end_ref]
        if not left:
            return
        for start in range(0, len(left), _MOST_REFS):
            answer = there.swap({ref: (None, oid) for ref, oid in left[start : start + _MOST_REFS]})
            if answer.state == REFUSED:
                raise _refused(there, fleet, answer.reason)
            if answer.state != DONE:
                break
    raise FleetError(f"refs of fleet '{fleet}' change while they are deleted", "it was ended; try again to delete them")


def _refused(there: Remote, fleet: str, reason: str | None) -> FleetError:
    return FleetError(
        f"the remote '{there.name}' refuses to end fleet '{fleet}': {reason}", "its rules have to allow it"
    )
