"""`/` in each view: only what has the text is shown, until escape."""

from __future__ import annotations

from textual.widgets import Input

from git_agentos.ui.lines import Lines
from git_agentos.ui.matrix import Matrix
from git_agentos.ui.rows import Rows
from tests.support import runs
from tests.support.agents import agent_commit
from tests.support.guard.approvals import asked
from tests.support.repo import Repo
from tests.support.ui import Driver, drive, five_agents


def _shown(ui: Driver) -> list[str]:
    return [line[2:].split()[0] for line in ui.rows]


def test_agents(repo: Repo) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press("slash", *"PROJ")
        assert _shown(ui) == ["dev-3"]
        await ui.press("enter", "z")
        assert ui.says("error: there is nothing to undo") and ui.app.commands.ran[-1].line.split()[3] == str(
            agents["dev-3"].path
        )
        await ui.press("slash", *["backspace"] * 4, *"archived")
        assert _shown(ui) == ["dev-4"]
        await ui.press(*"1q?")  # text there
        assert "nothing found" in ui.screen and ui.app.view.title == "Agents"
        await ui.press("escape")
        assert _shown(ui) == ["dev-1", "dev-2", "dev-3", "dev-4", "dev-5"]
        assert not ui.app.view.query_one(Input).display and ui.app.focused is ui.app.view.query_one(Rows)

    drive(repo.path, user)


def test_conflicts_shows_who_conflicts_with_what_is_found(repo: Repo) -> None:
    five_agents(repo)
    agent_commit(repo, "other", {"other.txt": "\n"})

    async def user(ui: Driver) -> None:
        await ui.press("3", "slash", *"dev-1")
        assert (
            list(ui.app.view.query_one(Matrix)._agents)
            == ["dev-1", "dev-2"]
            == sorted(each.id for each in ui.app.view.query_one(Rows).items)
        )
        await ui.press(*["backspace"] * 5, *"other")
        assert list(ui.app.view.query_one(Matrix)._agents) == ["other"]
        assert list(ui.app.view.query_one(Lines).lines) == ["There are no two agents to compare."]
        await ui.press("enter", "m")
        assert ui.says("worktree merge other")
        await ui.press("n", "slash", "x")
        assert "nothing found" in ui.screen
        await ui.press("escape")
        assert len(ui.app.view.query_one(Rows).items) == 5

    drive(repo.path, user)


def test_runs_and_approvals(repo: Repo) -> None:
    agents = five_agents(repo)
    for id_ in ("T-1", "T-2"):
        runs.start(repo, "true", validate=["true"], run_id=id_)
    ids = {name: asked(repo, agents["dev-1"], "git", name, "other") for name in ("merge", "push")}

    async def user(ui: Driver) -> None:
        await ui.press("4", "slash", *"t-2")
        assert _shown(ui) == ["T-2"]
        await ui.press("enter", "enter")
        assert ui.app.focused is ui.app.view.query_one(Lines)
        await ui.press("h", "escape")
        assert _shown(ui) == ["T-2", "T-1"]
        await ui.press("5", "slash", *"push")
        assert _shown(ui) == [ids["push"][:8]]
        await ui.press("escape")
        assert len(_shown(ui)) == 2

    drive(repo.path, user)
