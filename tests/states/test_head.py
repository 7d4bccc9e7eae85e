"""Where HEAD is: unborn, empty repository, detached, on odd branch names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.scenario import RESTORE_BRANCH, Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import IN_PROCESS, Tool, run, run_ok

SCENARIOS = Scenarios()


@SCENARIOS.add(start="empty")
def _empty_repository(repo: Repo) -> None:
    """No commit, no file."""


@SCENARIOS.add(start="empty")
def _unborn_with_everything(repo: Repo) -> None:
    repo.write("staged.txt", "staged\n")
    repo.write("both.txt", "staged\n")
    repo.write("staged.sh", "#!/bin/sh\n", 0o755)
    repo.add("staged.txt", "both.txt", "staged.sh")
    repo.write("both.txt", "worktree\n")
    repo.write("wanted.txt", "wanted\n")
    repo.git("add", "-N", "wanted.txt")
    repo.write("box/untracked.txt", "untracked\n")
    repo.mkdir("empty")
    repo.remove("staged.txt")


@SCENARIOS.add(start="empty")
def _unborn_untracked_only(repo: Repo) -> None:
    repo.write("untracked.txt", "untracked\n")


@SCENARIOS.add()
def _unborn_beside_other_branches(repo: Repo) -> None:
    repo.git("checkout", "-q", "--orphan", "fresh")
    repo.git("rm", "-q", "-r", "--cached", "docs")
    repo.append("readme.txt", "on the orphan\n")


@SCENARIOS.add()
def _detached(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    repo.write("readme.txt", "staged while detached\n")
    repo.add("readme.txt")
    repo.append("notes.txt", "unstaged while detached\n")


@SCENARIOS.add()
def _detached_at_a_commit_that_no_ref_reaches(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    repo.write("alone.txt", "alone\n")
    repo.commit("alone")
    repo.append("alone.txt", "dirty\n")


@SCENARIOS.add()
def _detached_at_a_tag(repo: Repo) -> None:
    repo.git("checkout", "-q", "v1")
    repo.write("new.txt", "new\n")


@SCENARIOS.add()
def _branch_with_slashes_and_unicode(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "feature/über/naïve")
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_unborn_stays_unborn_after_the_branch_was_born(empty_repo: Repo) -> None:
    empty_repo.write("staged.txt", "staged\n")
    empty_repo.add("staged.txt")
    before = complete_state(empty_repo.path)
    taken = IN_PROCESS.checkpoint(empty_repo.path)
    assert taken["commit"] is None
    born = empty_repo.commit("born")
    done = IN_PROCESS.restore(empty_repo.path, taken["id"])
    after = complete_state(empty_repo.path)
    assert_same(before, after, "restore", branch="any")
    assert done["head"] is None
    assert after.refs == {"refs/heads/main": born + " "} or after.refs["refs/heads/main"].strip() == born
    IN_PROCESS.undo(empty_repo.path)
    now = complete_state(empty_repo.path)
    assert (now.head.branch, now.head.oid) == ("refs/heads/main", born)


def test_a_lost_detached_commit_survives_gc(repo: Repo) -> None:
    """Only the timeline holds the commit after the wreck; gc must not take it."""
    repo.git("checkout", "-q", "--detach")
    repo.write("alone.txt", "alone\n")
    repo.commit("alone")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("checkout", "-q", "-f", "main")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore after gc")


def test_restore_moves_no_branch_and_names_the_new_one(repo: Repo) -> None:
    repo.write("readme.txt", "dirty\n")
    taken = run_ok(repo.path, "checkpoint")
    for number in range(3):
        repo.write("work.txt", f"{number}\n")
        repo.commit(f"work {number}")
    tip = repo.oid()
    done = run_ok(repo.path, "restore", taken["id"][:12])
    assert done["schema"] == "agentos.restore.v1"
    assert done["checkpoint"] == taken["id"]
    assert done["branch"].startswith(f"restore/{taken['id'][:8]}/")
    assert RESTORE_BRANCH.fullmatch(f"refs/heads/{done['branch']}")
    assert done["head"] == taken["commit"] == repo.oid()
    assert repo.text("symbolic-ref", "--short", "HEAD") == done["branch"]
    assert repo.oid("main") == tip


def test_a_restore_branch_is_never_taken_twice(repo: Repo) -> None:
    """Two restores of one checkpoint within one second."""
    repo.write("readme.txt", "dirty\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    branches = {IN_PROCESS.restore(repo.path, taken["id"])["branch"] for _ in range(3)}
    assert len(branches) == 3
    assert {name for name in repo.text("branch", "--format=%(refname:short)").split() if "restore/" in name} == branches


def test_a_branch_called_restore_is_no_obstacle(repo: Repo) -> None:
    """`restore` blocks every `restore/…` (FIELD-NOTES): refused before anything changes, with a way out."""
    repo.git("branch", "restore")
    repo.write("readme.txt", "dirty\n")
    taken = run_ok(repo.path, "checkpoint")
    repo.write("readme.txt", "wrecked\n")
    wrecked = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", taken["id"])
    assert done.code == 1, str(done)
    assert b"restore" in done.err
    assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a refused restore changed something")
    assert run(repo.path, "restore", "--branch", "back", taken["id"]).code == 0
    assert repo.read("readme.txt") == b"dirty\n"


@pytest.mark.parametrize("detach", [False, True])
def test_undo_returns_to_the_branch_that_was_checked_out(repo: Repo, detach: bool) -> None:
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("checkout", "-q", *(["--detach"] if detach else []), "other")
    repo.append("readme.txt", "dirty on other\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
