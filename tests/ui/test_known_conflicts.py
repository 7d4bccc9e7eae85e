"""What conflicts is looked for once for all views."""

from __future__ import annotations

import threading

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.ui.known_conflicts import KnownConflicts, number_of_each
from git_agentos.worktree import conflicts
from git_agentos.worktree.conflicts import Conflicts
from tests.support.repo import Repo
from tests.support.ui import Driver, drive, five_agents
from tests.support.waiting import PATIENCE


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Conflicts]:
    """What was found, each time that it was looked for."""
    found: list[Conflicts] = []
    look = conflicts.conflicts

    def noted(context: OpenWorktree) -> Conflicts:
        found.append(look(context))
        return found[-1]

    monkeypatch.setattr(conflicts, "conflicts", noted)
    return found


def test_the_views_share_it(repo: Repo, looked: list[Conflicts]) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        assert ui.row("dev-1").endswith(" 0 1") and len(looked) == 1
        await ui.press("3")
        assert "dev-1 and dev-2 conflict in 1 file:" in ui.screen
        await ui.press("R", "1", "R", "3", "R")
        assert len(looked) == 1
        agents["dev-2"].write("notes.txt", "one\n")
        agents["dev-2"].commit("as dev-1 has it")
        await ui.press("R")
        assert "dev-1 and dev-2 do not conflict." in ui.screen
        await ui.press("1")
        await ui.until(lambda: ui.row("dev-1").endswith(" 0 0"), "no conflict is counted")
        assert len(looked) == 2

    drive(repo.path, user)


def test_who_asks_meanwhile_waits_for_it(repo: Repo, looked: list[Conflicts]) -> None:
    five_agents(repo)
    known, found = KnownConflicts(), []

    def ask() -> None:
        found.append(known.find(open_workspace(repo.path).context))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert len(looked) == 1 and len(found) == 4
    assert all(each is looked[0] for each in found)
    assert number_of_each(looked[0]) == {"dev-1": 1, "dev-2": 1, "dev-3": 0, "dev-5": 0}
