"""A run that is interrupted, wherever that is: it can be continued, taken back and cancelled, and nobody is left."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError, StorageError
from git_agentos.run import accept, commands, evidence, evidence_store, spec
from git_agentos.run.events import Run
from git_agentos.run.spec import RunSpec
from tests.support.repo import Repo
from tests.support.runs import (
    IS_RIGHT,
    LEARNS,
    RunProcess,
    assert_no_process_left,
    context_of,
    events,
    outcomes,
    processes_of,
    start,
    worktree,
)
from tests.support.signals import with_default_handlers
from tests.support.waiting import wait_until

# Two attempts; what the first has done is taken back before the second.
TWICE = spec.from_options(
    [LEARNS + "git add -A; git commit -qm mine; echo more > more"], [IS_RIGHT], max_attempts=2, retry_from="pre_run"
)
RECORD = [
    "begun", "prepared", "attempt", "step-begun", "step-ended", "step-begun", "step-ended", "attempt-ended",
    "rolled-back", "attempt", "step-begun", "step-ended", "step-begun", "step-ended", "attempt-ended", "ended",
    "sealed",
]  # fmt: skip
POINTS = [(when, n) for n in range(1, len(RECORD) + 1) for when in ("before", "after")]
FAILS = spec.from_options(["echo > new; git add -A; git commit -qm mine"], ["exit 1"], on_failure="rollback")
FAILS_POINTS = [(when, n) for n in range(8, 12) for when in ("before", "after")]  # attempt-ended … sealed
ENDED = [("agent", "ok"), ("validate", "failed"), ("agent", "ok"), ("validate", "ok")]


def interrupted(repo: Repo, wanted: RunSpec, when: str, n: int) -> None:
    worker = RunProcess(repo, "start", "T-1", wanted, when, n)
    assert worker.ended() == ""
    assert_no_process_left(repo, "T-1")


def state(repo: Repo) -> Run:
    return commands.show(context_of(repo), "T-1")


def check_sound(repo: Repo) -> None:
    checked = evidence_store.verify(context_of(repo), "T-1")
    assert checked.ok, checked.problems
    assert not [path for path in repo.git_dir.rglob("*.lock") if "objects" not in path.parts]
    assert not list((repo.git_dir / "agentos/runs").glob("*.json*"))
    assert repo.text("status", "--porcelain") == ""


# -- killed at an event ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(one_in=20)
@pytest.mark.parametrize(("when", "n"), POINTS)
def test_killed_run_is_resumed(repo: Repo, when: str, n: int) -> None:
    interrupted(repo, TWICE, when, n)
    if (when, n) == ("before", 1):  # nothing is on record: the id is free
        assert RunProcess(repo, "start", "T-1", TWICE).ended() == "passed"
    elif n < len(RECORD) - 1 or (when, n) == ("before", len(RECORD) - 1):
        assert state(repo).state == "interrupted"
        assert commands.resume(context_of(repo), "T-1").state == "passed"
    else:  # it had ended, and perhaps is not sealed
        assert state(repo).state == "passed"
        if (when, n) != ("after", len(RECORD)):
            commands.resume(context_of(repo), "T-1")
    run = state(repo)
    assert (run.state, outcomes(run), run.problems) == ("passed", ENDED, [])
    assert [(each.number, each.outcome) for each in run.attempts] == [(1, "failed"), (2, "ok")]
    inside = worktree(run)
    assert inside.read("answer.txt") == b"right\n"
    assert inside.text("log", "--format=%s", f"{repo.oid()}..") == "mine"
    assert (inside.exists("more"), inside.exists("first.txt")) == (True, False)
    assert b"the answer is wrong" in inside.read("learnt.txt")
    check_sound(repo)


def test_foreign_changes_before_resume_are_put_aside(repo: Repo) -> None:
    interrupted(repo, spec.from_options(["echo > new"], ["test ! -e other -a -e new"]), "after", 5)
    inside = worktree(state(repo))
    inside.write("other", "of somebody\n")
    inside.remove("new")
    run = commands.resume(context_of(repo), "T-1")
    assert (run.state, run.rolled_back_to) == ("passed", None)
    assert (inside.exists("new"), inside.exists("other")) == (True, False)
    open_workspace(inside.path).undo()
    assert inside.read("other") == b"of somebody\n"


@pytest.mark.sampled(one_in=20)
@pytest.mark.parametrize(("when", "n"), POINTS[8:])
def test_killed_run_is_rolled_back(repo: Repo, when: str, n: int) -> None:
    interrupted(repo, TWICE, when, n)
    context = context_of(repo)
    done = commands.rollback(context, "T-1", "pre_run")
    inside = worktree(state(repo))
    assert (done.head, inside.oid(), inside.oid(f"refs/heads/{done.branch}")) == (repo.oid(),) * 3
    assert inside.text("status", "--porcelain") == ""
    assert state(repo).rolled_back_to == "pre_run"
    # and it can still be continued
    if state(repo).state == "interrupted":
        assert commands.resume(context, "T-1").state == "passed"
        assert inside.read("answer.txt") == b"right\n"
        check_sound(repo)


@pytest.mark.parametrize(("when", "n"), [("before", 15), ("after", 15), ("before", 16)])
def test_run_killed_before_its_end_and_rolled_back_passes_with_its_work(repo: Repo, when: str, n: int) -> None:
    """Event 15 says that the last attempt has passed, event 16 that the run has."""
    interrupted(repo, TWICE, when, n)
    context = context_of(repo)
    commands.rollback(context, "T-1", "pre_run")
    assert (state(repo).state, state(repo).rolled_back_to) == ("interrupted", "pre_run")
    resumed = commands.resume(context, "T-1")
    assert (resumed.state, resumed.rolled_back_to) == ("passed", None)
    assert worktree(resumed).read("answer.txt") == b"right\n"
    check_sound(repo)
    accept.accept(context, "T-1", into="main")
    assert repo.read("answer.txt") == b"right\n"


@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize(("n", "on_failure"), [(n, each) for n in (1, 2, 4, 5, 7) for each in ("keep", "rollback")])
def test_killed_run_is_cancelled(repo: Repo, n: int, on_failure: str) -> None:
    wanted = spec.from_options(["echo > new; git add -A; git commit -qm mine"], ["sleep 0"], on_failure=on_failure)
    interrupted(repo, wanted, "after", n)
    run = commands.cancel(context_of(repo), "T-1")
    assert (run.state, run.reason) == ("cancelled", "cancelled")
    if run.context is not None:
        inside = worktree(run)
        was_done = n >= 5 and on_failure == "keep"
        assert inside.exists("new") == was_done
        assert (inside.oid() == repo.oid()) == (not was_done)
        check_sound(repo)


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(("when", "n"), FAILS_POINTS)
def test_run_killed_during_its_rollback(repo: Repo, when: str, n: int) -> None:
    interrupted(repo, FAILS, when, n)
    if state(repo).final_checkpoint is None:
        commands.resume(context_of(repo), "T-1")
    run = state(repo)
    assert (run.state, run.rolled_back_to) == ("failed", "pre_run")
    inside = worktree(run)
    assert (inside.oid(), inside.exists("new")) == (repo.oid(), False)
    check_sound(repo)


# -- killed while a command runs ---------------------------------------------------------------------------------------


def unruly(folder: Path, then: str) -> str:
    """An agent that at its first go makes a mess, starts a daemon, does `then` and hangs; at its second it works."""
    return (
        f"if [ ! -e {folder}/once ]; then touch {folder}/once; echo > mess; git add mess; echo > {repo_lock(folder)};"
        f" (setsid sleep 1000 &); {then}; touch {folder}/ready; sleep 1000; else echo right > answer.txt; fi"
    )


def repo_lock(folder: Path) -> str:
    """Where a git that was killed in the run's worktree leaves its lock."""
    return "$(git rev-parse --git-path index.lock)"


