"""`agentos.pool`: worktrees that are prepared before anybody asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError
from git_agentos.git.location import Location, locate
from git_agentos.worktree import creation, discard, journal, pool, pool_filling, record, setup, status
from tests.support.repo import Repo
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _nothing_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test makes in process does not fill the pool again."""
    monkeypatch.setattr(pool, "refill", lambda _: None)


@pytest.fixture
def pooled(repo: Repo) -> Repo:
    """A repository with two prepared worktrees."""
    repo.config("agentos.pool", "2")
    assert fill_pool(repo) == 2
    return repo


def fill_pool(repo: Repo) -> int:
    return pool_filling.fill(open_workspace(repo.path).context)


def waiting(repo: Repo) -> list[pool.Prepared]:
    return pool.prepared(locate(str(repo.path)))


def make(repo: Repo, id_: str, **options: object) -> status.Worktree:
    return creation.create(open_workspace(repo.path).context, id_, **options)  # type: ignore[arg-type]  # as they come


def test_claimed_ones_are_like_any_other(pooled: Repo) -> None:
    names = [Path(each.git_dir).name for each in waiting(pooled)]
    made = make(pooled, "dev", task="T")
    there = Repo(Path(str(made.path)))
    assert there.path == pooled.path.parent / "repo.worktrees/dev"
    assert there.git_dir.name in names
    assert len(waiting(pooled)) == 1
    assert (made.branch, made.task, made.state, made.integrated) == ("agent/dev", "T", "active", "same-commit")
    assert there.git("status", "--porcelain=v2", "--branch").splitlines()[1] == b"# branch.head agent/dev"
    assert there.git("status", "--porcelain") == b""
    assert there.git("ls-files", "-s") == pooled.git("ls-files", "-s")
    assert open_workspace(there.path).timeline == "dev"
    assert run_ok(there.path, "checkpoint")["timeline"] == "dev"
    assert journal.find_all(locate(str(pooled.path))) == []


def test_pooled_worktree_gets_its_id_before_use(pooled: Repo) -> None:
    """git's name for it is another one; what a set-up command saves goes to its own timeline."""
    pooled.config("agentos.setup", f"{sys.executable} -m git_agentos checkpoint -q -m 'from set-up'")
    there = Path(str(make(pooled, "dev").path))
    assert [each.description for each in open_workspace(there).checkpoints()] == ["worktree dev created", "from set-up"]
    assert pooled.text("for-each-ref", "--format=%(refname)", "refs/agentos") == "refs/agentos/timelines/dev"


def test_pooled_worktree_at_another_commit_is_switched(pooled: Repo) -> None:
    pooled.write("later.txt", "later\n")
    pooled.remove("notes.txt")
    pooled.commit("later")
    there = Repo(Path(str(make(pooled, "dev").path)))
    assert len(waiting(pooled)) == 1
    assert there.oid() == pooled.oid()
    assert there.git("status", "--porcelain") == b""
    assert there.read("later.txt") == b"later\n"
    assert not there.exists("notes.txt")
    assert fill_pool(pooled) == 2
    # The one that has the files is preferred.
    assert waiting(pooled)[0].base_sha == pooled.oid()
    assert pool.choose(locate(str(pooled.path)), pooled.oid("HEAD^")) == waiting(pooled)[1]


def test_pooled_worktrees_are_hidden(pooled: Repo) -> None:
    context = open_workspace(pooled.path).context
    assert status.list_worktrees(context).worktrees == []
    assert status.ids(context) == []
    assert list(record.agent_worktrees(context.location.common_dir)) == []
    assert pooled.git("for-each-ref", "refs/agentos") == b""


def test_sparse_ones_are_not_taken_from_it(pooled: Repo) -> None:
    make(pooled, "dev", sparse=["src"])
    assert len(waiting(pooled)) == 2


