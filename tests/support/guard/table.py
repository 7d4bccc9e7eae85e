"""The table of command lines, and what the guard has to decide about each.

The rows are in `table_allow`, `table_approve` and `table_forbid`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.identity import Identity
from tests.support.guard import table_allow, table_approve, table_forbid

AGENT = Identity("dev", "environment")
# Stands in the tables for text that only a shell knows.
_SIGN = "␀"


class Row(NamedTuple):
    decision: str
    operations: frozenset[str]
    command: str


def rows() -> Iterator[Row]:
    for module in (table_forbid, table_approve, table_allow):
        head: list[str] = []
        for line in module.OPERATIONS.splitlines():
            if line.startswith(" "):
                yield Row(head[0], frozenset(head[1:]), line.strip())
            elif line:
                head = line.split()


ROWS = list(rows())


def call_of(command: str, cwd: Path) -> Call:
    """A command line of the table as a call; assignments in front are its environment."""
    words = shlex.split(command.replace(_SIGN, UNKNOWN))
    words = words[: words.index("<")] if "<" in words else words
    environment = dict(os.environ)
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    return Call(tuple(words), str(cwd), environment)
