"""The plugin packages are those that `plugins/build.py` makes; every command of their skill runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from git_agentos import __version__
from git_agentos.guard.harness.adapters import HARNESSES
from tests.support.agents import agent_worktree
from tests.support.documents import environment
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo

PLUGINS = PROJECT_ROOT / "plugins"
SKILL = PLUGINS / "source" / "SKILL.md"
_NOT_MADE = ("build.py", "source/")
_MANIFESTS = {
    "claude-code": ".claude-plugin/plugin.json", "codex": ".codex-plugin/plugin.json",
    "gemini": "gemini-extension.json", "cursor": ".cursor-plugin/plugin.json", "copilot": "plugin.json",
    "opencode": "package.json",
}  # fmt: skip
# The settings of opencode are code: it has no list of events.
_HOOKS = {"claude-code": "hooks/hooks.json", "codex": "hooks/hooks.json", "gemini": "hooks/hooks.json",
          "cursor": "hooks/hooks.json", "copilot": "hooks.json"}  # fmt: skip


def files(folder: Path) -> dict[str, str]:
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if not name.startswith(_NOT_MADE) and "__pycache__" not in name}


def test_the_packages_are_those_that_are_built(tmp_path: Path) -> None:
    """After a change of the hooks or of plugins/source: `make plugins`."""
    subprocess.run([sys.executable, PLUGINS / "build.py", tmp_path], check=True, cwd=PROJECT_ROOT)
    assert files(PLUGINS) == files(tmp_path)


def test_there_is_a_package_for_each_harness() -> None:
    assert list(_MANIFESTS) == list(HARNESSES)
    for name, path in _MANIFESTS.items():
        manifest = json.loads((PLUGINS / name / path).read_text())
        assert manifest["version"] == __version__
        assert (PLUGINS / name / "skills" / "git-agentos" / "SKILL.md").read_text() == SKILL.read_text()


@pytest.mark.parametrize("name", _HOOKS)
def test_the_hooks_are_for_all_events_of_the_harness(name: str) -> None:
    """All but `PermissionRequest`, which comes after `PreToolUse`, and what Codex does not have. The first word of an
    event is its hook."""
    hooks: dict[str, Any] = json.loads((PLUGINS / name / _HOOKS[name]).read_text())["hooks"]
    left_out = {"PermissionRequest"} | ({"WorktreeCreate", "WorktreeRemove"} if name == "codex" else set())
    assert set(hooks) == {each.split()[0] for each in HARNESSES[name].events} - left_out
    assert json.dumps(hooks).count(f"git-agentos guard harness {name} --plugin") == len(hooks)


def _blocks() -> list[str]:
    found = re.findall(r"^```sh\n(.*?)^```$", SKILL.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) >= 5
    return found


@pytest.mark.parametrize("block", _blocks(), ids=lambda block: block.splitlines()[-1])
def test_the_commands_of_the_skill_run(block: str, repo: Repo, tmp_path: Path) -> None:
    """As an agent, in a worktree with work that was saved and then changed."""
    worktree = agent_worktree(repo, "dev")
    known = {**environment(tmp_path), "AGENTOS_AGENT_ID": "dev"}
    worktree.write("notes.txt", "an hour of work\n")
    subprocess.run(["git", "agentos", "checkpoint"], cwd=worktree.path, env=known, check=True, capture_output=True)
    worktree.write("notes.txt", "destroyed\n")
    for line in block.splitlines():
        done = subprocess.run(["sh", "-c", line], cwd=worktree.path, env=known, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if re.match(r"git agentos restore latest(?! --dry-run)", line):
            assert (worktree.path / "notes.txt").read_text() == "an hour of work\n"
    if "undo" in block:
        assert (worktree.path / "notes.txt").read_text() == "destroyed\n"


def test_the_skill_names_tools_and_commands_that_there_are() -> None:
    from git_agentos.mcp import tools

    text = SKILL.read_text()
    named = re.search(r"tools do the same as these commands: (.*?)\.\n", text, re.DOTALL)
    assert named is not None
    assert set(re.findall(r"`(\w+)`", named[1])) <= {tool.name for tool in tools.TOOLS}
