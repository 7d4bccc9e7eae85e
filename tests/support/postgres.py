"""A database of one's own on the PostgreSQL server that AGENTOS_TEST_POSTGRES names (`.ci/postgres start` makes one).

Without it tests skip; in CI, where AGENTOS_TEST_CI is set, they fail.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psycopg
import pytest

VARIABLE = "AGENTOS_TEST_POSTGRES"


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The URL of a new and empty database."""
    server = os.environ.get(VARIABLE)
    if not server:
        if os.environ.get("AGENTOS_TEST_CI"):
            pytest.fail(f"{VARIABLE} is not set")
        pytest.skip(f"{VARIABLE} names no PostgreSQL server")
    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield server.rpartition("/")[0] + f"/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
