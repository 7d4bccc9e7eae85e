"""The table of commands: what is decided about each, in every spelling that we could think of."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from git_agentos.guard.policy.operations import OPERATIONS
from git_agentos.guard.policy.options import UNKNOWN
from tests.support.guard import policy_repository, table_allow, table_approve, table_forbid
from tests.support.repo import Repo
from tests.support.sampling import is_sampled

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


def call(command: str, cwd: Path) -> Call:
    """A command line of the table as a call; assignments in front are its environment."""
    words = shlex.split(command.replace(_SIGN, UNKNOWN))
    words = words[: words.index("<")] if "<" in words else words
    environment = dict(os.environ)
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    return Call(tuple(words), str(cwd), environment)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return policy_repository.build(tmp_path_factory.mktemp("table"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.decision}: {row.command}"[:90])
def test_command(row: Row, repo: Repo) -> None:
    found = assess_git(call(row.command, repo.path), AGENT).decision
    assert (found.decision, frozenset(found.operations)) == (row.decision, row.operations)


def test_table_is_large_and_covers_every_operation() -> None:
    commands = {row.command for row in ROWS}
    assert len(commands) >= 400
    assert sum(row.decision == "allow" for row in ROWS) >= 120
    # What only other programs and shell text come to, and what configuration or a hook's question takes.
    elsewhere = {
        "interpreter", "shell-error", "file-outside", "protected-branch", "commit-agentos", "checkout-conflict",
        # What takes several worktrees: test_other_worktrees.py, test_stash.py.
        "other-worktree", "config-shared", "stash-other",
    }  # fmt: skip
    assert {name for row in ROWS for name in row.operations} == set(OPERATIONS) - elsewhere


def test_judging_changes_nothing(repo: Repo) -> None:
    """Nothing in the repository; by a sample of the rows."""

    def look() -> list[tuple[str, bytes]]:
        found = []
        for folder, _, names in os.walk(repo.path):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found.append((path, file.read()))
        return sorted(found)

    before = look()
    for number, row in enumerate(ROWS):
        if row.decision != "allow" and is_sampled(number, one_in=8):
            assess_git(call(row.command, repo.path), AGENT)
    assert look() == before
