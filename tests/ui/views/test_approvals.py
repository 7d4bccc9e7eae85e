"""The view of approvals: it shows what `approvals list` does; granting and denying are the commands, by their rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.guard.approval import approvals
from git_agentos.ui.lines import Lines
from tests.support.confirming import set_up_key
from tests.support.guard.approvals import asked
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import NARROW, Driver, drive, five_agents

VIEW = "5"


@pytest.fixture
def key(repo: Repo, tmp_path: Path) -> None:
    """The orchestrator's key is in place."""
    set_up_key(repo, tmp_path)


def state(repo: Repo, id_: str) -> tuple[str, str | None]:
    found = run_ok(repo.path, "approvals", "show", id_)
    return found["state"], found["decided_by"]


@pytest.mark.usefixtures("key")
def test_granting_and_denying(repo: Repo) -> None:
    agents = five_agents(repo)
    merge = asked(repo, agents["dev-1"], "git", "merge", "other")
    push = asked(repo, agents["dev-2"], "git", "push", "--force")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert [line[2:10] for line in ui.rows] == [push[:8], merge[:8]]
        assert ui.row(push[:8]).startswith(f"{push[:8]} pending dev-2 git push --force ")
        await ui.press("g")
        assert ui.says(f"git agentos -C {repo.path} approvals grant {push}") and ui.says("git push --force")
        await ui.press("enter", "g", "n")
        assert state(repo, push) == ("pending", None)
        await ui.press("g", "y")
        assert state(repo, push)[0] == "granted"
        await ui.until(lambda: "granted" in ui.row(push[:8]), "it is shown as granted")
        await ui.press("d", "y")
        assert state(repo, push)[0] == "denied"
        await ui.until(lambda: len(ui.rows) == 1, "it is gone")
        await ui.press("d", "y")
        assert state(repo, merge)[0] == "denied"
        await ui.until(lambda: "nobody waits" in ui.screen, "nothing is left")
        await ui.press("g", "d")
        assert [each.code for each in ui.app.commands.ran] == [0, 0, 0]

    drive(repo.path, user)


def test_without_a_person_nothing_is_granted(repo: Repo) -> None:
    agents = five_agents(repo)
    id_ = asked(repo, agents["dev-1"], "git", "merge", "other")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "g", "y")
        assert ui.says("error:") and ui.app.commands.ran[-1].code == 3
        await ui.press("d", "y")
        assert ui.app.commands.ran[-1].code == 3
        assert state(repo, id_) == ("pending", None)

    drive(repo.path, user)


@pytest.mark.usefixtures("key")
def test_an_agent_grants_nothing(repo: Repo) -> None:
    agents = five_agents(repo)
    id_ = asked(repo, agents["dev-1"], "git", "merge", "other")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "g", "y")
        assert ui.app.commands.ran[-1].code == 3, ui.app.commands.ran

    drive(repo.path, user, agent="dev-1")
    assert state(repo, id_) == ("pending", None)


def test_the_pages_of_a_request(repo: Repo) -> None:
    agents = five_agents(repo)
    saved = run_ok(agents["dev-3"].path, "checkpoint")["id"]
    asked(repo, agents["dev-3"], "git", "reset", "--hard", checkpoint=saved)

    async def user(ui: Driver) -> None:
        def text() -> str:
            return "\n".join(ui.app.view.query_one(Lines).lines)

        await ui.press(VIEW)
        await ui.until(lambda: "because" in text(), "the request is shown")
        await ui.press("]")
        await ui.until(lambda: "reset" in text() and "because" not in text(), "its effect is shown")
        assert f"$ git agentos -C {agents['dev-3'].path} guard check -- git reset --hard" in ui.screen
        await ui.press("]")
        await ui.until(lambda: "new.py" in text(), "what was saved is shown")
        await ui.press("]")
        await ui.until(lambda: "because" in text(), "the first page again")
        await ui.press("[")
        await ui.until(lambda: "new.py" in text(), "the last page")
        assert ui.app.commands.ran == ()  # reading is no action

    drive(repo.path, user, (200, 30))


def test_the_plan_of_a_command_of_ours(repo: Repo) -> None:
    agents = five_agents(repo)
    asked(repo, agents["dev-1"], "git", "agentos", "worktree", "merge", "dev-2")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "]")
        await ui.until(lambda: "notes.txt" in "\n".join(ui.app.view.query_one(Lines).lines), "the conflict")
        assert "worktree merge dev-2 --dry-run" in ui.screen

    drive(repo.path, user, (200, 30))
    assert run_ok(repo.path, "worktree", "conflicts")["pairs"]


def test_decided_elsewhere_and_damaged(repo: Repo, tmp_path: Path) -> None:
    agents = five_agents(repo)
    id_ = asked(repo, agents["dev-1"], "git", "merge", "a\x1b[31m\u202eb")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert "\x1b" not in ui.screen and "\u202e" not in ui.screen and "git merge" in ui.row(id_[:8])
        await ui.press("g")
        approvals.deny(approvals.open_store(str(repo.git_dir), os.environ), id_, by="another")
        await ui.press("y")
        assert ui.app.commands.ran[-1].code != 0
        await ui.until(lambda: "nobody waits" in ui.screen, "it is gone")
        other = asked(repo, agents["dev-2"], "git", "merge", "other")
        await ui.until(lambda: other[:8] in ui.screen, "another one")
        for file in (repo.git_dir / "agentos" / "approvals" / "requests").iterdir():
            file.write_bytes(b"{")
        await ui.until(lambda: other[:8] not in ui.screen, "a damaged one does not count")
        await ui.pilot.resize_terminal(20, 5)
        await ui.press("j", "]", "k")

    drive(repo.path, user, NARROW)
    assert state_of_all(repo) == []


def state_of_all(repo: Repo) -> list[str]:
    return [each["state"] for each in run_ok(repo.path, "approvals", "list")["approvals"]]
