"""What rows of the agent log and of the working memory have in common: their owner, and the checkpoint that carries
them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection

LOG, MEMORY = "agentos_log", "agentos_memory"  # tables


class RowOwner(NamedTuple):
    """The owner of rows: a repository's id (`database_path.repository_id`) and a worktree's."""

    repository: str
    worktree: str


class PendingRow(NamedTuple):
    """A row that is in no checkpoint yet."""

    seq: int
    line: str


def pending(connection: Connection, table: str, owner: RowOwner) -> list[PendingRow]:
    """The rows that are in no checkpoint yet, in the order in which they were added."""
    rows = connection.execute(
        f"SELECT seq, body FROM {table} WHERE repository = ? AND worktree = ? AND carried IS NULL ORDER BY seq", owner
    )
    return [PendingRow(seq, body) for seq, body in rows]


def mark_saved(connection: Connection, table: str, owner: RowOwner, ids: Iterable[str], checkpoint: str) -> None:
    """Record the checkpoint that carries the rows with these ids, unless one is recorded."""
    connection.executemany(
        f"UPDATE {table} SET carried = ? WHERE repository = ? AND worktree = ? AND id = ? AND carried IS NULL",
        ((checkpoint, *owner, storable(each)) for each in ids),
    )


def mark_rows_saved(connection: Connection, table: str, numbers: Iterable[int], checkpoint: str) -> None:
    """Record the checkpoint that carries the rows with these numbers, unless one is recorded."""
    connection.executemany(
        f"UPDATE {table} SET carried = ? WHERE seq = ? AND carried IS NULL", ((checkpoint, seq) for seq in numbers)
    )


def storable(text: str) -> str:
    """Text that SQLite can store: bytes that are not UTF-8, and NUL, at which its functions stop, are replaced."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\0", "\ufffd")
