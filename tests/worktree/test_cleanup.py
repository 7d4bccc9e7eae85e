"""`worktree cleanup`: what is merged, complete or idle is archived, with everything in it; all others are kept."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.util import times
from git_agentos.worktree import cleanup, losses, record, removal
from tests.support.agents import agent_commit, agent_worktree
from tests.support.dirty import make_dirty
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok
from tests.support.worktrees import assert_removed


def _cleanup(repo: Repo, *args: str, code: int = 0) -> Any:
    done = run(repo.path, "--json", "worktree", "cleanup", *args)
    assert done.code == code, str(done)
    assert check_document(done.json) == "cleanup"
    return done.json


def _kept(document: Any) -> dict[str, str]:
    return {each["id"]: each["reason"] for each in document["kept"]}


def _archived(document: Any) -> dict[str, str]:
    return {each["id"]: each["reason"] for each in document["archived"]}


def _merge(repo: Repo, how: str, branch: str) -> None:
    if how == "ancestor":
        repo.git("merge", "-q", "--no-ff", "--no-edit", branch)
    elif how == "same-commit":
        repo.git("merge", "-q", "--ff-only", branch)
    elif how == "fast-forwarded":
        repo.git("merge", "-q", "--ff-only", branch)
        repo.write("later.txt", "later\n")
        repo.commit("later")
    elif how == "squash-merged":
        repo.git("merge", "-q", "--squash", branch)
        repo.commit("squashed")
        repo.write("later.txt", "later\n")
        repo.commit("later")
    else:
        repo.git("cherry-pick", branch)


# -- what is archived --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ancestor", "same-commit", "fast-forwarded", "squash-merged", "picked"])
def test_merged_ones_go_with_their_branch_and_come_back(repo: Repo, how: str) -> None:
    if how == "picked":
        repo.write("apart.txt", "apart\n")
        repo.commit("so that the picked commit has another id")
        dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"}, base="main~1")
    else:
        dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    dev.write("ignored.log", "ignored\n")
    repo.write(".git/info/exclude", "*.log\n")
    tip, before = dev.oid(), complete_state(dev.path)
    _merge(repo, how, "agent/dev-001")
    main = complete_state(repo.path)

    planned = _cleanup(repo, "--dry-run")
    assert dev.path.exists()
    assert [each["archive"] for each in planned["archived"]] == [None]
    done = _cleanup(repo)

    names = {"fast-forwarded": "ancestor", "picked": "squash-merged"}
    base = record.get(str(repo.git_dir), "dev-001")
    assert base is None
    assert _archived(done) == _archived(planned)
    assert _archived(done)["dev-001"].endswith(f"({names.get(how, how)})")
    assert [each["branch_deleted"] for each in done["archived"]] == [True]
    assert _kept(done) == _kept(planned) == {"main": "it is the main worktree"}
    assert_removed(repo, dev)
    assert repo.try_git("rev-parse", "--verify", "--quiet", "agent/dev-001") == 1
    assert_same(main, complete_state(repo.path), "the main worktree")
    assert run_ok(repo.path, "worktree", "list")["worktrees"][0]["state"] == "archived"
    [archived] = done["archived"]
    newest = run_ok(repo.path, "checkpoint", "list", "--agent", "dev-001")["checkpoints"][0]
    assert (newest["id"], newest["trigger"]) == (archived["archive"], "archive")

    run_ok(repo.path, "worktree", "create", "dev-001", "--revive")
    assert_same(before, complete_state(dev.path), "revived")
    assert repo.oid("agent/dev-001") == tip


def test_a_complete_one_goes_and_its_branch_stays(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    make_dirty(dev)
    run_ok(dev.path, "worktree", "complete")
    before, tip = complete_state(dev.path), dev.oid()

    done = _cleanup(repo)

    assert list(_archived(done)) == ["dev-001"]
    assert _archived(done)["dev-001"].startswith("complete since ")
    assert done["archived"][0]["branch_deleted"] is False
    assert repo.oid("agent/dev-001") == tip
    run_ok(repo.path, "worktree", "create", "dev-001", "--revive")
    assert_same(before, complete_state(dev.path), "revived")


@pytest.mark.parametrize("change", ["file", "ignored", "commit", "checkpoint"])
def test_a_complete_one_that_has_changed_since_is_kept(repo: Repo, change: str) -> None:
    repo.write(".git/info/exclude", "*.log\n")
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    run_ok(dev.path, "worktree", "complete")
    time.sleep(1.1)  # reflogs have whole seconds
    if change == "file":
        dev.write("one.txt", "again\n")
    elif change == "ignored":
        dev.write("build.log", "built\n")
    elif change == "commit":
        dev.git("commit", "-q", "--allow-empty", "-m", "more", env={"GIT_COMMITTER_DATE": f"{int(time.time())} +0000"})
    else:
        run_ok(dev.path, "checkpoint")
    done = _cleanup(repo)
    assert done["archived"] == []
    assert "it has changed since it was completed" in _kept(done)["dev-001"]
    assert dev.path.exists()


def _old(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """As if the cleanup ran so many days later."""
    now = time.time() + days * 86400
    monkeypatch.setattr(time, "time", lambda: now)


def _run_here(repo: Repo, monkeypatch: pytest.MonkeyPatch, days: float) -> cleanup.WorktreeCleanup:
    with monkeypatch.context() as patch:
        _old(patch, days)
        return cleanup.cleanup(open_workspace(repo.path).context)


@pytest.mark.parametrize(
    ("setting", "days", "goes"),
    [(None, 29, False), (None, 31, True), ("14d", 13, False), ("14d", 15, True), ("never", 1000, False)],
)
def test_idle_ones(repo: Repo, monkeypatch: pytest.MonkeyPatch, setting: str | None, days: int, goes: bool) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    make_dirty(dev)
    run_ok(dev.path, "checkpoint")
    if setting is not None:
        repo.config("agentos.cleanupAfter", setting)
    before, tip = complete_state(dev.path), dev.oid()
    done = _run_here(repo, monkeypatch, days)
    assert [each.id for each in done.archived] == (["dev-001"] if goes else [])
    if goes:
        assert done.archived[0].reason == f"idle for {'14' if setting else '30'} days or more"
        assert not done.archived[0].branch_deleted
        assert repo.oid("agent/dev-001") == tip
        run_ok(repo.path, "worktree", "create", "dev-001", "--revive")
    assert_same(before, complete_state(dev.path), "an idle worktree")


@pytest.mark.parametrize("use", ["file", "ignored", "head", "checkpoint", "created"])
def test_what_is_in_use_is_not_idle(repo: Repo, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    """Each sign of use alone: the others are as old as the worktree."""
    repo.write(".git/info/exclude", "*.log\n")
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    if use == "file":
        dev.write("notes.txt", "edited\n")
    elif use == "ignored":
        dev.write("build.log", "built\n")
    else:
        monkeypatch.setattr(losses, "changed_since", lambda root, moment: None)
    now = time.time()
    if use == "head":
        dev.git("checkout", "-q", "--detach", env={"GIT_COMMITTER_DATE": f"{int(now)} +0000"})
        dev.git("checkout", "-q", "agent/dev-001", env={"GIT_COMMITTER_DATE": f"{int(now)} +0000"})
    elif use == "checkpoint":
        run_ok(dev.path, "checkpoint")
    elif use == "created":
        known = record.get(str(repo.git_dir), "dev-001")
        assert known is not None
        record.write(known.git_dir, replace(known.record, created_at=times.now_text()))
    done = _run_here(repo, monkeypatch, 29)
    assert done.archived == []
    assert "in use during the last 30 days" in done.kept[1].reason
    assert [each.id for each in _run_here(repo, monkeypatch, 31).archived] == ["dev-001"]


def test_a_bad_setting_is_an_error(repo: Repo) -> None:
    repo.config("agentos.cleanupAfter", "soon")
    done = run(repo.path, "worktree", "cleanup")
    assert done.code == 1
    assert b"agentos.cleanupAfter" in done.err


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_what_is_not_needed_any_more_is_not_all_there_is(repo: Repo) -> None:
    new = agent_worktree(repo, "a-new")
    behind = agent_worktree(repo, "b-behind")
    ahead = agent_commit(repo, "c-ahead", {"c.txt": "c\n"})
    pulled = agent_worktree(repo, "d-pulled")
    synced = agent_worktree(repo, "e-synced")
    dirty = agent_commit(repo, "f-dirty", {"f.txt": "f\n"})
    repo.git("merge", "-q", "--no-ff", "--no-edit", "agent/f-dirty")
    dirty.write("more.txt", "not committed\n")
    rebasing = agent_commit(repo, "g-rebasing", {"g.txt": "g\n", "readme.txt": "theirs\n"})
    repo.git("merge", "-q", "--no-ff", "--no-edit", "agent/g-rebasing")
    rebasing.git("bisect", "start")
    pulled.git("merge", "-q", "--ff-only", "main")
    run_ok(repo.path, "worktree", "sync", "e-synced")
    states = {each.path: complete_state(each.path) for each in (new, behind, ahead, pulled, synced, dirty, rebasing)}

    kept = _kept(_cleanup(repo))

    words = {id_: reason.partition(";")[0] for id_, reason in kept.items()}
    assert words == {
        "main": "it is the main worktree",
        "a-new": "nothing was committed in it yet",
        "b-behind": "nothing was committed in it yet",
        "c-ahead": "not merged into 'main'",
        "d-pulled": "nothing was committed in it yet",
        "e-synced": "nothing was committed in it yet",
        "f-dirty": "merged into 'main', but 1 path in it is not committed",
        "g-rebasing": "a bisect is in progress in it",
    }
    for path, before in states.items():
        assert_same(before, complete_state(path), str(path))


def _merged(repo: Repo, id_: str) -> Repo:
    dev = agent_commit(repo, id_, {f"{id_}.txt": f"{id_}\n"})
    repo.git("merge", "-q", "--no-ff", "--no-edit", f"agent/{id_}")
    return dev


def test_merged_ones_that_must_not_go(repo: Repo, tmp_path: Any) -> None:
    locked = _merged(repo, "a-locked")
    repo.git("worktree", "lock", "--reason", "mine", str(locked.path))
    busy = _merged(repo, "b-busy")
    protected = _merged(repo, "c-protected")
    repo.config("agentos.protected", "agent/c-*")
    large = _merged(repo, "d-large")
    repo.config("agentos.maxFileSize", "1k")
    repo.write(".git/info/exclude", "*.bin\n")
    large.write("large.bin", "x" * 2000)
    missing = _merged(repo, "e-missing")
    missing.path.rename(tmp_path / "away")
    killed = _merged(repo, "f-killed")
    (repo.git_dir / "worktrees/f-killed/agentos/journal.json").parent.mkdir(exist_ok=True)
    (repo.git_dir / "worktrees/f-killed/agentos/journal.json").write_text("{}")
    runs = _merged(repo, "g-run")
    known = record.get(str(repo.git_dir), "g-run")
    assert known is not None
    record.write(known.git_dir, replace(known.record, run_id="T-1"))
    foreign = repo.path.parent / "foreign"
    repo.git("worktree", "add", "-q", "--detach", str(foreign), "main")
    there = [each.path for each in (locked, busy, protected, large, killed, runs)] + [foreign]

    with subprocess.Popen(["sleep", "60"], cwd=busy.path) as child:
        try:
            planned = _cleanup(repo, "--dry-run")
            done = _cleanup(repo)
        finally:
            child.kill()

    assert done["archived"] == planned["archived"] == []
    assert _kept(done) == _kept(planned)
    kept = _kept(done)
    assert list(kept) == [
        "main", "a-locked", "b-busy", "c-protected", "d-large", "e-missing", "f-killed", "foreign", "g-run",
    ]  # fmt: skip
    assert kept["a-locked"] == "the worktree 'a-locked' is locked: mine"
    assert kept["b-busy"].startswith("a process works in the worktree 'b-busy'")
    assert kept["c-protected"] == "the branch 'agent/c-protected' is protected"
    assert "large.bin" in kept["d-large"]
    assert kept["e-missing"].startswith("its folder is missing")
    assert kept["foreign"] == "git-agentos did not make it"
    assert kept["g-run"].startswith("it belongs to the run 'T-1'")
    assert all(path.exists() for path in there)
    assert (tmp_path / "away").exists()


def test_the_one_that_one_is_in_is_kept(repo: Repo) -> None:
    dev = _merged(repo, "dev-001")
    done = run(repo.path, "-C", str(dev.path), "--json", "worktree", "cleanup")
    assert "you are in" in _kept(done.json)["dev-001"]


def test_a_branch_that_another_worktree_uses_stays(repo: Repo) -> None:
    dev = _merged(repo, "dev-001")
    tip = dev.oid()
    dev.git("checkout", "-q", "--detach")
    repo.git("worktree", "add", "-q", str(repo.path.parent / "other"), "agent/dev-001")
    done = _cleanup(repo)
    assert [(each["id"], each["branch_deleted"]) for each in done["archived"]] == [("dev-001", False)]
    assert repo.oid("agent/dev-001") == tip


def test_a_commit_that_is_made_meanwhile_is_not_lost(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the decision and the removal: the worktree is kept."""
    dev = _merged(repo, "dev-001")
    real = removal.end_worktree

    def commit_first(*args: Any, **options: Any) -> Any:
        dev.write("late.txt", "late\n")
        dev.commit("late")
        return real(*args, **options)

    monkeypatch.setattr(removal, "end_worktree", commit_first)
    done = cleanup.cleanup(open_workspace(repo.path).context)

    assert done.archived == []
    assert "a commit was made in the worktree" in done.kept[1].reason
    assert dev.read("late.txt") == b"late\n"
    assert repo.text("log", "-1", "--format=%s", "agent/dev-001") == "late"


