"""Which checkpoints are protected: no rule forgets them, and they do not count towards any.

manual, milestone      a person or an agent has asked for it
archive                the last one of a worktree that was archived or removed
newest                 the newest one of its timeline
undo, interrupted      what `undo` restores, and what `recover` or `worktree repair` needs
run, workflow          a run's evidence names it, so that `rollback` and `run verify` need it; or the run goes on
enclosing              a checkpoint of the repository in which this one is
unreadable             its log cannot be read, so that it would be lost
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from git_agentos.checkpoint import format, journal, renamed, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs, trees
from git_agentos.git.hash_algorithm import oids_in
from git_agentos.git.location import Location, locate
from git_agentos.git.repository import Repository
from git_agentos.run import evidence_copy, evidence_store, lock, sealing
from git_agentos.run.context import is_id, runs_folder, worktree_id
from git_agentos.run.events import EVENTS
from git_agentos.util import files
from git_agentos.worktree import journal as worktree_journal

UNDO, INTERRUPTED, RUN, WORKFLOW = "undo", "interrupted", "run", "workflow"
NEWEST, ENCLOSING, UNREADABLE = "newest", "enclosing", "unreadable"
_TRIGGERS = {"manual": "manual", "milestone": "milestone", "archive": "archive", "before_remove": "archive"}
_TDD = rb'"tool": ?"tdd"'
_LARGEST = 64 << 20


def by_trigger(trigger: str) -> str | None:
    """Why checkpoints with a trigger are protected; None if they are not."""
    return _TRIGGERS.get(trigger)


def needed(context: OpenWorktree) -> Mapping[str, str]:
    """The ids that something in the repository still needs, and why. They need not be ids of checkpoints."""
    found: dict[str, str] = {}
    for reason, oids in (
        *_enclosing(context.location),
        *_runs(context),
        (INTERRUPTED, _journals(context.location)),
        *((UNDO, _undo(where)) for where in context.all_worktrees()),
        *((INTERRUPTED, _restore(where)) for where in context.all_worktrees()),
    ):
        found.update(dict.fromkeys(oids, reason))
    known = renamed.read(context.location)
    found.update(
        {renamed.newest(context.repository, known, oid): reason for oid, reason in found.items() if oid in known}
    )
    return found


def busy(location: Location) -> set[str]:
    """The worktrees that another command creates, merges or removes, or did when it was killed: their timelines must
    stay as they are."""
    return {each.id for each in worktree_journal.find_all(location)}


def _undo(where: Location) -> list[str]:
    """What `undo` needs. RepositoryError where that cannot be read: `doctor --fix` moves it away."""
    last = journal.read_last(where)
    return [] if last is None else oids_in(json.dumps(last._asdict()))


def _restore(where: Location) -> list[str]:
    begun = journal.read(where)
    return [] if begun is None else oids_in(json.dumps(begun._asdict()))


def _journals(location: Location) -> list[str]:
    return oids_in(json.dumps([each.fields for each in worktree_journal.find_all(location)]))


# -- runs ------------------------------------------------------------------------------------------------------------


def _runs(context: OpenWorktree) -> Iterator[tuple[str, list[str]]]:
    """The ids in the events of all runs, wherever they are kept."""
    location = context.location
    prefix = worktree_id("")
    named = {name.removeprefix(prefix) for name in timeline.all_names(location) if name.startswith(prefix)}
    for run_id in {*evidence_store.ids(location), *evidence_copy.ids(location), *filter(is_id, named)}:
        if lock.holder(location, run_id) is not None:  # it will name its newest ones in a moment
            yield RUN, [link.checkpoint for link in timeline.walk(context.repository, worktree_id(run_id))]
        for data in _events(context, run_id):
            yield WORKFLOW if re.search(_TDD, data) else RUN, oids_in(data.decode("ascii", "replace"))


def _events(context: OpenWorktree, run_id: str) -> Iterator[bytes]:
    repository = context.repository
    with contextlib.suppress(OSError):
        yield files.read(os.path.join(runs_folder(context.location), run_id, EVENTS), limit=_LARGEST)
    with contextlib.suppress(AgentosError):
        copy = refs.resolve(context.location, evidence_copy.PREFIX + run_id)
        entry = None if copy is None else repository.entries(copy).get(os.fsencode(EVENTS))
        if entry is not None:
            yield repository.blob(entry[1])
    with contextlib.suppress(AgentosError):
        seal = sealing.newest_seal(repository, run_id)
        if seal is not None:
            yield seal.checkpoint.encode("ascii")
            yield sealing.read_sealed(repository, run_id, EVENTS) or b""


# -- the repository around this one -----------------------------------------------------------------------------------


def _enclosing(location: Location) -> Iterator[tuple[str, list[str]]]:
    """The checkpoints of this repository that checkpoints of the one around it name."""
    above = os.path.dirname(location.root)
    try:
        outer = locate(above, use_environment=False)
    except AgentosError:
        return
    if outer.common_dir == location.common_dir:
        return
    repository = Repository(outer)
    for name in timeline.all_names(outer):
        for link in timeline.walk(repository, name):
            with contextlib.suppress(AgentosError):
                yield (
                    ENCLOSING,
                    [oid for text in _nested(repository, link.checkpoint) for oid in oids_in(text)],
                )


def _nested(repository: Repository, checkpoint: str) -> Iterable[str]:
    """The descriptions of the repositories in a checkpoint."""
    top = repository.entries(repository.commit(format.open_checkpoint(repository, checkpoint).metadata_commit).tree)
    if b"nested" not in top:
        return []
    found = trees.walk(repository, top[b"nested"][1])
    return [repository.blob(oid).decode("ascii", "replace") for _, (_, oid) in found]
