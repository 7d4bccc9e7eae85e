"""`restore --worktree NAME`: the state of a checkpoint in a new worktree, and this one as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import UsageError, WorktreeError
from tests.support.dirty import make_dirty
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run


def _files(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and not file.is_symlink() and ".git" not in file.relative_to(path).parts
    }


def test_the_state_comes_up_in_a_new_worktree_and_this_one_stays(repo: Repo) -> None:
    make_dirty(repo)
    wanted = _files(repo.path)
    status = repo.git("status", "--porcelain=v2", "-z", "--untracked-files=all")
    taken = open_workspace(repo.path).checkpoint("then")
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd")
    repo.write("later.txt", "later\n")
    before = complete_state(repo.path)

    done = run(repo.path, "--json", "restore", taken.id, "--worktree", "dev-001")

    assert done.code == 0, str(done)
    there = repo.path.parent / f"{repo.path.name}.worktrees" / "dev-001"
    assert done.json["worktree_path"] == str(there)
    assert done.json["branch"] == "agent/dev-001"
    assert_same(before, complete_state(repo.path), "this worktree changed")
    assert _files(there) == wanted
    other = Repo(there)
    assert other.git("status", "--porcelain=v2", "-z", "--untracked-files=all") == status
    assert other.git("rev-parse", "HEAD") == repo.git("rev-parse", "HEAD")
    assert open_workspace(there).timeline == "dev-001"


@pytest.mark.parametrize("name", ["main", "a..b", "x.lock", "-x", "a/b", ""])
def test_an_ill_formed_name_is_a_usage_error(repo: Repo, name: str) -> None:
    taken = open_workspace(repo.path).checkpoint("then")
    before = complete_state(repo.path)
    with pytest.raises(UsageError):
        open_workspace(repo.path).restore(taken.id, worktree=name)
    assert complete_state(repo.path) == before


def test_taken_name_or_path_is_refused_and_leaves_nothing(repo: Repo) -> None:
    taken = open_workspace(repo.path).checkpoint("then")
    folder = repo.path.parent / f"{repo.path.name}.worktrees"
    repo.git("branch", "agent/taken")
    with pytest.raises(WorktreeError, match="exists already"):
        open_workspace(repo.path).restore(taken.id, worktree="taken")
    repo.git("branch", "-D", "agent/taken")
    repo.git("branch", "agent")
    with pytest.raises(WorktreeError, match="in the way"):
        open_workspace(repo.path).restore(taken.id, worktree="fresh")
    assert not folder.exists()
    assert repo.git("worktree", "list", "--porcelain").count(b"worktree ") == 1


def test_a_failure_on_the_way_leaves_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    from git_agentos.checkpoint.restore import application

    repo.write("readme.txt", "changed\n")
    taken = open_workspace(repo.path).checkpoint("then")

    def fails(self: application.Application) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(application.Application, "run", fails)
    before = complete_state(repo.path)
    with pytest.raises(Exception, match="no space left"):
        open_workspace(repo.path).restore(taken.id, worktree="fresh")
    assert complete_state(repo.path) == before
    assert not (repo.path.parent / f"{repo.path.name}.worktrees").exists()
    assert repo.git("branch", "--list", "agent/*") == b""
    assert repo.git("worktree", "list", "--porcelain").count(b"worktree ") == 1
