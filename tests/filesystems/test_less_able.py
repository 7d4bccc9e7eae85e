"""Where a file system cannot do something, git works, and so do checkpoint, restore, worktrees, runs and the guard."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.filesystems.conftest import MakeRepo
from tests.support.command_line import Cli
from tests.support.filesystems import ok, spelt
from tests.support.repo import Repo

# The first three are what is met (`filesystems.MODES`), the others one inability each.
MODES = ["apfs", "exfat", "share", "nolinks", "nosymlinks", "nomodes", "coarse", "nodirsync", "busy"]


@pytest.fixture(params=MODES)
def repo(request: pytest.FixtureRequest, repo_on: MakeRepo) -> Repo:
    repo = repo_on(request.param)
    repo.write("a.txt", "one\n")
    repo.write("src/b.py", "b\n")
    repo.write("src/deep/c.py", "c\n")
    repo.write(".git/info/exclude", "*.o\n")
    repo.commit("first")
    return repo


def test_every_state_comes_back(repo: Repo, cli: Cli) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "edited\n")
    repo.git("rm", "-q", "src/b.py")
    repo.write("new/é.txt", "untracked\n")
    repo.write("new.o", "ignored\n")
    before, status = spelt(repo), repo.git("status", "--porcelain")
    ok(cli("checkpoint"))
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd")
    repo.write("src/deep/c.py", "another\n")
    wrecked, wrecked_status = spelt(repo), repo.git("status", "--porcelain")
    ok(cli("restore", "latest", "--no-branch"))
    assert (spelt(repo), repo.git("status", "--porcelain")) == (before, status)
    ok(cli("undo"))
    assert (spelt(repo), repo.git("status", "--porcelain")) == (wrecked, wrecked_status)
    repo.git("fsck", "--strict")


def test_the_life_of_a_worktree(repo: Repo, cli: Cli) -> None:
    ok(cli("worktree", "create", "dev-1"))
    dev = Repo(repo.path.parent / "repo.worktrees/dev-1")
    dev.write("a.txt", "work\n")
    dev.write("notes", "more work\n")
    dev.write("x.o", "ignored\n")
    before, status = spelt(dev), dev.git("status", "--porcelain")
    environment = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
    stopped = subprocess.run(
        ["git", "reset", "--hard"], cwd=dev.path, env=environment, capture_output=True, check=False
    )
    assert stopped.returncode != 0
    assert (spelt(dev), dev.git("status", "--porcelain")) == (before, status)
    ok(cli("worktree", "archive", "dev-1"))
    assert not dev.path.exists()
    ok(cli("worktree", "create", "dev-1", "--revive"))
    assert (spelt(dev), dev.git("status", "--porcelain")) == (before, status)
    dev.git("add", "a.txt", "notes")
    dev.git("commit", "-q", "-m", "work")
    ok(cli("worktree", "merge", "dev-1"))
    assert repo.read("notes") == b"more work\n"


def test_a_run_and_its_rollback(repo: Repo, cli: Cli) -> None:
    ok(cli("run", "start", "--id", "one", "--agent", "echo 42 >answer", "--validate", "grep -q 42 answer"))
    ok(cli("run", "verify", "one"))
    folder = Path(repo.path.parent, "repo.worktrees/run-one")
    assert (folder / "answer").read_bytes() == b"42\n"
    ok(cli("rollback", "one"))
    assert not (folder / "answer").exists()
