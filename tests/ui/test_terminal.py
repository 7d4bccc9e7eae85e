"""The interface as a process on a real terminal: its exit codes, signals, and that the terminal is as before."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.own_terminal import ALTERNATE, Terminal
from tests.support.repo import Repo
from tests.support.tool import run
from tests.support.ui import five_agents
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

# Set graphics mode (ECMA-48): hues are 30 to 37, 40 to 47, 90 to 107, and what follows 38 or 48.
_GRAPHICS = re.compile(rb"\x1b\[([0-9;]*)m")


@pytest.fixture
def shown(repo: Repo) -> Iterator[Terminal]:
    """The interface with five agents, once they are on the screen."""
    five_agents(repo)
    terminal = Terminal(repo.path, "ui")
    try:
        terminal.wait_for(b"dev-5")
        yield terminal
    finally:
        terminal.close()


def test_it_ends_with_q(shown: Terminal) -> None:
    shown.type(b"q")
    assert shown.end() == 0
    assert shown.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(shown: Terminal, number: signal.Signals) -> None:
    shown.process.send_signal(number)
    assert shown.end() == 128 + number
    assert shown.is_as_before()


def test_it_ends_with_its_terminal(shown: Terminal) -> None:
    """A window that is closed: nothing of it can be written or restored any more."""
    os.close(shown.theirs)
    os.close(shown.ours)
    os.killpg(shown.process.pid, signal.SIGHUP)
    wait_until(lambda: shown.process.poll() is not None, "the end")


def test_it_ends_where_no_signal_tells_that_its_terminal_is_gone(shown: Terminal) -> None:
    """The terminal of another process, say one that has recorded or driven it, and was killed."""
    os.close(shown.theirs)
    os.close(shown.ours)
    assert shown.process.wait(PATIENCE) == 128 + signal.SIGHUP


def test_it_ends_with_its_terminal_whatever_was_typed(repo: Repo) -> None:
    """Keys that it has not answered yet, and the signals with which the system tells that the window is closed."""
    terminal = Terminal(repo.path, "ui", controls=True)
    try:
        terminal.wait_for(b"Agents")
        left = 70_000
        while left > 0:
            try:
                left -= os.write(terminal.ours, b"\0" * 1000)
            except BlockingIOError:
                terminal.read()
                select.select([terminal.ours], [terminal.ours], [])
        os.close(terminal.theirs)
        os.close(terminal.ours)
        assert terminal.process.wait(PATIENCE) == 128 + signal.SIGHUP
    finally:
        terminal.close()


def test_without_a_terminal(repo: Repo) -> None:
    done = run(repo.path, "ui")
    assert done.code == 2
    assert b"needs a terminal" in done.err
    assert not done.out
    assert run(repo.path, "--json", "ui").json["error"]["kind"] == "usage"


def test_outside_of_a_repository(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "ui")
    try:
        assert terminal.end() == 1
        assert b"is not in a git repository" in terminal.written
        assert ALTERNATE not in terminal.written
    finally:
        terminal.close()


def test_stderr_may_be_a_file(repo: Repo, tmp_path: Path) -> None:
    five_agents(repo)
    with open(tmp_path / "err", "wb") as err:
        terminal = Terminal(repo.path, "ui", err=err.fileno())
    try:
        terminal.wait_for(b"dev-5")
        terminal.type(b"q")
        assert terminal.end() == 0
        assert terminal.is_as_before()
    finally:
        terminal.close()
    assert not (tmp_path / "err").read_bytes()


def test_no_hues_where_none_are_wanted(repo: Repo) -> None:
    five_agents(repo)
    terminal = Terminal(repo.path, "ui", env={"NO_COLOR": "1"})
    try:
        terminal.wait_for(b"dev-5")
        terminal.type(b"?")
        terminal.wait_for(b"Everywhere")
        terminal.type(b"qq")  # leaves help, then the interface
        terminal.end()
        numbers = {int(part) for found in _GRAPHICS.findall(terminal.written) for part in found.split(b";") if part}
        assert 7 in numbers  # what is chosen is reversed
        assert not [each for each in numbers if 30 <= each <= 38 or 40 <= each <= 48 or 90 <= each <= 107]
    finally:
        terminal.close()


def test_the_package_is_missing(repo: Repo, tmp_path: Path) -> None:
    """What the extra brings is named, and how it is installed."""
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError(\"No module named 'textual'\", name='textual')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from git_agentos.launch import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-P", "-c", code, "ui"], cwd=repo.path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "the terminal interface needs a package that is not installed: textual" in done.stderr
    assert "pip install 'git-agentos[ui]'" in done.stderr
