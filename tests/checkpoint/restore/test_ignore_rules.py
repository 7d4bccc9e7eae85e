"""Ignore rules that differ between a checkpoint, the state before its restore, and the state before the undo.

Whatever the rules do: a restore brings the index, the files and the folders that the checkpoint has, an undo brings all
that was there, and what neither of them has to change keeps its inode and its times.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import IN_PROCESS, run_ok


def _identity(repo: Repo, path: str) -> tuple[int, int]:
    found = os.lstat(repo.at(path))
    return found.st_ino, found.st_mtime_ns


# -- what the checkpoint knows to be absent ------------------------------------------------------------------------


@pytest.mark.parametrize("became", ["file", "link", "folder"])
def test_a_tracked_path_deleted_then_and_ignored_now_goes(repo: Repo, became: str) -> None:
    repo.remove("notes.txt")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("rm", "-q", "--cached", "notes.txt")
    repo.write(".git/info/exclude", "notes.txt\n")
    if became == "file":
        repo.write("notes.txt", "ignored, and in no checkpoint\n")
    elif became == "link":
        repo.link("notes.txt", "nowhere")
    else:
        repo.write("notes.txt/inner", "ignored, and in no checkpoint\n")
    wrecked = complete_state(repo.path)
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert done["skipped"] == []
    now = complete_state(repo.path)
    # Whether there was an ignored folder then is in no checkpoint; git status says D whether there is or not.
    assert_same(before, now.without(b"notes.txt") if became == "folder" else now, "restore", branch="any", status=False)
    assert before.status == now.status
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_a_path_with_an_intent_to_add_deleted_then_and_ignored_now_goes(repo: Repo) -> None:
    repo.write("planned.txt", "planned\n")
    repo.git("add", "-N", "planned.txt")
    repo.remove("planned.txt")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("rm", "-q", "--cached", "planned.txt")
    repo.write(".git/info/exclude", "planned.txt\n")
    repo.write("planned.txt", "ignored\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


# -- empty folders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["deep/er/and", "deep/er/and/*", "deep/er"])
def test_deleted_tracked_folder_leaves_no_empty_folder(repo: Repo, gone: str) -> None:
    repo.write("deep/er/and/one", "1\n")
    repo.write("deep/er/and/two/three", "3\n")
    repo.write("wide/file", "beside\n")
    repo.commit("deep")
    if gone.endswith("*"):
        repo.remove("deep/er/and/one", "deep/er/and/two")
    else:
        repo.remove(gone)
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_an_ignored_empty_folder_that_gets_a_file_is_empty_again_after_undo(repo: Repo) -> None:
    repo.write("out/file", "then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("out/file")
    repo.mkdir("out")
    repo.write(".git/info/exclude", "/out/\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("out/file") == b"then\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_an_empty_folder_that_the_restore_made_goes_though_the_older_rules_ignore_it(repo: Repo) -> None:
    repo.mkdir("out/deep")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("out")
    repo.write(".gitignore", "out/\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.exists("out/deep")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


# -- what is right already is not touched --------------------------------------------------------------------------


def test_an_identical_ignored_link_in_the_way_is_not_made_again(repo: Repo) -> None:
    repo.link("latest", "src/app.py")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitignore", "latest\n")
    found = _identity(repo, "latest")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert _identity(repo, "latest") == found
    IN_PROCESS.undo(repo.path)
    assert _identity(repo, "latest") == found


@pytest.mark.parametrize("attribute", ["filter=rot", "text eol=crlf", "ident"])
def test_an_identical_ignored_file_that_git_converts_is_not_written_again(repo: Repo, attribute: str) -> None:
    repo.config("filter.rot.clean", "tr a-z n-za-m")
    repo.config("filter.rot.smudge", "tr a-z n-za-m")
    repo.write(".gitattributes", f"*.rot {attribute}\n")
    repo.commit("attributes")
    repo.write("u.rot", "some words\r\n" if "crlf" in attribute else "some words\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitignore", "*.rot\n")
    found, wrecked = _identity(repo, "u.rot"), complete_state(repo.path)
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert "u.rot" not in done["changed"]
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    assert _identity(repo, "u.rot") == found
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    assert _identity(repo, "u.rot") == found


# -- what a restore makes visible ----------------------------------------------------------------------------------


def _hidden(repo: Repo) -> None:
    """Everything that may be ignored by a rule `hidden*`."""
    repo.write("hidden.txt", "in no checkpoint\n", 0o600)
    repo.link("hidden-link", "hidden.txt")
    repo.write("hidden/deep/one", "1\n", 0o755)
    repo.mkdir("hidden/empty")
    inner = Repo.init(Path(os.fsdecode(repo.at("hidden/nested"))))
    inner.write("inner.txt", "inner\n")
    inner.commit("inside")
    inner.write("inner.txt", "inner, changed\n")


def _hide(repo: Repo, how: str) -> None:
    """Ignore `hidden*` by a file of rules that is not the checkpoint's."""
    if how == "excludesFile":
        repo.config("core.excludesFile", "rules")
        repo.write("rules", "hidden*\nrules\n")
    elif how == "self":
        repo.write(".gitignore", "hidden*\n.gitignore\n")
    elif how == "everything":
        repo.write(".gitignore", "*\n")
    elif how == "excluded":
        repo.write(".git/info/exclude", ".gitignore\n")
        repo.write(".gitignore", "hidden*\n")
    else:
        repo.write(".gitignore", "hidden*\n")


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted-since"])
@pytest.mark.parametrize("how", ["plain", "self", "everything", "excluded"])
def test_file_made_visible_by_restore_is_saved_and_comes_back(repo: Repo, how: str, deleted: bool) -> None:
    repo.write(".gitignore", "*.o\n")
    repo.commit("rules")
    taken = IN_PROCESS.checkpoint(repo.path)
    _hide(repo, how)
    _hidden(repo)
    wrecked = complete_state(repo.path)
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read(".gitignore") == b"*.o\n"
    assert repo.read("hidden.txt") == b"in no checkpoint\n"
    assert repo.exists("hidden/nested/.git")
    shown = ["hidden-link", "hidden.txt", "hidden/deep/one", "hidden/nested/"]
    assert sorted(item["path"] for item in done["skipped"]) == shown
    if deleted:
        repo.git("clean", "-ffdxq")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo", permissions="all")


