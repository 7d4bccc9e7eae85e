"""What can still be read out of a database that was moved aside: the rows that nothing else holds."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import NamedTuple
from urllib.parse import quote

from git_agentos.store.entries import Scope


class Rows(NamedTuple):
    """Rows that no checkpoint carries: whose, and the line of each."""

    log: list[tuple[Scope, str]]
    memory: list[tuple[Scope, str]]


def uncarried(path: str) -> Rows:
    """The rows that no checkpoint carries, as far as the file can be read. Nothing is written to it."""
    with contextlib.suppress(sqlite3.Error, ValueError):
        connection = sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, isolation_level=None)
        try:
            return Rows(_read(connection, "agentos_log"), _read(connection, "agentos_memory"))
        finally:
            connection.close()
    return Rows([], [])


def _read(connection: sqlite3.Connection, table: str) -> list[tuple[Scope, str]]:
    """By the index; where that is torn, row by row from either end as far as it goes."""
    found: dict[int, tuple[Scope, str]] = {}
    query = f"SELECT seq, repository, worktree, body FROM {table}"
    for rest in (
        " WHERE carried IS NULL",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq",
        " NOT INDEXED WHERE carried IS NULL ORDER BY seq DESC",
    ):
        try:
            for seq, repository, worktree, body in connection.execute(query + rest):
                if all(isinstance(each, str) for each in (repository, worktree, body)):
                    found[seq] = (Scope(repository, worktree), body)
        except sqlite3.Error:
            continue
        break
    return [found[seq] for seq in sorted(found)]
