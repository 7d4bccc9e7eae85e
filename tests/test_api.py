"""The Python API as a client sees it: an example that runs, and results that are frozen, with aware times."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from git_agentos import RunResult, RunStep, open_repository
from git_agentos.api import results
from git_agentos.errors import CheckpointNotFound, PolicyError, UsageError
from tests.support.confirming import set_up
from tests.support.repo import Repo

CLIENT = Path(__file__).parents[1] / "docs" / "examples" / "client.py"
RESULTS = [each for each in vars(results).values() if isinstance(each, type) and dataclasses.is_dataclass(each)]


def test_client_example_runs(empty_repo: Repo) -> None:
    empty_repo.git("commit", "--quiet", "--allow-empty", "-m", "start")
    words: list[str | Path] = [sys.executable, CLIENT, empty_repo.path]
    done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "dev-1 ('notes.txt',) True",
        "['notes.txt']",
        "first",
        "('notes.txt',) first",
        "second",
        "decision ('notes.txt',) 1",
        "allow",
        "checkpoint-not-found",
    ]


@pytest.mark.parametrize("result", RESULTS)
def test_results_are_frozen_and_hold_no_list(result: type) -> None:
    assert result.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for name, kind in typing.get_type_hints(result).items():
        assert typing.get_origin(kind) not in (list, dict), name
        if name.endswith("_at") or name == "timestamp":
            assert datetime in (kind, *typing.get_args(kind)), name


def test_everything_that_is_returned_is_exported() -> None:
    for result in RESULTS:
        for kind in typing.get_type_hints(result).values():
            for each in _classes(kind):
                if each.__module__.startswith("git_agentos."):
                    assert hasattr(sys.modules["git_agentos"], each.__name__), each


def _classes(kind: object) -> Iterator[type]:
    if isinstance(kind, type):
        yield kind
    for each in typing.get_args(kind):
        yield from _classes(each)


def values(result: object) -> Iterator[object]:
    """All values in a result."""
    yield result
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            yield from values(getattr(result, field.name))
    elif isinstance(result, tuple):
        for each in result:
            yield from values(each)


def check(result: object) -> None:
    """No list, only aware times, and a copy by pickle (for programs of several processes) is equal."""
    for each in values(result):
        assert not isinstance(each, list)
        if isinstance(each, datetime):
            assert each.utcoffset() == timedelta(0)
    assert pickle.loads(pickle.dumps(result)) == result


def test_results_of_checkpoints_and_status(repo: Repo) -> None:
    opened = open_repository(repo.path)
    repo.write("new.txt", "new")
    saved = opened.checkpoints.create("c", task_id="T-1", metadata={"a": "b"})
    assert (saved.untracked, saved.task_id, saved.metadata, saved.worktree_id) == (
        ("new.txt",),
        "T-1",
        {"a": "b"},
        "main",
    )
    status = opened.status()
    assert status.last_checkpoint == saved
    assert (status.untracked, status.root, status.interrupted_runs) == (1, str(repo.path), ())
    assert opened.checkpoints.list(since=datetime.now(UTC) - timedelta(hours=1)) == (saved,)
    assert opened.checkpoints.list(since=datetime.now(UTC) + timedelta(hours=1)) == ()
    assert opened.checkpoints.read_file(saved.id, "new.txt").content == b"new"
    for result in (saved, status, opened.restore(saved.id, dry_run=True), opened.recover(), opened.doctor()):
        check(result)


def test_results_of_worktrees(repo: Repo) -> None:
    opened = open_repository(repo.path)
    made = opened.worktrees.create("dev-1", task_id="T-1")
    assert (made.id, made.task_id, made.branch, made.state) == ("dev-1", "T-1", "agent/dev-1", "active")
    assert made.last_checkpoint is not None
    assert opened.open_worktree("dev-1").worktree_id == "dev-1"
    report = opened.worktrees.conflicts()
    merge = opened.worktrees.merge(["dev-1"], dry_run=True)
    assert [source.state for source in merge.sources] == ["up-to-date"]
    synced = opened.worktrees.sync(["dev-1"], dry_run=True)
    assert [each.id for each in synced.skipped] == ["dev-1"]
    cleaned = opened.worktrees.cleanup(dry_run=True)
    assert [each.id for each in cleaned.kept] == ["main", "dev-1"]
    check(synced)
    check(cleaned)
    archived = opened.worktrees.archive("dev-1")
    for result in (made, report, merge, archived, opened.worktrees.list(), opened.worktrees.revive("dev-1")):
        check(result)
    with pytest.raises(UsageError):
        opened.worktrees.merge("dev-1")
    with pytest.raises(UsageError):
        opened.worktrees.sync("dev-1")


def test_a_sync_and_a_cleanup(repo: Repo) -> None:
    opened = open_repository(repo.path)
    made = opened.worktrees.create("dev-1", fetch=False)
    assert (made.base_follows, made.base_behind) == (None, None)
    there = Repo(Path(made.path or ""))
    there.write("readme.txt", "theirs\n")
    there.commit("theirs")
    repo.write("base.txt", "new\n")
    base = repo.commit("the base moves on")
    synced = opened.worktrees.sync(all_worktrees=True, rebase=True)
    check(synced)
    assert [(each.id, each.after) for each in synced.synced] == [("dev-1", there.oid())]
    assert there.oid("HEAD~1") == base
    repo.write("readme.txt", "ours\n")
    repo.commit("a conflict")
    conflicting = opened.worktrees.sync(["dev-1"])
    check(conflicting)
    assert [(each.id, each.files, each.uncommitted) for each in conflicting.conflicts] == [
        ("dev-1", ("readme.txt",), False)
    ]
    repo.git("merge", "-q", "-s", "ours", "--no-edit", "agent/dev-1")
    cleaned = opened.worktrees.cleanup()
    check(cleaned)
    assert [(each.id, each.branch_deleted) for each in cleaned.archived] == [("dev-1", True)]


class Recorder:
    """An observer that keeps what it is given."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def prepared(self, run: RunResult) -> None:
        self.seen.append(run)

    def step_begins(self, run: RunResult, step: RunStep) -> None:
        self.seen.append(step)

    def output(self, line: bytes) -> None:
        self.seen.append(line)

    def step_ended(self, run: RunResult, step: RunStep) -> None:
        self.seen.append((run, step))


