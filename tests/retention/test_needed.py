"""Runs and workflows work as before when everything has been forgotten that rules forget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from git_agentos.retention import protection
from tests.support.forgotten import take, timeline
from tests.support.repo import Repo
from tests.support.runs import context_of, start, worktree
from tests.support.tdd_project import decide, project, script
from tests.support.tdd_project import start as start_workflow
from tests.support.tool import run_ok
from tests.support.waiting import wait_until


def test_a_run_is_verified_and_rolled_back(repo: Repo) -> None:
    run = start(repo, "echo one > one.txt", "echo two > two.txt", validate=["test -f two.txt"], run_id="r")
    assert run.state == "passed"
    there = worktree(run)
    before = timeline(repo, "run-r")
    done = run_ok(repo.path, "forget", "--all", "--keep-last", "1")
    assert timeline(repo, "run-r") == before, "each of them is named by an event"
    assert {each["reason"] for each in done["protected"]} >= {"run"}
    assert run_ok(repo.path, "run", "verify", "r")["ok"] is True
    run_ok(repo.path, "rollback", "r", "--to", "step:2")
    assert (there.exists("one.txt"), there.exists("two.txt")) == (True, False)
    run_ok(repo.path, "forget", "--all", "--keep-last", "1")
    run_ok(repo.path, "rollback", "r")
    assert (there.exists("one.txt"), there.exists("two.txt")) == (False, False)
    assert run_ok(repo.path, "run", "verify", "r")["ok"] is True


def test_what_a_run_does_not_name_is_forgotten(repo: Repo) -> None:
    run = start(repo, "echo one > one.txt", run_id="r")
    more = take(worktree(run), 4)
    run_ok(repo.path, "forget", "--agent", "run-r", "--keep-last", "1")
    assert not set(more[:2]) & set(timeline(repo, "run-r"))
    assert set(more[2:]) <= set(timeline(repo, "run-r"))
    assert run_ok(repo.path, "run", "verify", "r")["ok"] is True


def test_a_timeline_may_be_forgotten_from_while_a_step_runs(repo: Repo, tmp_path: Path) -> None:
    """It is written again meanwhile; that is no tampering."""
    ready, go = [[tmp_path / f"{name}-{n}" for n in range(2)] for name in ("ready", "go")]
    steps = [
        f"touch {begun}; for n in $(seq 1200); do test -f {end} && break; sleep 0.05; done"
        for begun, end in zip(ready, go, strict=True)
    ]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(start, repo, *steps, run_id="r")
        wait_until(ready[0].exists, "the first step has begun")
        there = Repo(repo.path / run_ok(repo.path, "worktree", "path", "run-r")["path"])
        more = take(there, 4)
        go[0].touch()
        wait_until(ready[1].exists, "the second step has begun")
        assert run_ok(repo.path, "forget", "--all", "--keep-last", "1")["forgotten"] == []
        done = run_ok(repo.path, "forget", "--all", *more[:3])
        go[1].touch()
        run = running.result()
    assert done["forgotten"] == more[2::-1]
    assert run.state == "passed", run.reason
    assert run_ok(repo.path, "run", "verify", "r")["ok"] is True


def test_a_workflow_goes_on(repo: Repo, tmp_path: Path) -> None:
    project(repo)
    done = start_workflow(repo, script(tmp_path))
    needed = set(protection.needed(context_of(repo)).values())
    assert "workflow" in needed
    names = [each["timeline"] for each in run_ok(repo.path, "storage", "--all")["timelines"]]
    before = {name: timeline(repo, name) for name in names if name != "main"}
    assert before
    run_ok(repo.path, "forget", "--all", "--keep-last", "1")
    assert {name: timeline(repo, name) for name in before} == before
    assert decide(repo, done.id, "approve").state == "merged"


def test_a_repository_inside_another_one(repo: Repo) -> None:
    """Its checkpoints that the outer ones name stay, for as long as these do."""
    inner = Repo.init(repo.path / "inner")
    inner.write("a.txt", "1\n")
    inner.commit("first")
    outer = []
    for number in range(3):
        inner.write("a.txt", f"changed {number}\n")
        outer += take(repo, 1, first=number)
    mine = timeline(inner)
    assert len(mine) == 3
    assert run_ok(inner.path, "forget", "--keep-last", "1")["forgotten"] == []
    run_ok(repo.path, "forget", *outer[:2])
    assert run_ok(inner.path, "forget", "--keep-last", "1")["forgotten"] == [mine[0]]
    take(inner, 3, first=20)
    run_ok(inner.path, "forget", "--keep-last", "1")
    assert mine[2] in timeline(inner)
    assert mine[1] not in timeline(inner)
    run_ok(repo.path, "restore", outer[2], "--no-branch")
    assert inner.read("a.txt") == b"changed 2\n"
