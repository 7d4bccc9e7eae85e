"""A repository and its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.repo import Repo
from tests.support.state import State


@dataclass(frozen=True)
class History:
    """A repository and its checkpoints, oldest first: id and state."""

    repo: Repo
    checkpoints: list[tuple[str, State]]

    @property
    def ids(self) -> list[str]:
        return [oid for oid, _ in self.checkpoints]
