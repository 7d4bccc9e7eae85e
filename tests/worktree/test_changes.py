"""`worktree create --with-changes`: the new worktree begins as this one is, which does not change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_repository, open_workspace
from git_agentos.worktree import pool, pool_filling
from tests.support.dirty import make_dirty
from tests.support.operations import OPERATIONS, Operation
from tests.support.repo import Repo, filled
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import run, run_ok


def create(repo: Repo, *options: str) -> Repo:
    """Create a worktree with the changes of `repo`, in which nothing changes, not even a time."""
    before = complete_state(repo.path, strict=True)
    made = run_ok(repo.path, "worktree", "create", "dev-001", "--with-changes", *options)
    after = complete_state(repo.path, strict=True)
    assert_same(before, after, "create", permissions="all")
    assert before.strict is not None
    assert after.strict is not None
    assert before.strict.mtimes == after.strict.mtimes
    assert made["changes_from"] == open_workspace(repo.path).checkpoints(limit=1)[0].id
    assert (made["branch"], made["head_sha"]) == ("agent/dev-001", repo.oid())
    return Repo(Path(made["path"]))


def assert_carried(repo: Repo, there: Repo) -> None:
    """Index, files, modes, empty folders and status are the same."""
    assert_same(complete_state(repo.path), complete_state(there.path), "carried", branch="ignore", permissions="all")
    assert there.git("status", "--porcelain", "-z") == repo.git("status", "--porcelain", "-z")
    assert there.git("diff", "--binary") == repo.git("diff", "--binary")


def test_everything_uncommitted(repo: Repo) -> None:
    make_dirty(repo)
    repo.write("empty.txt", "")
    repo.git("add", "-N", "empty.txt")
    repo.git("update-index", "--assume-unchanged", "link")
    repo.mkdir("empty/folder")
    repo.write("private", "x\n", 0o600)
    assert_carried(repo, create(repo))


def test_nothing_uncommitted(repo: Repo) -> None:
    there = create(repo)
    assert_carried(repo, there)
    assert there.git("status", "--porcelain") == b""


def test_line_ends_and_filters(repo: Repo) -> None:
    """The bytes are those of this worktree, not those of a checkout."""
    repo.write(".gitattributes", "*.txt text=auto\n*.caps filter=caps\n")
    repo.config("filter.caps.clean", "tr A-Z a-z")
    repo.config("filter.caps.smudge", "tr a-z A-Z")
    repo.write("mixed.txt", "one\r\ntwo\n")
    repo.write("crlf.txt", "one\r\ntwo\r\n")
    repo.write("x.caps", "sOmE\n")
    repo.add("crlf.txt")
    there = create(repo)
    for name in ("mixed.txt", "crlf.txt", "x.caps"):
        assert there.read(name) == repo.read(name)
    assert there.git("status", "--porcelain") == repo.git("status", "--porcelain")


def test_ignored_files_by_worktreeinclude(repo: Repo) -> None:
    repo.write(".gitignore", ".env\nbuild/\n")
    repo.write(".worktreeinclude", ".env\n")
    repo.write(".env", "secret\n")
    repo.write("build/out", "built\n")
    there = create(repo)
    assert there.read(".env") == b"secret\n"
    assert not there.exists("build")
    assert there.git("status", "--porcelain") == repo.git("status", "--porcelain")


def test_setup_sees_the_changes(repo: Repo) -> None:
    """And what it makes stays."""
    repo.write("readme.txt", "changed\n")
    repo.write("lock.txt", "new\n")
    repo.config("agentos.setup", "cat readme.txt lock.txt >made.txt && rm notes.txt")
    there = create(repo)
    assert there.read("made.txt") == b"changed\nnew\n"
    assert not there.exists("notes.txt")
    assert repo.exists("notes.txt")


def test_a_repository_inside(repo: Repo) -> None:
    inner = filled(repo.path / "nested")
    inner.append("readme.txt", "dirty\n")
    inner.git("checkout", "-q", "-b", "work")
    there = create(repo)
    assert_same(complete_state(inner.path), complete_state(there.path / "nested"), "nested", branch="any")
    assert (there.path / "nested/.git").is_dir()


def test_from_an_agents_worktree_and_from_a_detached_head(repo: Repo) -> None:
    make_dirty(repo)
    there = create(repo)
    there.write("more.txt", "of the agent\n")
    made = run_ok(there.path, "worktree", "create", "dev-002", "--with-changes")
    second = Repo(Path(made["path"]))
    assert made["base_ref"] == "agent/dev-001"
    assert_carried(there, second)
    repo.git("checkout", "-q", "--detach")
    made = run_ok(repo.path, "worktree", "create", "dev-003", "--with-changes")
    assert_carried(repo, Repo(Path(made["path"])))


def test_undo_leaves_the_commit_alone(repo: Repo) -> None:
    make_dirty(repo)
    there = create(repo)
    carried = complete_state(there.path)
    run_ok(there.path, "undo")
    assert there.git("status", "--porcelain") == b""
    run_ok(there.path, "undo")
    assert_same(carried, complete_state(there.path), "undo of undo")


def test_it_is_recorded_and_shown(repo: Repo) -> None:
    make_dirty(repo)
    done = run(repo.path, "worktree", "create", "dev-001", "--with-changes")
    saved = open_workspace(repo.path).checkpoints(limit=1)[0]
    assert saved.description == "changes carried to worktree dev-001"
    assert f"Uncommitted changes are carried from checkpoint {saved.id[:8]}: ".encode() in done.out
    assert f"uncommitted changes of {saved.id[:8]}".encode() in run(repo.path, "worktree", "show", "dev-001").out
    assert run_ok(repo.path, "worktree", "show", "dev-001")["changes_from"] == saved.id
    other = open_repository(str(repo.path)).worktrees.create("dev-002", with_changes=True)
    assert other.changes_from == open_workspace(repo.path).checkpoints(limit=1)[0].id
    assert open_repository(str(repo.path)).worktrees.create("dev-003").changes_from is None
    before = complete_state(Path(str(other.path)))
    run_ok(repo.path, "worktree", "archive", "dev-002")
    back = run_ok(repo.path, "worktree", "create", "dev-002", "--revive")
    assert back["changes_from"] == other.changes_from
    assert_same(before, complete_state(Path(back["path"])), "revived")


def test_out_of_the_pool(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "refill", lambda _: None)
    repo.config("agentos.pool", "1")
    pool_filling.fill(open_workspace(repo.path).context)
    repo.append("notes.txt", "committed since\n")
    repo.git("commit", "-q", "-a", "-m", "since")
    make_dirty(repo)
    made = open_repository(str(repo.path)).worktrees.create("dev-001", with_changes=True)
    assert pool.prepared(open_workspace(repo.path).context.location) == []
    assert_carried(repo, Repo(Path(str(made.path))))


def test_what_cannot_be_saved_is_named(repo: Repo) -> None:
    repo.config("agentos.maxFileSize", "10")
    repo.write("large.txt", "more than ten bytes\n")
    done = run(repo.path, "worktree", "create", "dev-001", "--with-changes")
    assert done.code == 0, str(done)
    assert b"not carried: 'large.txt' (larger than agentos.maxFileSize)" in done.err
    assert not os.path.lexists(repo.path.parent / "repo.worktrees/dev-001/large.txt")


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_an_operation_in_progress(repo: Repo, operation: Operation) -> None:
    operation.start(repo)
    before, state = snapshot(repo), complete_state(repo.path, strict=True)
    done = run(repo.path, "worktree", "create", "dev-001", "--with-changes")
    assert done.code == 1, str(done)
    assert b"cannot be carried to another worktree" in done.err
    assert_nothing_left(before, repo)
    assert_unchanged(state, complete_state(repo.path, strict=True), "refused")


def _conflict(repo: Repo) -> None:
    """Without an operation: what `git stash pop` leaves."""
    repo.write("notes.txt", "stashed\n")
    repo.git("stash", "-q")
    repo.write("notes.txt", "committed\n")
    repo.git("commit", "-q", "-a", "-m", "other")
    repo.try_git("stash", "pop")


def _nothing(repo: Repo) -> None:
    repo.write("notes.txt", "changed\n")


@pytest.mark.parametrize(
    ("ready", "options", "code", "said"),
    [
        (_conflict, (), 1, "1 path is in conflict here"),
        (
            _nothing,
            ("--from", "v1"),
            2,
            "--with-changes needs the commit that the changes are of, and v1 is another one",
        ),
        (_nothing, ("--sparse", "src"), 2, "cannot be used together"),
        (_nothing, ("--revive",), 2, "cannot be used together"),
    ],
)
def test_what_is_refused(
    repo: Repo, ready: Callable[[Repo], None], options: tuple[str, ...], code: int, said: str
) -> None:
    ready(repo)
    before, state = snapshot(repo), complete_state(repo.path, strict=True)
    done = run(repo.path, "worktree", "create", "dev-001", "--with-changes", *options)
    assert (done.code, said in done.err.decode()) == (code, True), str(done)
    assert_nothing_left(before, repo)
    assert_unchanged(state, complete_state(repo.path, strict=True), "refused")


def test_from_may_name_the_same_commit(repo: Repo) -> None:
    make_dirty(repo)
    made = run_ok(repo.path, "worktree", "create", "dev-001", "--with-changes", "--from", "main")
    assert made["base_ref"] == "main"
    assert_carried(repo, Repo(Path(made["path"])))


def test_before_the_first_commit(empty_repo: Repo) -> None:
    empty_repo.write("file", "x\n")
    done = run(empty_repo.path, "worktree", "create", "dev-001", "--with-changes")
    assert (done.code, b"there is no commit yet" in done.err) == (1, True), str(done)


def test_a_set_up_that_fails_leaves_nothing(repo: Repo) -> None:
    make_dirty(repo)
    repo.config("agentos.setup", "false")
    state, refs = complete_state(repo.path), repo.text("for-each-ref", "refs/heads")
    done = run(repo.path, "worktree", "create", "dev-001", "--with-changes")
    assert (done.code, b"the set-up command 'false' exited with 1" in done.err) == (1, True), str(done)
    assert_same(state, complete_state(repo.path), "failed")
    assert repo.text("for-each-ref", "refs/heads") == refs
    assert repo.git("worktree", "list", "--porcelain").count(b"worktree ") == 1
    assert not (repo.path.parent / "repo.worktrees").exists()
