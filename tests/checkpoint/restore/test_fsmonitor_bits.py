"""An index that we have written or copied trusts no file that we have changed.

With a file system monitor, git marks entries of its index whose files it need not look at (`git ls-files -f` shows
them in small letters). The monitor here knows of no change at all, ever. What git sees of a file with such a mark is
what the index has; so the marks have to be gone after every command of ours that writes files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.git import process
from tests.support.repo import Repo
from tests.support.rollbacks import prepare
from tests.support.tool import run_ok


@pytest.fixture
def lying(repo: Repo, tmp_path: Path) -> Repo:
    """A repository of five files that git need not look at, as its monitor says."""
    for name in "abcde":
        repo.write(name, "one\n")
    repo.git("add", "--all")
    repo.commit("five files")
    _lie(repo, tmp_path)
    return repo


def _lie(repo: Repo, folder: Path) -> None:
    script = folder / "monitor"
    script.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    script.chmod(0o755)
    repo.config("core.fsmonitor", str(script))
    repo.config("core.fsmonitorHookVersion", "2")
    _trust(repo)


def _trust(repo: Repo) -> None:
    """Let git mark all files as they are now."""
    repo.git("-c", "core.fsmonitor=false", "status")
    repo.git("update-index", "--fsmonitor")
    repo.git("status")
    assert _trusted(repo)


def _trusted(repo: Repo) -> set[str]:
    rows = repo.text("ls-files", "-f", "-z").split("\0")
    return {row[2:] for row in rows if row.startswith("h ")}


def _sees_all(repo: Repo) -> None:
    """git sees what it sees without the monitor."""
    look = ("status", "--porcelain=v2", "--untracked-files=all")
    assert repo.text(*look) == repo.text("-c", "core.fsmonitor=false", *look)


def test_the_monitor_lies(lying: Repo) -> None:
    lying.write("a", "two\n")
    assert lying.text("status", "--porcelain", "a") == ""
    assert "a" in _trusted(lying)


@pytest.mark.parametrize("is_staged", [False, True])
def test_restore_and_undo(lying: Repo, is_staged: bool) -> None:
    lying.write("a", "saved\n")
    lying.write("b", "saved, too\n")
    if is_staged:
        lying.git("-c", "core.fsmonitor=false", "add", "b")
    saved = run_ok(lying.path, "checkpoint")["id"]
    lying.write("a", "later\n")
    lying.write("c", "later\n")
    _trust(lying)
    run_ok(lying.path, "restore", saved, "--no-branch")
    assert (lying.read("a"), lying.read("c")) == (b"saved\n", b"one\n")
    assert not _trusted(lying) & {"a", "b", "c"}
    _sees_all(lying)
    _trust(lying)
    run_ok(lying.path, "undo")
    assert (lying.read("a"), lying.read("c")) == (b"later\n", b"later\n")
    assert not _trusted(lying) & {"a", "b", "c"}
    _sees_all(lying)


def test_a_merge(lying: Repo) -> None:
    there = Repo(Path(run_ok(lying.path, "worktree", "create", "dev", "--no-guard")["path"]))
    there.write("a", "of the agent\n")
    there.git("-c", "core.fsmonitor=false", "commit", "-qam", "work")
    _trust(lying)
    run_ok(lying.path, "worktree", "merge", "dev")
    assert lying.read("a") == b"of the agent\n"
    assert "a" not in _trusted(lying)
    _sees_all(lying)


@pytest.mark.parametrize("pool", ["0", "1"])
def test_a_worktree_is_made_and_revived(lying: Repo, pool: str) -> None:
    lying.config("agentos.pool", pool)
    if pool == "1":
        run_ok(lying.path, "worktree", "refill")
    there = Repo(Path(run_ok(lying.path, "worktree", "create", "dev", "--no-guard")["path"]))
    there.write("a", "of the agent\n")
    _sees_all(there)
    _trust(there)
    there.write("b", "of the agent, too\n")
    run_ok(lying.path, "worktree", "archive", "dev")
    revived = Repo(Path(run_ok(lying.path, "worktree", "create", "dev", "--revive", "--no-guard")["path"]))
    assert (revived.read("a"), revived.read("b")) == (b"of the agent\n", b"of the agent, too\n")
    assert not _trusted(revived) & {"a", "b"}
    _sees_all(revived)


def test_a_rollback(repo: Repo, tmp_path: Path) -> None:
    ground = prepare(repo)
    there = ground.there
    _lie(there, tmp_path)
    tracked = there.text("ls-files").split()[0]
    before = there.read(tracked)
    there.write(tracked, "of the run\n")
    _trust(there)
    ground.roll_back()
    assert there.read(tracked) == before
    assert tracked not in _trusted(there)
    _sees_all(there)


def test_our_own_git_asks_no_monitor(lying: Repo) -> None:
    lying.write("a", "two\n")
    assert b"a" in process.run(["status", "--porcelain"], cwd=str(lying.path))
