"""A file system without hard links (exFAT, SMB): everything works, and a killed command's locks are proven stale."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.server import Ended, Runner
from tests.support.repo import Repo
from tests.support.sampling import is_sampled

_NO_LINKS = {"AGENTOS_TEST_NO_LINKS": "1"}


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


def _run(runner: Runner, where: Path, *argv: str, step: int = 0) -> Ended:
    return runner.run(where, *argv, step=step, mode="kill" if step else "count", env=_NO_LINKS)


def _ok(runner: Runner, where: Path, *argv: str) -> Ended:
    done = _run(runner, where, *argv)
    assert done.code == 0, str(done)
    return done


def _locks(repo: Repo) -> list[str]:
    return [str(path) for path in (repo.path / ".git").rglob("*.lock") if path.name != "issue_workflow.db.lock"]


def test_commands_work_without_hard_links(runner: Runner, repo: Repo) -> None:
    repo.append("readme.txt", "dirty\n")
    _ok(runner, repo.path, "checkpoint", "-m", "first")
    _ok(runner, repo.path, "log", "add", "action", "noted")
    repo.append("readme.txt", "more\n")
    _ok(runner, repo.path, "restore", "latest")
    _ok(runner, repo.path, "undo")
    _ok(runner, repo.path, "worktree", "create", "dev-1")
    _ok(runner, repo.path, "worktree", "archive", "dev-1")
    _ok(runner, repo.path, "worktree", "create", "dev-1", "--revive")
    assert _locks(repo) == []
    assert list((repo.path / ".git/agentos/locks").iterdir()) == []
    assert repo.text("status", "--porcelain").startswith("M readme.txt")


def test_gits_own_lock_is_left_alone(runner: Runner, repo: Repo) -> None:
    repo.append("readme.txt", "dirty\n")
    _ok(runner, repo.path, "checkpoint")
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"")
    done = _run(runner, repo.path, "restore", "latest")
    assert done.code == 1 and "index.lock" in done.err, str(done)
    _ok(runner, repo.path, "recover")
    assert lock.exists()
    lock.unlink()
    lock.mkdir()  # nor a folder that nobody has claimed
    assert _run(runner, repo.path, "restore", "latest").code == 1
    assert lock.exists()


@pytest.mark.parametrize("command", ["checkpoint", "restore"])
def test_killed_at_each_step_of_a_lock(runner: Runner, repo: Repo, command: str) -> None:
    """The next command takes a stale lock over, or `recover` and `doctor --fix` remove it: git is never locked out."""
    repo.append("readme.txt", "dirty\n")
    _ok(runner, repo.path, "checkpoint")
    repo.append("readme.txt", "more\n")
    argv = ("checkpoint", "-m", "x") if command == "checkpoint" else ("restore", "latest", "--no-branch")
    template = repo.path.with_name("template")
    shutil.copytree(repo.path, template, symlinks=True)
    steps = _ok(runner, repo.path, *argv).steps
    words = ("locks/", ".lock", "refs/", "update-ref")
    near = [n for n, step in enumerate(steps, 1) if any(word in step for word in words)]
    assert near
    for n in near:
        if len(near) > 2 and not is_sampled(n, 3, one_in=4 if command == "restore" else 2):
            continue
        shutil.rmtree(repo.path)
        shutil.copytree(template, repo.path, symlinks=True)
        if (done := _run(runner, repo.path, *argv, step=n)).code == 0:
            continue  # it had fewer steps this time
        assert done.code == -9, str(done)
        if n % 2:
            assert _run(runner, repo.path, "recover").code == 0, steps[n - 1]
        _run(runner, repo.path, "doctor", "--fix")
        assert _locks(repo) == [], steps[n - 1]
        assert _run(runner, repo.path, "recover").code == 0, steps[n - 1]
        _ok(runner, repo.path, "checkpoint", "-m", "afterwards")
        repo.git("add", "-A")
        repo.git("commit", "-q", "--allow-empty", "-m", "git is not locked out")
