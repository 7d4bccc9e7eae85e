"""A worktree whose entry was pruned while its folder was away: it is listed, named, and made again as it was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.guard.setup import activation
from git_agentos.worktree import creation
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import run, run_ok


def prune(repo: Repo, there: Repo) -> None:
    """`git worktree prune` (or gc) while the folder is on a disk that is not mounted."""
    away = there.path.with_name("away")
    os.rename(there.path, away)
    repo.git("worktree", "prune", "--expire=now")
    os.rename(away, there.path)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("moved", [False, True])
def test_a_pruned_entry_comes_back(repo: Repo, guard: bool, moved: bool) -> None:
    kept = creation.create(open_workspace(repo.path).context, "other", guard=guard)
    assert kept.path is not None
    made = creation.create(open_workspace(repo.path).context, "dev-001", guard=guard, task="T-7")
    there = Repo(Path(str(made.path)))
    there.write("notes.txt", "staged\n")
    there.git("add", "notes.txt")
    there.write("notes.txt", "changed after that\n")
    there.write("new.txt", "untracked\n")
    open_workspace(there.path).checkpoint()
    before, files = there.git("status", "--porcelain=v2", "--branch"), complete_state(there.path).files
    prune(repo, there)
    if moved:
        repo = Repo(Path(shutil.move(repo.path, repo.path.with_name("renamed"))))
        there = Repo(Path(shutil.move(there.path.parent, repo.path.with_name("renamed.worktrees"))) / "dev-001")
    assert run(there.path, "checkpoint").code == 1
    listed = {each["id"]: each["state"] for each in run_ok(repo.path, "worktree", "list")["worktrees"]}
    assert listed["dev-001"] == "broken"
    refused = run(repo.path, "worktree", "create", "dev-001", "--revive")
    assert refused.code == 1
    assert moved or b"git agentos worktree repair" in refused.err
    found = run_ok(repo.path, "worktree", "repair")["findings"]
    assert ("dev-001", "pruned-entry", True) in [(each["id"], each["code"], each["fixed"]) for each in found]
    assert there.git("status", "--porcelain=v2", "--branch") == before
    assert complete_state(there.path).files == files
    shown = run_ok(repo.path, "worktree", "show", "dev-001")
    assert (shown["state"], shown["task"], shown["branch"]) == ("active", "T-7", "agent/dev-001")
    assert activation.is_enabled(open_workspace(there.path).context.location) == guard
    assert run_ok(repo.path, "worktree", "repair")["findings"] == []
    assert run(repo.path, "doctor").code == 0


def test_a_pruned_entry_whose_branch_is_used_elsewhere(repo: Repo, tmp_path: Path) -> None:
    made = creation.create(open_workspace(repo.path).context, "dev-001", guard=False)
    there = Repo(Path(str(made.path)))
    prune(repo, there)
    repo.git("worktree", "add", "-q", str(tmp_path / "elsewhere"), "agent/dev-001")
    found = run_ok(repo.path, "worktree", "repair")["findings"]
    assert [(each["code"], each["fixed"]) for each in found] == [("pruned-entry", True)]
    assert there.text("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert there.git("status", "--porcelain") == b""


def test_a_folder_of_another_repository_is_not_taken_for_a_pruned_one(
    repo: Repo, make_repo: Callable[[str], Repo]
) -> None:
    made = creation.create(open_workspace(repo.path).context, "dev-001", guard=False)
    there, other = Repo(Path(str(made.path))), make_repo("other")
    prune(repo, there)
    before = f"gitdir: {other.git_dir}/worktrees/dev-001\n"
    (there.path / ".git").write_text(before)
    assert run_ok(repo.path, "worktree", "repair")["findings"] == []
    assert (there.path / ".git").read_text() == before
