"""Reading a damaged database that was moved aside: the rows that are in no checkpoint."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import NamedTuple
from urllib.parse import quote

from git_agentos.store.rows import LOG, MEMORY, RowOwner


class Rows(NamedTuple):
    """Rows that are in no checkpoint, each with its owner and its line."""

    log: list[tuple[RowOwner, str]]
    memory: list[tuple[RowOwner, str]]


def pending_rows(path: str) -> Rows:
    """The rows that are in no checkpoint, as far as the file can be read. Nothing is written to it."""
    with contextlib.suppress(sqlite3.Error, ValueError):
        connection = sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, isolation_level=None)
        try:
            return Rows(_read(connection, LOG), _read(connection, MEMORY))
        finally:
            connection.close()
    return Rows([], [])


def _read(connection: sqlite3.Connection, table: str) -> list[tuple[RowOwner, str]]:
    """Read by the index; if that is damaged, row by row from both ends as far as possible."""
    found: dict[int, tuple[RowOwner, str]] = {}
    query = f"SELECT seq, repository, worktree, body FROM {table}"
    for rest in (
        " WHERE carried IS NULL",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq DESC",
    ):
        try:
            for seq, repository, worktree, body in connection.execute(query + rest):
                if all(isinstance(each, str) for each in (repository, worktree, body)):
                    found[seq] = (RowOwner(repository, worktree), body)
        except sqlite3.Error:
            continue
        break
    return [found[seq] for seq in sorted(found)]
