"""`worktree list`, `show` and `path`: how agents' worktrees stand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import WorktreeError
from git_agentos.worktree import creation, record, status
from tests.support import ref_storage
from tests.support.repo import Repo
from tests.support.tool import run, run_ok


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """The worktree `dev` of a repository, with one commit of its own; no guard, whose hooks take checkpoints."""
    made = creation.create(open_workspace(repo.path).context, "dev", task="T-1", guard=False)
    there = Repo(Path(str(made.path)))
    there.append("readme.txt", "the agent's line\n")
    there.write("agent.txt", "the agent's file\n")
    there.commit("work")
    return there


def look(repo: Repo, id_: str = "dev") -> status.Worktree:
    return status.show(open_workspace(repo.path).context, id_)


def test_dirty_counts(repo: Repo, dev: Repo) -> None:
    assert look(repo).dirty == status.Dirty(0, 0, 0, 0)
    dev.write("notes.txt", "staged\n")
    dev.add("notes.txt")
    dev.append("notes.txt", "and more\n")
    dev.write(b"new\xff\n/a", "untracked\n")
    dev.write(b"new\xff\n/b", "untracked\n")
    dev.remove("data.bin")
    assert look(repo).dirty == status.Dirty(staged=1, unstaged=2, untracked=2, conflicted=0)
    dev.git("reset", "-q", "--hard")
    dev.git("clean", "-fdxq", "-e", ".agentos")
    repo.append("readme.txt", "another line\n")
    repo.commit("in the way")
    assert dev.try_git("merge", "-q", "main") != 0
    assert look(repo).dirty.conflicted == 1  # type: ignore[union-attr]  # it is there


def _nothing(repo: Repo, dev: Repo) -> None:
    pass


def _same(repo: Repo, dev: Repo) -> None:
    repo.git("merge", "-q", "--ff-only", "agent/dev")


def _merged(repo: Repo, dev: Repo) -> None:
    repo.git("merge", "-q", "--no-ff", "-m", "merged", "agent/dev")


def _equal(repo: Repo, dev: Repo) -> None:
    repo.git("read-tree", "-u", "-m", "HEAD", "agent/dev")
    repo.git("commit", "-q", "-m", "the same")


def _squashed(repo: Repo, dev: Repo) -> None:
    dev.write("agent.txt", "second thoughts\n")
    dev.commit("more")
    repo.git("merge", "-q", "--squash", "agent/dev")
    repo.git("commit", "-q", "-m", "squashed")
    repo.write("unrelated.txt", "x\n")
    repo.commit("more on main")


def _squashed_and_gone_on(repo: Repo, dev: Repo) -> None:
    """What was merged has been changed since: only the history tells."""
    _squashed(repo, dev)
    repo.write("agent.txt", "rewritten on main\n")
    repo.commit("rewritten")


def _nothing_to_add(repo: Repo, dev: Repo) -> None:
    """The change came in two commits that are not the branch's."""
    repo.write("agent.txt", "the agent's file\n")
    repo.commit("one half")
    repo.append("readme.txt", "the agent's line\n")
    repo.write("unrelated.txt", "x\n")
    repo.commit("the other half, and more")


def _in_conflict(repo: Repo, dev: Repo) -> None:
    repo.append("readme.txt", "another line\n")
    repo.commit("in the way")


@pytest.mark.parametrize(
    ("prepare", "how", "ahead", "behind"),
    [
        (_nothing, None, 1, 0),
        (_same, "same-commit", 0, 0),
        (_merged, "ancestor", 0, 1),
        (_equal, "equal-tree", 1, 1),
        (_squashed, "squash-merged", 2, 2),
        (_squashed_and_gone_on, "squash-merged", 2, 3),
        (_nothing_to_add, "nothing-to-add", 1, 2),
        (_in_conflict, None, 1, 1),
    ],
)
def test_integration(
    repo: Repo, dev: Repo, prepare: Callable[[Repo, Repo], None], how: str | None, ahead: int, behind: int
) -> None:
    prepare(repo, dev)
    found = look(repo)
    assert (found.integrated, found.ahead, found.behind) == (how, ahead, behind)


