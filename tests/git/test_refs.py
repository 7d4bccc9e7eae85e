"""Refs behind their port: the same cases in files and in reftables, and what git says of the result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.errors import GitCommandError, MissingObjectsError, RepositoryError, StorageError
from git_agentos.git import refs, stale_locks
from git_agentos.git.location import Location, locate
from git_agentos.git.refs import reftable
from git_agentos.git.refs.model import Head, ReflogEntry, RefMoved
from tests.support import ref_storage
from tests.support.disk import fill_disk
from tests.support.repo import Repo, git, git_run

WHO = "A Name <a@example.com>"
REFLOG = ReflogEntry("a reason", WHO)
TIMELINE = "refs/agentos/timelines/main"


@pytest.fixture(params=[ref_storage.FILES, ref_storage.REFTABLE])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    """Two commits on main."""
    options = []
    if request.param == ref_storage.REFTABLE or ref_storage.is_known():
        ref_storage.require()
        options = [f"--ref-format={request.param}"]
    made = Repo.init(tmp_path / "repo", "-b", "main", *options)
    for number in range(2):
        made.write("file", str(number))
        made.commit(f"commit {number}")
    return made


@pytest.fixture
def tables(tmp_path: Path) -> Repo:
    """The same with reftables."""
    ref_storage.require()
    made = Repo.init(tmp_path / "tables", "-b", "main", "--ref-format=reftable")
    made.write("file", "0")
    made.commit("commit 0")
    return made


def of(repo: Repo) -> Location:
    return locate(str(repo.path))


def all_refs(repo: Repo) -> dict[str, str]:
    lines = repo.text("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def test_what_is_read_is_what_git_says(repo: Repo) -> None:
    repo.git("tag", "-a", "-m", "a tag", "v1")
    repo.git("branch", "a/b", "HEAD~1")
    repo.git("branch", "gone")
    repo.git("branch", "-D", "gone")
    repo.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/nowhere")
    repo.git("update-ref", "ORIG_HEAD", "HEAD~1")
    for _ in range(2):
        there = of(repo)
        assert refs.list_refs(there, "refs/") == all_refs(repo)
        assert refs.list_refs(there, "refs/heads/a/") == {"refs/heads/a/b": repo.oid("HEAD~1")}
        assert refs.resolve(there, "refs/heads/alias") == repo.oid()
        assert refs.resolve(there, "refs/tags/v1") == repo.oid("v1")
        assert refs.resolve(there, "refs/heads/gone") is None
        assert refs.resolve(there, "ORIG_HEAD") == repo.oid("HEAD~1")
        assert refs.target(there, "refs/heads/alias") == "refs/heads/main"
        assert refs.is_symbolic(there, "refs/heads/alias") and not refs.is_symbolic(there, "refs/heads/main")
        assert refs.symbolic(there) == {
            "refs/heads/alias": "refs/heads/main",
            "refs/remotes/origin/HEAD": "refs/remotes/origin/nowhere",
        }
        assert refs.read_head(there) == Head("refs/heads/main", repo.oid())
        repo.git("pack-refs", "--all")
    repo.git("checkout", "-q", "--detach", "HEAD~1")
    assert refs.read_head(of(repo)) == Head(None, repo.oid())
    repo.git("checkout", "-q", "--orphan", "unborn")
    assert refs.read_head(of(repo)) == Head("refs/heads/unborn", None)


def test_refs_that_lead_only_to_themselves(repo: Repo) -> None:
    """Each is named, hides no other, and can be set again or removed."""
    there, oid = of(repo), repo.oid()
    for name in ("refs/heads/self", "refs/tags/self"):
        repo.git("symbolic-ref", name, name)
    with pytest.raises(RepositoryError, match="circular"):
        refs.list_refs(there, "refs/")
    assert refs.list_refs(there, "refs/", skip_broken=True) == {"refs/heads/main": oid}
    assert refs.damaged(there, "refs/heads/").keys() == {"refs/heads/self"}
    refs.repair(there, "refs/heads/self", oid)
    refs.repair(there, "refs/tags/self", None)
    assert refs.damaged(there, "refs/") == {}
    assert refs.list_refs(there, "refs/") == all_refs(repo) == {"refs/heads/main": oid, "refs/heads/self": oid}
    repo.git("pack-refs", "--all")
    repo.git("symbolic-ref", "refs/heads/self", "refs/heads/unborn")
    assert refs.list_refs(there, "refs/") == all_refs(repo) == {"refs/heads/main": oid}


def test_an_object_that_is_deleted_before_its_ref_is_locked(repo: Repo) -> None:
    """It is written again; without a way to do that, no ref points at it."""
    there = of(repo)
    commit = repo.text("commit-tree", "-m", "lost", "HEAD^{tree}")
    path = repo.git_dir / "objects" / commit[:2] / commit[2:]
    content = path.read_bytes()
    path.unlink()

    def write_again() -> None:
        if not path.exists():
            path.write_bytes(content)

    refs.update(there, TIMELINE, commit, None, ready=write_again)
    assert all_refs(repo)[TIMELINE] == commit
    path.unlink()
    if ref_storage.is_reftable(repo.git_dir):
        with pytest.raises(MissingObjectsError, match=commit[:8]):
            refs.update(there, "refs/heads/lost", commit, None)
    assert refs.resolve(there, "refs/heads/lost") is None


def test_many_refs_in_many_blocks(repo: Repo) -> None:
    oid = repo.oid()
    names = [f"refs/many/{number:05d}" for number in range(3000)]
    repo.git("update-ref", "--stdin", stdin="".join(f"create {name} {oid}\n" for name in names).encode())
    repo.git("update-ref", "--stdin", stdin="".join(f"delete {name}\n" for name in names[::3]).encode())
    there = of(repo)
    assert refs.list_refs(there, "refs/") == all_refs(repo)
    assert len(refs.list_refs(there, "refs/many/")) == 2000
    assert [refs.resolve(there, name) for name in names[1200:1206]] == [None, oid, oid] * 2


def test_compare_and_swap(repo: Repo) -> None:
    there, old, new = of(repo), repo.oid("HEAD~1"), repo.oid()
    refs.update(there, TIMELINE, old, None)
    with pytest.raises(RefMoved) as created:
        refs.update(there, TIMELINE, new, None)
    assert created.value.actual == old
    with pytest.raises(RefMoved):
        refs.update(there, TIMELINE, old, new)
    with pytest.raises(RefMoved):
        refs.update(there, TIMELINE + "x", new, old)
    refs.update(there, TIMELINE, new, old)
    assert all_refs(repo) == {"refs/heads/main": new, TIMELINE: new}
    assert not [name for name in refs.logs(there) if name.startswith("refs/agentos/")]


def test_ready_is_asked_before_the_ref_moves(repo: Repo) -> None:
    there, seen = of(repo), []

    def refuse() -> None:
        seen.append(refs.resolve(there, TIMELINE))
        raise RepositoryError("an object is missing")

    with pytest.raises(RepositoryError, match="an object is missing"):
        refs.update(there, TIMELINE, repo.oid(), None, ready=refuse)
    assert seen == [None] and TIMELINE not in all_refs(repo)
    refs.update(there, TIMELINE, repo.oid(), None)  # nothing is locked


def test_a_branch_that_is_checked_out_moves_with_its_reflogs(repo: Repo) -> None:
    there, old, new = of(repo), repo.oid(), repo.oid("HEAD~1")
    refs.update(there, "refs/heads/main", new, old, REFLOG)
    for name in ("HEAD", "refs/heads/main"):
        assert refs.read_log(there, name)[-1].startswith(f"{old} {new} {WHO} ".encode())
        assert refs.read_log(there, name)[-1].endswith(b" +0000\ta reason")
        assert ref_storage.log_lines(repo, name)[-1] == "a reason"
    assert [line.split(b" ")[1].decode() for line in refs.read_log(there, "HEAD")] == [
        *repo.text("log", "-g", "--format=%H").splitlines()[::-1]
    ]


def test_head_moves(repo: Repo) -> None:
    there, oid = of(repo), repo.oid()
    for head in (Head("refs/heads/unborn", None), Head(None, oid), Head("refs/heads/main", oid)):
        refs.set_head(there, head, reason="moved", who=WHO)
        assert refs.read_head(there) == head
    assert ref_storage.head_ref(repo.path) == "refs/heads/main"
    assert ref_storage.log_lines(repo)[-1] == "moved"
    repo.git("fsck", "--strict")


def test_removing(repo: Repo) -> None:
    there, oid = of(repo), repo.oid()
    repo.git("branch", "packed")
    repo.git("pack-refs", "--all")
    with pytest.raises(RefMoved):
        refs.drop(there, "refs/heads/packed", repo.oid("HEAD~1"))
    refs.drop(there, "refs/heads/packed", oid)
    refs.drop(there, "refs/heads/packed", oid)
    refs.update(there, "refs/bisect/bad", oid, None)
    refs.delete(there, "refs/bisect/bad")
    refs.delete(there, "refs/bisect/bad")
    assert all_refs(repo) == {"refs/heads/main": oid}
    assert "refs/heads/packed" not in refs.logs(there)


def test_shortened_reflogs(repo: Repo) -> None:
    there, begun = of(repo), time.time_ns()
    assert refs.logs(there) == {name: refs.read_log(there, name) for name in ("HEAD", "refs/heads/main")}
    assert refs.shortened_logs(there, begun) == []
    time.sleep(0.02)
    repo.commit("another")
    repo.git("branch", "gone")
    repo.git("branch", "-D", "gone")
    assert refs.shortened_logs(there, begun) == []
    repo.git("reflog", "delete", "HEAD@{2}")
    assert refs.shortened_logs(there, begun) == ["HEAD"]
    repo.git("reflog", "expire", "--expire=now", "--all")
    assert set(refs.shortened_logs(there, begun)) == {"HEAD", "refs/heads/main"}


def test_reflogs_that_were_shortened_before(tables: Repo) -> None:
    there = of(tables)
    tables.git("update-ref", "--stdin", stdin="".join(f"create refs/x/{n} HEAD\n" for n in range(100)).encode())
    tables.commit("commit 1")
    tables.git("reflog", "delete", "HEAD@{1}")
    time.sleep(0.02)
    begun = time.time_ns()
    # Of tables that git merges, nothing says any more which of them deleted lines.
    separate = {"GIT_TEST_REFTABLE_AUTOCOMPACTION": "false"}
    tables.git("commit", "-q", "--allow-empty", "-m", "commit 2", env=separate)
    assert refs.read_log(there, "HEAD")[0].split(b" ")[0].strip(b"0")
    assert refs.shortened_logs(there, begun) == []
    time.sleep(0.02)
    begun = time.time_ns()
    tables.git("reflog", "expire", "--expire=now", "--all")
    tables.git("pack-refs", "--all")
    assert "HEAD" in refs.shortened_logs(there, begun)


def test_no_hook_runs(repo: Repo) -> None:
    ran = repo.path / "ran"
    for name in ("reference-transaction", "post-checkout"):
        hook = repo.git_dir / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        hook.chmod(0o755)
    there, oid = of(repo), repo.oid()
    refs.update(there, TIMELINE, oid, None)
    refs.set_head(there, Head("refs/heads/other", None), reason="moved", who=WHO)
    refs.update(there, "refs/heads/other", oid, None, REFLOG)
    refs.set_head(there, Head("refs/heads/main", oid), reason="moved", who=WHO)
    refs.drop(there, "refs/heads/other", oid)
    assert not ran.exists()
    repo.git("branch", "by-git")
    assert ran.read_text().startswith("reference-transaction")


def test_a_linked_worktree_has_its_own(repo: Repo) -> None:
    linked = repo.scratch / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(linked), "HEAD~1")
    main, there = of(repo), locate(str(linked))
    oid = repo.oid()
    for name in ("refs/worktree/mine", "refs/bisect/bad", "REVERT_HEAD"):
        refs.update(there, name, oid, None)
        assert refs.resolve(there, name) == oid and refs.resolve(main, name) is None
        assert git(linked, "rev-parse", name).strip().decode() == oid
    assert refs.list_refs(there, "refs/bisect/") == {"refs/bisect/bad": oid}
    assert {name for name in refs.own_refs(there) if name.startswith("refs/")} == {
        "refs/worktree/mine",
        "refs/bisect/bad",
    }
    assert refs.read_head(there) == Head("refs/heads/side", repo.oid("HEAD~1"))
    refs.update(there, "refs/heads/side", oid, repo.oid("HEAD~1"), REFLOG)
    assert refs.read_log(there, "HEAD")[-1].endswith(b"\ta reason")
    assert not refs.read_log(main, "HEAD")[-1].endswith(b"\ta reason")
    assert refs.read_head(main) == Head("refs/heads/main", oid)


def test_processes_at_once_lose_no_update(repo: Repo) -> None:
    """32 processes, each adding one commit to the same ref by compare-and-swap."""
    script = """
