"""What the table allows, run for real in a guarded worktree: no layer stops it, nor says a word.

The table asks the policy about a command line as it was typed. What the hooks ask about is what git made of it: its own
helpers (`git submodule--helper`), files that it has opened already, commands that it starts itself.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.guard import policy_repository
from tests.support.guard.guarded_worktree import guarded
from tests.support.guard.table import ROWS, call_of
from tests.support.repo import Repo

# They want a display, a tool that is not there, or answer a harness.
_NOT_HERE = (
    "gui",
    "citool",
    "difftool",
    "mergetool",
    "instaweb",
    "web--browse",
    "send-email",
    "agentos hook",
    "agentos guard harness",
    "daemon",
    "␀",
)
_COMMANDS = [
    row.command
    for row in ROWS
    if row.decision == "allow"
    and row.command.startswith(("git ", "git-"))
    and not any(word in row.command for word in _NOT_HERE)
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, Path]:
    """An agent's worktree with work of every kind in it, and a copy of all to begin every command from."""
    folder = tmp_path_factory.mktemp("harmless") / "field"
    folder.mkdir()
    dev = guarded(policy_repository.build(folder))
    for name in ("dirty.txt", "staged.txt", "both.txt"):
        dev.append(name, "more\n")
    dev.add("staged.txt", "both.txt")
    dev.append("both.txt", "and more\n")
    dev.write("new.txt", "untracked\n")
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, symlinks=True)
    return dev, copy


@pytest.mark.sampled(one_in=12)
@pytest.mark.parametrize("command", _COMMANDS)
def test_allowed_command_runs_in_a_guarded_worktree(command: str, kept: tuple[Repo, Path]) -> None:
    dev, copy = kept
    # The records of a worktree name its path: every command begins at the same one.
    shutil.rmtree(dev.path.parent.parent)
    shutil.copytree(copy, dev.path.parent.parent, symlinks=True)
    asked = call_of(command, dev.path)
    environment = {**asked.environment, "GIT_EDITOR": "true", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            asked.argv, cwd=dev.path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
    except FileNotFoundError:
        return  # `git-status`: the spelling is judged, though no such program is on PATH.
    assert b"git-agentos:" not in done.stderr, done.stderr.decode(errors="replace")
    assert done.returncode not in (-1, -2, 130, -15, 143)
    # A shell says 129 of a command that SIGHUP has ended, and git itself where it prints how it is used.
    assert done.returncode != 129 or b"usage: git" in done.stdout + done.stderr
