"""A dirty repository with checkpoints, and the proof that the tool is out of reach."""

from __future__ import annotations

import pytest

from tests.support.dirty import make_dirty
from tests.support.history import History
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import IN_PROCESS


@pytest.fixture
def history(repo: Repo) -> History:
    """Three checkpoints: clean, dirty, and dirty on another branch after a commit."""
    checkpoints = []

    def checkpoint(description: str) -> None:
        state = complete_state(repo.path)
        checkpoints.append((str(IN_PROCESS.checkpoint(repo.path, description)["id"]), state))

    checkpoint("clean")
    make_dirty(repo)
    checkpoint("dirty")
    repo.commit("all of it")
    repo.git("checkout", "-q", "-b", "later")
    repo.append("notes.txt", "later\n")
    repo.write("later.txt", "later\n")
    checkpoint("later")
    return History(repo, checkpoints)
