"""`worktree create`: a worktree of its own for an agent, or nothing at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosError, ConfigurationError, StorageError, UsageError, WorktreeError
from git_agentos.git import refs, worktrees
from git_agentos.worktree import creation, creation_recovery, journal, record, setup, status
from tests.support.disk import fill_disk
from tests.support.repo import Repo, filled
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run, run_ok


def make(repo: Repo, id_: str, **options: object) -> status.Worktree:
    return creation.create(open_workspace(repo.path).context, id_, **options)  # type: ignore[arg-type]  # as they come


def folder_of(repo: Repo, id_: str = "") -> Path:
    return repo.path.parent / f"{repo.path.name}.worktrees" / id_


def test_a_worktree_of_its_own(repo: Repo) -> None:
    repo.write("readme.txt", "dirty, and none of the agent's business\n")
    before = repo.git("status", "--porcelain=v2", "--untracked-files=all")

    made = run_ok(repo.path, "worktree", "create", "dev-001", "--task", "T-42")

    there = Repo(folder_of(repo, "dev-001"))
    assert made["schema"] == "agentos.worktree.v1"
    assert made["path"] == str(there.path)
    assert made["branch"] == "agent/dev-001"
    assert (made["base_ref"], made["base_sha"], made["head_sha"]) == ("main", repo.oid(), repo.oid())
    assert (made["task"], made["state"], made["locked"]) == ("T-42", "active", False)
    assert made["dirty"] == {"staged": 0, "unstaged": 0, "untracked": 0, "conflicted": 0}
    assert there.text("symbolic-ref", "HEAD") == "refs/heads/agent/dev-001"
    assert there.git("status", "--porcelain", "--ignored=no") == b""
    assert there.git("ls-files", "-s") == repo.git(
        "ls-tree", "-r", "main", "--format=%(objectmode) %(objectname) 0%x09%(path)"
    )
    assert repo.git("status", "--porcelain=v2", "--untracked-files=all") == before
    assert repo.try_git("config", "--get-regexp", r"^branch\.agent") == 1
    kept = record.find(str(repo.git_dir), "dev-001").record
    assert (kept.id, kept.branch, kept.task, kept.created_by) == ("dev-001", "agent/dev-001", "T-42", "main")
    assert b"Created from main" in repo.git("reflog", "agent/dev-001")


def test_identity_is_the_agents(repo: Repo) -> None:
    make(repo, "dev-001", task="T-1")
    there = Repo(folder_of(repo, "dev-001"))
    there.write("new.txt", "new\n")
    taken = run_ok(there.path, "checkpoint", "-m", "by the agent")
    assert (taken["created_by"], taken["timeline"]) == ("dev-001", "dev-001")
    first = open_workspace(there.path).checkpoints()[-1]
    assert (first.trigger, first.created_by, first.task_id) == ("milestone", "dev-001", "T-1")
    assert first.branch == "agent/dev-001"
    assert open_workspace(repo.path).checkpoints() == []


def test_the_base_is_a_commit(repo: Repo) -> None:
    assert make(repo, "a", from_ref="v1").base_ref == "v1"
    there = Repo(folder_of(repo, "a"))
    assert there.oid() == repo.oid("v1")
    there.write("more.txt", "more\n")
    there.commit("work")
    assert (status.show(open_workspace(repo.path).context, "a").ahead) == 1
    inner = creation.create(open_workspace(there.path).context, "b")
    assert (inner.base_ref, inner.base_sha) == ("agent/a", there.oid())
    assert inner.path == str(folder_of(repo, "b"))
    repo.git("checkout", "-q", "--detach")
    assert make(repo, "c").base_ref == repo.oid()


@pytest.mark.parametrize("id_", ["main", "a..b", "x.lock", "-x", "a/b", "", "x" * 65, "ä", "a b"])
def test_an_ill_formed_id(repo: Repo, id_: str) -> None:
    before = snapshot(repo)
    with pytest.raises(UsageError):
        make(repo, id_)
    assert_nothing_left(before, repo)


def _branch_agent(repo: Repo) -> None:
    repo.git("branch", "agent")


def _branch_below(repo: Repo) -> None:
    repo.git("branch", "agent/dev/more")


def _branch_taken(repo: Repo) -> None:
    repo.git("branch", "agent/dev")


def _branch_packed(repo: Repo) -> None:
    repo.git("branch", "agent/dev")
    repo.git("pack-refs", "--all")


def _checked_out(repo: Repo) -> None:
    repo.git("worktree", "add", "-q", "-b", "agent/dev", str(repo.scratch / "elsewhere"))


def _id_taken(repo: Repo) -> None:
    make(repo, "dev")


def _moved(repo: Repo) -> None:
    make(repo, "dev")
    repo.git("worktree", "move", str(folder_of(repo, "dev")), str(repo.scratch / "moved"))
    repo.git("branch", "-M", "agent/dev", "renamed")


def _entry_taken(repo: Repo) -> None:
    repo.git("worktree", "add", "-q", "--detach", str(repo.scratch / "dev"))


def _folder_taken(repo: Repo) -> None:
    folder_of(repo, "dev").mkdir(parents=True)


def _link_in_the_way(repo: Repo) -> None:
    folder_of(repo).mkdir()
    folder_of(repo, "dev").symlink_to("nowhere")


def _file_above(repo: Repo) -> None:
    folder_of(repo).write_text("a file\n")


def _folder_missing(repo: Repo) -> None:
    repo.git("worktree", "add", "-q", "--detach", str(folder_of(repo, "dev")))
    repo.git("worktree", "move", str(folder_of(repo, "dev")), str(folder_of(repo, "x")))
    (repo.git_dir / "worktrees/dev").rename(repo.git_dir / "worktrees/other")
    (repo.git_dir / "worktrees/other/gitdir").write_text(f"{folder_of(repo, 'dev')}/.git\n")


@pytest.mark.parametrize(
    ("prepare", "mentions"),
    [
        (_branch_agent, "'agent' is in the way"),
        (_branch_below, "in the way"),
        (_branch_taken, "'agent/dev' exists already"),
        (_branch_packed, "'agent/dev' exists already"),
        (_checked_out, "checked out at"),
        (_id_taken, "there is a worktree 'dev' already"),
        (_moved, "there is a worktree 'dev' already"),
        (_entry_taken, "there is a worktree 'dev' already"),
        (_folder_taken, "exists already"),
        (_link_in_the_way, "exists already"),
        (_file_above, "not a directory"),
        (_folder_missing, "folder is missing"),
    ],
)
def test_create_refused_by_what_is_in_the_way(repo: Repo, prepare: Callable[[Repo], None], mentions: str) -> None:
    prepare(repo)
    before = snapshot(repo)
    done = run(repo.path, "worktree", "create", "dev")
    assert done.code == 1, str(done)
    assert mentions in done.err.decode(), str(done)
    assert b"Traceback" not in done.err
    assert_nothing_left(before, repo)


def test_no_commit_yet(empty_repo: Repo) -> None:
    before = snapshot(empty_repo)
    with pytest.raises(WorktreeError, match="no commit yet"):
        make(empty_repo, "dev")
    assert_nothing_left(before, empty_repo)


@pytest.mark.parametrize("ref", ["nowhere", "", "-x", "HEAD:readme.txt", "main^{tree}"])
def test_no_such_base(repo: Repo, ref: str) -> None:
    before = snapshot(repo)
    with pytest.raises(WorktreeError, match="is not a commit"):
        make(repo, "dev", from_ref=ref)
    assert_nothing_left(before, repo)


def test_in_a_bare_repository(repo: Repo) -> None:
    repo.git("clone", "-q", "--bare", ".", str(repo.scratch / "bare.git"))
    done = run(repo.scratch / "bare.git", "worktree", "create", "dev")
    assert done.code == 1
    assert b"bare repository" in done.err
    first = repo.scratch / "first"
    repo.git("-C", str(repo.scratch / "bare.git"), "worktree", "add", "-q", str(first), "main")
    made = run_ok(first, "worktree", "create", "dev")
    assert made["path"] == str(repo.scratch / "bare.worktrees" / "dev")


class _BrokenError(Exception):
    pass


def _fail(monkeypatch: pytest.MonkeyPatch, target: object, name: str, error: BaseException) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(target, name, fails)


@pytest.mark.parametrize("error", [_BrokenError(), KeyboardInterrupt(), OSError(28, "No space left on device", "x")])
@pytest.mark.parametrize(
    ("target", "name"),
    [(record, "name"), (refs, "update"), (refs, "set_head"), (setup, "prepare"), (creation, "create_checkpoint"),
     (record, "write")],
    ids=["id", "branch", "head", "setup", "checkpoint", "record"],
)  # fmt: skip
def test_failed_creation_leaves_nothing(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, target: object, name: str, error: BaseException
) -> None:
    before = snapshot(repo)
    with monkeypatch.context() as patch:
        _fail(patch, target, name, error)
        with pytest.raises((StorageError, _BrokenError, KeyboardInterrupt)):
            make(repo, "dev", sparse=["src"])
    assert_nothing_left(before, repo)
    assert make(repo, "dev").state == "active"


def test_a_failure_leaves_others_alone(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    make(repo, "other", sparse=["src"])
    before = snapshot(repo)
    with monkeypatch.context() as patch:
        _fail(patch, record, "write", _BrokenError())
        with pytest.raises(_BrokenError):
            make(repo, "dev", sparse=["docs"])
    assert_nothing_left(before, repo)


def test_a_timeline_of_an_earlier_worktree_goes_on(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    make(repo, "dev")
    repo.git("worktree", "remove", "--force", str(folder_of(repo, "dev")))
    repo.git("branch", "-D", "agent/dev")
    before = snapshot(repo)
    with monkeypatch.context() as patch:
        _fail(patch, record, "write", _BrokenError())
        with pytest.raises(_BrokenError):
            make(repo, "dev")
    assert_nothing_left(before, repo)
    make(repo, "dev")
    assert len(open_workspace(folder_of(repo, "dev")).checkpoints()) == 2


@pytest.mark.slow
def test_disk_full(small_disk: Path) -> None:
    repo = filled(small_disk / "repo")
    repo.write("large.bin", os.urandom(1 << 20))
    repo.commit("large")
    codes = set()
    for pages in (0, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128, 250, 290, 310, 400, 600):
        before = snapshot(repo)
        filler = fill_disk(small_disk, pages * 4096)
        done = run(repo.path, "worktree", "create", "dev")
        filler.unlink()
        codes.add(done.code)
        if done.code == 0:
            break
        assert done.code == 1, f"{pages} pages: {done}"
        assert b"Traceback" not in done.err
        assert b"o space left" in done.err or b"out of diskspace" in done.err, str(done)
        assert_nothing_left(before, repo)
    assert codes == {0, 1}


@pytest.mark.slow
def test_fifty_at_once(repo: Repo) -> None:
    """Some with a sparse checkout, which changes the shared configuration."""
    script = (
        "import sys\n"
        "from git_agentos import open_workspace\n"
        "from git_agentos.worktree import create\n"
        "where, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
        "for n in range(first, last):\n"
        "    create.create(open_workspace(where).context, f'dev-{n}', sparse=['src'] if n % 5 == 0 else [])\n"
    )
    # Ten imports are enough to wait for; each of the ten makes five.
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(repo.path), str(n), str(n + 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(50)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    for worker in workers:
        assert worker.wait(timeout=300) == 0, worker.stderr.read() if worker.stderr else b""
        for stream in (worker.stdout, worker.stderr):
            assert stream is not None
            stream.close()
    found = status.list_worktrees(open_workspace(repo.path).context).worktrees
    assert sorted(each.id for each in found) == sorted(f"dev-{n}" for n in range(50))
    assert {(each.state, bool(each.dirty), each.integrated) for each in found} == {("active", False, "same-commit")}
    assert journal.find_all(open_workspace(repo.path).context.location) == []
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_a_killed_one_is_taken_back(repo: Repo) -> None:
    """Killed in its set-up command: the intent is there, belongs to nobody, and leads back."""
    before = snapshot(repo)
    repo.config("agentos.setup", "kill -9 $PPID")
    before_killed = snapshot(repo)
    done = run(repo.path, "worktree", "create", "dev")
    assert done.code == -signal.SIGKILL
    context = open_workspace(repo.path).context
    (left,) = journal.interrupted(context.location)
    assert [each.state for each in status.list_worktrees(context).worktrees] == ["broken"]
    again = run(repo.path, "worktree", "create", "dev")
    assert again.code == 1
    assert b"git agentos worktree repair dev" in again.err
    with worktrees.lock(context.location):
        owned = journal.take_over(left)
        assert owned is not None
        creation_recovery.abort_creation(context.location, owned)
    assert_nothing_left(before_killed, repo)
    repo.git("config", "--unset", "agentos.setup")
    assert before.keys() == snapshot(repo).keys()
    assert make(repo, "dev").state == "active"


def test_creation_under_way_is_left_alone(repo: Repo) -> None:
    context = open_workspace(repo.path).context
    with worktrees.lock(context.location):
        mine = journal.start(context.location, "dev", "create")
    assert journal.interrupted(context.location) == []
    assert journal.take_over(mine) is None
    done = run(repo.path, "worktree", "create", "dev")
    assert (done.code, b"another git-agentos command is at work" in done.err) == (1, True)
    assert run_ok(repo.path, "worktree", "create", "other")["state"] == "active"
    journal.remove(mine)
    assert make(repo, "dev").state == "active"


def test_locked(repo: Repo) -> None:
    assert make(repo, "dev", lock=True).locked
    assert repo.try_git("worktree", "remove", "--force", str(folder_of(repo, "dev"))) != 0


def test_sparse(repo: Repo) -> None:
    made = make(repo, "dev", sparse=["src/lib", "docs/"])
    there = Repo(folder_of(repo, "dev"))
    present = {os.fsdecode(path) for path in there.git("ls-files", "-t").splitlines() if path.startswith(b"H ")}
    assert present == {
        "H data.bin", "H docs/guide.md", "H link", "H notes.txt", "H readme.txt", "H run.sh", "H src/app.py",
        "H src/lib/util.py",
    }  # fmt: skip
    assert there.exists("src/lib/util.py")
    assert there.text("sparse-checkout", "list").split("\n") == ["docs", "src/lib"]
    assert there.git("status", "--porcelain") == b""
    assert made.dirty == status.Dirty(0, 0, 0, 0)
    assert repo.exists("src/lib/util.py")
    assert repo.git("status", "--porcelain") == b""
    assert record.find(str(repo.git_dir), "dev").record.sparse == ["src/lib", "docs"]


@pytest.mark.parametrize("path", ["nowhere", "readme.txt", "../x", "/etc", "."])
def test_sparse_takes_folders_of_the_commit(repo: Repo, path: str) -> None:
    before = snapshot(repo)
    with pytest.raises((WorktreeError, UsageError), match="folder"):
        make(repo, "dev", sparse=[path])
    assert_nothing_left(before, repo)


# -- where it goes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("../trees/{repo}-{id}", "trees/repo-dev"),
        ("../trees", "trees/dev"),
        ("{repo}", None),
        ("~/agents/{repo}/{id}", "~"),
    ],
)
def test_the_root_is_a_template(repo: Repo, home: Path, template: str, path: str | None) -> None:
    repo.config("agentos.worktreeRoot", template)
    wanted = {"~": home / "agents/repo/dev", None: repo.path / "repo/dev"}.get(path, repo.path.parent / str(path))
    made = make(repo, "dev")
    assert made.path == str(wanted)
    assert (wanted / "readme.txt").exists()
    repo.git("worktree", "remove", "--force", str(wanted))


def test_a_root_in_the_repository_is_excluded(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.config("agentos.worktreeRoot", ".trees of agents/{id}")
    before = snapshot(repo)
    with monkeypatch.context() as patch:
        _fail(patch, record, "write", _BrokenError())
        with pytest.raises(_BrokenError):
            make(repo, "dev")
    assert_nothing_left(before, repo)
    make(repo, "dev")
    assert repo.git("status", "--porcelain", "--untracked-files=all") == b""
    make(repo, "dev2")
    assert (repo.git_dir / "info/exclude").read_text() == "/.trees\\ of\\ agents/\n"
    repo.git("add", "-A")
    assert repo.git("diff", "--cached", "--name-only") == b""


@pytest.mark.parametrize(
    "template", ["{id}", "src/{id}", ".git/{id}", "../repo.worktrees/other/{id}", "../{x}/{id}", "."]
)
def test_invalid_root(repo: Repo, template: str) -> None:
    make(repo, "other")
    repo.config("agentos.worktreeRoot", template)
    before = snapshot(repo)
    with pytest.raises(ConfigurationError):
        make(repo, "dev")
    assert_nothing_left(before, repo)


def test_moved_worktrees_are_found(repo: Repo) -> None:
    make(repo, "dev")
    elsewhere = repo.scratch / "elsewhere"
    repo.git("worktree", "move", str(folder_of(repo, "dev")), str(elsewhere))
    context = open_workspace(repo.path).context
    assert status.path(context, "dev") == str(elsewhere)
    assert open_workspace(elsewhere).timeline == "dev"
    elsewhere.rename(repo.scratch / "by-hand")
    assert status.show(context, "dev").state == "broken"
    with pytest.raises(AgentosError, match="is missing"):
        status.path(context, "dev")


def test_in_a_submodule_it_goes_beside_the_superproject(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    library = make_repo("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.path), "libs/inner")
    repo.commit("a submodule")
    inner = Repo(repo.path / "libs/inner")
    made = creation.create(open_workspace(inner.path).context, "dev-001")
    assert made.path == str(repo.path.parent / "inner.worktrees/dev-001")
    assert repo.text("status", "--porcelain") == ""
    there = Repo(Path(made.path))
    again = creation.create(open_workspace(there.path).context, "dev-002")
    assert again.path == str(repo.path.parent / "inner.worktrees/dev-002")


def test_no_worktree_goes_into_a_git_directory(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    other = make_repo("other")
    repo.config("agentos.worktreeRoot", str(other.path / ".git/modules/{id}"))
    with pytest.raises(ConfigurationError, match="inside of the git directory"):
        creation.create(open_workspace(repo.path).context, "dev-001")
    assert not (other.path / ".git/modules").exists()
