"""A run whose repository was moved: paths are shown as they are now, and what was signed stays as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