def test_killed_in_the_middle_of_a_command(repo: Repo) -> None:
    wanted = spec.from_options([unruly(repo.scratch, "kill -9 $KERNEL")], [IS_RIGHT])
    assert RunProcess(repo, "start", "T-1", wanted).ended() == ""
    assert_no_process_left(repo, "T-1")
    run = state(repo)
    assert (run.state, run.reason, run.process) == ("interrupted", "its process is gone", None)
    assert outcomes(run) == [("agent", None)]
    assert worktree(run).exists("mess")
    run = commands.resume(context_of(repo), "T-1")
    assert (run.state, outcomes(run)) == ("passed", [("agent", "ok"), ("validate", "ok")])
    assert not worktree(run).exists("mess")
    check_sound(repo)


def test_a_killed_run_that_is_taken_back_has_nobody_left(repo: Repo) -> None:
    wanted = spec.from_options([unruly(repo.scratch, "kill -9 $KERNEL")], [IS_RIGHT])
    RunProcess(repo, "start", "T-1", wanted).ended()
    commands.rollback(context_of(repo), "T-1", "pre_run")
    assert processes_of(repo, "T-1") == []
    inside = worktree(state(repo))
    assert (inside.exists("mess"), inside.text("status", "--porcelain")) == (False, "")


def test_protected_branch_moved_by_a_killed_run(repo: Repo) -> None:
    main = repo.oid()
    agent = (
        "git commit -q --allow-empty -m mine; cd /; PATH=/usr/bin:/bin"
        f" git --git-dir={repo.git_dir} -c core.hooksPath=/dev/null"
        " update-ref refs/heads/main refs/heads/agentos/run-T-1; kill -9 $KERNEL"
    )
    RunProcess(repo, "start", "T-1", spec.from_options([agent], [], guard=False)).ended()
    assert_no_process_left(repo, "T-1")
    run = commands.resume(context_of(repo), "T-1")
    assert (run.state, outcomes(run)) == ("failed", [("agent", "protected-branch")])
    assert repo.oid("refs/heads/main") == main