@pytest.mark.slow
def test_results_of_runs(repo: Repo) -> None:
    opened, recorder = open_repository(repo.path), Recorder()
    run = opened.runs.start(["echo one; touch x"], ["false"], run_id="r", task_id="T-1", observer=recorder)
    assert (run.id, run.task_id, run.passed, run.branch) == ("r", "T-1", False, "agentos/run-r")
    assert [(step.number, step.kind, step.exit_code) for step in run.steps] == [(1, "agent", 0), (2, "validate", 1)]
    assert b"one" in [each.strip() for each in recorder.seen if isinstance(each, bytes)]
    back = opened.runs.rollback("r")
    assert opened.runs.verify("r").ok
    for result in (run, back, opened.runs.list(), opened.runs.show("r"), *recorder.seen):
        check(result)


def test_an_agent_cannot_decide(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_repository(repo.path)
    assert opened.approvals.list() == ()
    monkeypatch.setenv("AGENTOS_AGENT_ID", "dev-1")
    opened.worktrees.create("dev-1")
    guarded = open_repository(str(opened.worktrees.show("dev-1").path))
    with pytest.raises(PolicyError):
        guarded.worktrees.merge(["dev-1"], into="main")
    [request] = guarded.approvals.list()
    check(request)
    assert (request.agent, request.state) == ("dev-1", "pending")
    for decide in (guarded.approvals.grant, guarded.approvals.deny):
        with pytest.raises(PolicyError):
            decide(request.id)


def test_an_orchestrator_decides_by_a_key(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_repository(repo.path)
    guarded = open_repository(str(opened.worktrees.create("dev-1").path))
    with monkeypatch.context() as agent:
        agent.setenv("AGENTOS_AGENT_ID", "dev-1")
        with pytest.raises(PolicyError):
            guarded.worktrees.merge(["dev-1"], into="main")
        with pytest.raises(PolicyError):
            guarded.worktrees.archive("dev-1")
    (tmp_path / "key").write_text("key\n")
    set_up(repo, "agentos.approvalKey", str(tmp_path / "key"))
    first, second = opened.approvals.list()
    assert opened.approvals.grant(first.id).state == "granted"
    denied = opened.approvals.deny(second.id, note="not today")
    assert (denied.state, denied.note, denied.decided_by) == ("denied", "not today", "key")
    assert [each.state for each in opened.approvals.list()] == ["granted"]
    check(opened.approvals.list(all_states=True))


def test_messages_are_in_words_of_the_api(repo: Repo) -> None:
    opened = open_repository(repo.path)
    saved = opened.checkpoints.create("c")
    with pytest.raises(UsageError, match="'branch' cannot be combined with 'keep_head' or 'paths'"):
        opened.restore(saved.id, branch="x", keep_head=True)
    with pytest.raises(CheckpointNotFound):
        opened.checkpoints.find("ffffffff")
