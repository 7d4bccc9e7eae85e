"""Submitting a fleet: what is started, what is not started again, and what is said before anything is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from git_agentos.errors import FleetError, LockedError, UsageError
from git_agentos.fleet import cancellation, names, prepared, submission
from git_agentos.fleet.engines.port import Ended, Order
from git_agentos.fleet.prepared import Request
from git_agentos.fleet.remote import RemoteAway
from git_agentos.fleet.status import Status
from git_agentos.fleet.submission import Submitted
from tests.support.fleet_engine import (
    ScriptedEngine,
    context_of,
    dies,
    fails,
    is_given_up,
    passes,
    put_live,
    tasks_file,
)
from tests.support.remotes import add_hook, clone
from tests.support.repo import Repo, git


@pytest.fixture
def worker(shared: Path, tmp_path: Path) -> Repo:
    """The clone of the scripted workers."""
    return clone(tmp_path, shared, "worker")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK", "_PAUSE", "_SHARE"):
        monkeypatch.setattr(submission, name, 0)


class Seen:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.statuses: list[Status] = []

    def changed(self, status: Status) -> None:
        self.statuses.append(status)

    def away(self, reason: str) -> None:
        raise AssertionError(reason)

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        raise AssertionError(tasks)


def submit(repo: Repo, engine: ScriptedEngine, path: str, **fields: object) -> Submitted:
    request = Request(path, **fields)  # type: ignore[arg-type]
    return submission.submit(context_of(repo), request, engine, Seen(), environment={"KEY": "value"})


def states(done: Submitted) -> dict[str, str]:
    return {task.id: task.state for task in done.status.tasks}


def refs(shared: Path) -> list[str]:
    return [
        ref.removeprefix(names.PREFIX) for ref in git(shared, "for-each-ref", "--format=%(refname)").decode().split()
    ]


def test_a_fleet_runs_once(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a", "b")
    engine = ScriptedEngine(worker, {"b": [fails]})
    done = submit(repo, engine, path, pass_env=("KEY",))
    assert states(done) == {"a": "passed", "b": "failed"}
    assert done.status.counts == {"waiting": 0, "running": 0, "passed": 1, "failed": 1, "lost": 0, "cancelled": 0}
    assert (done.status.id, done.status.engine, done.status.base) == ("f", "scripted", repo.oid())
    assert engine.started == [
        Order(task, ("git", "agentos", "fleet", "worker", "f", task, "--remote", shared.as_uri()), {"KEY": "value"})
        for task in ("a", "b")
    ]
    assert engine.has_ended and not done.is_interrupted
    assert refs(shared) == ["f/results/a", "f/results/b", "f/tasks"]
    again = ScriptedEngine(worker)
    assert submit(repo, again, path).status == done.status
    assert again.started == []
    # From another clone, and when HEAD has moved: its base is what was recorded.
    repo.git("commit", "-q", "--allow-empty", "-m", "later")
    assert submit(repo, again, path).status == done.status
    assert b"value" not in repo.git("cat-file", "blob", "refs/agentos/fleets/origin/f/tasks:tasks.jsonl")


def test_other_tasks_under_the_same_name(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    submit(repo, ScriptedEngine(worker), tasks_file(tmp_path, "a", "b"))
    engine = ScriptedEngine(worker)
    for ids, said in ((("a", "c"), "the task 'c'"), (("a",), "the task 'b'"), (("b", "a"), "another order")):
        with pytest.raises(UsageError, match=f"submitted with other tasks than .* has: .*{said}"):
            submit(repo, engine, tasks_file(tmp_path, *ids))
    assert engine.started == []
    assert states(submit(repo, engine, tasks_file(tmp_path, "a", "c"), name="g")) == {"a": "passed", "c": "passed"}
    assert refs(shared)[:3] == ["f/results/a", "f/results/b", "f/tasks"]


def test_a_worker_that_leaves_no_result_is_started_again(repo: Repo, worker: Repo, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a", "b", "c", "d")
    engine = ScriptedEngine(worker, {"a": [dies, dies, passes], "b": [dies], "c": [is_given_up]})
    done = submit(repo, engine, path)
    assert states(done) == {"a": "passed", "b": "lost", "c": "lost", "d": "passed"}
    assert [order.task for order in engine.started] == ["a", "b", "c", "d", "a", "b", "a", "b"]
    details = [task.detail for task in done.status.tasks]
    assert details == [None, "its worker has ended with exit code 137", "no node", None]
    again = ScriptedEngine(worker, {"c": [fails]})
    done = submit(repo, again, path)
    assert [order.task for order in again.started] == ["b", "c"]
    assert states(done) == {"a": "passed", "b": "passed", "c": "failed", "d": "passed"}


def test_what_is_lost_leaves_no_live_ref(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    def begins_and_dies(engine: ScriptedEngine, order: Order) -> int:
        put_live(engine.remote, *engine.facts(order)[:2])
        return 137

    engine = ScriptedEngine(worker, {"a": [begins_and_dies]})
    done = submit(repo, engine, tasks_file(tmp_path, "a"), retries=0)
    assert refs(shared) == ["f/results/a", "f/tasks"]
    task = done.status.tasks[0]
    assert (task.state, task.attempts, task.worker) == ("lost", 1, "machine")


def test_a_task_that_is_cancelled_meanwhile(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    def is_cancelled(_engine: ScriptedEngine, _order: Order) -> int:
        cancellation.cancel(context_of(repo), "f", ["a"])
        return 143

    class Slow(ScriptedEngine):
        """Its worker of `a` ends when it is cancelled alone."""

        looks = 0

        def poll(self, patience: float, /) -> Sequence[Ended]:
            self.looks += 1
            assert self.looks < 100, "its worker was not cancelled"
            return [each for each in super().poll(patience) if each.task != "a" or self.cancelled]

    engine = Slow(worker, {"a": [is_cancelled]})
    assert states(submit(repo, engine, tasks_file(tmp_path, "a", "b"))) == {"a": "cancelled", "b": "passed"}
    assert engine.cancelled == ["a"]


def test_an_interrupted_wait(repo: Repo, worker: Repo, tmp_path: Path) -> None:
    class Interrupted(ScriptedEngine):
        def poll(self, _patience: float, /) -> Sequence[Ended]:
            raise KeyboardInterrupt

    engine = Interrupted(worker, {"a": [dies]})
    path = tasks_file(tmp_path, "a", "b")
    done = submit(repo, engine, path)
    assert done.is_interrupted and engine.has_ended
    again = ScriptedEngine(worker)
    assert states(submit(repo, again, path)) == {"a": "passed", "b": "passed"}
    assert [order.task for order in again.started] == ["a"]


def test_tasks_that_no_worker_begins_are_told_of(
    repo: Repo, shared: Path, worker: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an engine that does not know what becomes of its workers; more and more seldom."""
    told: list[tuple[list[str], float, str]] = []

    class Queue(ScriptedEngine):
        """Its worker of `a` begins once `a` and `b` were told of, and all end later."""

        reports_ends = False

        def start(self, order: Order, /) -> None:
            self.started.append(order)

        def poll(self, _patience: float, /) -> Sequence[Ended]:
            if len(told) == 1:
                put_live(self.remote, "f", "a")
            elif len(told) == 3:
                for order in self.started:
                    passes(self, order)
            return ()

    class Listening(Seen):
        def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
            told.append((list(tasks), seconds, command))

    monkeypatch.setattr(submission, "_NOT_BEGUN", 0.125)
    request = Request(tasks_file(tmp_path, "a", "b"))
    done = submission.submit(context_of(repo), request, Queue(worker), Listening(), environment={})
    assert states(done) == {"a": "passed", "b": "passed"}
    assert told == [(["a", "b"], 0.125, "run a"), (["b"], 0.25, "run b"), (["b"], 0.5, "run b")]
    assert refs(shared) == ["f/results/a", "f/results/b", "f/tasks"]


