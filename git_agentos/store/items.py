"""Rows of the working memory: `Item` <-> row <-> line of `memory.jsonl`, which is like `log.jsonl` (see `entries`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from git_agentos.store.rows import RowOwner, storable

if TYPE_CHECKING:
    from sqlite3 import Connection


@dataclass(frozen=True)
class Contribution:
    """What one worktree contributed to a merge: its checkpoints, oldest first."""

    worktree: str
    checkpoints: list[str]


@dataclass(frozen=True)
class Item:
    """One item of the working memory; the fields are the keys of the JSON kind `memory-item`.

    An `artifact` is a file: its `type`, `path` and `description`, and the `commit` and `checkpoint_id` when it was
    recorded. Of a `merge`, `commit` is the merge commit, `target` the branch, `sources` are the worktrees and
    `contributions` their checkpoints.
    """

    id: str
    kind: str
    created_at: str
    created_by: str
    worktree: str
    type: str | None = None
    path: str | None = None
    description: str | None = None
    commit: str | None = None
    checkpoint_id: str | None = None
    target: str | None = None
    sources: list[str] = field(default_factory=list)
    contributions: list[Contribution] = field(default_factory=list)


def line(item: Item) -> str:
    """The item as a line of `memory.jsonl`."""
    body = {**vars(item), "contributions": [vars(each) for each in item.contributions]}
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def parse(text: str | bytes) -> Item | None:
    """The item in a line; None if it is not an item."""
    try:
        body: dict[str, Any] = json.loads(text)
        known = {each.name: body[each.name] for each in fields(Item) if each.name in body}
        known["contributions"] = [
            Contribution(str(each["worktree"]), [str(oid) for oid in each["checkpoints"]])
            for each in known.get("contributions", ())
        ]
        item = Item(**known)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = ("id", "kind", "created_at", "created_by", "worktree")
    optional = ("type", "path", "description", "commit", "checkpoint_id", "target")
    sources = known.get("sources", [])
    sound = (
        all(isinstance(known[name], str) for name in texts)
        and all(isinstance(known.get(name), str | None) for name in optional)
        and isinstance(sources, list)
        and all(isinstance(each, str) for each in sources)
    )
    return item if sound else None


def order(item: Item) -> tuple[str, str]:
    """The key by which items are sorted."""
    return (item.created_at, item.id)


def insert(connection: Connection, scope: RowOwner, items: Iterable[Item], carried: str | None) -> int:
    """Add items; existing ones are not changed. Returns how many were new."""
    done = connection.executemany(
        "INSERT OR IGNORE INTO agentos_memory (repository, worktree, id, created_at, body, carried)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        ((*scope, storable(each.id), storable(each.created_at), line(each), carried) for each in items),
    )
    return done.rowcount


def find(connection: Connection, repository: str, worktree: str | None = None) -> list[Item]:
    """The items of a repository, or of one of its worktrees, newest first."""
    where, values = "repository = ?", [repository]
    if worktree is not None:
        where, values = where + " AND worktree = ?", [repository, worktree]
    rows = connection.execute(
        f"SELECT body FROM agentos_memory WHERE {where} ORDER BY created_at DESC, id DESC", values
    )
    found = (parse(body) for (body,) in rows)
    return [item for item in found if item is not None]
