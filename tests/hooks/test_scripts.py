"""The scripts themselves, and what their Python loads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dirty import make_dirty
from tests.support.env import PROJECT_ROOT
from tests.support.guard.guarded_worktree import checkpoints, guarded, scripts_dir, sh
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state

FOLDER = PROJECT_ROOT / "hooks"
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.suffix != ".md")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_names_its_project_and_is_readable(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert "# git-agentos: " in "\n".join(lines[:2])
    assert lines[0] == "#!/bin/sh" or path.name == "guard.sh"
    for shell in ("sh", "dash", "bash", "busybox"):
        found = shutil.which(shell)
        if found is not None:
            command = [found, "sh", "-n"] if shell == "busybox" else [found, "-n"]
            done = subprocess.run([*command, str(path)], capture_output=True)
            assert done.returncode == 0, (shell, done.stderr)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck() -> None:
    done = subprocess.run(
        ["shellcheck", "-x", "-P", "SCRIPTDIR", *map(str, SCRIPTS)], capture_output=True, cwd=PROJECT_ROOT
    )
    assert done.returncode == 0, done.stdout.decode()


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_under_another_shell(repo: Repo, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    agent = guarded(repo)
    for path in scripts_dir(agent).iterdir():
        text = path.read_text()
        first = f"#!{found} --posix\n" if shell == "bash" else f"#!{found}\n"
        path.write_text(text.replace("#!/bin/sh\n", first, 1))
    make_dirty(agent)
    before = complete_state(agent.path)
    for text in (
        "git reset --hard",
        "git clean -fd",
        "git branch -D other",
        "trap '' TERM HUP INT QUIT PIPE; git checkout -f",
    ):
        done = sh(agent, text)
        assert done.code != 0, (text, done)
        assert "stopped" in done.err, (text, done)
        assert_same(before, complete_state(agent.path), text, permissions="all", refs=True)
    agent.git("stash", "-u")
    agent.git("commit", "-q", "--allow-empty", "-m", "empty")
    agent.git("fetch", "-q", ".", "refs/heads/*:refs/remotes/self/*")
    assert checkpoints(agent, "after_commit")


@pytest.mark.parametrize("name", ["judges", "recorders", "user_hooks_cache"])
def test_heavy_modules_are_loaded_late(name: str) -> None:
    code = (
        f"import sys, git_agentos.hooks.entry, git_agentos.hooks.{name}\n"
        "heavy = {'pygit2', 'git_agentos.git.objects.libgit2', 'typer', 'sqlite3', 'langgraph'}\n"
        "heavy |= {'dataclasses', 'inspect', 'shutil', 'tempfile', 'urllib.parse'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b""


def test_unknown_hook_name(repo: Repo) -> None:
    for args in ((), ("pre-commit",), ("nonsense", "1"), ("pre-commit", "none")):
        done = subprocess.run(
            [sys.executable, "-m", "git_agentos.hooks", *args], capture_output=True, cwd=repo.path, check=False
        )
        assert done.returncode == 2
        assert done.stderr.startswith(b"git-agentos: ")
