"""A home folder of its own for each test: which harnesses are on the machine, and what is written there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.fake_home import FakeHome


@pytest.fixture
def fake_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHome:
    """An empty home folder, with git's configuration; PATH has no harness."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(os.environ["GIT_CONFIG_GLOBAL"], folder / ".gitconfig")
    monkeypatch.setenv("HOME", str(folder))
    for name, below in (("XDG_CONFIG_HOME", ".config"), ("XDG_RUNTIME_DIR", ".run")):
        monkeypatch.setenv(name, str(folder / below))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / ".gitconfig"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return FakeHome(folder)
