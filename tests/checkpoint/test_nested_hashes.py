"""A repository inside of one with the other hash algorithm: its objects stay in its own store, as the result says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.git.hash_algorithm import BY_NAME
from tests.support.repo import Repo, git
from tests.support.tool import run, run_ok

REASON = "its objects are {} and stay in it: if it is deleted, they are lost"
PAIRS = [("sha1", "sha256"), ("sha256", "sha1")]


@pytest.fixture(params=PAIRS, ids=" in ".join)
def outer(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    """A repository, and `inner` in it with staged, unstaged and untracked changes."""
    inside, outside = request.param
    outer = Repo.init(tmp_path / "outer", f"--object-format={outside}")
    outer.write("file", "outer\n")
    outer.commit("outer")
    inner = Repo.init(outer.path / "inner", f"--object-format={inside}")
    inner.write("file", "inner\n")
    inner.commit("inner")
    _change(inner, "then")
    return outer


def _change(inner: Repo, words: str) -> None:
    inner.write("file", f"staged {words}\n")
    inner.add("file")
    inner.write("file", f"unstaged {words}\n")
    inner.write("new", f"untracked {words}\n")


def _state(inner: Repo) -> tuple[bytes, ...]:
    status = inner.git("status", "--porcelain=v2")
    return (status, inner.git("show", ":file"), inner.read("file"), inner.read("new"))


def test_it_is_captured_and_restored_exactly(outer: Repo) -> None:
    inner = Repo(outer.path / "inner")
    name = next(each for each, algorithm in BY_NAME.items() if len(inner.oid()) == algorithm.hex_length)
    then = _state(inner)
    taken = run_ok(outer.path, "checkpoint")
    assert taken["skipped"] == [{"path": "inner/.git/", "reason": REASON.format(name)}]
    assert len(inner.text("for-each-ref", "--format=%(refname)", "refs/agentos").split()) == 1
    _change(inner, "now")
    now = _state(inner)
    assert run_ok(outer.path, "restore", taken["id"])["skipped"] == taken["skipped"], "named once"
    assert _state(inner) == then
    run_ok(outer.path, "undo")
    assert _state(inner) == now
    for repo in (outer, inner):
        assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_if_it_is_gone_the_restore_says_so_and_restores_the_rest(outer: Repo) -> None:
    """Its store is gone with it: nothing is recreated in part, and if it comes back it is restored."""
    inner, away = outer.path / "inner", outer.path.parent / "away"
    then = _state(Repo(inner))
    taken = run_ok(outer.path, "checkpoint")
    _change(Repo(inner), "now")
    os.rename(inner, away)
    outer.write("file", "changed\n")
    done = run_ok(outer.path, "restore", taken["id"])
    assert outer.read("file") == b"outer\n"
    assert [each["path"] for each in done["skipped"]] == ["inner/.git/", "inner/"]
    assert not inner.exists()
    os.rename(away, inner)
    run_ok(outer.path, "restore", taken["id"])
    assert _state(Repo(inner)) == then


def test_what_was_moved_aside_comes_back(outer: Repo) -> None:
    """A restore to a state without it moves it aside, with its store; undo brings back that one and no other."""
    inner = Repo(outer.path / "inner")
    then = _state(inner)
    away = outer.path.parent / "away"
    os.rename(inner.path, away)
    empty = run_ok(outer.path, "checkpoint", "-m", "without it")
    os.rename(away, inner.path)
    run_ok(outer.path, "restore", empty["id"])
    assert not inner.path.exists()
    run_ok(outer.path, "undo")
    assert _state(inner) == then


def test_a_removed_worktree_is_refused_or_named(outer: Repo) -> None:
    """A worktree with such a repository is not removed as if everything in it were saved."""
    run_ok(outer.path, "worktree", "create", "a1")
    folder = Path(run_ok(outer.path, "worktree", "list")["worktrees"][-1]["path"])
    git(outer.path, "clone", "-q", str(outer.path / "inner"), str(folder / "nested"))
    done = run(outer.path, "worktree", "remove", "a1")
    assert done.code != 0 and b"nested" in done.err
    assert (folder / "nested/.git").exists()