def test_a_failure_after_the_claim_leaves_nothing(pooled: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = waiting(pooled)

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(setup, "prepare", fails)
        with pytest.raises(KeyboardInterrupt):
            make(pooled, "dev")
    assert len(waiting(pooled)) == 1
    assert not Path(prepared[0].git_dir).exists()
    assert not (pooled.path.parent / "repo.worktrees/dev").exists()
    assert pooled.git("branch", "--list", "agent/*") == b""
    assert fill_pool(pooled) == 2
    assert make(pooled, "dev").state == "active"


def test_unmovable_pooled_worktree_stays(pooled: Repo) -> None:
    for each in waiting(pooled):
        pooled.git("worktree", "lock", each.path)
    assert make(pooled, "dev").state == "active"
    assert len(waiting(pooled)) == 2


def test_pooled_worktree_without_its_folder_is_not_taken(pooled: Repo) -> None:
    for each in waiting(pooled):
        subprocess.run(["rm", "-rf", each.path], check=True)
    assert waiting(pooled) == []
    assert make(pooled, "dev").state == "active"


def test_too_many_are_removed(pooled: Repo) -> None:
    pooled.config("agentos.pool", "1")
    assert fill_pool(pooled) == 1
    assert len(list((pooled.path.parent / "repo.worktrees/.pool").iterdir())) == 1
    pooled.config("agentos.pool", "0")
    assert fill_pool(pooled) == 0
    pooled.git("config", "--unset", "agentos.pool")
    assert pooled.git("worktree", "list", "--porcelain").count(b"worktree ") == 1
    assert journal.find_all(locate(str(pooled.path))) == []


def test_a_bad_number(repo: Repo) -> None:
    repo.config("agentos.pool", "many")
    done = run(repo.path, "worktree", "refill")
    assert (done.code, b"agentos.pool" in done.err) == (1, True)
    # Before anything is made, not after.
    before = snapshot(repo)
    assert run(repo.path, "worktree", "create", "dev").code == 1
    assert_nothing_left(before, repo)


def test_unborn_repository_has_no_pool(empty_repo: Repo) -> None:
    empty_repo.config("agentos.pool", "2")
    assert fill_pool(empty_repo) == 0


def test_filling_that_was_killed_is_cleaned_up(repo: Repo) -> None:
    repo.config("agentos.pool", "1")
    repo.write(".gitattributes", "* filter=killer\n")
    repo.commit("a filter")
    before = snapshot(repo)
    repo.config(
        "filter.killer.smudge", 'read -r word <"/proc/$PPID/stat"; set -- $(cat "/proc/$PPID/stat"); kill -9 "$4"; cat'
    )
    done = run(repo.path, "worktree", "refill")
    assert done.code == -signal.SIGKILL, str(done)
    repo.git("config", "--unset", "filter.killer.smudge")
    left = journal.find_all(locate(str(repo.path)))
    assert len(left) == 1
    # The git that was started lives on for a moment, and what it does is still under way.
    wait_until(lambda: not journal.owner_is_alive(left[0]), "the git that was started has ended")
    repo.config("agentos.pool", "0")
    assert fill_pool(repo) == 0
    repo.config("agentos.pool", "1")
    assert_nothing_left(before | {"repo/.git/config": (repo.git_dir / "config").read_bytes()}, repo)


def test_claims_at_once(repo: Repo) -> None:
    """Six claims from four that are ready: everybody gets one of their own."""
    repo.config("agentos.pool", "4")
    assert fill_pool(repo) == 4
    repo.config("agentos.pool", "0")  # nobody fills it meanwhile
    script = (
        "import sys\n"
        "from git_agentos import open_workspace\n"
        "from git_agentos.worktree import creation, pool\n"
        "pool.refill = lambda context: None\n"
        "creation.create(open_workspace(sys.argv[1]).context, sys.argv[2])\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", script, str(repo.path), f"dev-{n}"]) for n in range(6)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 6
    found = status.list_worktrees(open_workspace(repo.path).context).worktrees
    assert [(each.id, each.state, each.dirty) for each in found] == [
        (f"dev-{n}", "active", status.Dirty(0, 0, 0, 0)) for n in range(6)
    ]
    assert len({record.find(str(repo.git_dir), each.id).git_dir for each in found}) == 6
    assert waiting(repo) == []
    assert repo.git("worktree", "list", "--porcelain").count(b"worktree ") == 7


def _is_being_filled(repo: Repo) -> bool:
    try:
        with pool.filling(locate(str(repo.path))):
            return False
    except LockedError:
        return True


def test_a_creation_fills_it_again(repo: Repo) -> None:
    repo.config("agentos.pool", "2")
    run_ok(repo.path, "worktree", "create", "dev")
    wait_until(lambda: len(waiting(repo)) >= 2, "the pool is filled")
    assert len(waiting(repo)) == 2
    # It must not write into a folder that the test's end removes.
    wait_until(lambda: not _is_being_filled(repo), "the pool's filling has ended")
    assert os.path.isdir(waiting(repo)[0].path)


def test_what_is_given_back_is_prepared_and_not_counted(pooled: Repo) -> None:
    """`agentos.pool` neither counts it nor removes it; a worktree takes it as any other."""
    made = make(pooled, "dev-001")
    context = open_workspace(pooled.path).context
    found = record.find(context.location.common_dir, made.id)
    index = (Path(found.git_dir) / "index").read_bytes()
    discard.to_pool(context, found, found.record.base_sha, index, lambda _: None)
    assert [each.is_returned for each in waiting(pooled)].count(True) == 1
    assert fill_pool(pooled) == 2
    assert len(waiting(pooled)) == 3
    pooled.git("update-ref", "-d", f"refs/heads/{made.branch}")
    again = make(pooled, "dev-002")
    assert again.path is not None
    assert Repo(Path(again.path)).text("status", "--porcelain") == ""
    assert len(waiting(pooled)) == 2


@pytest.mark.parametrize("after", [False, True])
def test_one_that_cannot_be_reset_is_not_given_back(pooled: Repo, after: bool) -> None:
    made = make(pooled, "dev-001")
    context = open_workspace(pooled.path).context
    found = record.find(context.location.common_dir, made.id)

    def fails(location: Location) -> None:
        if after:
            (Path(location.root) / "half").touch()
        raise LockedError("not now")

    with pytest.raises(LockedError):
        discard.to_pool(context, found, found.record.base_sha, b"", fails)
    assert not Path(found.root).exists()
    assert [each.is_returned for each in waiting(pooled)].count(True) == 0
    assert journal.find_all(context.location) == []
    assert record.get(context.location.common_dir, made.id) is None
