"""Repositories that git stores in its less usual ways: sparse, split, shared, shallow, partial."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repo import Repo, filled, git
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool

SCENARIOS = Scenarios()


def _folders(repo: Repo) -> None:
    for folder in ("one", "two", "three"):
        for number in range(3):
            repo.write(f"{folder}/file{number}.txt", f"{folder} {number}\n")
            repo.write(f"{folder}/deep/file{number}.txt", f"{folder} deep {number}\n")
    repo.commit("folders")


def _dirty_inside(repo: Repo) -> None:
    repo.write("one/file0.txt", "staged\n")
    repo.add("one/file0.txt")
    repo.append("one/file0.txt", "unstaged\n")
    repo.remove("one/deep/file1.txt")
    repo.write("one/untracked.txt", "untracked\n")
    repo.append("readme.txt", "at the root\n")


@SCENARIOS.add()
def _sparse_cone(repo: Repo) -> None:
    _folders(repo)
    repo.git("sparse-checkout", "set", "--cone", "one")
    _dirty_inside(repo)


@SCENARIOS.add()
def _sparse_not_cone(repo: Repo) -> None:
    _folders(repo)
    repo.git("sparse-checkout", "set", "--no-cone", "/one/", "!/one/deep/file2.txt", "readme.txt")
    _dirty_inside(repo)


@SCENARIOS.add()
def _sparse_index(repo: Repo) -> None:
    _folders(repo)
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "one")
    _dirty_inside(repo)


@SCENARIOS.add()
def _sparse_with_files_outside_the_cone(repo: Repo) -> None:
    """A file that is there although its path is outside: git drops its skip-worktree bit on sight."""
    _folders(repo)
    repo.git("sparse-checkout", "set", "--cone", "one")
    repo.write("two/file0.txt", "here nevertheless\n")
    repo.write("two/new.txt", "untracked outside the cone\n")
    _dirty_inside(repo)


@SCENARIOS.add()
def _sparse_with_a_staged_change_outside(repo: Repo) -> None:
    _folders(repo)
    repo.git("sparse-checkout", "set", "--cone", "one")
    repo.write("two/file1.txt", "staged outside\n")
    repo.git("add", "--sparse", "two/file1.txt")
    repo.git("sparse-checkout", "reapply")
    repo.git("rm", "-q", "--sparse", "--cached", "three/file1.txt")


@SCENARIOS.add()
def _split_index(repo: Repo) -> None:
    repo.git("update-index", "--split-index")
    repo.config("core.splitIndex", "true")
    _folders(repo)
    _dirty_inside(repo)
    repo.git("update-index", "--assume-unchanged", "notes.txt")


@SCENARIOS.add()
def _index_version_4(repo: Repo) -> None:
    repo.git("update-index", "--index-version", "4")
    _folders(repo)
    _dirty_inside(repo)
    repo.write("wanted.txt", "wanted\n")
    repo.git("add", "-N", "wanted.txt")


@SCENARIOS.add()
def _untracked_cache(repo: Repo) -> None:
    repo.config("core.untrackedCache", "true")
    repo.git("update-index", "--force-untracked-cache")
    _folders(repo)
    repo.git("status")
    _dirty_inside(repo)
    repo.mkdir("one/empty")
    repo.write("fresh/untracked.txt", "untracked\n")


@SCENARIOS.add()
def _untracked_hidden_by_configuration(repo: Repo) -> None:
    """`status.showUntrackedFiles=no` is for people; a checkpoint takes them all the same."""
    repo.config("status.showUntrackedFiles", "no")
    repo.config("status.relativePaths", "false")
    repo.config("status.renames", "copies")
    repo.config("diff.renames", "copies")
    repo.config("core.quotePath", "true")
    repo.config("color.ui", "always")
    repo.config("diff.noprefix", "true")
    repo.config("diff.ignoreSubmodules", "all")
    repo.write("box/untracked.txt", "untracked\n")
    repo.git("mv", "readme.txt", "renamed.txt")


def _origin(repo: Repo) -> Path:
    origin = filled(repo.scratch / "origin")
    origin.config("uploadpack.allowFilter", "true")
    origin.config("uploadpack.allowAnySHA1InWant", "true")
    _folders(origin)
    return origin.path


@SCENARIOS.add(start="nothing")
def _partial_clone(repo: Repo) -> None:
    origin = _origin(repo)
    git(origin, "clone", "-q", "--filter=blob:none", f"file://{origin}", str(repo.path))
    repo.git("branch", "-q", "other", "origin/other")
    _dirty_inside(repo)


@SCENARIOS.add(start="nothing")
def _partial_clone_sparse_with_missing_blobs(repo: Repo) -> None:
    origin = _origin(repo)
    git(origin, "clone", "-q", "--sparse", "--filter=blob:none", f"file://{origin}", str(repo.path))
    repo.git("sparse-checkout", "set", "one")
    _dirty_inside(repo)


@SCENARIOS.add(start="nothing")
def _shallow(repo: Repo) -> None:
    origin = _origin(repo)
    git(origin, "clone", "-q", "--depth=1", f"file://{origin}", str(repo.path))
    _dirty_inside(repo)


@SCENARIOS.add(start="nothing")
def _alternates(repo: Repo) -> None:
    origin = _origin(repo)
    git(origin, "clone", "-q", "--shared", str(origin), str(repo.path))
    _dirty_inside(repo)


@SCENARIOS.add()
def _packed(repo: Repo) -> None:
    repo.git("gc", "-q")
    repo.git("pack-refs", "--all")
    repo.append("readme.txt", "dirty\n")
    repo.write("untracked.txt", "untracked\n")


@SCENARIOS.add()
def _worktree_config(repo: Repo) -> None:
    repo.config("extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.autocrlf", "true")
    repo.remove(*repo.git("ls-files", "-z").split(b"\0")[:-1])
    repo.git("checkout", "-q", "--", ".")
    repo.git("config", "--worktree", "user.name", "Worktree User")
    repo.write("dos.txt", "one\r\ntwo\r\n")
    repo.add("dos.txt")
    repo.write("dos.txt", "one\r\ntwo\r\nthree\r\n")


@SCENARIOS.add()
def _work_tree_of_another_place(repo: Repo) -> None:
    """A `.git` file: the git dir lies elsewhere."""
    repo.git("init", "-q", "--separate-git-dir", str(repo.scratch / "separate.git"))
    repo.append("readme.txt", "dirty\n")
    repo.write("untracked.txt", "untracked\n")


@SCENARIOS.add()
def _no_configured_identity(repo: Repo) -> None:
    repo.config("user.useConfigOnly", "true")
    repo.config("user.name", "")
    repo.config("user.email", "")
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add()
def _signing_and_hooks_switched_on(repo: Repo) -> None:
    """Neither may run: a checkpoint never signs and runs no hook."""
    repo.config("commit.gpgSign", "true")
    repo.config("gpg.program", "false")
    for hook in ("pre-commit", "post-commit", "post-checkout", "post-index-change", "commit-msg", "post-rewrite"):
        repo.write(f".git/hooks/{hook}", f"#!/bin/sh\necho {hook} >>'{repo.scratch}/hooks-ran'\nexit 1\n", 0o755)
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_no_hook_runs(tmp_path: Path) -> None:
    repo = SCENARIOS["signing-and-hooks-switched-on"].prepare(tmp_path)
    taken = COMMAND.checkpoint(repo.path)
    repo.write("readme.txt", "wrecked\n")
    COMMAND.restore(repo.path, taken["id"])
    COMMAND.undo(repo.path)
    assert not (repo.scratch / "hooks-ran").exists()


@pytest.mark.parametrize("name", ["partial-clone", "partial-clone-sparse-with-missing-blobs"])
def test_a_partial_clone_needs_no_network(name: str, tmp_path: Path) -> None:
    """Neither checkpoint nor restore may fetch what git left out: the origin is gone."""
    repo = SCENARIOS[name].prepare(tmp_path)
    before = complete_state(repo.path)
    (repo.scratch / "origin").rename(repo.scratch / "gone")
    taken = COMMAND.checkpoint(repo.path)
    repo.remove("one/file0.txt")
    repo.write("one/file2.txt", "wrecked\n")
    repo.git("add", "one/file2.txt")
    wrecked = complete_state(repo.path)
    COMMAND.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    COMMAND.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_a_sparse_checkout_widened_and_narrowed(tmp_path: Path) -> None:
    repo = SCENARIOS["sparse-cone"].prepare(tmp_path)
    narrow = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("sparse-checkout", "disable")
    repo.append("two/file0.txt", "changed while wide\n")
    wide = complete_state(repo.path)
    taken_wide = IN_PROCESS.checkpoint(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(narrow, complete_state(repo.path), "restore of the narrow state", branch="any")
    IN_PROCESS.restore(repo.path, taken_wide["id"])
    assert_same(wide, complete_state(repo.path), "restore of the wide state", branch="any")


def _share_configuration(repo: Repo, worktree_config: str | None) -> None:
    """Have the settings of the sparse checkout where git before 2.36 put them, for all worktrees."""
    for key in ("core.sparseCheckout", "core.sparseCheckoutCone", "index.sparse"):
        value = repo.text("config", "--default", "", "--get", key)
        repo.try_git("config", "--worktree", "--unset", key)
        if value:
            repo.git("config", "--local", key, value)
    repo.git("config", "--local", "--unset", "extensions.worktreeConfig")
    if worktree_config is not None:
        repo.git("config", "--local", "extensions.worktreeConfig", worktree_config)


@pytest.mark.parametrize(
    ("name", "where"),
    [("sparse-cone", "false"), ("sparse-cone", "linked"), ("sparse-not-cone", "unset"), ("sparse-index", "own")],
)
def test_a_sparse_checkout_is_on_exactly_where_the_state_has_it(name: str, where: str, tmp_path: Path) -> None:
    """What stayed on after a restore deleted files with the next `git sparse-checkout reapply`."""
    repo = SCENARIOS[name].prepare(tmp_path)
    if where != "own":
        _share_configuration(repo, "false" if where == "false" else None)
    other = Repo(tmp_path / "other")
    if where == "linked":
        repo.git("worktree", "add", "-q", str(other.path))
    narrow = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    cone = repo.text("config", "--type=bool", "core.sparseCheckoutCone")
    repo.git("sparse-checkout", "disable")
    wide = complete_state(repo.path)
    taken_wide = IN_PROCESS.checkpoint(repo.path)
    if where == "false":
        _share_configuration(repo, "false")

    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(narrow, complete_state(repo.path), "restore of the sparse state", branch="any")
    assert repo.text("config", "--type=bool", "core.sparseCheckout") == "true"
    assert repo.text("config", "--type=bool", "core.sparseCheckoutCone") == cone
    repo.git("sparse-checkout", "reapply")
    assert_same(narrow, complete_state(repo.path), "reapply in the sparse state", branch="any")

    IN_PROCESS.restore(repo.path, taken_wide["id"])
    assert_same(wide, complete_state(repo.path), "restore of the whole state", branch="any")
    assert repo.text("config", "--type=bool", "core.sparseCheckout") == "false"
    repo.try_git("sparse-checkout", "reapply")
    assert_same(wide, complete_state(repo.path), "reapply in the whole state", branch="any")

    COMMAND.undo(repo.path)
    assert repo.text("config", "--type=bool", "core.sparseCheckout") == "true"
    assert_same(narrow, complete_state(repo.path), "undo", branch="any")
    if where == "linked":
        assert other.text("status", "--porcelain") == ""
        assert repo.text("rev-parse", "--is-bare-repository") == "false"


@pytest.mark.parametrize("name", ["sparse-index", "split-index", "index-version-4"])
def test_the_index_keeps_its_format(name: str, tmp_path: Path) -> None:
    """Who switched a format on wants it still on after a restore."""
    repo = SCENARIOS[name].prepare(tmp_path)

    def traits() -> tuple[int, bool, bool]:
        data = (repo.git_dir / "index").read_bytes()
        return data[7], b"sdir" in data, b"link" in data

    before = traits()
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("one/file0.txt", "wrecked\n")
    repo.git("add", "-A")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert traits() == before


def test_checkpoint_changes_no_bit_of_a_split_index(tmp_path: Path) -> None:
    repo = SCENARIOS["split-index"].prepare(tmp_path)
    before = complete_state(repo.path, strict=True)
    for _ in range(3):
        IN_PROCESS.checkpoint(repo.path)
    assert_unchanged(before, complete_state(repo.path, strict=True), "three checkpoints changed something")


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_untracked_files_in_a_folder_outside_of_the_sparse_cone(repo: Repo, cone: str) -> None:
    """All that is tracked in the folder is absent; what is not is there."""
    clean = complete_state(repo.path)
    first = IN_PROCESS.checkpoint(repo.path)
    repo.git("sparse-checkout", "set", cone, "docs")
    repo.write("src/new.c", "new\n")
    repo.write("src/lib/deeper/new.c", "new\n")
    sparse = complete_state(repo.path)
    second = IN_PROCESS.checkpoint(repo.path)
    IN_PROCESS.restore(repo.path, first["id"])
    assert_same(clean, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(sparse, complete_state(repo.path), "undo", branch="any")
    repo.remove("src")
    IN_PROCESS.restore(repo.path, second["id"])
    assert_same(sparse, complete_state(repo.path), "restore of files that are untracked", branch="any")
