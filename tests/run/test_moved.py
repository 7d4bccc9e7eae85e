"""A run whose repository was moved: paths are shown as they are now, and what was signed stays as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService
from git_agentos.errors import RunError
from git_agentos.run.context import worktree_id
from tests.support.repo import Repo
from tests.support.tool import run, run_ok


@pytest.mark.parametrize("repaired", [True, False])
def test_a_run_after_a_move(repo: Repo, tmp_path: Path, repaired: bool) -> None:
    done = run_ok(
        repo.path, "run", "start", "--agent", "echo more >>notes.txt; git commit -qam more", "--validate", "true"
    )
    id_ = done["run_id"]
    before = Path(done["context"]["worktree_path"])
    to = tmp_path / "elsewhere"
    to.mkdir()
    for path in (repo.path, before.parent):
        os.rename(path, to / path.name)
    moved, there = Repo(to / repo.path.name), to / before.parent.name / worktree_id(id_)
    if repaired:
        run_ok(moved.path, "worktree", "repair")
    shown = run_ok(moved.path, "run", "show", id_)
    assert (shown["context"]["repo_root"], shown["context"]["worktree_path"]) == (str(moved.path), str(there))
    assert str(repo.path) + "/" not in run(moved.path, "run", "show", id_).out.decode()
    assert run(moved.path, "run", "verify", id_).code == 0
    back = run_ok(moved.path, "rollback", id_)
    assert back["worktree_path"] == str(there)
    assert Repo(there).git("status", "--porcelain") == b""
    assert Repo(there).read("notes.txt") == moved.read("notes.txt")
    assert not before.exists()
    assert run(moved.path, "run", "verify", id_).code == 0


@pytest.mark.parametrize("how", ["rolled back", "accepted"])
def test_the_end_of_an_open_run_after_a_move(repo: Repo, tmp_path: Path, how: str) -> None:
    service = GitWorktreeWorkspaceService(repo.path)
    made = service.prepare_pre_run(run_id="r")
    before = Path(made.worktree_path)
    Repo(before).write("notes.txt", "work\n")
    Repo(before).commit("work")
    Repo(before).write("new.txt", "in no commit\n")
    to = tmp_path / "elsewhere"
    to.mkdir()
    for path in (repo.path, before.parent):
        os.rename(path, to / path.name)
    moved, there = Repo(to / repo.path.name), Repo(to / before.parent.name / before.name)
    again = GitWorktreeWorkspaceService(moved.path, run_id="r")
    if how == "accepted":
        with pytest.raises(RunError) as found:
            again.accept()
        assert found.value.hint == f"git agentos worktree repair run-r finds it again in '{there.path}'"
        run_ok(moved.path, "worktree", "repair", "run-r")
        again.accept()
        assert (moved.read("notes.txt"), moved.read("new.txt")) == (b"work\n", b"in no commit\n")
    else:
        again.end("failed", roll_back=True)
        assert there.git("status", "--porcelain") == b""
        assert there.oid() == made.base_sha
    shown = run_ok(moved.path, "run", "show", "r")
    assert shown["state"] == ("accepted" if how == "accepted" else "failed")
    assert (shown["problems"], shown["context"]["worktree_path"]) == ([], str(there.path))
    assert not before.exists()
    assert run(moved.path, "run", "verify", "r").code == 0
