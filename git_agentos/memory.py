"""The working memory: artifacts that agents made, and which work went into which merge.

Items are rows of the worktree's workflow database beside the log's, and go the same way: every checkpoint carries those
that none has yet, so they are readable after the worktree is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from git_agentos.checkpoint import log_sync, timeline
from git_agentos.checkpoint.log_sync import Problems
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointNotFound, UsageError
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.redact import redact
from git_agentos.store import database, database_path
from git_agentos.store import items as rows
from git_agentos.store.database import Connection
from git_agentos.store.items import Contribution, Item
from git_agentos.store.rows import RowOwner
from git_agentos.util import times
from git_agentos.util.values import ordered_id

__all__ = ["Contribution", "Item", "Reading", "artifact", "items", "merge", "read"]


class Reading(NamedTuple):
    """Items, and why they are not all that there are; no reason where they are."""

    items: list[Item]
    problems: Problems

    @property
    def complete(self) -> bool:
        """Whether these are all items."""
        return not self.problems

    def tell(self) -> None:
        """Warn of what is wrong; raise it where there is no item."""
        log_sync.report(self.problems, empty=not self.items)


def artifact(context: OpenWorktree, *, type: str, path: str, description: str) -> Item:  # noqa: A002 (the key's name)
    """Record a file worth knowing of, with HEAD's commit and the worktree's newest checkpoint.

    `path` is relative to the worktree's root; the file need not be tracked.
    """
    if not type.strip():
        raise UsageError("an artifact needs a type", "for example code, test, document, data")
    if not path:
        raise UsageError("an artifact needs a path")
    newest = timeline.newest(context.repository, context.worktree_id)
    item = Item(
        **_beginning(context, "artifact"),
        type=redact(type)[0],
        path=redact(path)[0],
        description=redact(description)[0],
        commit=refs.read_head(context.location).commit,
        checkpoint_id=newest.checkpoint if newest is not None else None,
    )
    return _write(context, item)


def merge(context: OpenWorktree, target: str, sources: Sequence[str], commit: str) -> Item:
    """Record that the work of worktrees went into `target`, a branch, with the commit that did it.

    Of each source all checkpoints are named that no earlier merge into this target has named. CheckpointNotFound for a
    source that has no timeline.
    """
    if not sources:
        raise UsageError("a merge has at least one source")
    repository = context.repository
    names = timeline.all_names(context.location)
    for source in sources:
        if source not in names:
            raise CheckpointNotFound(
                f"there is no worktree '{source}' with checkpoints",
                "git agentos checkpoint list --all shows everybody's",
            )
    oid = _commit(context, commit)
    known = read(context, every=True)
    log_sync.report(known.problems, empty=False)
    before = {
        (each.worktree, checkpoint)
        for item in known.items
        if item.kind == "merge" and item.target == target
        for each in item.contributions
        for checkpoint in each.checkpoints
    }
    contributions = []
    for source in dict.fromkeys(sources):
        walked = [link.checkpoint for link in timeline.walk(repository, source)]
        contributions.append(Contribution(source, [each for each in reversed(walked) if (source, each) not in before]))
    item = Item(
        **_beginning(context, "merge"),
        commit=oid,
        target=target,
        sources=list(dict.fromkeys(sources)),
        contributions=contributions,
    )
    return _write(context, item)


def items(context: OpenWorktree, *, agent: str | None = None, every: bool = False) -> list[Item]:
    """The items that `read` finds. What keeps them from being all there are is a warning; where no item is left, it is
    raised."""
    found = read(context, agent=agent, every=every)
    found.tell()
    return found.items


def read(context: OpenWorktree, *, agent: str | None = None, every: bool = False) -> Reading:
    """The items of this worktree, the newest first; with `agent` those that it made or whose worktree is its; or all.

    Worktrees that are gone, and databases that cannot be read, are read from their timelines. CheckpointNotFound where
    nothing here knows `agent`.
    """
    problems: Problems = []
    found = _own(context, problems)
    names = [context.worktree_id]
    if agent is not None or every:
        core = context.settings.values.get("core.worktree", [None])[-1]
        living = {timeline.worktree_id(where): where for where in worktrees.list_existing(context.location, core)}
        names = sorted({*timeline.all_names(context.location), *living})
        for name in names:
            if name != context.worktree_id:
                found += _of_other(context, name, living.get(name), problems)
    if agent is not None:
        found = [item for item in found if agent in (item.created_by, item.worktree)]
        if not found and agent not in names:
            raise CheckpointNotFound(
                f"there is no agent or worktree '{agent}' in this memory",
                "git agentos memory list --all shows everybody's",
            )
    unique = {item.id: item for item in found}
    return Reading(sorted(unique.values(), key=rows.order, reverse=True), problems)


def _beginning(context: OpenWorktree, kind: str) -> dict[str, Any]:
    now = time.time_ns()
    return {
        "id": ordered_id(now),
        "kind": kind,
        "created_at": times.seconds_to_text(now / 1e9),
        "created_by": context.agent,
        "worktree": context.worktree_id,
    }


def _commit(context: OpenWorktree, name: str) -> str:
    oid = context.repository.find_commit(name)
    if oid is None:
        raise UsageError(f"'{name}' is not a commit")
    return oid


def _write(context: OpenWorktree, item: Item) -> Item:
    def write(connection: Connection, scope: RowOwner) -> None:
        with database.transaction(connection):
            rows.insert(connection, scope, [item], None)

    log_sync.with_database(context.repository, context.settings, context.worktree_id, write, make=True)
    return item


def _own(context: OpenWorktree, problems: Problems) -> list[Item]:
    def find(connection: Connection, scope: RowOwner) -> list[Item]:
        return rows.find(connection, *scope)

    own: Problems = []
    try:
        where = (context.repository, context.settings, context.worktree_id)
        found = list(log_sync.with_database(*where, find, make=True, problems=own) or ())
    except (AgentosError, OSError):  # nothing can be written to it; it may be readable
        return _of_other(context, context.worktree_id, context.location, problems)
    problems += own
    return found


def _of_other(context: OpenWorktree, name: str, where: Location | None, problems: Problems) -> list[Item]:
    if where is None or not os.path.lexists(database_path.path_of(where, context.settings.workflow_db)):
        return _of_timeline(context, name, problems)
    try:
        path = database_path.check(where, context.settings.workflow_db)
        with database.opened_to_read(path) as opened:
            scope = RowOwner(database_path.repository_id(where), name)
            _, reached = log_sync.reached_of(opened.connection, scope)
            found = rows.find(opened.connection, *scope)
    except database.NotSetUp:
        return _of_timeline(context, name, problems)
    except (AgentosError, OSError) as error:
        problems.append(log_sync.Unread(f"the memory of '{name}' is read from its checkpoints alone", error))
        return _of_timeline(context, name, problems)
    return found + _of_timeline(context, name, problems, reached)


def _of_timeline(context: OpenWorktree, name: str, problems: Problems, until: str | None = None) -> list[Item]:
    if until is not None and timeline.tip(context.location, name) == until:
        return []
    return [item for part in log_sync.parts_of(context.repository, name, until, problems) for item in part.memory]
