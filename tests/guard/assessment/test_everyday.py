"""A day's work in a shell is not stopped."""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.assessment import assessor
from git_agentos.guard.call import Call
from git_agentos.guard.decision import ALLOW
from git_agentos.guard.identity import Identity
from tests.support.guard.everyday_lines import LINES
from tests.support.repo import Repo, fill


@pytest.fixture(scope="module")
def worktree(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Changes of every kind; judging changes nothing."""
    repo = Repo.init(tmp_path_factory.mktemp("everyday") / "repo")
    fill(repo)
    repo.write("notes.txt", "changed\n")
    repo.write("new.txt", "new\n")
    repo.write("sub/inner.txt", "inner\n")
    return repo


@pytest.mark.parametrize("text", LINES, ids=[text[:50] for text in LINES])
def test_everyday_line_is_allowed(worktree: Repo, text: str) -> None:
    call = Call((), str(worktree.path), os.environ)
    found = assessor.assess_text(text, call, Identity("dev", "environment")).decision
    assert found.decision == ALLOW, found
