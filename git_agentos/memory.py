"""The working memory: artifacts that agents made, and which work went into which merge.

Items are rows of the worktree's workflow database, like those of the log: every checkpoint carries those that are in no
checkpoint yet, so they can be read after the worktree is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from git_agentos.checkpoint import log_sync, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointNotFound, UsageError
from git_agentos.git import refs
from git_agentos.redact import redact
from git_agentos.row_reader import Reading, RowReader
from git_agentos.store import database, rows
from git_agentos.store.database import Connection
from git_agentos.store.rows import Contribution, Item, RowOwner
from git_agentos.util import times
from git_agentos.util.values import ordered_id

__all__ = ["Contribution", "Item", "artifact", "items", "merge", "read"]


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
    oid = repository.find_commit(commit)
    if oid is None:
        raise UsageError(f"'{commit}' is not a commit")
    known = read(context, every=True)
    known.report(empty=False)
    before = {
        (each.worktree, checkpoint)
        for item in known.rows
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
    found.report(empty=not found.rows)
    return found.rows


def read(context: OpenWorktree, *, agent: str | None = None, every: bool = False) -> Reading[Item]:
    """The items of this worktree, newest first; with `agent`, those that it recorded and those of its worktree; or all.

    Items of removed worktrees, and databases that cannot be read, are read from the timelines. CheckpointNotFound if
    there is no agent or worktree with the name `agent`.
    """

    def wanted(items: Iterable[Item]) -> list[Item]:
        return [item for item in items if agent is None or agent in (item.created_by, item.worktree)]

    reader = RowReader(
        context,
        "memory",
        lambda connection, owner: wanted(rows.find_items(connection, owner)),
        lambda part, _worktree: wanted(part.memory),
    )
    found = reader.read(every=agent is not None or every)
    if agent is not None and not found and agent not in reader.worktrees:
        raise CheckpointNotFound(
            f"there is no agent or worktree '{agent}' in this memory", "git agentos memory list --all shows all items"
        )
    return Reading(found, reader.problems)


def _common_fields(context: OpenWorktree, kind: str) -> dict[str, Any]:
    now = time.time_ns()
    return {
        "id": ordered_id(now),
        "kind": kind,
        "created_at": times.seconds_to_text(now / 1e9),
        "created_by": context.agent,
        "worktree": context.worktree_id,
    }


def _write(context: OpenWorktree, item: Item) -> Item:
    def write(connection: Connection, owner: RowOwner) -> None:
        with database.transaction(connection):
            rows.insert_items(connection, owner, [item], None)

    log_sync.with_database(context, write, make=True)
    return item