import subprocess, sys
from git_agentos.git import refs
from git_agentos.git.location import locate
there = locate(".")
while True:
    old = refs.resolve(there, "refs/agentos/line")
    args = ["git", "commit-tree", "HEAD^{tree}", "-m", sys.argv[1], *(["-p", old] if old else [])]
    new = subprocess.run(args, capture_output=True, check=True, text=True).stdout.strip()
    try:
        refs.update(there, "refs/agentos/line", new, old)
        break
    except refs.RefMoved:
        pass
"""
    args = [sys.executable, "-c", script]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [subprocess.Popen([*args, f"number {n}"], cwd=repo.path, env=env) for n in range(32)]
    assert [child.wait() for child in children] == [0] * 32
    subjects = repo.text("log", "--format=%s", "refs/agentos/line").splitlines()
    assert sorted(subjects) == sorted(f"number {n}" for n in range(32))


def test_killed_while_it_waits_to_commit(repo: Repo) -> None:
    """We are killed between prepare and commit: the ref has its old value, and the next command gets its lock."""
    script = f"""
import os, signal
from git_agentos.git import refs
from git_agentos.git.location import locate
refs.update(locate("."), "{TIMELINE}", "{repo.oid()}", None, ready=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", script], cwd=repo.path, env=env, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert TIMELINE not in all_refs(repo)
    refs.update(of(repo), TIMELINE, repo.oid(), None)
    assert all_refs(repo)[TIMELINE] == repo.oid()


# -- reftables alone -----------------------------------------------------------------------------------------------


def test_the_git_that_waits_is_killed(tables: Repo) -> None:
    """Its lock stays. The error says so; the next change proves that the lock is stale, and takes it."""
    there, oid = of(tables), tables.oid()
    lock = tables.git_dir / "reftable/tables.list.lock"
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this system does not tell the children of a process")

    def kill() -> None:
        assert lock.exists()
        for pid in map(int, children.read_text().split()):
            if b"update-ref" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(GitCommandError, match="signal 9"):
        refs.update(there, TIMELINE, oid, None, ready=kill)
    assert lock.exists() and TIMELINE not in all_refs(tables)
    refs.update(there, TIMELINE, oid, None)
    assert not lock.exists() and all_refs(tables)[TIMELINE] == oid


@pytest.mark.parametrize("linked", [False, True], ids=["main", "linked"])
def test_a_stale_lock_of_another_git(tables: Repo, linked: bool) -> None:
    """HEAD of a linked worktree has a stack, and so a lock, of its own."""
    where = tables.path
    if linked:
        where = tables.scratch / "linked"
        tables.git("worktree", "add", "-q", "--detach", str(where))
    there = locate(str(where))
    lock = Path(there.git_dir) / "reftable/tables.list.lock"
    lock.touch()
    refs.set_head(there, Head("refs/heads/other", None), reason="moved", who=WHO)
    assert refs.read_head(there).ref == "refs/heads/other" and not lock.exists()


def test_a_lock_that_is_held_is_waited_for(tables: Repo) -> None:
    there, oid = of(tables), tables.oid()
    command = b"start\ncreate refs/heads/by-git %b\nprepare\n" % oid.encode()
    git_ = subprocess.Popen(
        ["git", "update-ref", "--stdin"], cwd=tables.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert git_.stdin is not None and git_.stdout is not None
    git_.stdin.write(command)
    git_.stdin.flush()
    assert [git_.stdout.readline(), git_.stdout.readline()] == [b"start: ok\n", b"prepare: ok\n"]
    held = stale_locks.remove(there, stale_locks.of_tables(there), patience=0.1)
    assert all(reason is not None for reason in held.values()) and held
    script = f"""
from git_agentos.git import refs
from git_agentos.git.location import locate
refs.update(locate("."), "{TIMELINE}", "{oid}", None)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    waiting = subprocess.Popen([sys.executable, "-c", script], cwd=tables.path, env=env)
    time.sleep(2.0)
    assert waiting.poll() is None and TIMELINE not in all_refs(tables)
    git_.stdin.write(b"commit\n")
    git_.communicate()
    assert git_.returncode == 0 and waiting.wait() == 0
    assert {TIMELINE, "refs/heads/by-git"} <= all_refs(tables).keys()


def test_in_a_hook_of_the_git_that_has_the_lock(tables: Repo) -> None:
    """It waits for the hook: waiting for it would be in vain."""
    said = tables.path / "said"
    change = tables.path / "change.py"
    change.write_text(
        f"""
import sys
sys.path[:] = {sys.path!r}
from git_agentos.git import refs
from git_agentos.git.location import locate
refs.update(locate("."), "{TIMELINE}", "{tables.oid()}", None)
"""
    )
    hook = tables.git_dir / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" != prepared ] || {sys.executable} {change} >> {said} 2>&1\nexit 0\n')
    hook.chmod(0o755)
    tables.git("branch", "by-git")
    assert "the refs are locked by the git command that has called this hook" in said.read_text()
    assert all_refs(tables).keys() == {"refs/heads/main", "refs/heads/by-git"}


def test_names_that_exclude_each_other(tables: Repo) -> None:
    with pytest.raises(GitCommandError, match="refs/heads/main"):
        refs.update(of(tables), "refs/heads/main/below", tables.oid(), None)
    assert all_refs(tables) == {"refs/heads/main": tables.oid()}


def test_a_damaged_table(tables: Repo) -> None:
    there = of(tables)
    for table in (tables.git_dir / "reftable").glob("*.ref"):
        table.chmod(0o644)
        table.write_bytes(table.read_bytes()[:-10] + b"x" * 10)
    with pytest.raises(RepositoryError, match="damaged"):
        refs.list_refs(there, "refs/")
    with pytest.raises(RepositoryError, match="damaged"):
        refs.read_head(there)
    assert not refs.has_head(there) and refs.read_log(there, "HEAD") == []


def test_a_damaged_file_head(tables: Repo) -> None:
    """It has no value, and git finds no repository without it."""
    there = of(tables)
    (tables.git_dir / "HEAD").write_bytes(b"\0" * 41)
    assert tables.try_git("status") != 0
    assert not refs.has_head(there)
    with pytest.raises(RepositoryError, match="HEAD is missing or damaged"):
        refs.read_head(there)


def test_a_worktree_whose_folder_is_gone(tables: Repo) -> None:
    linked = tables.scratch / "linked"
    tables.git("worktree", "add", "-q", "-b", "side", str(linked))
    there = locate(str(linked))
    shutil.rmtree(linked)
    refs.update(there, "refs/heads/side", tables.oid(), tables.oid())
    refs.set_head(there, Head(None, tables.oid()), reason="moved", who=WHO)
    assert refs.read_head(there) == Head(None, tables.oid())


@pytest.mark.slow
def test_a_full_disk(small_disk: Path) -> None:
    """git says "I/O error"."""
    ref_storage.require()
    repo = Repo.init(small_disk / "repo", "-b", "main", "--ref-format=reftable")
    repo.write("file", "0")
    oid = repo.commit("commit 0")
    filler = fill_disk(small_disk, 0)
    changes: list[Callable[[], None]] = [
        lambda: refs.update(of(repo), TIMELINE, oid, None),
        lambda: refs.set_head(of(repo), Head(None, oid), reason="moved", who=WHO),
        lambda: refs.repair(of(repo), "refs/heads/main", None),
    ]
    for change in changes:
        with pytest.raises(StorageError, match=r"no space left to write .*reftable"):
            change()
    filler.unlink()
    assert all_refs(repo) == {"refs/heads/main": oid} and refs.read_head(of(repo)).ref == "refs/heads/main"
    refs.update(of(repo), TIMELINE, oid, None)


def test_refs_migrated_between_two_commands(repo: Repo) -> None:
    """`git refs migrate`: what a command has opened before refuses to write where git would not look."""
    before, oid = of(repo), repo.oid()
    other = ref_storage.FILES if ref_storage.is_reftable(repo.git_dir) else ref_storage.REFTABLE
    if git_run(repo.path, "refs", "migrate", f"--ref-format={other}").returncode != 0:
        pytest.skip("this git does not migrate refs with reflogs (git 2.48 and later do)")
    with pytest.raises(RepositoryError, match="another format"):
        refs.update(before, TIMELINE, oid, None)
    there = of(repo)
    assert there.format.refs == other
    refs.update(there, TIMELINE, oid, None)
    assert refs.list_refs(there, "refs/") == all_refs(repo) == {"refs/heads/main": oid, TIMELINE: oid}
    assert refs.read_head(there) == Head("refs/heads/main", oid)
    assert refs.read_log(there, "HEAD")


def test_head_is_made_again(repo: Repo) -> None:
    linked = repo.scratch / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(linked))
    there = locate(str(linked))
    (Path(there.git_dir) / "HEAD").unlink()
    for table in (Path(there.git_dir) / "reftable").glob("*"):
        table.unlink()
    assert not refs.has_head(there)
    refs.rebuild_head(there, Head("refs/heads/side", None))
    assert refs.has_head(there) and git(linked, "symbolic-ref", "HEAD") == b"refs/heads/side\n"
    assert git(linked, "status", "--porcelain") == b""


def test_refs_that_are_no_files(tables: Repo) -> None:
    there = of(tables)
    assert refs.is_file(there, "MERGE_HEAD") and not refs.is_file(there, "CHERRY_PICK_HEAD")
    tables.git("update-ref", "CHERRY_PICK_HEAD", "HEAD")
    assert refs.root_refs(there) == {"CHERRY_PICK_HEAD": tables.oid()}
    assert not (tables.git_dir / "CHERRY_PICK_HEAD").exists()
    assert reftable.resolve(there, "CHERRY_PICK_HEAD") == tables.oid()
