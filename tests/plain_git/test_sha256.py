"""SHA-256 repositories, whatever the hash of the other tests' repositories is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dirty import make_dirty
from tests.support.refusal import assert_refused
from tests.support.repo import Repo, fill, git
from tests.support.state import assert_same, complete_state
from tests.support.tool import run_ok

TIMELINES = "refs/agentos/timelines/*:refs/agentos/timelines/*"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A SHA-256 repository with staged, unstaged and untracked changes."""
    made = Repo.init(tmp_path / "repo", "--object-format=sha256")
    made.git("config", "core.logAllRefUpdates", "true")
    make_dirty(fill(made))
    return made


def test_a_checkpoint_is_restored_exactly(repo: Repo) -> None:
    before = complete_state(repo.path)
    taken = run_ok(repo.path, "checkpoint")
    assert len(taken["id"]) == len(taken["commit"]) == 64
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-fdq")
    run_ok(repo.path, "restore", "--no-branch", taken["id"])
    assert_same(before, complete_state(repo.path), "after the restore")
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_forty_digits_are_a_prefix_and_sixty_five_are_none(repo: Repo) -> None:
    oid = run_ok(repo.path, "checkpoint")["id"]
    for prefix in (oid, oid[:40], oid[:8], oid[:40].upper()):
        assert run_ok(repo.path, "checkpoint", "show", prefix)["id"] == oid
    assert_refused(repo.path, "restore", oid + "0", code=2, mentions="is not a checkpoint id", keeps=repo.path)
    assert_refused(repo.path, "restore", "0" * 40, mentions="no checkpoint", keeps=repo.path)


@pytest.mark.parametrize("packed", [False, True])
def test_git_pushes_and_fetches_timelines(packed: bool, repo: Repo, tmp_path: Path) -> None:
    """Through a bare repository into a clone, which restores what was saved elsewhere."""
    taken = run_ok(repo.path, "checkpoint")
    if packed:
        repo.git("gc", "-q", "--prune=now")
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "shared.git")
    git(tmp_path / "shared.git", "config", "receive.fsckObjects", "true")
    repo.git("push", "-q", str(tmp_path / "shared.git"), "HEAD:refs/heads/main", TIMELINES)
    git(tmp_path, "clone", "-q", str(tmp_path / "shared.git"), "clone")
    clone = Repo(tmp_path / "clone")
    clone.git("-c", "fetch.fsckObjects=true", "fetch", "-q", "origin", TIMELINES)
    assert [each["id"] for each in run_ok(clone.path, "checkpoint", "list")["checkpoints"]] == [taken["id"]]
    run_ok(clone.path, "restore", taken["id"])
    for words in (("diff", "--cached", "--raw", "--no-abbrev"), ("status", "--porcelain", "-uall")):
        assert clone.git(*words) == repo.git(*words)


def test_linked_worktrees(repo: Repo) -> None:
    """An agent's worktree: created, changed, archived with all of it, revived, and merged."""
    repo.git("add", "--all")
    repo.git("commit", "-qm", "all of it")
    made = run_ok(repo.path, "worktree", "create", "dev-1")
    agent = Repo(Path(made["path"]))
    agent.write("work", "done\n")
    agent.commit("work")
    agent.write("new", "not committed\n")
    before = complete_state(agent.path)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    assert not agent.path.exists()
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive")
    assert_same(before, complete_state(agent.path), "after the revival")
    agent.remove("new")
    run_ok(repo.path, "worktree", "merge", "dev-1")
    assert repo.read("work") == b"done\n"
    assert repo.git("fsck", "--strict", "--no-dangling") == b""
