"""The options of `restore`: where HEAD goes, what stays, what alone comes back, what would happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.state import State, assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run, run_ok

BOTH = pytest.mark.parametrize("tool", [IN_PROCESS, COMMAND], ids=["api", "command"])


def _dirty(repo: Repo) -> None:
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.append("readme.txt", "unstaged\n")
    repo.write("untracked.txt", "untracked\n")
    repo.write("src/untracked.txt", "untracked below src\n")
    repo.remove("notes.txt")
    repo.mkdir("empty")


def _wreck(repo: Repo) -> None:
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-fdxq")
    repo.write("later.txt", "made since\n")
    repo.write("src/later/deep.txt", "made since\n")
    repo.write("src/app.py", "changed since\n")
    repo.write("staged-later.txt", "staged since\n")
    repo.add("staged-later.txt")


def _taken(repo: Repo, tool: Tool) -> tuple[str, State]:
    _dirty(repo)
    before = complete_state(repo.path)
    return str(tool.checkpoint(repo.path)["id"]), before


@BOTH
def test_no_branch_on_the_same_commit(repo: Repo, tool: Tool) -> None:
    checkpoint, before = _taken(repo, tool)
    _wreck(repo)
    wrecked = complete_state(repo.path)
    done = tool.restore(repo.path, checkpoint, no_branch=True)
    after = complete_state(repo.path)
    assert_same(before, after, "restore --no-branch", refs=True)
    assert done["branch"] in (None, "main")
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo", refs=True)
    tool.undo(repo.path)
    assert_same(before, complete_state(repo.path), "redo", refs=True)


@BOTH
def test_no_branch_on_another_commit_leaves_head(repo: Repo, tool: Tool) -> None:
    """HEAD stays; index and files become the checkpoint's. So the way back from other commits shows as changes."""
    checkpoint, before = _taken(repo, tool)
    _wreck(repo)
    repo.commit("work since")
    repo.append("later.txt", "dirty\n")
    wrecked = complete_state(repo.path)
    tool.restore(repo.path, checkpoint, no_branch=True)
    after = complete_state(repo.path)
    assert after.head == wrecked.head
    assert after.index == before.index
    assert after.files == before.files
    assert after.refs == wrecked.refs
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo", refs=True)


@BOTH
@pytest.mark.parametrize("detached", [False, True])
def test_branch_names_the_new_branch(repo: Repo, tool: Tool, detached: bool) -> None:
    if detached:
        repo.git("checkout", "-q", "--detach")
    checkpoint, before = _taken(repo, tool)
    repo.git("checkout", "-q", "-f", "other")
    wrecked = complete_state(repo.path)
    done = tool.restore(repo.path, checkpoint, branch="rescue/it")
    after = complete_state(repo.path)
    assert_same(before, after, "restore --branch", branch="ignore")
    assert after.head.branch == "refs/heads/rescue/it"
    assert done["branch"] == "rescue/it"
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


@pytest.mark.parametrize("name", ["main", "other"])
def test_branch_that_exists_is_refused(repo: Repo, name: str) -> None:
    """No existing branch moves."""
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    wrecked = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", "--branch", name, checkpoint)
    assert done.code == 1, str(done)
    assert name.encode() in done.err
    assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a refused restore changed something")


@pytest.mark.parametrize("name", ["bad..name", "-x", "a b", "x.lock", "", "@{", "HEAD"])
def test_branch_name_that_git_refuses_is_a_usage_error(repo: Repo, name: str) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    wrecked = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", f"--branch={name}", checkpoint)
    assert done.code == 2, str(done)
    assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a refused restore changed something")