# -- signals -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    ("number", "then"),
    [(signal.SIGINT, "true"), (signal.SIGHUP, "true"), (signal.SIGTERM, "trap '' INT TERM HUP")],
)
def test_a_signal_while_a_command_runs(repo: Repo, number: int, then: str) -> None:
    ready = repo.scratch / "ready"
    wanted = spec.from_options([unruly(repo.scratch, then)], [IS_RIGHT])
    with with_default_handlers(number):
        worker = RunProcess(repo, "start", "T-1", wanted)
    wait_until(ready.exists, "the agent is at work")
    worker.send(number)
    assert worker.ended() == "interrupted"
    assert processes_of(repo, "T-1") == []
    assert events(repo, "T-1")[-1]["event"] == "interrupted"
    assert state(repo).reason == f"interrupted by {signal.Signals(number).name}"
    assert RunProcess(repo, "resume", "T-1").ended() == "passed"
    assert not worktree(state(repo)).exists("mess")
    check_sound(repo)


def test_a_signal_while_the_workspace_is_made(repo: Repo) -> None:
    ready = repo.scratch / "ready"
    repo.config("agentos.setup", f"test -e {ready} || {{ touch {ready}; sleep 1000; }}")
    worker = RunProcess(repo, "start", "T-1", spec.from_options(["echo right > answer.txt"], [IS_RIGHT]))
    wait_until(ready.exists, "the workspace is being made")
    worker.send(signal.SIGTERM)
    assert worker.ended() == "interrupted"
    assert (state(repo).state, state(repo).context) == ("interrupted", None)
    assert repo.text("worktree", "list", "--porcelain").count("worktree ") == 1
    assert repo.text("branch", "--list", "agentos/*") == ""
    assert commands.resume(context_of(repo), "T-1").state == "passed"
    check_sound(repo)


