"""What all views have: keys, help, questions, the commands that were run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from git_agentos import open_workspace
from git_agentos.ui.background import Problem
from git_agentos.ui.rows import Rows
from tests.support.repo import Repo
from tests.support.ui import Driver, drive, five_agents


def _restored(repo: Repo) -> Repo:
    """A worktree in which something was restored."""
    dev = five_agents(repo)["dev-3"]
    open_workspace(dev.path).restore("@{1}", no_branch=True)
    assert dev.read("notes.txt") == b"first\n"
    return dev


def test_undo_shows_its_plan_and_its_command_and_asks(repo: Repo) -> None:
    dev = _restored(repo)
    line = shlex.join(["git", "agentos", "-C", str(dev.path), "undo"])

    async def user(ui: Driver) -> None:
        await ui.press("j", "j", "z")
        assert "Undo the last restore?" in ui.screen
        assert ui.says(f"$ {line}")
        assert "write   notes.txt" in ui.screen
        assert "write   new.py" in ui.screen
        for key in ("r", "z", "q", "enter", "1", "tab", "x"):  # neither a yes nor a no
            await ui.press(key)
            assert "Undo the last restore?" in ui.screen
        await ui.press("n")
        assert "nothing was changed" in ui.screen
        assert dev.read("notes.txt") == b"first\n"
        await ui.press("z", "escape")
        assert dev.read("notes.txt") == b"first\n"

        await ui.press("z", "y")
        assert dev.read("notes.txt") == b"second\n"
        assert "done: git agentos" in ui.screen
        await ui.press("at")
        assert "exit 0" in ui.screen and f"$ {line}"[:80] in ui.screen
        await ui.press("escape", "ctrl+z")
        assert "Undo the undo?" in ui.screen
        await ui.press("y")
        assert dev.read("notes.txt") == b"first\n"
        assert [each.line for each in ui.app.commands.ran if each.line.endswith(" undo")] == [line, line]
        assert {each.code for each in ui.app.commands.ran} == {0}

    drive(repo.path, user)


def test_what_is_undone_is_named(repo: Repo) -> None:
    """`z` after an undo undoes that, and ctrl-z undoes nothing but an undo."""
    dev = _restored(repo)

    async def user(ui: Driver) -> None:
        await ui.press("j", "j", "ctrl+z")
        assert "there is no undo to undo here: the last was a restore, which z undoes" in ui.screen
        assert len(ui.app.screen_stack) == 1 and not ui.app.commands.ran
        await ui.press("z", "y", "z")
        assert "Undo the last undo?" in ui.screen
        await ui.press("n", "ctrl+z")
        assert "Undo the undo?" in ui.screen
        await ui.press("n")
        assert dev.read("notes.txt") == b"second\n"

    drive(repo.path, user)


def test_a_line_of_the_log_can_be_typed(repo: Repo, tmp_path: Path) -> None:
    """The shell makes the words of it that were run."""
    dev = _restored(repo)

    async def user(ui: Driver) -> None:
        await ui.press("j", "j", "z", "y")

    app = drive(repo.path, user)
    typed = app.commands.ran[-1].line
    assert typed.startswith("git agentos -C ")
    program = tmp_path / "bin" / "git-agentos"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m git_agentos "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(typed, shell=True, env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert done.returncode == 0
    assert dev.read("notes.txt") == b"first\n"


def test_a_command_that_fails_is_told_and_recorded(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await ui.press("z")
        assert "error: there is nothing to undo: nothing was restored in this worktree" in ui.screen
        assert len(ui.app.screen_stack) == 1
        await ui.press("at")
        assert "exit 1" in ui.screen
        assert "hint: git agentos checkpoint list" in ui.screen

    drive(repo.path, user)


def test_an_agent_may_do_no_more_than_by_its_commands(repo: Repo) -> None:
    """`ui --as dev-1`: a change in another agent's worktree is refused, as by the command."""
    dev = _restored(repo)

    async def user(ui: Driver) -> None:
        await ui.press("j", "j", "z")
        assert "not by 'dev-1'" in ui.screen
        assert [each.code for each in ui.app.commands.ran] == [1]
        assert dev.read("notes.txt") == b"first\n"

    drive(repo.path, user, agent="dev-1")


def test_help_names_the_keys_and_the_command(repo: Repo) -> None:
    async def user(ui: Driver) -> None:
        await ui.press("question_mark")
        for text in ("Keys; escape leaves", "Agents", "Everywhere", "undo the last restore", "worktree list"):
            assert text in ui.screen
        await ui.press("escape")
        assert "Everywhere" not in ui.screen
        assert "? keys  enter timeline  / search  @ commands  q quit" in ui.screen

    drive(repo.path, user)


def test_no_command_was_run_yet(repo: Repo) -> None:
    async def user(ui: Driver) -> None:
        await ui.press("at")
        assert "No command was run yet" in ui.screen
        await ui.press("q")
        assert "No command was run yet" not in ui.screen

    assert drive(repo.path, user).return_code in (None, 0)


def test_views_by_number_and_tab(repo: Repo) -> None:
    async def user(ui: Driver) -> None:
        names = [each.title for each in ui.app.views]
        for number, name in enumerate(names, 1):
            await ui.press(str(number))
            assert ui.app.view.title == name
        await ui.press("1", "tab")
        assert ui.app.view.title == names[1 % len(names)]
        await ui.press("shift+tab")
        assert ui.app.view.title == names[0]
        await ui.pilot.click(offset=(2, 0))
        assert ui.app.view.title == names[0]

    drive(repo.path, user)


def test_a_repository_that_cannot_be_read(repo: Repo) -> None:
    """The error is shown, and is gone when its cause is."""
    five_agents(repo)

    async def user(ui: Driver) -> None:
        away = repo.path / ".git-away"
        (repo.path / ".git").rename(away)
        ui.app.view.look(now=True)
        await ui.until(lambda: "error: " in ui.screen, "the error")
        away.rename(repo.path / ".git")
        await ui.until(lambda: "error: " not in ui.screen, "the error is gone")
        assert ui.row("dev-3").startswith("dev-3 active")

    drive(repo.path, user)


def test_what_is_read_when_the_interface_ends_is_not_shown(repo: Repo) -> None:
    """It removes one widget after the other, the innermost first, and what was read before may still come."""

    async def user(ui: Driver) -> None:
        for view in ui.app.views:
            ui.app.go(view)
            await ui.settled()
            await view.query(Rows).first().remove()
            assert view.is_attached
            view._take(Problem("it cannot be read"))
            view._take(view.read())

    drive(repo.path, user)
