"""The view of runs: it shows what the commands say, follows what a run prints, and decides by the commands' rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.ui.lines import Lines
from git_agentos.ui.views import runs as views
from tests.support import runs, tdd_project
from tests.support.confirming import set_up_key
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import NARROW, Driver, drive, five_agents
from tests.support.waiting import PATIENCE

VIEW = "4"


@pytest.fixture
def key(repo: Repo, tmp_path: Path) -> None:
    """The orchestrator's key is in place."""
    set_up_key(repo, tmp_path)


def text(ui: Driver) -> str:
    return "\n".join(ui.app.view.query_one(Lines).lines)


def codes(ui: Driver) -> list[tuple[str, int]]:
    """The commands that were run, by their words, with their exit codes."""
    return [(each.line.partition("git agentos -C ")[2].partition(" ")[2], each.code) for each in ui.app.commands.ran]


@pytest.mark.usefixtures("key")
def test_rows_pages_and_accepting(repo: Repo) -> None:
    five_agents(repo)
    runs.start(repo, "echo said; echo work > work.txt", validate=["true"], run_id="T-1", task="PROJ-1")
    runs.start(repo, "echo tried > tried.txt", validate=["echo wrong; exit 3"], run_id="T-2", max_attempts=2)

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert [line[2:].split()[0] for line in ui.rows] == [
            each["run_id"] for each in run_ok(repo.path, "run", "list")["runs"]
        ]
        assert ui.row("T-1").startswith("T-1 run passed 2 steps 1 of 1 PROJ-1 ")
        assert ui.row("T-2").startswith("T-2 run failed 4 steps 2 of 2 - ")
        await ui.until(lambda: "wrong" in text(ui) or "exited with 3" in text(ui), "the failed run")
        await ui.press("a")
        assert "has not passed" in ui.screen
        await ui.press("j", "]")
        await ui.until(lambda: "said" in text(ui), "its output")
        await ui.press("]")
        await ui.until(lambda: "+work" in text(ui), "its changes")
        await ui.press("v")
        await ui.until(lambda: "The evidence of run T-1 is complete" in text(ui), "whether it verifies")
        await ui.press("a")
        assert ui.says("Its evidence is complete and as it was sealed") and ui.says("run accept T-1")
        await ui.press("n")
        assert b"work.txt" not in repo.git("ls-tree", "--name-only", "main")
        await ui.press("a")
        await ui.press("y")
        assert repo.git("show", "main:work.txt") == b"work\n"
        await ui.until(lambda: "accepted" in ui.row("T-1"), "it is accepted")
        assert codes(ui) == [("run verify T-1", 0), ("run verify T-1", 0), ("run accept T-1", 0)]

    drive(repo.path, user)


def test_without_a_person_nothing_is_accepted(repo: Repo) -> None:
    runs.start(repo, "echo work > work.txt", validate=["true"], run_id="T-1")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "a")
        await ui.press("y")
        assert codes(ui) == [("run verify T-1", 0), ("run accept T-1", 3)] and ui.says("error:")

    drive(repo.path, user)
    assert run_ok(repo.path, "run", "show", "T-1")["state"] == "passed"


def test_rolling_back_and_undoing_that(repo: Repo) -> None:
    made = runs.start(repo, "echo work > work.txt", validate=["true"], run_id="T-1")
    work = runs.worktree(made).path / "work.txt"

    async def user(ui: Driver) -> None:
        await ui.press(VIEW, "b")
        assert ui.says("remove work.txt") and ui.says("rollback T-1")
        await ui.press("y")
        assert not work.exists()
        await ui.press("z")
        await ui.press("y")
        assert work.read_text() == "work\n"

    drive(repo.path, user)


def test_a_run_that_is_running_is_followed_and_cancelled(repo: Repo, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    agent = f"echo first; until test -e {gate}; do sleep 0.05; done; echo second; exec sleep 1000"
    argv = [sys.executable, "-m", "git_agentos", "run", "start", "--id", "T-1", "--agent", agent]
    child = subprocess.Popen(argv, cwd=repo.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        await ui.until(lambda: any("running step 1 (agent)" in " ".join(row.split()) for row in ui.rows), "it runs")
        await ui.press("]")
        await ui.until(lambda: "first" in text(ui), "its output")
        gate.touch()
        await ui.until(lambda: "second" in text(ui), "what it says later")
        await ui.press("c")
        assert ui.says("run cancel T-1")
        await ui.press("y")
        await ui.until(lambda: "cancelled" in ui.row("T-1"), "it is cancelled")

    drive(repo.path, user, NARROW)
    child.wait(60)
    assert run_ok(repo.path, "run", "show", "T-1")["state"] == "cancelled"


@pytest.mark.usefixtures("key")
def test_a_workflow_at_its_gate(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tdd_project.project(repo)
    agent = tdd_project.script(tmp_path)
    waiting = tdd_project.start(repo, agent)
    assert waiting.state == "waiting"

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        row = ui.row(waiting.id)
        assert row.startswith(f"{waiting.id} tdd waiting for: {', '.join(waiting.words)} "), row
        await ui.until(lambda: "green" in text(ui), "the workflow")
        await ui.press("a")
        assert ui.says(f"tdd approve {waiting.id}")
        await ui.press("n", "c")
        assert ui.says(f"tdd abort {waiting.id}")
        await ui.press("n", "a")
        await ui.pilot.press("y")  # what it starts runs the project's tests, several times
        await ui.until(lambda: ui.app.commands.ran, "the command has ended", 10 * PATIENCE)
        assert codes(ui) == [(f"tdd approve {waiting.id}", 0)], ui.app.commands.ran
        await ui.until(lambda: "merged" in ui.row(waiting.id), "it is merged")
        await ui.press("a")
        assert "waits for no decision" in ui.screen

    drive(repo.path, user, (190, 30))
    assert b"double" in repo.git("show", "main:calc/more.py")


def test_what_is_read_while_it_is_written_is_read_again(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its evidence and its state, a workflow seems to be tampered with: no file changes after that."""
    tdd_project.project(repo)
    waiting = tdd_project.start(repo, tdd_project.script(tmp_path))
    half = replace(waiting, state="tampered", node=None, words=["abort"])
    found, real = [half], views._workflows
    monkeypatch.setattr(views, "_workflows", lambda context: {waiting.id: half} if found else real(context))

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        assert "tampered" in ui.row(waiting.id)
        found.clear()
        await ui.until(lambda: "waiting" in ui.row(waiting.id), "it is read again")

    drive(repo.path, user)


def test_damaged_evidence_and_a_run_that_vanishes(repo: Repo) -> None:
    made = runs.start(repo, "echo work > work.txt", validate=["true"], run_id="T-1")
    runs.start(repo, "echo work > more.txt", run_id="T-2")

    async def user(ui: Driver) -> None:
        await ui.press(VIEW)
        events = Path(made.evidence) / "events.jsonl"
        lines = events.read_text().splitlines()
        first = json.loads(lines[0])
        first["task"] = "forged"
        events.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
        await ui.until(lambda: "tampered" in ui.row("T-1"), "it is shown as tampered with")
        await ui.press("j", "a")
        assert "has not passed" in ui.screen
        shutil.rmtree(made.evidence)
        await ui.press("R")
        await ui.pilot.resize_terminal(20, 5)
        await ui.press("j", "k", "]", "v")
        await ui.pilot.resize_terminal(100, 30)
        await ui.settled()
        assert [row[2:].split()[0] for row in ui.rows] == [
            each["run_id"] for each in run_ok(repo.path, "run", "list")["runs"]
        ]

    drive(repo.path, user)