def test_a_hidden_repository_that_the_checkpoint_has_comes_back_as_it_was(repo: Repo) -> None:
    inner = Repo.init(Path(os.fsdecode(repo.at("nest"))))
    inner.write("inner.txt", "inner\n")
    inner.commit("inside")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitignore", "*\n")
    inner.write("inner.txt", "changed while nobody looked\n")
    inner.write("more.txt", "more\n")
    wrecked = complete_state(repo.path)
    repo_rules = repo.read(".gitignore")
    IN_PROCESS.restore(repo.path, taken["id"])
    if not repo.exists(".gitignore"):
        assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert repo.read(".gitignore") == repo_rules
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_a_hidden_repository_in_the_way_of_a_file_comes_back(repo: Repo) -> None:
    repo.write("box", "a file then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("box")
    repo.write(".gitignore", "box/\n")
    inner = Repo.init(Path(os.fsdecode(repo.at("box/nest"))))
    inner.write("inner.txt", "inner\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("box") == b"a file then\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


# -- archives ------------------------------------------------------------------------------------------------------


def test_an_archive_has_the_empty_folders_that_a_rule_ignores(repo: Repo) -> None:
    run_ok(repo.path, "worktree", "create", "dev-1")
    one = Repo(repo.path.parent / f"{repo.path.name}.worktrees" / "dev-1")
    one.write(".gitignore", "out/\n")
    one.mkdir("out/deep/er")
    one.mkdir("visible")
    before = complete_state(one.path)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive")
    assert_same(before, complete_state(one.path), "revive", branch="any")


# -- which kind of thing a rule speaks of --------------------------------------------------------------------------


def test_an_empty_folder_that_the_older_rules_do_not_ignore_goes(repo: Repo) -> None:
    """`!*/` takes folders out, and files not."""
    repo.write(".gitignore", "*\n!*/\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove(".gitignore")
    repo.mkdir("made/since")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


# -- rules that are ignored themselves -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "src/", "fresh/"])
def test_rules_that_ignore_themselves_come_back(repo: Repo, place: str) -> None:
    repo.write(place + "seen.txt", "untracked\n")
    repo.write(place + ".gitignore", "*.key\n.gitignore\n")
    repo.write(place + "secret.key", "ignored\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(place + ".gitignore", "*.other\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    repo.remove(place + ".gitignore")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore after they were deleted", branch="any")


@pytest.mark.parametrize("rules", ["*\n", "*\n!*/\n", "seen.txt\n.gitignore\n"])
@pytest.mark.parametrize("place", ["", "fresh/"])
def test_rules_hiding_files_of_the_checkpoint_are_removed(repo: Repo, place: str, rules: str) -> None:
    repo.write(place + "seen.txt", "untracked\n")
    repo.write(place + "deep/seen.txt", "untracked\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove(place + "deep", place + "seen.txt")
    repo.write(place + ".gitignore", rules)
    repo.write(place + "secret.key", "perhaps ignored\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    now = complete_state(repo.path)
    gone = os.fsencode(place + "secret.key")
    assert_same(before.without(gone), now.without(gone), "restore", branch="any")
    assert b"seen.txt" in now.status
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


# -- rules from outside of the worktree ----------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["exclude", "excludesFile"])
def test_file_protected_by_outside_rules_at_checkpoint_stays(repo: Repo, source: str) -> None:
    """The rules in info/exclude, or in the user's file, have changed between restore and undo."""
    place = repo.path / ".git/info/exclude" if source == "exclude" else repo.path.parent / "users"
    repo.config("core.excludesFile", str(repo.path.parent / "users"))
    place.parent.mkdir(exist_ok=True)
    place.write_text("*.key\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.append("readme.txt", "more\n")
    repo.write("secret.key", "in no checkpoint\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    place.write_text("*.other\n")
    IN_PROCESS.undo(repo.path)
    place.write_text("*.key\n")
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_file_hidden_by_outside_rules_is_named(repo: Repo) -> None:
    repo.write("seen.txt", "untracked\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("seen.txt")
    repo.write(".git/info/exclude", "seen.txt\n")
    done = IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("seen.txt") == b"untracked\n"
    assert [item["path"] for item in done["skipped"]] == ["seen.txt"]


def test_a_nested_repository_that_is_made_again_ignores_what_it_did(repo: Repo) -> None:
    inner = Repo.init(Path(os.fsdecode(repo.at("nest"))))
    inner.write("inner.txt", "inner\r\n")
    inner.write("secret.key", "ignored\n")
    inner.write(".git/info/exclude", "# mine\n*.key\n")
    inner.write(".git/info/attributes", "inner.txt text eol=crlf\n")
    inner.commit("inside")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("nest")
    IN_PROCESS.restore(repo.path, taken["id"])
    inner.write("secret.key", "ignored\n")
    assert inner.read(".git/info/exclude") == b"# mine\n*.key\n"
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_a_repository_that_a_restored_path_brought_and_a_rule_hides_goes_again(repo: Repo) -> None:
    inner = Repo.init(Path(os.fsdecode(repo.at("box/nest"))))
    inner.write("inner.txt", "inner\n")
    inner.commit("inside")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("box")
    repo.write(".gitignore", "*\n")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"], ["box"])
    brought = complete_state(repo.path)
    assert brought.nested.keys() == {b"box/nest"}
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    IN_PROCESS.undo(repo.path)
    assert_same(brought, complete_state(repo.path), "redo")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_redo_leaves_an_ignored_file_that_undo_found_to_be_right(repo: Repo, kind: str) -> None:
    """Then: not in the index. Now: committed; `--no-branch` leaves the commit, so the file is an ignored one."""
    repo.write(".git/info/exclude", "*\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    if kind == "file":
        repo.write("made", "since\n")
    else:
        repo.link("made", "nowhere")
    repo.git("add", "-f", "made")
    repo.git("commit", "-q", "-m", "made")
    before = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"], no_branch=True)
    restored = complete_state(repo.path)
    IN_PROCESS.undo(repo.path)
    assert_same(before, complete_state(repo.path), "undo")
    IN_PROCESS.undo(repo.path)
    assert_same(restored, complete_state(repo.path), "redo")
