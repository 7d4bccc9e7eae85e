"""The line of progress: when it is drawn, what is in it, and that nothing is left of it. The clock is ours."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator

import pytest

from git_agentos.cli import status_line
from git_agentos.cli.output import Output
from git_agentos.cli.status_line import OperationProgress, StatusLine
from git_agentos.errors import AgentosError
from git_agentos.util.progress import SILENT, counted, phase


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class Clock:
    """The seconds since the command began."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Screen:
    """A command's output at a terminal, and its progress. No thread draws: `redraw` does."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._written = io.BytesIO()
        self.output = Output(None, _Terminal(self._written, encoding="utf-8"))
        self.progress = OperationProgress(self.output)
        self.output.draws(self.progress)

    def at(self, seconds: float) -> str:
        """What is on the screen at that time."""
        self.clock.now = seconds
        self.progress.redraw()
        return self.shown

    @property
    def shown(self) -> str:
        return re.sub(r"[^\n]*\r\x1b\[K", "", self._written.getvalue().decode())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    clock = Clock()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(status_line, "time", clock)
    monkeypatch.setattr("git_agentos.cli.output.time", clock)
    monkeypatch.setattr(status_line, "_REDRAW", 1e6)
    made = Screen(clock)
    yield made
    made.progress.close()


def test_it_appears_after_a_second_of_the_command(screen: Screen) -> None:
    with phase(screen.progress, "Looking for changes"):
        assert screen.at(0.9) == ""
        assert screen.at(1.0) == "Looking for changes (0:01)"
    assert screen.shown == ""
    with phase(screen.progress, "Saving files", 3):
        assert screen.shown == "Saving files:   0% (0/3)", "the command has taken its second"


def test_the_second_is_one_of_the_command_and_not_of_its_progress(screen: Screen) -> None:
    """What it did before it had any progress counts as well."""
    screen.clock.now = 0.6
    screen.progress = OperationProgress(screen.output)
    with phase(screen.progress, "Opening"):
        assert screen.shown == ""
    with phase(screen.progress, "Looking for changes"):
        assert screen.at(0.99) == ""
        assert screen.at(1.0) == "Looking for changes (0:00)"
    screen.progress.close()
    screen.clock.now = 7
    screen.progress = OperationProgress(screen.output)
    with phase(screen.progress, "Saving files", 3):
        assert screen.shown == "Saving files:   0% (0/3)"


def test_what_is_in_it(screen: Screen) -> None:
    screen.clock.now = 100
    with phase(screen.progress, "Saving files", 1000) as files:
        files.reached(450)
        assert screen.at(101) == "Saving files:  45% (450/1000)"
        files.reached(1000)
        assert screen.at(102) == "Saving files: 100% (1000/1000)"
    with phase(screen.progress, "Copying 'x'") as copying:
        copying.reached(7)
        assert screen.at(103) == "Copying 'x': 7"
    with phase(screen.progress, "Pushing") as pushing:
        pushing.output("Writing objects:  50% (1/2)\x1b[31m")
        pushing.output("  ")
        assert screen.at(104) == "Pushing: Writing objects:  50% (1/2)\\033[31m"
    with phase(screen.progress, "a\nb\x1b[2J"):
        assert screen.at(165) == "a\\nb\\033[2J (1:01)"
    assert screen.shown == ""


def test_the_innermost_is_shown(screen: Screen) -> None:
    screen.clock.now = 1
    shown = []
    for each in counted(screen.progress, "Archiving worktrees", [1, 2]):
        shown.append(screen.at(each))
        with phase(screen.progress, "Saving files"):
            shown.append(screen.shown)
        shown.append(screen.at(each))
    assert shown == [
        "Archiving worktrees:   0% (0/2)", "Saving files (0:00)", "Archiving worktrees:   0% (0/2)",
        "Archiving worktrees:  50% (1/2)", "Saving files (0:00)", "Archiving worktrees:  50% (1/2)",
    ]  # fmt: skip
    assert screen.at(9) == ""


def test_a_loop_that_an_error_has_left_shows_nothing(screen: Screen) -> None:
    """Its iterator is still there: the error keeps the frame."""
    screen.clock.now = 1
    error = AgentosError("no", "try again")
    items = iter(counted(screen.progress, "Saving files", [1, 2]))
    next(items)
    assert screen.shown != ""
    screen.output.fail(error)
    assert screen.at(5) == "error: no\nhint: try again\n"
    with phase(screen.progress, "Saving files"):
        assert "Saving" not in screen.at(6)


def test_a_phase_that_ends_later_than_the_next_one(screen: Screen) -> None:
    screen.clock.now = 1
    first = screen.progress.begins("First")
    second = screen.progress.begins("Second")
    first.ended()
    assert screen.at(2) == "Second (0:01)"
    second.ended()
    second.ended()
    assert screen.shown == ""


def test_other_output_is_on_lines_of_its_own(screen: Screen) -> None:
    screen.clock.now = 1
    with phase(screen.progress, "Saving files"):
        screen.output.warn("careful", "look")
        assert "Saving" not in screen.shown
        assert screen.at(2).endswith("\nSaving files (0:01)")


def test_a_result_erases_it(screen: Screen) -> None:
    out = io.BytesIO()
    screen.output.stdout = io.TextIOWrapper(out, encoding="utf-8")
    screen.clock.now = 1
    screen.progress.begins("Saving files")
    screen.output.print("text\n")
    assert (screen.shown, out.getvalue()) == ("", b"text\n")


def test_nothing_is_drawn_over_a_question(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    screen.clock.now = 1

    class Answer(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            assert screen.at(3) == "really? "
            return super().readline(size)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Answer(b"yes\n")))
    with phase(screen.progress, "Saving files"):
        assert screen.output.prompt("really? ") == "yes"
        assert "Saving files" in screen.at(4)


def test_nothing_is_drawn_beside_a_run(screen: Screen) -> None:
    screen.clock.now = 1
    run = StatusLine(screen.output)
    run.start("[1] agent", "")
    with phase(screen.progress, "Saving files"):
        assert screen.at(2) == "[1] agent  0:00"
        run.finish("[1] agent: ok")
        assert screen.at(3) == "[1] agent: ok\nSaving files (0:02)"


@pytest.mark.parametrize(("value", "due"), [("0", 0), ("3", 3), ("", 1), ("soon", 1)])
def test_the_delay(screen: Screen, monkeypatch: pytest.MonkeyPatch, value: str, due: float) -> None:
    monkeypatch.setenv("GIT_PROGRESS_DELAY", value)
    screen.progress = OperationProgress(screen.output)
    with phase(screen.progress, "Saving files"):
        assert (screen.at(due - 0.1) == "") is (due > 0)
        assert screen.at(due).startswith("Saving files")
    screen.progress.close()


def test_a_thread_draws_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("GIT_PROGRESS_DELAY", "0")
    monkeypatch.setattr(status_line, "_REDRAW", 0.001)
    written = io.BytesIO()
    progress = OperationProgress(Output(None, _Terminal(written, encoding="utf-8")))
    with phase(progress, "Saving files", 2) as files:
        files.reached(1)
        while b"50%" not in written.getvalue():
            pass
    progress.close()
    length = len(written.getvalue())
    assert written.getvalue().endswith(b"\r\x1b[K")
    os.sched_yield()
    assert len(written.getvalue()) == length


def test_where_nobody_sees_it_the_items_are_given_as_they_are() -> None:
    items = [1, 2]
    assert counted(SILENT, "Saving files", items) is items