def test_branch_and_no_branch_exclude_each_other(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    done = run(repo.path, "restore", "--no-branch", "--branch", "x", checkpoint)
    assert done.code == 2, str(done)


@BOTH
def test_keep_new_leaves_new_files(repo: Repo, tool: Tool) -> None:
    repo.write("readme.txt", "dirty\n")
    before = complete_state(repo.path)
    checkpoint = tool.checkpoint(repo.path)["id"]
    _wreck(repo)
    wrecked = complete_state(repo.path)
    done = tool.restore(repo.path, checkpoint, keep_new=True)
    after = complete_state(repo.path)
    new = (b"later.txt", b"src/later", b"staged-later.txt")
    assert_same(before.without(*new), after.without(*new), "restore --keep-new", branch="any", status=False)
    assert repo.read("later.txt") == b"made since\n"
    assert repo.read("src/later/deep.txt") == b"made since\n"
    assert repo.read("staged-later.txt") == b"staged since\n"
    assert list(done["removed"]) == []
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_keep_new_gives_way_where_a_restored_path_needs_the_place(repo: Repo) -> None:
    """`thing` was a file and is a new folder: the checkpoint's file comes back, the folder's files are in the save."""
    repo.write("thing", "a file then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("thing")
    repo.write("thing/new.txt", "made since\n")
    repo.write("beside.txt", "made since\n")
    wrecked = complete_state(repo.path)
    done = run(repo.path, "restore", "--keep-new", taken["id"])
    if done.code == 0:
        assert repo.read("thing") == b"a file then\n"
        assert repo.exists("beside.txt")
        IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo, or a refusal")


@BOTH
def test_dry_run_tells_and_touches_nothing(repo: Repo, tool: Tool) -> None:
    checkpoint, _ = _taken(repo, tool)
    _wreck(repo)
    refs = repo.git("for-each-ref")
    wrecked = complete_state(repo.path, strict=True)
    plan = tool.restore(repo.path, checkpoint, dry_run=True)
    assert_unchanged(wrecked, complete_state(repo.path, strict=True), "a dry run changed something")
    assert repo.git("for-each-ref") == refs, "a dry run took a checkpoint"
    assert plan["dry_run"] is True
    assert plan["saved"] is None
    real = tool.restore(repo.path, checkpoint)
    assert real["dry_run"] is False
    assert (sorted(plan["changed"]), sorted(plan["removed"])) == (sorted(real["changed"]), sorted(real["removed"]))


def test_keys_of_a_restore_report(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    done = run_ok(repo.path, "restore", checkpoint)
    assert set(done) == {
        "schema",
        "checkpoint",
        "saved",
        "branch",
        "head",
        "worktree_path",
        "changed",
        "removed",
        "skipped",
        "dry_run",
        "state",
    }
    assert sorted(path for path in done["changed"] if path != "empty") == [
        "readme.txt",
        "src/app.py",
        "src/untracked.txt",
        "untracked.txt",
    ]
    assert sorted(done["removed"]) == ["later.txt", "notes.txt", "src/later/deep.txt", "staged-later.txt"]
    assert done["skipped"] == []
    saved = run_ok(repo.path, "checkpoint", "show", done["saved"])
    assert saved["trigger"] == "before_restore"


def test_dry_run_of_undo(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    run_ok(repo.path, "restore", checkpoint)
    restored = complete_state(repo.path, strict=True)
    plan = run_ok(repo.path, "undo", "--dry-run")
    assert plan["dry_run"] is True
    assert_unchanged(restored, complete_state(repo.path, strict=True), "undo --dry-run changed something")


@BOTH
def test_paths_restores_these_only(repo: Repo, tool: Tool) -> None:
    """Worktree and index of the paths named; HEAD and everything else stay."""
    checkpoint, before = _taken(repo, tool)
    _wreck(repo)
    wrecked = complete_state(repo.path)
    done = tool.restore(repo.path, checkpoint, ["readme.txt", "untracked.txt"])
    after = complete_state(repo.path)
    assert after.head == wrecked.head
    assert after.refs == wrecked.refs
    expected = dict(wrecked.files)
    expected[b"readme.txt"] = before.files[b"readme.txt"]
    expected[b"untracked.txt"] = before.files[b"untracked.txt"]
    assert after.files == expected
    wanted = {entry.path: entry for entry in wrecked.index}
    wanted |= {entry.path: entry for entry in before.index if entry.path == b"readme.txt"}
    assert {entry.path: entry for entry in after.index} == wanted
    assert sorted(done["changed"]) == ["readme.txt", "untracked.txt"]
    tool.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo", refs=True)


def test_a_folder_as_path(repo: Repo) -> None:
    """Everything at or below it becomes the checkpoint's: what was made since goes, what was deleted then goes."""
    checkpoint, before = _taken(repo, IN_PROCESS)
    _wreck(repo)
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, checkpoint, ["src"])
    after = complete_state(repo.path)
    below = {path: file for path, file in after.files.items() if path.startswith(b"src/")}
    assert below == {path: file for path, file in before.files.items() if path.startswith(b"src/")}
    rest = {path: file for path, file in after.files.items() if not path.startswith(b"src/")}
    assert rest == {path: file for path, file in wrecked.files.items() if not path.startswith(b"src/")}
    assert after.head == wrecked.head


def test_a_path_that_was_deleted_then(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    done = IN_PROCESS.restore(repo.path, checkpoint, ["notes.txt"])
    assert not repo.exists("notes.txt")
    assert done["removed"] == ["notes.txt"]


def test_paths_are_relative_to_where_one_stands(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    done = run_ok(repo.path / "src", "restore", checkpoint, "app.py", "../readme.txt")
    assert sorted(done["changed"]) == ["readme.txt", "src/app.py"]
    assert repo.read("src/app.py") == b"print('app')\n"
    assert repo.exists("later.txt")


def test_a_path_that_neither_side_knows_is_an_error(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    wrecked = complete_state(repo.path, strict=True)
    for path in ("no-such-file", "../outside", "/etc/passwd"):
        done = run(repo.path, "restore", checkpoint, "--", path)
        assert done.code in (1, 2), str(done)
        assert path.encode() in done.err or b"outside" in done.err, str(done)
        assert_unchanged(wrecked, complete_state(repo.path, strict=True), f"restore of {path} changed something")


def test_a_path_with_branch_is_a_usage_error(repo: Repo) -> None:
    checkpoint, _ = _taken(repo, IN_PROCESS)
    assert run(repo.path, "restore", "--branch", "x", checkpoint, "readme.txt").code == 2


@BOTH
def test_restore_of_the_present_state_changes_no_file(repo: Repo, tool: Tool) -> None:
    """Restoring the present state changes no file, and undo still has something to undo."""
    checkpoint, before = _taken(repo, tool)
    done = tool.restore(repo.path, checkpoint, no_branch=True)
    assert [*done["changed"], *done["removed"]] == []
    assert_same(before, complete_state(repo.path), "restore of the present")
    tool.undo(repo.path)
    assert_same(before, complete_state(repo.path), "undo")


def test_undo_without_a_restore(repo: Repo) -> None:
    repo.append("readme.txt", "dirty\n")
    IN_PROCESS.checkpoint(repo.path)
    before = complete_state(repo.path, strict=True)
    done = run(repo.path, "undo")
    assert done.code == 1, str(done)
    assert b"undo" in done.err
    assert_unchanged(before, complete_state(repo.path, strict=True), "undo of nothing changed something")


def test_undo_keeps_what_was_done_after_the_restore(repo: Repo) -> None:
    """Undo saves first: edits and commits made after the restore come back with the redo."""
    checkpoint, _ = _taken(repo, IN_PROCESS)
    _wreck(repo)
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, checkpoint)
    repo.write("after.txt", "after the restore\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "after the restore")
    repo.append("after.txt", "dirty\n")
    worked = complete_state(repo.path)
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")
    IN_PROCESS.undo(repo.path)
    assert_same(worked, complete_state(repo.path), "redo")


def test_a_unique_prefix_names_a_checkpoint(repo: Repo) -> None:
    ids = []
    for number in range(3):
        repo.write("readme.txt", f"{number}\n")
        ids.append(IN_PROCESS.checkpoint(repo.path)["id"])
    for number, checkpoint in enumerate(ids):
        for spec in (checkpoint, checkpoint[:10], checkpoint[:8]):
            repo.write("readme.txt", "wrecked\n")
            assert IN_PROCESS.restore(repo.path, spec, no_branch=True)["checkpoint"] == checkpoint
            assert repo.read("readme.txt") == f"{number}\n".encode()


def test_latest_and_positions(repo: Repo) -> None:
    ids = []
    for number in range(3):
        repo.write("readme.txt", f"{number}\n")
        ids.append(IN_PROCESS.checkpoint(repo.path)["id"])
    for spec, expected in (("latest", ids[2]), ("@{0}", ids[2]), ("@{1}", ids[1]), ("@{2}", ids[0])):
        assert IN_PROCESS.restore(repo.path, spec, dry_run=True)["checkpoint"] == expected


def test_a_folder_with_nothing_but_empty_ones_can_be_named(repo: Repo) -> None:
    repo.mkdir("a/b/c")
    checkpoint, before = _taken(repo, IN_PROCESS)
    repo.remove("a")
    run_ok(repo.path, "restore", checkpoint, "a")
    assert_same(before, complete_state(repo.path), "restore a")
    repo.remove("a")
    before = complete_state(repo.path)
    without = IN_PROCESS.checkpoint(repo.path)["id"]
    repo.mkdir("a/b/c")
    run_ok(repo.path, "restore", without, "a/b")
    repo.remove("a")
    assert_same(before, complete_state(repo.path), "restore a/b")


def test_unchanged_files_keep_their_times(repo: Repo) -> None:
    """zed#59099: builds look at mtimes."""
    checkpoint, before = _taken(repo, IN_PROCESS)
    strict = complete_state(repo.path, strict=True)
    assert strict.strict is not None
    repo.write("src/app.py", "changed since\n")
    IN_PROCESS.restore(repo.path, checkpoint)
    after = complete_state(repo.path, strict=True)
    assert after.strict is not None
    unchanged = {
        path for path in before.files if path != b"src/app.py" and before.files[path].kind != "empty directory"
    }
    assert {path: after.strict.mtimes[path] for path in unchanged} == {
        path: strict.strict.mtimes[path] for path in unchanged
    }
    assert after.strict.mtimes[b"src/app.py"] != strict.strict.mtimes[b"src/app.py"]


def test_the_working_directory_survives(repo: Repo) -> None:
    """A shell that stands in a folder of the worktree must not be left in a removed one where the folder stays."""
    checkpoint, _ = _taken(repo, IN_PROCESS)
    inode = (repo.path / "src" / "lib").stat().st_ino
    repo.write("src/lib/util.py", "wrecked\n")
    IN_PROCESS.restore(repo.path, checkpoint)
    assert (repo.path / "src" / "lib").stat().st_ino == inode


@pytest.mark.parametrize("where", ["src", "src/lib"])
def test_subdirectory_takes_the_whole_worktree(repo: Repo, where: str) -> None:
    """Checkpoint, restore and undo take the whole worktree wherever one stands in it."""
    _dirty(repo)
    here: Path = repo.path / where
    before = complete_state(repo.path)
    taken = COMMAND.checkpoint(here)
    assert taken["worktree_path"] == str(repo.path)
    _wreck(repo)
    wrecked = complete_state(repo.path)
    COMMAND.restore(here, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    COMMAND.undo(here)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_c_option(repo: Repo, tmp_path: Path) -> None:
    """`-C PATH` before or after the command."""
    _dirty(repo)
    before = complete_state(repo.path)
    taken = run_ok(tmp_path, "-C", str(repo.path), "checkpoint")
    _wreck(repo)
    run_ok(tmp_path, "restore", "-C", "repo/src", taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