def test_a_base_that_is_gone(repo: Repo) -> None:
    """Then what the main worktree is on counts."""
    repo.git("branch", "topic", "v1")
    creation.create(open_workspace(repo.path).context, "dev", from_ref="topic")
    assert look(repo).integrated == "same-commit"
    repo.git("branch", "-D", "topic")
    assert (look(repo).integrated, look(repo).behind) == ("ancestor", 1)
    assert look(repo).base_ref == "topic"


def test_last_activity(repo: Repo, dev: Repo) -> None:
    before = look(repo)
    assert before.last_checkpoint is not None
    assert before.last_checkpoint.trigger == "milestone"
    assert before.last_log is not None
    assert "dev created" in before.last_log.summary
    taken = run_ok(dev.path, "checkpoint", "-m", "second")
    after = look(repo).last_checkpoint
    assert after is not None
    assert (after.id, after.description) == (taken["id"], "second")


def test_a_process_inside(repo: Repo, dev: Repo) -> None:
    assert look(repo).process is None
    script = [sys.executable, "-c", "print(1, flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(script, cwd=dev.path / "src", stdin=pipe, stdout=pipe) as inside:
        assert inside.stdout is not None
        inside.stdout.readline()
        found = look(repo).process
        assert found is not None
        assert found.pid == inside.pid
        assert "python" in found.command
        inside.kill()


def test_disk_use(repo: Repo, dev: Repo) -> None:
    before = look(repo).disk_bytes
    assert before is not None
    dev.write("large", os.urandom(1 << 20))
    os.link(dev.at("large"), dev.at("large too"))
    (repo.git_dir / "objects/large").write_bytes(os.urandom(1 << 20))
    assert (1 << 20) <= (look(repo).disk_bytes or 0) - before < (1 << 20) + 65536


def test_broken_ones(repo: Repo, dev: Repo) -> None:
    for id_ in ("gone", "unlinked", "damaged"):
        creation.create(open_workspace(repo.path).context, id_)
    folder = dev.path.parent
    shutil.rmtree(folder / "gone")
    (folder / "unlinked/.git").unlink()
    (Path(record.find(str(repo.git_dir), "damaged").git_dir) / "agentos/worktree.json").write_text("{")
    found = {each["id"]: each["state"] for each in run_ok(repo.path, "worktree", "list")["worktrees"]}
    assert found == {"dev": "active", "gone": "broken", "unlinked": "broken", "damaged": "broken"}
    gone = look(repo, "gone")
    assert (gone.dirty, gone.process, gone.branch, gone.head_sha) == (None, None, "agent/gone", repo.oid())
    done = run(repo.path, "worktree", "path", "gone")
    assert (done.code, b"repair gone" in done.err) == (1, True)
    told = run(repo.path, "worktree", "list")
    assert b"repair" in told.err
    assert run(repo.path, "worktree", "show", "gone").code == 0


def test_a_locked_one_and_one_that_is_detached(repo: Repo, dev: Repo) -> None:
    repo.git("worktree", "lock", str(dev.path))
    dev.git("checkout", "-q", "--detach")
    assert (look(repo).locked, look(repo).branch) == (True, None)
    repo.git("worktree", "unlock", str(dev.path))


def test_from_anywhere(repo: Repo, dev: Repo) -> None:
    assert run_ok(dev.path / "src", "worktree", "path", "dev") == {
        "schema": "agentos.worktree-path.v1",
        "id": "dev",
        "path": str(dev.path),
    }
    assert run(dev.path, "worktree", "path", "dev").out == os.fsencode(dev.path) + b"\n"
    assert run(dev.path, "worktree", "list", "-q").out == b"dev\n"


def test_a_path_that_is_not_utf_8(repo: Repo) -> None:
    odd = os.path.join(os.fsencode(repo.path.parent), b"odd\xff\n folder")
    os.mkdir(odd)
    os.rename(repo.path, os.path.join(odd, b"repo"))
    made = run(Path(os.fsdecode(os.path.join(odd, b"repo"))), "worktree", "create", "dev")
    # git cannot say where that is; it is refused, not guessed.
    assert made.code == 1
    assert b"newline" in made.err
    os.rename(odd, odd.replace(b"\n", b""))
    there = Path(os.fsdecode(os.path.join(odd.replace(b"\n", b""), b"repo")))
    made = run(there, "worktree", "create", "dev")
    assert made.code == 0, str(made)
    assert run(there, "worktree", "path", "dev").out == os.fsencode(there) + b".worktrees/dev\n"
    assert run_ok(there, "worktree", "show", "dev")["path"] == f"{there}.worktrees/dev"


def test_list_without_worktrees(repo: Repo) -> None:
    with pytest.raises(WorktreeError, match="no agent's worktree 'dev'"):
        look(repo)
    done = run(repo.path, "worktree", "list")
    assert (done.code, done.out) == (0, b"")
    repo.git("worktree", "add", "-q", "--detach", str(repo.scratch / "plain"))
    assert run_ok(repo.path, "worktree", "list")["worktrees"] == []
    assert run(repo.path, "worktree", "show", "plain").code == 1


def test_looking_changes_nothing(repo: Repo, dev: Repo) -> None:
    dev.append("readme.txt", "dirty\n")
    before = (dev.git_dir / "index").read_bytes(), repo.git("for-each-ref")
    run_ok(repo.path, "worktree", "list")
    run_ok(repo.path, "worktree", "show", "dev")
    assert ((dev.git_dir / "index").read_bytes(), repo.git("for-each-ref")) == before


@pytest.mark.parametrize(
    ("given", "recorded"),
    [("HEAD~1", None), ("HEAD", "main"), ("@", "main"), ("other", "other"), ("main^", None), ("v1", "v1")],
)
def test_a_base_is_the_same_from_everywhere(repo: Repo, given: str, recorded: str | None) -> None:
    """What leads to another commit from elsewhere is recorded as the commit."""
    context = open_workspace(repo.path).context
    expected = repo.oid(given + "^{commit}")
    made = creation.create(context, "dev", from_ref=given, guard=False)
    assert (made.base_ref, made.base_sha) == (recorded or expected, expected)
    there = Repo(Path(str(made.path)))
    there.write("work.txt", "work\n")
    there.commit("work")
    here, inside = look(repo), look(there)
    assert (here.ahead, here.behind, here.integrated) == (inside.ahead, inside.behind, inside.integrated)


def test_a_base_that_an_older_version_recorded_as_it_was_given(repo: Repo, dev: Repo) -> None:
    git_dir = str(repo.path / ".git/worktrees/dev")
    known = record.read(git_dir)
    assert known is not None
    record.write(git_dir, replace(known, base_ref="HEAD~1"))
    assert (look(repo).ahead, look(dev).ahead) == (1, 1)


def test_looking_writes_nothing(repo: Repo, dev: Repo, make_repo: Callable[[str], Repo]) -> None:
    """Also where it takes a merge to see whether work is integrated, and in a clone that borrows objects."""
    repo.append("docs/guide.md", "on main\n")
    repo.commit("main goes on")
    borrowed = Repo(repo.path.with_name("borrowed"))
    repo.git("clone", "-q", "--shared", str(repo.path), str(borrowed.path))
    one = creation.create(open_workspace(borrowed.path).context, "one", from_ref="origin/agent/dev", guard=False)
    there = Repo(Path(str(one.path)))
    there.write("work.txt", "work\n")
    there.commit("work")
    there.git("checkout", "-q", "-b", "aside", "HEAD~1")
    there.write("aside.txt", "aside\n")
    there.commit("aside")
    record_dir = str(borrowed.path / ".git/worktrees/one")
    known = record.read(record_dir)
    assert known is not None
    record.write(record_dir, replace(known, base_ref="agent/one"))
    for each, id_ in ((repo, "dev"), (borrowed, "one")):
        before = _everything(each)
        look(each, id_)
        status.list_worktrees(open_workspace(each.path).context)
        assert _everything(each) == before


def _everything(repo: Repo) -> dict[str, bytes]:
    """All files of the repository and of the worktrees beside it."""
    folders = [repo.path, repo.path.with_name(repo.path.name + ".worktrees")]
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_a_damaged_timeline_hides_no_other(repo: Repo, dev: Repo) -> None:
    ref_storage.damage(repo, "refs/agentos/timelines/other")
    assert [each.id for each in status.list_worktrees(open_workspace(repo.path).context).worktrees] == ["dev"]
