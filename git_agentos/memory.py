"""The working memory: artifacts that agents made, and which work went into which merge.

Items are rows of the worktree's workflow database, like those of the log: every checkpoint carries those that are in no
checkpoint yet, so they can be read after the worktree is gone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from git_agentos.checkpoint import log_sync, timeline
from git_agentos.checkpoint.log_sync import Problems
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointNotFound, UsageError
from git_agentos.git import refs
from git_agentos.redact import redact
from git_agentos.row_reader import RowReader, other_worktrees
from git_agentos.store import database
from git_agentos.store import items as rows
from git_agentos.store.database import Connection
from git_agentos.store.items import Contribution, Item
from git_agentos.store.rows import RowOwner
from git_agentos.util import times
from git_agentos.util.values import ordered_id

__all__ = ["Contribution", "Item", "Reading", "artifact", "items", "merge", "read"]


class Reading(NamedTuple):
    """Items, and the problems that keep others from being read."""

    items: list[Item]
    problems: Problems

    @property
    def complete(self) -> bool:
        """Whether no item is missing."""
        return not self.problems

    def report(self) -> None:
        """Warn of the problems; raise the first if there is no item."""
        log_sync.report(self.problems, empty=not self.items)


def artifact(context: OpenWorktree, *, type: str, path: str, description: str) -> Item:  # noqa: A002 (the key's name)
    """Record a file as an artifact, with HEAD's commit and the worktree's newest checkpoint.

    `path` is relative to the worktree's root; the file need not be tracked.
    """
    if not type.strip():
        raise UsageError("an artifact needs a type", "for example code, test, document, data")
    if not path:
        raise UsageError("an artifact needs a path")
    newest = timeline.newest(context.repository, context.worktree_id)
    item = Item(
        **_common_fields(context, "artifact"),
        type=redact(type)[0],
        path=redact(path)[0],
        description=redact(description)[0],
        commit=refs.read_head(context.location).commit,
        checkpoint_id=newest.checkpoint if newest is not None else None,
    )
    return _write(context, item)


def merge(context: OpenWorktree, target: str, sources: Sequence[str], commit: str) -> Item:
    """Record that the work of worktrees was merged into the branch `target` with a commit.

    For each source, all checkpoints are recorded that no earlier merge into this target has recorded.
    CheckpointNotFound if a source has no timeline.
    """
    if not sources:
        raise UsageError("a merge has at least one source")
    repository = context.repository
    names = timeline.all_names(context.location)
    for source in sources:
        if source not in names:
            raise CheckpointNotFound(
                f"there is no worktree '{source}' with checkpoints",
                "git agentos checkpoint list --all shows those of all agents",
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
        **_common_fields(context, "merge"),
        commit=oid,
        target=target,
        sources=list(dict.fromkeys(sources)),
        contributions=contributions,
    )
    return _write(context, item)


def items(context: OpenWorktree, *, agent: str | None = None, every: bool = False) -> list[Item]:
    """The items that `read` finds. Problems are warnings; if there is no item, the first is raised."""
    found = read(context, agent=agent, every=every)
    found.report()
    return found.items


def read(context: OpenWorktree, *, agent: str | None = None, every: bool = False) -> Reading:
    """The items of this worktree, newest first; with `agent`, those that it recorded and those of its worktree; or all.

    Items of removed worktrees, and databases that cannot be read, are read from the timelines. CheckpointNotFound if
    there is no agent or worktree with the name `agent`.
    """
    reader = RowReader(
        context, "memory", lambda connection, owner: rows.find(connection, *owner), lambda part, _worktree: part.memory
    )
    found = reader.read_here()
    others = other_worktrees(context) if agent is not None or every else {}
    for name, where in sorted(others.items()):
        found += reader.read_worktree(name, where)
    if agent is not None:
        found = [item for item in found if agent in (item.created_by, item.worktree)]
        if not found and agent not in (context.worktree_id, *others):
            raise CheckpointNotFound(
                f"there is no agent or worktree '{agent}' in this memory",
                "git agentos memory list --all shows all items",
            )
    unique = {item.id: item for item in found}
    return Reading(sorted(unique.values(), key=rows.order, reverse=True), reader.problems)


def _common_fields(context: OpenWorktree, kind: str) -> dict[str, Any]:
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
