"""A guarded worktree whose git-agentos is gone: git says so and loses nothing, and docs/guard.md has the way out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from git_agentos.guard.setup import launcher
from tests.support.guard.guarded_worktree import guarded
from tests.support.repo import Repo
from tests.support.state import complete_state, differences

DOCS = Path(__file__).parents[3] / "docs" / "guard.md"


@pytest.fixture
def left(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A guarded worktree with work in it, whose hooks lead to a Python that is gone; no git-agentos is on the PATH."""
    monkeypatch.setattr(launcher, "_python", lambda: "/nowhere/python")
    dev = guarded(repo)
    folders = os.environ["PATH"].split(os.pathsep)
    without = [each for each in folders if shutil.which("git-agentos", path=each) is None]
    monkeypatch.setenv("PATH", os.pathsep.join(without))
    dev.write("notes.txt", "work\n")
    return dev


@pytest.mark.parametrize("words", [["reset", "--hard"], ["stash"], ["commit", "-qam", "work"]], ids=" ".join)
def test_git_stops_and_says_why(left: Repo, words: list[str]) -> None:
    before = complete_state(left.path)
    done = subprocess.run(["git", *words], cwd=left.path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "git-agentos is no longer installed, so it cannot decide about this command" in done.stderr
    heading = re.search(r"docs/guard\.md, '(.+)'", done.stderr)
    assert heading is not None
    assert f"\n## {heading[1]}\n" in DOCS.read_text(encoding="utf-8")
    assert differences(before, complete_state(left.path)) == []


def test_removing_the_documented_settings_ends_it(left: Repo) -> None:
    section = DOCS.read_text(encoding="utf-8").split("\n## After an uninstall\n")[1].split("\n## ")[0]
    settings = re.findall(r"`(core\.\w+)`", section)
    for each in settings:
        left.git("config", "--worktree", "--unset-all", each)
    assert len(settings) == 3
    assert left.try_git("config", "--get-regexp", r"^core\.(hookspath|fsmonitor)") == 1
    left.git("stash", "-q")
    left.git("stash", "pop", "-q")
    left.git("commit", "-qam", "work")
    assert left.git("status", "--porcelain") == b""
