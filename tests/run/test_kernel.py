"""Doing a run: what its commands are given, how they are judged, what is done next, and what is kept of it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from git_agentos import log, open_workspace
from git_agentos.cli.render.text import run as text_run
from git_agentos.errors import LockedError, RunError, StorageError, UsageError, WorktreeError
from git_agentos.git.location import Location
from git_agentos.run import branches, commands, evidence_store, lock, spec
from git_agentos.run.spec import RunSpec, StepSpec
from tests.support import runs
from tests.support.repo import Repo, git
from tests.support.runs import (
    IS_RIGHT,
    LEARNS,
    RecordingWatcher,
    context_of,
    events,
    kept,
    outcomes,
    processes_of,
    start,
    worktree,
)
from tests.support.state import assert_unchanged, complete_state

OK = [("agent", "ok"), ("validate", "ok")]


def test_a_run_that_passes(repo: Repo) -> None:
    before = complete_state(repo.path, strict=True)
    heard = RecordingWatcher()
    wanted = spec.from_options(
        ["echo right > answer.txt; echo done"], [IS_RIGHT], run_id="T-1", task="T-42", protected=("release",)
    )
    run = commands.start(context_of(repo), wanted, heard)

    assert (run.state, run.reason, run.problems, run.process) == ("passed", None, [], None)
    assert outcomes(run) == OK
    assert [(each.number, each.outcome, each.reason, each.steps) for each in run.attempts] == [(1, "ok", None, [1, 2])]
    assert (run.task_id, run.guarded, run.protected, run.on_failure) == (
        "T-42",
        True,
        ["main", "master", "release"],
        "keep",
    )
    assert [(each.exit_code, each.changed) for each in run.steps] == [(0, 1), (0, 0)]
    assert run.context is not None
    assert (run.context.base_ref, run.context.base_sha) == ("main", repo.oid())
    assert run.context.branch_name == "agentos/run-T-1"
    inside = worktree(run)
    assert inside.read("answer.txt") == b"right\n"
    assert inside.text("symbolic-ref", "HEAD") == "refs/heads/agentos/run-T-1"
    assert heard.heard == [
        "prepared running", "begins 1 agent", "says done", "ended 1 ok", "begins 2 validate", "ended 2 ok",
    ]  # fmt: skip
    # where one stands is not touched: the run has a branch and a worktree of its own
    after = complete_state(repo.path, strict=True)
    assert (after.head, after.index, after.files, after.status) == (
        before.head, before.index, before.files, before.status,
    )  # fmt: skip
    assert repo.oid("refs/heads/main") == before.head.oid


def test_evidence_of_a_run(repo: Repo) -> None:
    run = start(
        repo, "echo right > answer.txt; echo said; echo told >&2", validate=[IS_RIGHT], run_id="T-1", task="T-42"
    )
    told = events(repo, "T-1")
    assert [each["event"] for each in told] == [
        "begun", "prepared", "attempt", "step-begun", "step-ended", "step-begun", "step-ended", "attempt-ended",
        "ended", "sealed",
    ]  # fmt: skip
    assert runs.triggers(repo, run) == ["pre_run", "pre_step", "post_step", "task_complete"]
    for each in open_workspace(repo.path).checkpoints(agent="run-T-1"):
        assert (each.run_id, each.task_id) == ("T-1", "T-42"), each
    agent = run.steps[0]
    assert (agent.stdout, agent.stderr) == ("steps/001-agent/stdout", "steps/001-agent/stderr")
    assert (kept(run, "steps/001-agent/stdout"), kept(run, "steps/001-agent/stderr")) == (b"said\n", b"told\n")
    assert kept(run, "steps/001-agent/exit_code") == b"0\n"
    snapshot = json.loads(kept(run, "steps/001-agent/snapshot.json"))
    assert (snapshot["changed"], snapshot["untracked"], snapshot["commits"]) == (["answer.txt"], ["answer.txt"], [])
    assert b"+right" in kept(run, "steps/001-agent/diff.patch")
    assert kept(run, "steps/002-validate/diff.patch") == b""
    assert spec.from_json(kept(run, "spec.json").decode(), "spec.json").steps[1].command == IS_RIGHT
    assert "PATH" in json.loads(kept(run, "environment.json"))["variables"]
    checked = evidence_store.verify(context_of(repo), "T-1")
    assert (checked.ok, checked.problems, checked.final_checkpoint) == (True, [], run.final_checkpoint)
    logged = log.entries(context_of(repo), agent="run-T-1", kinds=["action", "error"], newest_first=False)
    assert [each.summary for each in logged][-2:] == ["run T-1 begun", "run T-1 passed"]


def test_environment_of_a_command(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"GIT_DIR": repo.git_dir, "GIT_INDEX_FILE": repo.git_dir / "index", "GIT_WORK_TREE": repo.path}
    for name, path in places.items():  # as a hook or an alias has them
        monkeypatch.setenv(name, str(path))
    run = start(
        repo, "pwd -P > where; env > environment; ps -o pgid= -p $$ > group; echo $$ > self", task="T-42", run_id="T-1"
    )
    inside = worktree(run)
    told = dict(line.split("=", 1) for line in inside.read("environment").decode().splitlines() if "=" in line)
    assert inside.read("where").decode().strip() == str(inside.path) == told["PWD"]
    assert {key: told.get(key) for key in told if key.startswith("AGENTOS_") and key.endswith(("ID", "PT", "EP"))} == {
        "AGENTOS_AGENT_ID": "run-T-1",
        "AGENTOS_TASK_ID": "T-42",
        "AGENTOS_RUN_ID": "T-1",
        "AGENTOS_ATTEMPT": "1",
        "AGENTOS_STEP": "1",
    }
    assert "AGENTOS_FEEDBACK_FILE" not in told
    assert {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"} & told.keys() == set()
    assert told["HOME"] == os.environ["HOME"]
    assert inside.read("group").strip() != str(os.getpgid(0)).encode()


@pytest.mark.parametrize(("retry_from", "stays"), [("here", True), ("pre_run", False)])
def test_a_failed_attempt_feeds_the_next(repo: Repo, retry_from: str, stays: bool) -> None:
    run = start(repo, LEARNS, validate=[IS_RIGHT], max_attempts=3, retry_from=retry_from)
    assert run.state == "passed"
    assert outcomes(run) == [("agent", "ok"), ("validate", "failed"), *OK]
    assert [(each.number, each.outcome, each.steps) for each in run.attempts] == [
        (1, "failed", [1, 2]), (2, "ok", [3, 4]),
    ]  # fmt: skip
    said = f"step 2 (validate) failed with exit code 3: {IS_RIGHT}"
    assert run.attempts[0].reason == said
    assert worktree(run).read("learnt.txt").decode() == f"{said}\nthe answer is wrong\n"
    assert worktree(run).exists("first.txt") == stays
    assert evidence_store.verify(context_of(repo), run.run_id).ok


def test_a_run_that_fails_is_taken_back(repo: Repo) -> None:
    repo.write(".gitignore", "*.o\n")
    repo.commit("ignore")
    agent = "echo wrong > answer.txt; echo x > out.o; rm notes.txt; git add -A; git commit -qm mine; echo y > later"
    run = start(repo, agent, validate=[IS_RIGHT], on_failure="rollback", run_id="T-1")
    assert (run.state, run.rolled_back_to) == ("failed", "pre_run")
    assert run.reason is not None
    assert run.reason.startswith("step 2 (validate) failed with exit code 3")
    inside = worktree(run)
    assert (inside.oid(), inside.oid("refs/heads/agentos/run-T-1")) == (repo.oid(), repo.oid())
    assert git(inside.path, "status", "--porcelain", "--ignored").replace(b"!! .agentos/\n", b"") == b""
    assert inside.exists("notes.txt")
    # what it did is not lost: the patch has it, and undo brings it back
    assert b"+wrong" in commands.diff(context_of(repo), "T-1")
    assert evidence_store.verify(context_of(repo), "T-1").ok
    open_workspace(inside.path).undo()
    assert (inside.read("answer.txt"), inside.read("out.o"), inside.read("later")) == (b"wrong\n", b"x\n", b"y\n")
    assert inside.text("log", "-1", "--format=%s") == "mine"


def test_a_run_that_fails_is_kept(repo: Repo) -> None:
    run = start(repo, "echo wrong > answer.txt; exit 7", validate=["touch validated"], max_attempts=2)
    assert (run.state, run.rolled_back_to, outcomes(run)) == ("failed", None, [("agent", "failed")] * 2)
    assert [each.exit_code for each in run.steps] == [7, 7]
    assert worktree(run).exists("answer.txt")
    assert not worktree(run).exists("validated")


def test_an_agent_that_changes_nothing_is_told_apart(repo: Repo) -> None:
    run = start(repo, "echo I have fixed everything", validate=["touch validated"])
    assert (run.state, outcomes(run)) == ("failed", [("agent", "no-changes")])
    assert run.reason == "step 1 (agent) exited with 0, but changed nothing: echo I have fixed everything"
    assert not worktree(run).exists("validated")


@pytest.mark.parametrize(
    "agent",
    ["git commit -q --allow-empty -m mine", "chmod -x run.sh", "echo > new"],
    ids=["an empty commit", "a mode", "an untracked file"],
)
def test_changes_that_count(repo: Repo, agent: str) -> None:
    assert start(repo, agent).state == "passed"


def test_changes_are_judged_over_all_agents(repo: Repo) -> None:
    run = start(repo, "true", "echo > new", validate=["true"])
    assert outcomes(run) == [("agent", "ok"), ("agent", "ok"), ("validate", "ok")]
    run = start(repo, "echo > new", "rm new", validate=["true"])
    assert outcomes(run) == [("agent", "ok"), ("agent", "no-changes")]


@pytest.mark.parametrize("at", ["agent", "validate"])
def test_a_command_that_hangs(repo: Repo, at: str) -> None:
    hangs = StepSpec(kind=at, command="echo > new; setsid sleep 100 & sleep 100", timeout=5)
    steps = (hangs,) if at == "agent" else (StepSpec(kind="agent", command="echo > other"), hangs)
    run = commands.start(context_of(repo), RunSpec(steps=steps, run_id="hangs"))
    assert run.state == "failed"
    assert run.steps[-1].outcome == "timed-out"
    assert run.steps[-1].detail == "after 5 s"
    assert worktree(run).exists("new")


def test_all_kinds_of_steps(repo: Repo) -> None:
    steps = (
        StepSpec(kind="agent", command="echo 1 > one"),
        StepSpec(kind="checkpoint", message="one is done"),
        StepSpec(kind="agent", command="echo 2 > two; rm one"),
        StepSpec(kind="validate", command="test ! -e one"),
        StepSpec(kind="rollback", to="step:3"),
        StepSpec(kind="validate", command="test -e one -a ! -e two; echo $AGENTOS_STEP $AGENTOS_ATTEMPT"),
        StepSpec(kind="validate", command="test $AGENTOS_ATTEMPT = 2"),
    )
    run = commands.start(context_of(repo), RunSpec(steps=steps, max_attempts=2, retry_from="pre_run"))
    kinds = [step.kind for step in steps]
    assert [kind for kind, _ in outcomes(run)] == kinds * 2
    assert [outcome for _, outcome in outcomes(run)] == ["ok"] * 6 + ["failed"] + ["ok"] * 7
    assert kept(run, "steps/013-validate/stdout") == b"13 2\n"
    # a point in the description counts the steps of an attempt, one in the record those of the run
    assert [each["point"] for each in events(repo, run.run_id) if each["event"] == "rolled-back"] == [
        "step:3", "pre_run", "step:10",
    ]  # fmt: skip
    milestone = open_workspace(repo.path).find(run.steps[8].checkpoint_after or "", agent=f"run-{run.run_id}")
    assert (milestone.trigger, milestone.description) == ("milestone", "one is done")


def test_branches_that_moved_meanwhile(repo: Repo) -> None:
    """They are named; of a run in which none did, that is said."""
    agent = "echo > new; git branch two; git branch -f one main~1; git branch -D gone"
    for name in ("one", "gone"):
        repo.git("branch", name)
    run = start(repo, agent, validate=["git branch three"], guard=False, protected="release")
    assert [each.moved for each in run.steps] == [["gone", "one", "two"], ["three"]]
    said = str(text_run.finished(run).result)
    assert "Meanwhile other branches were created, moved or deleted: 'gone', 'one', 'three', 'two'." in said
    assert "no other branch has moved" not in said
    quiet = start(repo, "echo > new; git add new; git commit -qm mine", validate=["true"], guard=False)
    assert [each.moved for each in quiet.steps] == [[], []]
    assert "no other branch has moved" in str(text_run.finished(quiet).result)


def test_database_url_is_withheld_from_commands(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, seen in (("postgresql://ada:hunter22@host/db", "unset"), ("/a/file.db", "/a/file.db")):
        monkeypatch.setenv("AGENTOS_WORKFLOW_DB", value)
        run = start(repo, "echo > new; echo ${AGENTOS_WORKFLOW_DB-unset} > seen", guard=False)
        assert worktree(run).read("seen").decode().strip() == seen


def test_an_agent_that_wrecks_its_worktree(repo: Repo) -> None:
    agent = 'if [ $AGENTOS_ATTEMPT = 1 ]; then cd ..; rm -rf "$PWD/run-T-1"; else echo > new; fi'
    run = start(repo, "echo > before", agent, validate=["test -e new -a -e before"], max_attempts=2, run_id="T-1")
    assert outcomes(run)[:2] == [("agent", "ok"), ("agent", "failed")]
    assert run.steps[1].exit_code == 0
    assert "worktree of run 'T-1'" in (run.steps[1].detail or "")
    assert run.state == "passed"
    assert evidence_store.verify(context_of(repo), "T-1").ok


def test_an_agent_that_destroys_the_evidence(repo: Repo) -> None:
    run = start(repo, f"echo > new; git add -A; git commit -qm mine; rm -rf {repo.path}/.agentos", run_id="T-1")
    assert (run.state, run.reason) == ("tampered", f"the folder '{run.evidence}' was replaced")
    context = context_of(repo)
    assert [each.state for each in commands.list_runs(context)] == ["tampered"]
    assert commands.resume(context, "T-1").state == "tampered"
    done = commands.rollback(context, "T-1", "pre_run")
    inside = Repo(Path(done.worktree_path))
    assert (inside.oid(), inside.exists("new"), done.removed) == (repo.oid(), False, ["new"])
    shutil.rmtree(repo.path / ".agentos")
    assert commands.rollback(context, "T-1", "pre_run", dry_run=True).removed == []
    assert not repo.exists(".agentos")
    assert commands.rollback(context, "T-1", "pre_run").removed == []
    open_workspace(inside.path).undo()


def test_locks_of_a_killed_git_are_removed_for_the_next_step(repo: Repo) -> None:
    agent = (
        "echo $AGENTOS_ATTEMPT > new; [ $AGENTOS_ATTEMPT = 2 ] ||"
        " { touch $(git rev-parse --git-path index.lock); exit 1; }; git add -A && git commit -qm mine"
    )
    assert start(repo, agent, max_attempts=2).state == "passed"


def test_a_protected_branch(repo: Repo) -> None:
    main = repo.oid()
    agent = (
        "echo > new; git add -A; git commit -qm mine; cd /; "
        f"PATH=/usr/bin:/bin /usr/bin/git --git-dir={repo.git_dir} -c core.hooksPath=/dev/null"
        " update-ref refs/heads/main refs/heads/agentos/run-T-1"
    )
    run = start(repo, agent, run_id="T-1", guard=False)
    assert (run.state, outcomes(run)) == ("failed", [("agent", "protected-branch")])
    assert "main" in (run.steps[0].detail or "")
    assert repo.oid("refs/heads/main") == main


# -- who may, and when -------------------------------------------------------------------------------------------------


def test_an_id_is_used_once(repo: Repo) -> None:
    start(repo, "echo > new", run_id="T-1")
    with pytest.raises(RunError, match="there is a run 'T-1' already"):
        start(repo, "echo > new", run_id="T-1")
    for id_ in ("a/b", "", "x" * 61):
        with pytest.raises(UsageError):
            commands.start(context_of(repo), RunSpec(steps=(StepSpec(kind="agent", command="true"),), run_id=id_))


def test_running_run_is_refused_to_others(repo: Repo) -> None:
    context = context_of(repo)
    start(repo, "echo > new", run_id="T-1")
    with lock.hold(context.location, "T-1"):
        assert commands.show(context, "T-1").process == os.getpid()
        for act in (
            lambda: start(repo, "true", run_id="T-1"),
            lambda: commands.resume(context, "T-1"),
            lambda: commands.rollback(context, "T-1", "pre_run"),
        ):
            with pytest.raises(LockedError, match=re.escape(f"run 'T-1' is running (process {os.getpid()})")):
                act()
    assert commands.show(context, "T-1").process is None


@pytest.mark.parametrize("fields", [{"base_ref": "nowhere"}, {"run_id": "T-1", "base_ref": "v1:readme.txt"}])
def test_failed_workspace_leaves_nothing(repo: Repo, fields: dict[str, str]) -> None:
    start(repo, "echo > new", run_id="other")
    before = complete_state(repo.path, strict=True)
    with pytest.raises(WorktreeError, match="is not a commit"):
        start(repo, "echo > new", **fields)
    assert_unchanged(before, complete_state(repo.path, strict=True), "a run that could not be made")
    assert [each.run_id for each in commands.list_runs(context_of(repo))] == ["other"]
    assert not list(Path(repo.git_dir, "agentos/runs").glob("*.json"))


def test_a_run_that_has_ended(repo: Repo) -> None:
    start(repo, "echo > new", run_id="T-1")
    for act in (commands.resume, commands.cancel):
        with pytest.raises(RunError, match="run 'T-1' has ended: passed"):
            act(context_of(repo), "T-1")
    for look in (commands.resume, commands.cancel, commands.show, commands.diff, commands.logs):
        with pytest.raises(RunError, match="there is no run 'T-2'"):
            look(context_of(repo), "T-2")


def test_a_kernel_that_cannot_go_on(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    look = branches.protected_heads

    def fail(location: Location, patterns: Sequence[str]) -> Mapping[str, str]:
        if Path(location.root, ".agentos/runs/T-1/steps").exists():  # not at the first step
            raise OSError(errno.ENOSPC, "No space left on device")
        return look(location, patterns)

    with monkeypatch.context() as patched:
        patched.setattr(branches, "protected_heads", fail)
        with pytest.raises(StorageError, match="no space left") as failed:
            start(repo, "echo > new", validate=["test -e new"], run_id="T-1")
    assert "git agentos run resume T-1 continues the run" in (failed.value.hint or "")
    context = context_of(repo)
    assert (commands.show(context, "T-1").state, events(repo, "T-1")[-1]["error"]) == ("interrupted", str(failed.value))
    run = commands.resume(context, "T-1")
    assert (run.state, run.reason, outcomes(run)) == ("passed", None, OK)


def test_a_watcher_that_fails_stops_the_run(repo: Repo) -> None:
    class Broken(RecordingWatcher):
        def output(self, line: bytes) -> None:
            raise BrokenPipeError

    wanted = spec.from_options(["echo > new; echo said; sleep 100"], [], run_id="T-1")
    with pytest.raises(StorageError):
        commands.start(context_of(repo), wanted, Broken())
    assert processes_of(repo, "T-1") == []
    assert commands.show(context_of(repo), "T-1").state == "interrupted"


def test_a_run_in_a_thread(repo: Repo) -> None:
    context = context_of(repo)
    with ThreadPoolExecutor(2) as threads:
        wanted = [spec.from_options([f"echo > new-{n}"], [f"test -e new-{n}"], run_id=f"T-{n}") for n in range(2)]
        runs = list(threads.map(lambda each: commands.start(context, each), wanted))
    assert [(each.run_id, each.state) for each in runs] == [("T-0", "passed"), ("T-1", "passed")]


# -- taking back -------------------------------------------------------------------------------------------------------


def test_rolling_back_by_hand(repo: Repo) -> None:
    context = context_of(repo)
    run = start(repo, "echo 1 > one", "echo 2 > two", run_id="T-1")
    inside = worktree(run)
    planned = commands.rollback(context, "T-1", "pre_run", dry_run=True)
    assert (planned.dry_run, planned.saved, sorted(planned.removed)) == (True, None, ["one", "two"])
    assert inside.exists("two")
    done = commands.rollback(context_of(inside), None, "step:2")
    assert (done.run_id, done.point, done.removed) == ("T-1", "step:2", ["two"])
    assert (inside.exists("one"), inside.exists("two")) == (True, False)
    assert commands.show(context, "T-1").rolled_back_to == "step:2"
    assert evidence_store.verify(context, "T-1").ok
    commands.rollback(context, "T-1", run.steps[1].checkpoint_after or "")
    assert (inside.exists("one"), inside.exists("two")) == (True, True)
    commands.rollback(context, "T-1", "pre_run")
    assert (inside.exists("one"), inside.exists("two")) == (False, False)
    assert evidence_store.verify(context, "T-1").ok
    for point in (None, "pre_run"):  # undone, and that undone
        open_workspace(inside.path).undo()
        assert inside.exists("one") == (point is None)
        assert commands.show(context, "T-1").rolled_back_to == point
    with pytest.raises(RunError, match="is not the worktree of a run"):
        commands.rollback(context, None, "pre_run")
    with pytest.raises(RunError):
        commands.rollback(context, "T-1", "step:9")


# -- looking -----------------------------------------------------------------------------------------------------------


def test_looking_at_runs(repo: Repo) -> None:
    context = context_of(repo)
    assert list(commands.list_runs(context)) == []
    first = start(repo, "echo a; echo > new", validate=["echo b >&2"])
    second = start(repo, "echo > other; exit 1")
    assert [each.run_id for each in commands.list_runs(context)] == [second.run_id, first.run_id]
    assert commands.show(context, first.run_id) == first
    assert [(step.n, out, err) for step, out, err in commands.logs(context, first.run_id)] == [
        (1, b"a\n", b""), (2, b"", b"b\n"),
    ]  # fmt: skip
    assert [(step.n, out, err) for step, out, err in commands.logs(context, first.run_id, 2)] == [(2, b"", b"b\n")]
    with pytest.raises(RunError, match="has no step 3"):
        commands.logs(context, first.run_id, 3)
    made = commands.diff(context, first.run_id)
    assert b"diff --git a/new b/new" in made
    git(repo.path, "apply", "--check", stdin=made)


def test_a_damaged_record_does_not_hide_the_others(repo: Repo) -> None:
    run = start(repo, "echo > new", run_id="T-1")
    start(repo, "echo > new", run_id="T-2")
    Path(run.evidence, "events.jsonl").write_bytes(b"no json\n{}\n")
    found = {each.run_id: each for each in commands.list_runs(context_of(repo))}
    assert (len(found["T-1"].problems), found["T-2"].problems) == (1, [])


def test_a_run_whose_evidence_is_not_here(repo: Repo) -> None:
    run = start(repo, "echo said; echo > new", run_id="T-1")
    git(repo.path.parent, "-c", "safe.directory=*", "clone", "-q", str(repo.path), "copy")
    copy = Repo(repo.path.parent / "copy")
    copy.git("fetch", "-q", "origin", "refs/agentos/*:refs/agentos/*", "refs/heads/*:refs/remotes/origin/*")
    there = commands.show(context_of(copy), "T-1")
    assert (there.state, there.steps) == ("passed", run.steps)
    assert there.evidence == str(copy.path / ".agentos" / "runs" / "T-1")
    assert [out for _, out, _ in commands.logs(context_of(copy), "T-1")] == [b"said\n"]
    assert commands.diff(context_of(copy), "T-1") == commands.diff(context_of(repo), "T-1")


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_no_secret_is_kept(repo: Repo) -> None:
    secret = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
    name = "sk-ant-api03-" + "a1B2" * 9
    script = f"TOKEN={secret}; echo $TOKEN >> file.txt; echo $TOKEN > {name}; echo $TOKEN; test ${{#TOKEN}} = 40"
    run = start(repo, script, run_id="T-1")
    assert run.state == "passed"
    assert b"+[redacted]" in kept(run, "steps/001-agent/diff.patch")
    assert evidence_store.verify(context_of(repo), "T-1").ok
    assert run.steps[0].command is not None
    assert "[redacted]" in run.steps[0].command
    for path in Path(run.evidence).rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes(), path
        assert path.is_dir() or name.encode() not in path.read_bytes(), path
    assert not list(Path(repo.git_dir, "agentos/runs").glob("*.json"))
