"""Ten runs at once on one repository: four fail and are taken back, two are killed; each ends as it should."""

from __future__ import annotations

import pytest

from git_agentos.run import commands, evidence_store, spec
from git_agentos.run.events import Run
from tests.support.repo import Repo
from tests.support.runs import RunProcess, assert_no_process_left, context_of, outcomes, worktree
from tests.support.state import assert_same, complete_state
from tests.support.waiting import wait_until

PASS, FAIL, KILLED = range(4), range(4, 8), range(8, 10)


@pytest.mark.slow
def test_ten_runs_at_once(repo: Repo) -> None:
    before = complete_state(repo.path)
    kept = start_one(repo, "kept", "echo before > mine; git add -A; git commit -qm kept; echo after > mine")
    others = complete_state(worktree(kept).path)
    workers = {n: RunProcess(repo, "start", f"T-{n}", wanted(repo, n)) for n in range(10)}
    for n in KILLED:
        wait_until((repo.scratch / f"ready-{n}").exists, f"run {n} is at work")
        workers[n].process.kill()
    said = {n: worker.ended() for n, worker in workers.items()}
    assert said == {
        **dict.fromkeys(PASS, "passed"), **dict.fromkeys(FAIL, "failed"), **dict.fromkeys(KILLED, ""),
    }  # fmt: skip
    for n in range(10):
        assert_no_process_left(repo, f"T-{n}")

    context = context_of(repo)
    runs = {run.run_id: run for run in commands.list_runs(context)}
    assert len(runs) == 11
    for n in (*PASS, *FAIL, *KILLED):
        run = runs[f"T-{n}"]
        inside = worktree(run)
        did = n not in FAIL
        assert inside.exists(f"file-{n}") == did, n
        assert [path.name for path in inside.path.glob("file-*") if path.name != f"file-{n}"] == []
        assert run.rolled_back_to == (None if did else "pre_run"), n
    for n in (*PASS, *FAIL):
        assert evidence_store.verify(context, f"T-{n}").ok, n
    for n in FAIL:
        inside = worktree(runs[f"T-{n}"])
        assert (inside.oid(), inside.text("status", "--porcelain")) == (repo.oid(), "")

    first, second = (f"T-{n}" for n in KILLED)
    assert (runs[first].state, runs[second].state) == ("interrupted", "interrupted")
    (repo.scratch / "go-on").touch()
    again = commands.resume(context, first)
    assert (again.state, outcomes(again)) == ("passed", [("agent", "ok"), ("validate", "ok")])
    commands.rollback(context, second, "pre_run")
    inside = worktree(runs[second])
    assert (inside.oid(), inside.exists("file-9")) == (repo.oid(), False)

    # nobody else noticed
    assert_same(others, complete_state(worktree(kept).path), "another run's worktree", permissions="all")
    assert_same(before, complete_state(repo.path), "the main worktree", permissions="all")
    assert repo.oid("refs/heads/main") == before.head.oid
    assert repo.try_git("fsck", "--strict", "--no-dangling") == 0
    assert not [path for path in repo.git_dir.rglob("*.lock") if "objects" not in path.parts]


def wanted(repo: Repo, n: int) -> spec.RunSpec:
    agent = f"echo {n} > file-{n}; git add -A; git commit -qm {n}; echo more >> file-{n}"
    if n in KILLED:
        agent += f"; test -e {repo.scratch}/go-on || {{ touch {repo.scratch}/ready-{n}; sleep 1000; }}"
    return spec.from_options([agent], [f"test -e file-{n} -a {int(n in FAIL)} = 0"], on_failure="rollback")


def start_one(repo: Repo, run_id: str, agent: str) -> Run:
    return commands.start(context_of(repo), spec.from_options([agent], [], run_id=run_id))
