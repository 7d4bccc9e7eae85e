"""A dirty repository with checkpoints, and the proof that the tool is out of reach."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.dirty import make_dirty
from tests.support.repo import Repo
from tests.support.state import State, complete_state
from tests.support.tool import IN_PROCESS


@dataclass(frozen=True)
class Film:
    """A repository and its checkpoints, oldest first: id and state."""

    repo: Repo
    scenes: list[tuple[str, State]]

    @property
    def ids(self) -> list[str]:
        return [oid for oid, _ in self.scenes]


@pytest.fixture
def film(repo: Repo) -> Film:
    """Three checkpoints: clean, dirty, and dirty on another branch after a commit."""
    scenes = []

    def scene(description: str) -> None:
        state = complete_state(repo.path)
        scenes.append((str(IN_PROCESS.checkpoint(repo.path, description)["id"]), state))

    scene("clean")
    make_dirty(repo)
    scene("dirty")
    repo.commit("all of it")
    repo.git("checkout", "-q", "-b", "later")
    repo.append("notes.txt", "later\n")
    repo.write("later.txt", "later\n")
    scene("later")
    return Film(repo, scenes)