def test_many_cleanups_at_once(repo: Repo) -> None:
    agents = [_merged(repo, f"dev-{n:03}") for n in range(6)]
    tips = {each.path.name: each.oid() for each in agents}
    kept = agent_commit(repo, "keep", {"keep.txt": "keep\n"})
    command = [sys.executable, "-m", "git_agentos", "worktree", "cleanup", "--json"]
    children = [subprocess.Popen(command, cwd=repo.path, stdout=subprocess.PIPE) for _ in range(4)]
    ended = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0] * 4
    archived = [each["id"] for out in ended for each in json.loads(out)["archived"]]
    assert sorted(archived) == sorted(tips)
    assert kept.path.exists()
    assert not any(each.path.exists() for each in agents)
    for id_, tip in tips.items():
        assert repo.try_git("merge-base", "--is-ancestor", tip, "main") == 0
        run_ok(repo.path, "worktree", "create", id_, "--revive")


# -- as text -----------------------------------------------------------------------------------------------------------


def test_as_text(repo: Repo) -> None:
    _merged(repo, "dev-001")
    agent_worktree(repo, "dev-002")
    planned = run(repo.path, "worktree", "cleanup", "--dry-run").out.decode()
    assert "Would archive 'dev-001': merged into 'main' (ancestor)\n  its branch would be deleted\n" in planned
    assert "Kept 'dev-002': nothing was committed in it yet; in use during the last 30 days\n" in planned
    assert run(repo.path, "worktree", "cleanup", "-q").out == b"dev-001\n"
    again = run(repo.path, "worktree", "cleanup").out.decode()
    assert again.startswith("Nothing to archive.\n")
