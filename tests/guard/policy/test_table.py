"""The table of commands: what is decided about each, in every spelling that we could think of."""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.policy.operations import OPERATIONS
from tests.support.guard import policy_repository
from tests.support.guard.table import AGENT, ROWS, Row, call_of
from tests.support.repo import Repo
from tests.support.sampling import is_sampled


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return policy_repository.build(tmp_path_factory.mktemp("table"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.decision}: {row.command}"[:90])
def test_command(row: Row, repo: Repo) -> None:
    found = assess_git(call_of(row.command, repo.path), AGENT).decision
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
            assess_git(call_of(row.command, repo.path), AGENT)
    assert look() == before
