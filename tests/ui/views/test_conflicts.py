"""The view of conflicts: the matrix and the order are those of `worktree conflicts`, and a merge is the command."""

from __future__ import annotations

import shutil

from git_agentos.ui.lines import Lines
from git_agentos.ui.matrix import Matrix
from git_agentos.ui.rows import Rows
from tests.support.agents import agent_commit
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import NARROW, Driver, drive, five_agents

VIEW = "3"


def matrix(ui: Driver) -> list[list[str]]:
    """The cells of the matrix, each row with its number and name."""
    found = ui.app.view.query_one(Matrix)
    lines = ["".join(each.text for each in found.render_line(y)) for y in range(1, found.size.height)]
    return [line.replace("[", " ").replace("]", " ").strip("> ").split() for line in lines if line.strip()]


def pair(ui: Driver) -> list[str]:
    return list(ui.app.view.query_one(Lines).lines)


def test_it_shows_what_the_command_says(repo: Repo) -> None:
    five_agents(repo)
    agent_commit(repo, "dev-6", {"notes.txt": "six\n", "a b.txt": "six\n"})
    agent_commit(repo, "dev-7", {"notes.txt": "seven\n", "a b.txt": "seven\n"})
    listed = run_ok(repo.path, "worktree", "conflicts")
    ids = [each["id"] for each in listed["agents"]]
    files = {frozenset((each["a"], each["b"])): each["files"] for each in listed["pairs"]}

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        for number, (line, id_) in enumerate(zip(matrix(ui), ids, strict=True)):
            cells = [str(len(files[both])) if (both := frozenset((id_, each))) in files else "·" for each in ids]
            cells[number] = "-"
            assert line == [str(number + 1), id_, *cells]
        for row, id_ in enumerate(ids):
            for column, other in enumerate(ids):
                ui.app.view.query_one(Matrix)._go(row, column)
                await ui.settled()
                found = files.get(frozenset((id_, other)), [])
                said = pair(ui)
                assert said[1 : len(found) + 1] == found and ("conflict in" in said[0]) == bool(found), said
        assert [each.id for each in ui.app.view.query_one(Rows).items] == listed["order"]

    drive(repo.path, user)


def test_the_cursor_goes_through_the_matrix_and_on(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert pair(ui)[:2] == ["dev-1 and dev-2 conflict in 1 file:", "notes.txt"]
        await ui.press("l")
        assert pair(ui) == ["dev-1 and dev-3 do not conflict."]
        await ui.press("j", "h", "h")
        assert ui.app.view.query_one(Matrix).pair == ("dev-2", "dev-1")
        await ui.press("l", "l", "l", "l")
        assert ui.app.view.query_one(Lines).has_focus
        await ui.press("l", "j", "j")
        assert ui.row("3").startswith("3 dev-1 ") and ui.app.view.query_one(Rows).cursor == 2
        await ui.press("h", "h")
        assert ui.app.view.query_one(Matrix).has_focus

    drive(repo.path, user)


def test_a_merge_shows_its_plan_and_is_the_command(repo: Repo) -> None:
    five_agents(repo)
    main = repo.oid("main")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "m")
        assert ui.says(f"git agentos -C {repo.path} worktree merge dev-1")
        assert ui.says(f"into main, which is at {main[:8]}")
        await ui.press("n")
        assert repo.oid("main") == main
        await ui.press("m")
        await ui.press("y")
        merged = repo.oid("main")
        assert merged != main and repo.git("show", "main:notes.txt") == b"one\n"
        await ui.until(lambda: [line[1] for line in matrix(ui)], "the matrix is there")
        await ui.press("j", "m")
        assert ui.says("error:") and len(ui.app.screen_stack) == 1
        assert repo.oid("main") == merged
        lines = [each.line for each in ui.app.commands.ran]
        assert [each.rpartition(" merge ")[2] for each in lines] == [
            "dev-1 --dry-run", "dev-1 --dry-run", "dev-1", "dev-2 --dry-run",
        ]  # fmt: skip
        assert [each.code for each in ui.app.commands.ran] == [0, 0, 0, 4]

    drive(repo.path, user)


def test_what_is_merged_is_the_agent_of_the_list_where_that_has_the_keys(repo: Repo) -> None:
    five_agents(repo)
    order = run_ok(repo.path, "worktree", "conflicts")["order"]

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        ui.app.view.query_one(Rows).focus()
        await ui.press("j", "m")
        assert ui.says(f"worktree merge {order[1]}")

    drive(repo.path, user)


def test_new_commits_and_a_worktree_that_vanishes(repo: Repo) -> None:
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        agents["dev-2"].write("notes.txt", "one\n")
        agents["dev-2"].commit("as dev-1 has it")
        await ui.until(lambda: pair(ui) == ["dev-1 and dev-2 do not conflict."], "the conflict is gone")
        shutil.rmtree(agents["dev-1"].path)
        await ui.press("R")
        assert [line[1] for line in matrix(ui)] == [
            each["id"] for each in run_ok(repo.path, "worktree", "conflicts")["agents"]
        ]

    drive(repo.path, user)


def test_without_agents_and_on_small_terminals(repo: Repo) -> None:
    async def alone(ui: Driver) -> None:
        await ui.press(VIEW, "l", "j", "m")
        assert "no agents to compare" in ui.screen and pair(ui) == ["There are no two agents to compare."]

    drive(repo.path, alone)
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert matrix(ui)[0][:2] == ["1", "dev-1"]
        await ui.pilot.resize_terminal(20, 5)
        await ui.press("j", "l", "l", "l", "l", "k")
        await ui.pilot.resize_terminal(80, 24)
        await ui.settled()
        assert len(matrix(ui)) == 4

    drive(repo.path, user, NARROW)
