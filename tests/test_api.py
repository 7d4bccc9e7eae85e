"""The Python API as a client sees it: an example that runs, and results that are frozen, with aware times."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
import typing
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from git_agentos import FleetStatus, RunResult, RunStep, open_repository
from git_agentos.api import fleet_results, report_results, results
from git_agentos.errors import CheckpointNotFound, FleetError, PolicyError, UsageError, WorktreeError
from git_agentos.util import times
from tests.support.confirming import set_up
from tests.support.remotes import clone, connect, make_bare
from tests.support.repo import Repo
from tests.support.team import Team
from tests.support.tool import run_ok

CLIENT = Path(__file__).parents[1] / "docs" / "examples" / "client.py"
RESULTS = [
    each
    for each in {**vars(results), **vars(fleet_results), **vars(report_results)}.values()
    if isinstance(each, type) and dataclasses.is_dataclass(each)
]


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


def test_what_is_linked_into_a_new_worktree(repo: Repo) -> None:
    repo.write(".gitignore", "node_modules/\n")
    repo.commit("rules")
    repo.write("node_modules/a.js", "one\n")
    assert open_repository(repo.path).worktrees.create("dev-1").linked == ()
    repo.git("config", "agentos.link", "node_modules/")
    opened = open_repository(repo.path)
    (linked,) = opened.worktrees.create("dev-2").linked or ()
    assert (linked.path, linked.files, linked.bytes) == ("node_modules", 1, 4)
    assert linked.cloned + linked.hard_linked + linked.copied == 1
    check(linked)
    assert opened.worktrees.show("dev-2").linked is None


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

    def changed(self, status: FleetStatus) -> None:
        self.seen.append(status)

    def away(self, reason: str) -> None:
        self.seen.append(reason)

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        self.seen.append((tasks, seconds, command))


# Made up, and put together here: no scanner of this project's own files is to find it.
SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"


def test_a_transfer_to_another_clone(repo: Repo, tmp_path: Path) -> None:
    shared = make_bare(tmp_path, repo)
    connect(repo, shared, "desk")
    opened = open_repository(repo.path)
    made = opened.worktrees.create("dev-1")
    Path(made.path or "", "work.txt").write_text("work\n")
    work = open_repository(made.path or "").checkpoints.create("work")
    saved = opened.checkpoints.create("first")
    would = opened.remotes.sync(all_worktrees=True, dry_run=True)
    seen: list[str] = []

    class Observer:
        def begins(self, what: str) -> None:
            seen.append(what)

        def output(self, line: str) -> None:
            pass

    done = opened.remotes.sync("origin", all_worktrees=True, observer=Observer())
    assert would == dataclasses.replace(done, dry_run=True)
    assert (done.remote, done.host, done.fetched, done.held_back, done.refused) == ("origin", "desk", (), (), ())
    assert [(each.worktree_id, each.host, each.checkpoints) for each in done.pushed] == [
        ("dev-1", "desk", 2), ("main", "desk", 1)
    ]  # fmt: skip
    assert seen[0] == "Asking 'origin' what it has"
    status = opened.remotes.status()
    assert [(each.worktree_id, each.ahead, each.behind) for each in status.worktrees] == [
        ("dev-1", 0, 0),
        ("main", 0, 0),
    ]

    other = clone(tmp_path, shared, "lap")
    other.git("commit", "-q", "--allow-empty", "-m", "start")
    there = open_repository(other.path)
    fetched = there.remotes.sync(push=False)
    assert [(each.worktree_id, each.checkpoints) for each in fetched.fetched] == [("dev-1", 2), ("main", 1)]
    assert there.checkpoints.list(host="desk") == (saved,)
    assert there.checkpoints.list() == ()
    assert {each.id for each in there.checkpoints.list(host="desk", all_worktrees=True)} >= {saved.id, work.id}
    assert there.checkpoints.find("latest", host="d", worktree_id="dev-1") == work
    assert there.checkpoints.search("work", host="desk", worktree_id="dev-1")[0] == work
    assert there.checkpoints.read_file("latest", "work.txt", host="desk", worktree_id="dev-1").content == b"work\n"
    diff = there.checkpoints.diff("@{1}", "latest", host="desk", worktree_id="dev-1")
    assert [(each.status, each.path) for each in diff.files] == [("A", "work.txt")]
    restored = there.restore("latest", keep_head=True, host="desk", worktree_id="dev-1")
    assert restored.checkpoint == work.id
    assert (other.path / "work.txt").read_text() == "work\n"
    revived = there.worktrees.revive("dev-1", host="desk")
    assert Path(revived.path or "", "work.txt").read_text() == "work\n"
    for result in (would, done, status, fetched, diff, restored, revived):
        check(result)


def test_what_a_transfer_holds_back(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a result. A person with a key allows it, an agent asks."""
    connect(repo, make_bare(tmp_path, repo), "desk")
    opened = open_repository(repo.path)
    repo.write("settings", f"token = {SECRET}\n")
    saved = opened.checkpoints.create("with a token")
    done = opened.remotes.sync(fetch=False)
    [found] = done.held_back
    assert (done.pushed, found.worktree_id, found.checkpoint, found.path, found.line) == (
        (), "main", saved.id, "settings", 1
    )  # fmt: skip
    check(done)
    with monkeypatch.context() as agent:
        agent.setenv("AGENTOS_AGENT_ID", "dev-1")
        with pytest.raises(PolicyError):
            opened.remotes.sync(fetch=False)
        assert opened.remotes.sync(push=False).fetched == ()
        opened.remotes.status()
    (tmp_path / "key").write_text("key\n")
    set_up(repo, "agentos.approvalKey", str(tmp_path / "key"))
    after = open_repository(repo.path).remotes.sync(allow=[str(found.fingerprint)])
    assert (after.held_back, [each.checkpoints for each in after.pushed]) == ((), [1])


