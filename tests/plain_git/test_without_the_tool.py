"""With this tool out of reach, git alone brings a checkpoint back, shows the film, packs it and carries it away."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.history import History
from tests.support.repo import Repo, git
from tests.support.state import State, assert_same, complete_state
from tests.support.tool import IN_PROCESS


@pytest.fixture
def _out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on PATH nor importable."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    monkeypatch.delenv("PYTHONPATH")
    found = subprocess.run([sys.executable, "-I", "-S", "-c", "import git_agentos"], capture_output=True)
    assert found.returncode != 0


def _restored_by_git(repo: Repo, oid: str) -> State:
    """docs/format.md: check out the commit, apply the checkpoint as a stash."""
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qffdx")
    repo.git("checkout", "-q", "--detach", f"{oid}^1")
    repo.git("stash", "apply", "-q", "--index", oid)
    now = complete_state(repo.path)
    # Every `stash apply` of git's leaves a note of its merge behind.
    assert now.operation.keys() <= {"AUTO_MERGE"}
    return replace(now, operation={})


@pytest.mark.usefixtures("_out_of_reach")
def test_stash_apply_gives_the_state(history: History) -> None:
    for oid, state in history.checkpoints:
        now = _restored_by_git(history.repo, oid)
        assert_same(state, now, f"git stash apply --index {oid}", branch="ignore")


@pytest.mark.usefixtures("_out_of_reach")
def test_stash_apply_in_another_worktree(history: History) -> None:
    path = history.repo.scratch / "elsewhere"
    history.repo.git("worktree", "add", "-q", "--detach", str(path))
    for oid, state in history.checkpoints:
        now = _restored_by_git(Repo(path), oid)
        assert_same(state, now, f"git stash apply --index {oid}", branch="ignore")


@pytest.mark.usefixtures("_out_of_reach")
def test_the_film(history: History) -> None:
    """Newest first, with the untracked files and without what the project's history did before."""
    shown = history.repo.text("log", "--first-parent", "-p", "--format=SCENE %s", "refs/agentos/timelines/main")
    scenes = {part.split("\n", 1)[0]: part for part in shown.split("SCENE ")[1:]}
    assert list(scenes) == ["later", "dirty", "clean", "timeline of main"]
    assert "+later" in scenes["later"]
    assert "+unstaged on top of staged" in scenes["dirty"]
    assert "+untracked" in scenes["dirty"]
    assert "second" not in scenes


@pytest.mark.usefixtures("_out_of_reach")
def test_fsck_finds_nothing(history: History) -> None:
    done = history.repo.git("fsck", "--strict", "--full", "--no-progress", "--no-dangling")
    assert done == b""


@pytest.mark.usefixtures("_out_of_reach")
def test_a_file_as_it_was(history: History) -> None:
    repo = history.repo
    assert repo.git("show", f"{history.ids[1]}:readme.txt") == b"unstaged on top of staged\n"
    assert repo.git("show", f"{history.ids[1]}^2:readme.txt") == b"staged\n"
    assert repo.git("show", f"{history.ids[1]}^3:untracked.txt") == b"untracked\n"
    assert repo.git("show", "refs/agentos/timelines/main~1:untracked.txt") == b"untracked\n"


def test_gc_takes_nothing(history: History) -> None:
    """Not even with every other ref gone and every reflog expired."""
    repo = history.repo
    repo.git("checkout", "-q", "-f", "--orphan", "fresh")
    repo.git("rm", "-rfq", "--cached", ".")
    repo.git("clean", "-qffdx")
    repo.git("commit", "-q", "--allow-empty", "-m", "fresh")
    for name in ("main", "other", "later"):
        repo.git("branch", "-q", "-D", name)
    repo.git("tag", "-d", "v1")
    repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    repo.git("gc", "-q", "--prune=now", "--aggressive")
    repo.git("fsck", "--strict", "--no-dangling", "--no-progress")
    for oid, state in history.checkpoints:
        IN_PROCESS.restore(repo.path, oid)
        assert_same(state, complete_state(repo.path), f"{oid} after gc", branch="any")


def test_a_timeline_travels(history: History, tmp_path: Path) -> None:
    """Pushed to a bare repository, fetched into another clone, restored there."""
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    git(bare, "config", "receive.fsckObjects", "true")
    history.repo.git("push", "-q", str(bare), "refs/heads/*:refs/heads/*", "refs/agentos/*:refs/agentos/*")
    git(tmp_path, "clone", "-q", str(bare), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    clone.config("fetch.fsckObjects", "true")
    clone.git("fetch", "-q", "origin", "refs/agentos/*:refs/agentos/*")
    for oid, state in history.checkpoints:
        IN_PROCESS.restore(clone.path, oid)
        assert_same(state, complete_state(clone.path), f"{oid} in the clone", branch="any")
    clone.git("fsck", "--strict", "--no-dangling", "--no-progress")


def test_a_bundle_holds_a_timeline(history: History, tmp_path: Path) -> None:
    """One file that has everything, for another machine."""
    history.repo.git("bundle", "create", "-q", str(tmp_path / "film.bundle"), "refs/agentos/timelines/main")
    fresh = Repo.init(tmp_path / "fresh")
    fresh.git("fetch", "-q", str(tmp_path / "film.bundle"), "refs/agentos/*:refs/agentos/*")
    oid, state = history.checkpoints[-1]
    IN_PROCESS.restore(fresh.path, oid)
    assert_same(state, complete_state(fresh.path), "restored from a bundle", branch="any")