def test_hangup_ignored_by_the_shell_does_not_end_the_run(repo: Repo) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        wanted = spec.from_options(["echo > new; kill -HUP $PPID; kill -HUP $$; sleep 0.3"], [])
        assert RunProcess(repo, "start", "T-1", wanted).ended() == "passed"
    finally:
        signal.signal(signal.SIGHUP, before)


# -- from elsewhere ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_failure", ["keep", "rollback"])
def test_a_run_at_work_is_cancelled(repo: Repo, on_failure: str) -> None:
    ready = repo.scratch / "ready"
    wanted = spec.from_options([unruly(repo.scratch, "true")], [IS_RIGHT], on_failure=on_failure)
    worker = RunProcess(repo, "start", "T-1", wanted)
    wait_until(ready.exists, "the agent is at work")
    context = context_of(repo)
    at_work = commands.show(context, "T-1")
    assert (at_work.state, at_work.process) == ("running", worker.process.pid)
    with pytest.raises(LockedError, match=f"run 'T-1' is running \\(process {worker.process.pid}\\)"):
        commands.rollback(context, "T-1", "pre_run")
    run = commands.cancel(context, "T-1")
    assert worker.ended() == "cancelled"
    assert (run.state, processes_of(repo, "T-1")) == ("cancelled", [])
    assert worktree(run).exists("mess") == (on_failure == "keep")
    check_sound(repo)


def test_concurrent_start_of_one_id_runs_once(repo: Repo) -> None:
    go = repo.scratch / "go"
    wanted = spec.from_options([f"echo > new; while [ ! -e '{go}' ]; do sleep 0.02; done"], [])
    workers = [RunProcess(repo, "start", "T-1", wanted) for _ in range(2)]
    wait_until(lambda: any(each.process.poll() is not None for each in workers), "one of them is refused")
    go.touch()
    codes = []
    for worker in workers:
        _, said = worker.process.communicate(timeout=60)
        codes.append(worker.process.returncode)
        assert worker.process.returncode == 0 or "is running" in said or "there is a run 'T-1' already" in said
    assert sorted(codes) == [0, 1]
    assert state(repo).state == "passed"
    check_sound(repo)
    assert os.path.isdir(worktree(state(repo)).path)


# -- by an error -------------------------------------------------------------------------------------------------------


def _fill_disk_at(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """No room is left for the events of this kind."""
    write = evidence.Evidence.event

    def event(self: evidence.Evidence, each: str, /, **fields: object) -> None:
        if each == kind:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, each, **fields)

    monkeypatch.setattr(evidence.Evidence, "event", event)


@pytest.mark.parametrize("kind", ["prepared", "attempt", "step-ended"])
def test_an_error_names_the_worktree(repo: Repo, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="no space left") as caught:
        _fill_disk_at(patch, kind)
        start(repo, "true", validate=["true"], run_id="T-1", guard=False)
    assert state(repo).state == "interrupted"
    made = repo.path.with_name(f"{repo.path.name}.worktrees") / "run-T-1"
    assert made.is_dir()
    assert str(caught.value.hint).splitlines() == [
        "free some space and try again",
        f"the run has the worktree '{made}'",
        "git agentos run resume T-1 continues the run, rollback resets its worktree",
    ]


def test_an_error_before_there_is_a_worktree_leaves_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    before = repo.git("for-each-ref")
    _fill_disk_at(monkeypatch, "begun")
    with pytest.raises(StorageError, match="no space left") as caught:
        start(repo, "true", validate=["true"], run_id="T-1", guard=False)
    assert caught.value.hint == "nothing was changed; free some space and try again"
    assert commands.list_runs(context_of(repo)) == []
    assert (repo.git("for-each-ref"), len(repo.git("worktree", "list").splitlines())) == (before, 1)
