"""Submodules and nested repositories: their HEAD, index and files come back with the outer state."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from git_agentos.checkpoint.restore import gitdir
from git_agentos.errors import StorageError
from tests.support.repo import Repo, filled
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run
from tests.support.wrecks import reset_and_clean

SCENARIOS = Scenarios()
# `clean -ffdx` and `rm -rf` take a nested repository's object store with it; those are tests of their own below.
_WRECKS = ("reset-and-clean", "work-elsewhere", "remove-everything", "rewrite-and-commit")


def _submodule(repo: Repo, path: str = "sub", scratch: Path | None = None) -> Repo:
    upstream = filled((scratch or repo.scratch) / f"upstream-{path}")
    repo.git("submodule", "--quiet", "add", str(upstream.path), path)
    repo.commit(f"submodule {path}")
    return Repo(repo.path / path)


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_clean(repo: Repo) -> None:
    _submodule(repo)
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_dirty(repo: Repo) -> None:
    inner = _submodule(repo)
    inner.write("readme.txt", "staged inside\n")
    inner.add("readme.txt")
    inner.append("readme.txt", "unstaged inside\n")
    inner.write("untracked.txt", "untracked inside\n")
    inner.remove("notes.txt")
    inner.mkdir("empty")


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_untracked_only(repo: Repo) -> None:
    inner = _submodule(repo)
    inner.write("untracked.txt", "untracked inside\n")


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_moved_to_another_commit(repo: Repo) -> None:
    inner = _submodule(repo)
    inner.git("checkout", "-q", "v1")
    inner.append("readme.txt", "dirty at another commit\n")


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_moved_and_staged_with_a_commit_of_its_own(repo: Repo) -> None:
    inner = _submodule(repo)
    inner.write("local.txt", "local\n")
    inner.commit("local, never pushed")
    repo.git("add", "sub")
    inner.write("local.txt", "local and dirty\n")


@SCENARIOS.add(keep=[b"deep/renamed"], wrecks=_WRECKS)
def _submodule_renamed(repo: Repo) -> None:
    _submodule(repo)
    repo.mkdir("deep")
    repo.git("mv", "sub", "deep/renamed")
    Repo(repo.path / "deep/renamed").append("readme.txt", "dirty\n")


@SCENARIOS.add(wrecks=(*_WRECKS, "swap-types"))
def _submodule_uninitialised(repo: Repo) -> None:
    _submodule(repo)
    repo.git("submodule", "--quiet", "deinit", "-f", "sub")
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add(wrecks=(*_WRECKS, "swap-types"))
def _submodule_uninitialised_and_its_folder_gone(repo: Repo) -> None:
    _submodule(repo)
    repo.git("submodule", "--quiet", "deinit", "-f", "sub")
    repo.remove("sub")


@SCENARIOS.add(keep=[b"sub"], wrecks=_WRECKS)
def _submodule_ignored_by_configuration(repo: Repo) -> None:
    """`ignore = all` hides a dirty submodule from status, not from a checkpoint."""
    inner = _submodule(repo)
    repo.git("config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
    repo.commit("ignore = all")
    inner.append("readme.txt", "dirty\n")
    inner.write("untracked.txt", "untracked\n")


@SCENARIOS.add(keep=[b"sub"], wrecks=("reset-and-clean", "remove-everything"))
def _submodule_in_a_submodule(repo: Repo) -> None:
    inner = _submodule(repo)
    innermost = _submodule(inner, "below", repo.scratch)
    inner.write("readme.txt", "dirty inside\n")
    innermost.write("readme.txt", "dirty below\n")
    innermost.write("untracked.txt", "untracked below\n")


@SCENARIOS.add(keep=[b"sub"], wrecks=("reset-and-clean", "remove-everything"))
def _submodule_with_a_conflict(repo: Repo) -> None:
    inner = _submodule(repo)
    inner.git("merge", "-q", "--no-commit", "--no-ff", "origin/other")
    inner.append("readme.txt", "in the middle of a merge inside\n")


@SCENARIOS.add(keep=[b"nested"], wrecks=_WRECKS)
def _nested_with_commits_clean(repo: Repo) -> None:
    filled(repo.path / "nested")


@SCENARIOS.add(keep=[b"nested"], wrecks=_WRECKS)
def _nested_with_commits_dirty(repo: Repo) -> None:
    inner = filled(repo.path / "nested")
    inner.write("readme.txt", "staged inside\n")
    inner.add("readme.txt")
    inner.append("readme.txt", "unstaged inside\n")
    inner.write("untracked.txt", "untracked inside\n")


@SCENARIOS.add(keep=[b"box/nested"], wrecks=_WRECKS)
def _nested_deeper_beside_untracked_files(repo: Repo) -> None:
    inner = filled(repo.path / "box/nested")
    inner.append("notes.txt", "dirty\n")
    repo.write("box/beside.txt", "untracked beside it\n")


@SCENARIOS.add(keep=[b"nested"], wrecks=_WRECKS)
def _nested_without_commits(repo: Repo) -> None:
    inner = Repo.init(repo.path / "nested")
    inner.write("staged.txt", "staged\n")
    inner.add("staged.txt")
    inner.write("untracked.txt", "untracked\n")


@SCENARIOS.add(keep=[b"nested"], wrecks=_WRECKS)
def _nested_empty(repo: Repo) -> None:
    Repo.init(repo.path / "nested")


@SCENARIOS.add(keep=[b"nested"], wrecks=_WRECKS)
def _nested_detached(repo: Repo) -> None:
    inner = filled(repo.path / "nested")
    inner.git("checkout", "-q", "--detach", "v1")
    inner.append("readme.txt", "dirty\n")


@SCENARIOS.add(keep=[b"nested"], wrecks=("reset-and-clean", "remove-everything"))
def _nested_added_as_a_gitlink(repo: Repo) -> None:
    """`git add -A` made it a gitlink without a `.gitmodules`."""
    inner = filled(repo.path / "nested")
    repo.commit("a gitlink")
    inner.append("readme.txt", "dirty\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_a_submodule_folder_that_is_gone_comes_back(tmp_path: Path) -> None:
    """Its objects are still in `.git/modules`."""
    repo = SCENARIOS["submodule-dirty"].prepare(tmp_path)
    before = complete_state(repo.path)
    taken = COMMAND.checkpoint(repo.path)
    repo.remove("sub")
    repo.mkdir("sub")
    wrecked = complete_state(repo.path)
    COMMAND.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    COMMAND.undo(repo.path)
    now = complete_state(repo.path)
    assert now.index == wrecked.index
    assert now.head == wrecked.head


@pytest.mark.parametrize("name", ["nested-with-commits-dirty", "nested-without-commits", "nested-with-commits-clean"])
def test_a_nested_repository_that_is_gone_is_brought_back_or_missed_before_anything_changes(
    name: str, tmp_path: Path
) -> None:
    """Its object store went with it. Whatever the answer, nothing is half done."""
    repo = SCENARIOS[name].prepare(tmp_path)
    repo.append("readme.txt", "dirty\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-ffdxq")
    assert not repo.exists("nested")
    wrecked = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", taken["id"])
    if done.code == 0:
        assert_same(before, complete_state(repo.path), "restore", branch="any")
    else:
        assert done.code == 1, str(done)
        assert b"nested" in done.err, str(done)
        assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a refused restore changed something")


def test_undo_of_a_nested_repository_that_came_back(tmp_path: Path) -> None:
    """If the restore makes it anew, undo leaves neither it nor the folder that it was in."""
    repo = SCENARIOS["nested-deeper-beside-untracked-files"].prepare(tmp_path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("box")
    wrecked = complete_state(repo.path)
    if run(repo.path, "restore", taken["id"]).code == 0:
        IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo, or a refusal")


def test_a_new_nested_repository_is_not_destroyed(repo: Repo) -> None:
    """It was made since the checkpoint. Its object store is in no checkpoint, so it may not simply go."""
    taken = IN_PROCESS.checkpoint(repo.path)
    inner = filled(repo.path / "nested")
    inner.append("readme.txt", "dirty\n")
    wrecked = complete_state(repo.path)
    done = run(repo.path, "restore", taken["id"])
    if done.code == 0 and not repo.exists("nested"):
        IN_PROCESS.undo(repo.path)
    assert_same(wrecked.nested[b"nested"], complete_state(inner.path), "the nested repository")


def test_repositories_that_are_put_aside_together_keep_their_empty_folders(repo: Repo) -> None:
    """With its refs packed a repository has empty folders that it cannot be without."""
    taken = IN_PROCESS.checkpoint(repo.path)
    inner = [filled(repo.path / "box" / name) for name in ("one", "two", "three")]
    for each in inner:
        each.git("gc", "-q")
        each.mkdir("empty")
    folders = {each.path: _folders(each) for each in inner}
    IN_PROCESS.restore(repo.path, taken["id"])
    assert not repo.exists("box")
    IN_PROCESS.undo(repo.path)
    assert {each.path: _folders(each) & folders[each.path] for each in inner} == folders


def _folders(repo: Repo) -> set[str]:
    return {os.path.relpath(top, repo.path) for top, _, _ in os.walk(repo.path)}


def test_a_nested_repository_in_the_way_of_a_file(repo: Repo) -> None:
    """Then `thing` a file, now a repository: refused before anything changes, or put back whole by undo."""
    repo.write("thing", "a file then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("thing")
    inner = filled(repo.path / "thing")
    inner.append("readme.txt", "dirty\n")
    wrecked = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", taken["id"])
    if done.code == 0:
        IN_PROCESS.undo(repo.path)
        assert_same(wrecked, complete_state(repo.path), "undo")
    else:
        assert done.code == 1, str(done)
        assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a refused restore changed something")


def test_undo_goes_into_the_nested_repository(tmp_path: Path) -> None:
    repo = SCENARIOS["nested-with-commits-dirty"].prepare(tmp_path)
    inner = Repo(repo.path / "nested")
    taken = IN_PROCESS.checkpoint(repo.path)
    reset_and_clean(inner)
    inner.write("later.txt", "later\n")
    inner.commit("later")
    tip = inner.oid("main")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert inner.oid("main") == tip, "the nested branch lost a commit"
    IN_PROCESS.undo(repo.path)
    assert inner.oid() == tip
    assert inner.read("later.txt") == b"later\n"


def test_another_repository_in_its_place_gives_way_and_comes_back(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was deleted with its store, and somebody began another one there."""
    filled(repo.path / "inner").append("readme.txt", "dirty\n")
    then = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("inner")
    Repo.init(repo.path / "inner").write("other.txt", "not committed\n")
    now = complete_state(repo.path)

    def fails(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(gitdir, "set_index", fails)
        with pytest.raises(StorageError):
            IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(now, complete_state(repo.path), "a restore that failed")
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert done["skipped"] == []
    assert_same(then, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(now, complete_state(repo.path), "undo")
    IN_PROCESS.undo(repo.path)
    assert_same(then, complete_state(repo.path), "undo of the undo", branch="any")


def test_gc_in_the_nested_repository_takes_nothing(tmp_path: Path) -> None:
    repo = SCENARIOS["nested-with-commits-dirty"].prepare(tmp_path)
    inner = Repo(repo.path / "nested")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    reset_and_clean(inner)
    for place in (inner, repo):
        place.git("reflog", "expire", "--expire=now", "--all")
        place.git("gc", "-q", "--prune=now")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_a_checkpoint_inside_a_submodule_is_the_submodules_own(tmp_path: Path) -> None:
    """Run in `sub/`, the tool works on the submodule: its timeline, its undo."""
    repo = SCENARIOS["submodule-dirty"].prepare(tmp_path)
    inner = Repo(repo.path / "sub")
    outer = complete_state(repo.path, strict=True)
    before = complete_state(inner.path)
    taken = COMMAND.checkpoint(inner.path)
    assert_unchanged(outer, complete_state(repo.path, strict=True), "the inner checkpoint changed something")
    assert repo.git("for-each-ref", "refs/agentos") == b""
    reset_and_clean(inner)
    COMMAND.restore(inner.path, taken["id"])
    assert_same(before, complete_state(inner.path), "restore", branch="any")


def test_no_copy_of_the_nested_object_store(tmp_path: Path) -> None:
    """A nested repository is recorded by its own checkpoint, not as thousands of untracked files."""
    repo = SCENARIOS["nested-with-commits-clean"].prepare(tmp_path)
    taken = IN_PROCESS.checkpoint(repo.path)
    names = repo.text("ls-tree", "-r", "--name-only", f"{taken['id']}^3")
    assert ".git" not in names
    shutil.rmtree(repo.path)
