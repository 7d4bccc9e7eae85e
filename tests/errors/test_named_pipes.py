"""No git-agentos command hangs where a named pipe has replaced a file that git reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run, run_ok

_OF_WORKTREE = ("HEAD", "index", "config.worktree", "commondir", "gitdir")


@pytest.mark.parametrize("name", [*_OF_WORKTREE, "logs/HEAD"])
def test_of_a_worktree(repo: Repo, name: str) -> None:
    dev = agent_worktree(repo, "dev")
    run_ok(dev.path, "checkpoint", "-m", "first")
    path = Path(dev.text("rev-parse", "--absolute-git-dir")) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    inside: tuple[tuple[str, ...], ...] = (("status",), ("restore", "latest"))
    for argv in inside:
        done = run(dev.path, *argv)
        assert done.code == (0 if name == "logs/HEAD" else 1), str(done)
        assert done.code == 0 or f"'{path}' is a named pipe: git would wait for it".encode() in done.err, str(done)
    outside: tuple[tuple[str, ...], ...] = (("doctor",), ("worktree", "list"), ("log", "list", "--all"))
    for argv in (*outside, ("worktree", "repair")):
        done = run(repo.path, *argv)
        assert done.code in (0, 1), str(done)


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "index"])
def test_of_the_repository(repo: Repo, name: str) -> None:
    path = repo.git_dir / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = run(repo.path, "checkpoint")
    assert done.code == 1
    assert f"error: '{path}' is a named pipe: git would wait for it forever".encode() in done.err


def test_named_pipe_in_a_folder_that_looks_like_a_repository(repo: Repo) -> None:
    (repo.path / "nested").mkdir()
    os.mkfifo(repo.path / "nested" / ".git")
    repo.write("nested/work.txt", "work\n")
    made = run_ok(repo.path, "checkpoint")
    (repo.path / "nested" / "work.txt").unlink()
    run_ok(repo.path, "restore", made["id"], "--no-branch")
    assert repo.read("nested/work.txt") == b"work\n"