@pytest.mark.parametrize(
    "wrong",
    [{"push": False, "fetch": False}, {"worktree_id": "a", "all_worktrees": True}, {"last": 0}, {"allow": "abc"}],
    ids=str,
)
def test_transfers_that_cannot_be_meant(wrong: dict[str, typing.Any], repo: Repo) -> None:
    with pytest.raises(UsageError) as caught:
        open_repository(repo.path).remotes.sync(**wrong)
    assert "--" not in caught.value.message + (caught.value.hint or "")
    with pytest.raises(UsageError, match="'worktree_id' is for 'host'"):
        open_repository(repo.path).checkpoints.find("latest", worktree_id="dev-1")


def test_a_report_is_the_document_of_the_command(repo: Repo) -> None:
    """As values of the API: aware times, tuples, and the API's names for what conflicts, storage and runs have."""
    team = Team(repo)
    opened = open_repository(repo.path)
    found = opened.report()
    check(found)
    document = run_ok(repo.path, "report")
    assert [_as_in_json(each) for each in found.agents] == document["agents"]
    assert (found.since, found.complete) == (None, True)
    assert (found.conflicts, found.runs) == (opened.worktrees.conflicts(), opened.runs.list())
    assert found.storage == opened.checkpoints.storage(all_worktrees=True)
    assert [run.id for run in found.runs] == [team.run.run_id]

    [left] = opened.report(["left"]).agents
    last = left.marks[-1].at
    since = opened.report(["left", "idle"], since=last)
    assert [each.id for each in since.agents] == ["idle", "left"]
    assert (since.agents[0].marks, since.agents[0].first_at, since.agents[0].last_at) == ((), None, None)
    assert since.agents[1].marks == tuple(each for each in left.marks if each.at >= last)
    assert (since.since, since.conflicts, since.runs) == (last, found.conflicts, found.runs)
    with pytest.raises(WorktreeError, match="there is no agent's worktree 'nobody'"):
        opened.report(["nobody"])
    with pytest.raises(UsageError, match="'agents' is a sequence of ids"):
        opened.report("left")


def _as_in_json(value: object) -> object:
    if isinstance(value, datetime):
        return times.to_text(value)
    if isinstance(value, tuple):
        return [_as_in_json(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _as_in_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


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


def test_a_fleet(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_FLEET_DIR", str(tmp_path / "clones"))
    connect(repo, make_bare(tmp_path, repo), "person")
    file = tmp_path / "nightly.jsonl"
    tasks = {"a": "echo a >from-a", "b": "false"}
    rows = [json.dumps({"id": id_, "agent": agent, "validate": "true"}) for id_, agent in tasks.items()]
    file.write_text("\n".join(rows))
    opened, recorder = open_repository(repo.path), Recorder()

    with pytest.raises(UsageError, match="'max_parallel' is a number from 1 on"):
        opened.fleets.submit(file, max_parallel=0)
    ended = opened.fleets.submit(file, max_parallel=1, retries=0, observer=recorder)
    assert [(each.id, each.state) for each in ended.tasks] == [("a", "passed"), ("b", "failed")] and not ended.passed
    assert recorder.seen[-1] == ended == opened.fleets.status("nightly")
    [listed] = opened.fleets.list(fetch=False)
    assert (listed.id, listed.counts["passed"]) == ("nightly", 1)
    with pytest.raises(FleetError, match="'b' has not passed: b is failed"):
        opened.fleets.accept("nightly", "b")

    would = opened.fleets.accept("nightly", dry_run=True)
    collected, accepted = opened.fleets.collect("nightly"), opened.fleets.accept("nightly")
    assert [each.task for each in collected.results] == ["a", "b"]
    assert opened.runs.verify(collected.results[0].run_id).ok
    assert [each.task for each in accepted.merged] == list(would.order) == ["a"]
    assert (repo.path / "from-a").read_text() == "a\n"
    assert opened.fleets.cancel("nightly") == ended == opened.fleets.end("nightly") == opened.fleets.status("nightly")
    for result in (ended, listed, would, collected, accepted):
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
