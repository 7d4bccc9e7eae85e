"""The view of the timeline: the events of `log timeline`, what each changed, and going back."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest
from textual.widgets import Input

from git_agentos import open_workspace
from git_agentos.ui.lines import Lines, OneLine
from git_agentos.ui.stream import density
from git_agentos.ui.views import timeline
from git_agentos.ui.views.timeline import Timeline
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import NARROW, Driver, drive, five_agents


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_PAUSE", 0.0)


async def _open(ui: Driver, *keys: str) -> None:
    """The timeline of the agent that keys lead to."""
    await ui.press(*keys, "enter")
    assert ui.app.view.title == "Timeline"


def _preview(ui: Driver) -> list[str]:
    return list(ui.app.view.query_one("#preview", Lines).lines)


def _current(ui: Driver) -> str:
    return next(" ".join(line[1:].split()) for line in ui.rows if line.startswith(">"))


async def _go_to(ui: Driver, text: str) -> None:
    """Move the cursor down to a row."""
    await ui.press("home")
    for _ in range(len(ui.rows)):
        if text in _current(ui):
            return
        await ui.press("j")
    raise AssertionError(f"no row has '{text}'\n{ui.screen}")


def test_the_events_are_those_of_the_command(repo: Repo) -> None:
    """Commits, checkpoints, restores, prompts, decisions and errors, the newest first."""
    dev = five_agents(repo)["dev-3"]
    dev.commit("a commit")
    run_ok(dev.path, "log", "add", "decision", "tabs or spaces")
    run_ok(dev.path, "log", "add", "error", "a test fails")
    open_workspace(dev.path).restore("@{1}", no_branch=True)
    events = run_ok(repo.path, "log", "timeline", "dev-3", "-n", "100")["events"]
    assert {each["kind"] for each in events} == {"commit", "checkpoint", "restore", "entry"}

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        assert len(ui.rows) == len(events)
        for row, event in zip(ui.rows, events, strict=True):
            is_entry = event["kind"] == "entry"
            words = [event["type"] if is_entry else event["kind"], *([] if is_entry else [event["id"][:8]])]
            assert row[2:].split()[2 : 2 + len(words)] == words, row
            assert event["summary"].split("\n")[0][:20] in row

    drive(repo.path, user, (200, 40))


def test_what_is_new_comes_on_the_screen(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "the first state")
        open_workspace(dev.path).checkpoint("the third state")
        await ui.until(lambda: "the third state" in ui.screen, "the checkpoint")
        assert "the first state" in _current(ui)
        run_ok(dev.path, "log", "add", "decision", "use spaces")
        await ui.until(lambda: "use spaces" in ui.screen, "the decision")

    drive(repo.path, user)


def test_a_preview_shows_what_changed_and_what_differs_now(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    dev.write("notes.txt", "third\n")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "the second state")
        shown = _preview(ui)
        assert "what it changed" in shown
        assert [line for line in shown if line.startswith("  ")] == ["  new      new.py", "  changed  notes.txt"]
        assert [line for line in shown if line.startswith(("+", "-")) and line[:3] not in ("+++", "---")] == [
            "+def new() -> int:",
            "+    return 1",
            "-first",
            "+second",
        ]
        await ui.press("right_square_bracket")
        shown = _preview(ui)
        assert "what differs now" in shown
        assert [line for line in shown if line.startswith("  ")] == ["  changed  notes.txt"]
        assert "-second" in shown and "+third" in shown
        await ui.press("left_square_bracket")
        assert "what it changed" in _preview(ui)

        await _go_to(ui, "the first state")
        shown = _preview(ui)
        assert "the first of its timeline: what is not committed" in shown
        assert [line for line in shown if line.startswith("  ")] == ["  changed  notes.txt"]

    drive(repo.path, user)


def test_two_that_are_marked_are_compared(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    dev.write("notes.txt", "third\n")
    open_workspace(dev.path).checkpoint("the third state")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        for text in ("the third state", "the first state"):
            await _go_to(ui, text)
            await ui.press("space")
        shown = _preview(ui)
        assert shown[0].startswith("from ") and shown[1].startswith("to ")
        ids = [each["id"] for each in run_ok(dev.path, "checkpoint", "list")["checkpoints"]]
        assert shown[2] == f"$ git agentos checkpoint diff {ids[2][:12]} {ids[0][:12]}"
        assert "-first" in shown and "+third" in shown and "+def new() -> int:" in shown
        await ui.press("escape")
        assert "the first of its timeline: what is not committed" in _preview(ui)

    drive(repo.path, user)


def test_restore_shows_its_plan_asks_and_can_be_undone(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    first = run_ok(dev.path, "checkpoint", "list")["checkpoints"][1]["id"][:12]
    dev.write("notes.txt", "third\n")
    line = shlex.join(["git", "agentos", "-C", str(dev.path), "restore", first])

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "the first state")
        await ui.press("r")
        assert ui.says(f"$ {line}")
        assert "write   notes.txt" in ui.screen and "remove  new.py" in ui.screen
        await ui.press("n")
        assert dev.read("notes.txt") == b"third\n"
        await ui.press("r", "y")
        assert (dev.read("notes.txt"), dev.exists("new.py")) == (b"first\n", False)
        assert [each.line for each in ui.app.commands.ran] == [f"{line} --dry-run", f"{line} --dry-run", line]
        await ui.until(lambda: "restore" in " ".join(ui.rows), "the restore is an event")
        await ui.press("z", "y")
        assert (dev.read("notes.txt"), dev.exists("new.py")) == (b"third\n", True)
        await ui.press("ctrl+z", "y")
        assert (dev.read("notes.txt"), dev.exists("new.py")) == (b"first\n", False)

    drive(repo.path, user)


def test_what_was_under_the_cursor_is_restored(repo: Repo) -> None:
    """Although rows come above it while the question waits."""
    dev = five_agents(repo)["dev-3"]

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "the first state")
        await ui.press("r")
        open_workspace(dev.path).checkpoint("a later state")
        ui.app.view.look(now=True)
        await ui.settled()
        await ui.press("y")
        assert dev.read("notes.txt") == b"first\n"

    drive(repo.path, user)


def test_files_and_hunks_are_restored(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    dev.write("notes.txt", "".join(f"{n}\n" for n in range(40)))
    open_workspace(dev.path).checkpoint("forty lines")
    dev.write("notes.txt", "".join(f"{'x' if n in (1, 38) else n}\n" for n in range(40)))
    dev.write("new.py", "changed\n")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "forty lines")
        await ui.press("f")
        await ui.until(lambda: "hunk 2" in ui.screen, "the hunks")
        # new.py, its hunk, notes.txt, its two hunks
        await ui.press("j", "j", "j", "j")
        assert "@@ -36,5 +36,5 @@" in ui.screen
        await ui.press("r")
        assert "Restore these hunks?" in ui.screen
        await ui.press("y")
        assert dev.read("notes.txt").split(b"\n")[1] == b"x"
        assert dev.read("notes.txt").split(b"\n")[38] == b"38"
        assert ui.app.commands.ran[-1].line.endswith("--hunks=notes.txt:2")

        await ui.press("f")
        await ui.until(lambda: "hunk 1" in ui.screen, "the hunks")
        await ui.press("space", "j", "space", "r")
        assert "mark either files or hunks" in ui.screen
        await ui.press("space", "r", "y")
        assert dev.read("new.py") == b"def new() -> int:\n    return 1\n"
        assert dev.read("notes.txt").split(b"\n")[1] == b"x"
        assert ui.app.commands.ran[-1].line.endswith(" -- new.py")

    drive(repo.path, user)


def test_a_state_is_opened_as_a_worktree(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    first = run_ok(dev.path, "checkpoint", "list")["checkpoints"][1]["id"]

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        await _go_to(ui, "the first state")
        await ui.press("w")
        assert f"Open this state as the new worktree 'dev-3-{first[:8]}'?" in ui.screen
        await ui.press("y")
        there = dev.path.parent / f"dev-3-{first[:8]}"
        assert (there / "notes.txt").read_bytes() == b"first\n"
        assert dev.read("notes.txt") == b"second\n"

    drive(repo.path, user)


def test_of_an_archived_agent(repo: Repo) -> None:
    """It has no folder: its states can be opened as worktrees, not restored."""
    agents = five_agents(repo)

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j", "j")
        assert "checkpoint" in _current(ui)
        for key in ("r", "f"):
            await ui.press(key)
            assert "'dev-4' has no folder: w opens this state as a worktree" in ui.screen
        await ui.press("z")
        assert "error: the worktree 'dev-4' has no folder" in ui.screen
        await ui.press("w", "y")
        assert [each.code for each in ui.app.commands.ran] == [0], ui.app.commands.ran
        assert " --agent dev-4 --worktree dev-4-" in ui.app.commands.ran[0].line
        assert len(list(agents["dev-5"].path.parent.glob("dev-4-*"))) == 1

    drive(repo.path, user)


def test_search(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        before = len(ui.rows)
        await ui.press("slash", *"first")
        assert [row for row in ui.rows if "the first state" not in row] == []
        await ui.press("enter")
        assert ui.app.focused is ui.app.view.rows  # type: ignore[attr-defined]
        assert "the first state" in _current(ui)
        await ui.press("slash", *"q1")  # letters and digits are text there
        assert "nothing found" in ui.screen
        await ui.press("escape")
        assert len(ui.rows) == before
        assert not ui.app.view.query_one(Input).display
        await ui.press("slash", *"new.py")  # the names of files, too
        assert all("the second state" in row for row in ui.rows)

    drive(repo.path, user)


def test_the_density_of_a_day() -> None:
    assert density([0, 1, 9, 10, 99, 100], 0, 100, 10) == [3, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert density([], 0, 100, 3) == [0, 0, 0]
    assert density([1], 0, 100, 0) == []


def test_the_strip_is_of_the_day_of_the_event(repo: Repo) -> None:
    dev = five_agents(repo)["dev-3"]
    dev.git("commit", "-q", "--allow-empty", "-m", "long ago", env={"GIT_AUTHOR_DATE": "2020-05-06T12:00:00"})

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        line = ui.app.view.query_one("#day", OneLine)
        assert time.strftime("%Y-%m-%d") in line.text
        await _go_to(ui, "long ago")
        assert "dev-3  2020-05-06  0h" in line.text
        assert "1 that day, 3 in all" in line.text
        strip = line.text.partition("0h ")[2].partition(" 24h")[0]
        assert strip.count("█") == 1 and abs(strip.index("█") - len(strip) / 2) <= 1

    drive(repo.path, user)


def test_on_a_narrow_terminal_and_on_a_tiny_one(repo: Repo) -> None:
    five_agents(repo)

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        assert "the second state" in ui.screen and "what it changed" in ui.screen
        for size in ((20, 5), (1, 1), (300, 4), (80, 24)):
            await ui.pilot.resize_terminal(*size)
            await ui.press("j", "l", "j", "h", "k", "f", "escape", "slash", "escape")
        assert "the second state" in ui.screen

    drive(repo.path, user, NARROW)


def test_a_checkpoint_of_ten_thousand_files(repo: Repo) -> None:
    """The names of all of them, the patches of the first, and keys work meanwhile."""
    dev = five_agents(repo)["dev-3"]
    for n in range(10_000):
        folder = dev.path / f"many/{n // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.txt").write_text(f"{n}\n")
    open_workspace(dev.path).checkpoint("many files")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        assert "many files" in _current(ui)
        shown = _preview(ui)
        assert "10000 files" in shown
        assert sum(line.startswith("  new ") for line in shown) == 10_000
        assert shown[-1] == "… 9960 more files, by their names above"
        await ui.press("l", "end")
        assert "… 9960 more files" in ui.screen

    drive(repo.path, user)


def test_names_that_are_not_utf8_and_hostile_ones(repo: Repo, tmp_path: Path) -> None:
    dev = five_agents(repo)["dev-3"]
    dev.write(b"bad\xff\x1b[31m\n.py", "text\x1b[2J\u202e\n")
    open_workspace(dev.path).checkpoint("hostile\x1b]0;title\x07")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        assert r'new      "bad\377\033[31m\n.py"' in ui.screen
        assert r"text\033[2J\342\200\256" in ui.screen
        assert "\x1b" not in ui.screen and "\u202e" not in ui.screen
        await ui.press("right_square_bracket", "f")
        dev.remove(b"bad\xff\x1b[31m\n.py")
        await ui.press("escape", "f")
        await ui.until(lambda: "removed" in ui.screen, "the file")
        await ui.press("r", "y")
        assert dev.read(b"bad\xff\x1b[31m\n.py") == "text\x1b[2J\u202e\n".encode()

    drive(repo.path, user)


def test_the_worktree_vanishes_meanwhile(repo: Repo) -> None:
    import shutil

    dev = five_agents(repo)["dev-3"]

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j")
        shutil.rmtree(dev.path)
        await ui.press("right_square_bracket")
        await ui.press("r")
        if len(ui.app.screen_stack) > 1:
            await ui.press("y")
        assert all(each.code for each in ui.app.commands.ran)
        view = ui.app.view
        assert isinstance(view, Timeline)
        view.look(now=True)
        await ui.settled()
        await ui.press("r")
        assert "has no folder" in ui.screen
        assert "the second state" in ui.screen

    drive(repo.path, user)


HOSTILE = "\x1b]0;title\x07 \u202eback [red]red[/red] 漢字 \U0001f469\u200d\U0001f4bb " + "long " * 60


def test_a_question_has_the_text_of_others_as_text(repo: Repo) -> None:
    """On one line of its own: nobody can write another question below it."""
    dev = five_agents(repo)["dev-3"]
    dev.write("notes.txt", "third\n")
    open_workspace(dev.path).checkpoint(f"{HOSTILE}\n\ny yes   n no")
    dev.write("notes.txt", "fourth\n")

    async def user(ui: Driver) -> None:
        await _open(ui, "j", "j", "j")
        await ui.press("1", "k", "enter", "home", "r")
        assert len(ui.app.screen_stack) == 2, ui.screen
        assert not [char for char in ui.screen if not char.isprintable() and char != "\n"]
        assert ui.says(r"\033]0;title\a \342\200\256back [red]red[/red] 漢字")
        assert ui.screen.count("y yes") == 1 and ui.says("Restore the state of")
        await ui.press("y")
        assert dev.read("notes.txt") == b"third\n"

    drive(repo.path, user)