def test_two_who_submit_at_once(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a")
    other = Repo(tmp_path / "other")
    shutil.copytree(repo.path, other.path)
    engine = ScriptedEngine(worker)
    both = [prepared.Prepared(context_of(each), Request(path), engine, {}) for each in (repo, other)]
    third = prepared.Prepared(
        context_of(other), Request(tasks_file(tmp_path, "b", name="g.toml"), name="f"), engine, {}
    )
    first, second = (each.record() for each in both)
    assert first.tasks == second.tasks == git(shared, "rev-parse", names.tasks_ref("f")).decode().strip()
    with pytest.raises(UsageError, match="submitted with other tasks"):
        third.record()
    with submission._only_one(context_of(repo), "f"), pytest.raises(LockedError, match="the fleet 'f' is being"):
        submit(repo, engine, path)
    assert engine.started == []


def test_a_plan_pushes_nothing(repo: Repo, shared: Path, worker: Repo, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a", "b")
    engine = ScriptedEngine(worker)
    planned = submission.plan(context_of(repo), Request(path), engine, environment={})
    assert [task.id for task in planned.started] == ["a", "b"]
    assert states(planned) == {"a": "waiting", "b": "waiting"}
    assert refs(shared) == [] and engine.started == []


def test_what_is_wrong_is_said_before_anything_is_started(
    repo: Repo, shared: Path, worker: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine(worker, unfit="b")
    path = tasks_file(tmp_path, "a", "b")
    with pytest.raises(UsageError, match=r"f.toml', line 4: no machine has what 'b' needs"):
        submit(repo, engine, path)
    with pytest.raises(UsageError, match="there is no variable 'MISSING'"):
        submit(repo, engine, path, pass_env=("KEY", "MISSING"))
    with pytest.raises(UsageError, match="is not a fleet id"):
        submit(repo, engine, path, name="a b")
    (tmp_path / "---.toml").write_text('[[task]]\nid = "a"\nagent = "x"\n')
    with pytest.raises(UsageError, match="no fleet can be called as the file"):
        submit(repo, engine, str(tmp_path / "---.toml"))
    (tmp_path / "base.toml").write_text('[[task]]\nid = "a"\nagent = "x"\nbase = "nowhere"\n')
    with pytest.raises(UsageError, match=r"base.toml', line 1: there is no commit 'nowhere'"):
        submit(repo, engine, str(tmp_path / "base.toml"))
    token = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"
    (tmp_path / "token.toml").write_text(f'[[task]]\nid = "a"\nagent = "GH_TOKEN={token} gh pr list"\n')
    with pytest.raises(UsageError, match=r"token.toml', line 1: the task 'a' has what looks like a secret") as raised:
        submit(repo, engine, str(tmp_path / "token.toml"))
    assert token not in raised.value.message and refs(shared) == []
    (tmp_path / "tdd.toml").write_text(
        f'[[task]]\nid = "a"\nagent = "command:GH_TOKEN={token} x"\ntdd = {{issue = 1, lld = "d"}}\n'
    )
    with pytest.raises(UsageError, match=r"tdd.toml', line 1: the task 'a' has what looks like a secret"):
        submit(repo, engine, str(tmp_path / "tdd.toml"))
    with pytest.raises(UsageError, match="there is no remote 'nowhere'"):
        submit(repo, engine, path, remote="nowhere")
    good = tasks_file(tmp_path, "a")
    add_hook(shared, "pre-receive", "exit 1")
    with pytest.raises(FleetError, match="the remote 'origin' refuses 'refs/agentos/fleet/f/tasks': pre-receive hook"):
        submit(repo, engine, good)
    repo.git("remote", "set-url", "--push", "origin", "https://user:secret@example.com/x")
    with pytest.raises(UsageError, match="the URL of the remote 'origin' has a password") as raised:
        submit(repo, engine, good)
    assert "secret" not in raised.value.message
    repo.git("remote", "set-url", "--delete", "--push", "origin", "https.*")
    shutil.rmtree(shared)
    with pytest.raises(RemoteAway):
        submit(repo, engine, good)
    assert engine.started == []


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("../shared.git", "{root}/../shared.git"),
        ("host:path", "host:path"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("/abs/x", "/abs/x"),
        ("https://user@host/x", "https://user@host/x"),
    ],
)
def test_workers_get_a_url_that_is_good_in_any_folder(repo: Repo, url: str, given: str) -> None:
    repo.git("remote", "add", "origin", url)
    assert prepared.push_url(context_of(repo), "origin") == given.format(root=repo.path)


def test_names_of_files() -> None:
    assert prepared.usual_name("/x/my fixes (2).toml") == "my-fixes-2"
