"""What is said of a fleet, of its tasks and of their output; and what cancelling changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import AgentosWarning, FleetError, RunError, UsageError
from git_agentos.fleet import cancellation, contents, logs, names, prepared, records, status, submission, tasks
from git_agentos.fleet.records import Fleet, Result
from git_agentos.fleet.status import ListedFleet, Status, TaskStatus
from git_agentos.git import transport
from tests.support.fleet_engine import (
    NOW,
    WHO,
    ScriptedEngine,
    context_of,
    put_live,
    put_result,
    remote_of,
    tasks_file,
)
from tests.support.remotes import clone
from tests.support.repo import Repo, git


@pytest.fixture
def other(shared: Path, tmp_path: Path) -> Repo:
    """The clone of somebody else, who has not submitted anything."""
    return clone(tmp_path, shared, "other")


def record(repo: Repo, *ids: str, fleet: str = "f", created_at: str = NOW) -> None:
    """Record a fleet, and start nothing."""
    remote = remote_of(repo)
    listed = tasks.read_file(tasks_file(repo.scratch, *ids)).tasks
    with remote.repository.writer() as writer:
        oid = records.write_tasks(writer, Fleet(fleet, repo.oid(), listed, created_at, "local"), WHO)
        writer.flush()
    assert remote.create(names.tasks_ref(fleet), oid).state == "done"


def refs(shared: Path) -> list[str]:
    return [
        ref.removeprefix(names.PREFIX) for ref in git(shared, "for-each-ref", "--format=%(refname)").decode().split()
    ]


def test_each_task_has_a_state(repo: Repo, shared: Path, other: Repo) -> None:
    record(repo, "waits", "runs", "passed", "lost", "again", "damaged")
    remote = remote_of(repo)
    put_live(remote, "f", "runs", step=3)
    put_result(remote, "f", Result("passed", "passed", 2, "ok", "machine", NOW, NOW, commit=repo.oid()))
    put_result(remote, "f", Result("lost", "lost", 1, detail="gone", ended_at=NOW))
    put_result(remote, "f", Result("again", "lost"))
    put_live(remote, "f", "again", step=0)
    git(shared, "update-ref", names.result_ref("f", "damaged"), repo.oid(), env={})
    git(shared, "update-ref", names.result_ref("f", "of-no-task"), repo.oid())
    found = status.status(context_of(other), "f")
    ref = "refs/agentos/fleet/f/results/"
    oids = {task: git(shared, "rev-parse", ref + task).decode().strip() for task in ("passed", "lost", "damaged")}
    wanted = (
        TaskStatus("waits", "waiting"),
        TaskStatus("runs", "running", 1, "machine", started_at=NOW, detail="after step 3"),
        TaskStatus("passed", "passed", 2, "machine", "ok", oids["passed"], repo.oid(), NOW, NOW),
        TaskStatus("lost", "lost", 1, result=oids["lost"], ended_at=NOW, detail="gone"),
        TaskStatus("again", "running", 1, "machine", started_at=NOW),
    )
    counts = {"waiting": 1, "running": 2, "passed": 1, "failed": 1, "lost": 1, "cancelled": 0}
    assert found.tasks[:-1] == wanted
    assert found == Status("f", "local", "origin", repo.oid(), found.tasks, counts, NOW)
    damaged = found.tasks[-1]
    assert (damaged.state, damaged.result) == ("failed", oids["damaged"])
    assert damaged.detail is not None and damaged.detail.startswith(f"'{ref}damaged' is damaged")
    assert status.list_fleets(context_of(other)) == (ListedFleet("f", NOW, counts),)
    # What was fetched is known without the remote.
    shared.rename(shared.with_name("away"))
    assert status.status(context_of(other), "f", fetch=False) == found
    assert status.list_fleets(context_of(other), fetch=False) == (ListedFleet("f", NOW, counts),)


def test_fleets_are_listed_newest_first(repo: Repo, shared: Path, other: Repo) -> None:
    record(repo, "a", fleet="old")
    record(repo, "a", "b", fleet="new", created_at="2026-11-27T00:00:00.000Z")
    git(shared, "update-ref", names.tasks_ref("damaged"), repo.oid(), env={})
    with pytest.warns(AgentosWarning, match="'refs/agentos/fleet/damaged/tasks' is damaged"):
        found = status.list_fleets(context_of(other))
    assert [(each.id, each.counts["waiting"]) for each in found] == [("new", 2), ("old", 1)]
    with pytest.raises(FleetError, match="'refs/agentos/fleet/damaged/tasks' is damaged"):
        status.status(context_of(other), "damaged")
    with pytest.raises(FleetError, match="there is no fleet 'none' on 'origin'"):
        status.status(context_of(other), "none")
    with pytest.raises(UsageError, match="is not a fleet id"):
        status.status(context_of(other), "a/../b")


def test_a_fleet_is_followed_to_its_end(repo: Repo, shared: Path, other: Repo) -> None:
    record(repo, "a", "b")
    remote = remote_of(repo)
    deeds = iter(
        (
            lambda: put_live(remote, "f", "a"),
            lambda: None,
            lambda: put_result(remote, "f", Result("a", "passed")),
            lambda: put_result(remote, "f", Result("b", "failed")),
        )
    )
    seen = [
        [task.state for task in each.tasks]
        for each in status.follow(contents.open_remote(context_of(other), None), "f", lambda: next(deeds)())  # noqa: PLW0108
    ]
    assert seen == [["waiting", "waiting"], ["running", "waiting"], ["passed", "waiting"], ["passed", "failed"]]


def test_what_has_no_result_is_cancelled(repo: Repo, shared: Path, other: Repo) -> None:
    record(repo, "a", "b", "passed", "lost")
    remote = remote_of(repo)
    put_live(remote, "f", "b")
    put_result(remote, "f", Result("passed", "passed"))
    put_result(remote, "f", Result("lost", "lost", 3))
    with pytest.raises(FleetError, match="fleet 'f' has no task 'c'"):
        cancellation.cancel(context_of(other), "f", ["a", "c"])
    found = cancellation.cancel(context_of(other), "f", ["b"])
    assert [(task.id, task.state, task.attempts) for task in found.tasks] == [
        ("a", "waiting", 0),
        ("b", "cancelled", 1),
        ("passed", "passed", 0),
        ("lost", "lost", 3),
    ]
    assert refs(shared) == ["f/results/b", "f/results/lost", "f/results/passed", "f/tasks"]
    found = cancellation.cancel(context_of(other), "f")
    assert [task.state for task in found.tasks] == ["cancelled", "cancelled", "passed", "cancelled"]
    assert cancellation.cancel(context_of(repo), "f") == found
    # The submitter starts nothing of it.
    engine = ScriptedEngine(other)
    done = submission.plan(context_of(repo), prepared.Request(str(repo.scratch / "f.toml")), engine, environment={})
    assert done.started == () and done.status == found


def test_many_are_cancelled_in_a_few_pushes(
    repo: Repo, shared: Path, other: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"t{n}" for n in range(60)]
    record(repo, *ids)
    remote = remote_of(repo)
    changes: dict[str, tuple[str | None, str | None]] = {}
    with remote.repository.writer() as writer:
        for id_ in ids:
            live = records.Live(id_, 1, "machine", NOW, NOW, names.run_id("f", id_))
            changes[names.live_ref("f", id_)] = (records.write_live(writer, "f", live, WHO), None)
        writer.flush()
    assert remote.swap(changes).state == "done"
    pushes: list[int] = []
    push = transport.swap

    def counted(*args: Any) -> Any:
        pushes.append(len(args[2]))
        return push(*args)

    monkeypatch.setattr(transport, "swap", counted)
    found = cancellation.cancel(context_of(other), "f")
    assert found.counts["cancelled"] == 60
    assert pushes == [100, 20]
    assert not any(ref.startswith("f/live") for ref in refs(shared))


def evidence(repo: Repo, run_id: str) -> str:
    """The tree of the evidence of a run with one step, as workers push it."""
    step = {"n": 1, "kind": "agent", "attempt": 1, "command": "x", "checkpoint": None, "index": 0}
    events = [
        {"event": "begun", "at": NOW, "tool": "git-agentos 1"},
        {"event": "attempt", "at": NOW, "number": 1, "point": "pre_run"},
        {"event": "step-begun", "at": NOW, **step, "stdout": "steps/1/stdout", "stderr": "../secret", "branches": {}},
    ]
    rows = {"events.jsonl": "".join(json.dumps(each) + "\n" for each in events), "steps/1/stdout": f"of {run_id}\n"}
    env = {"GIT_INDEX_FILE": str(repo.scratch / "index")}
    for name, text in rows.items():
        oid = repo.git("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()
        repo.git("update-index", "--add", "--cacheinfo", f"100644,{oid},{name}", env=env)
    return repo.git("write-tree", env=env).decode().strip()


def test_output_is_read_from_the_remote(repo: Repo, shared: Path, other: Repo) -> None:
    record(repo, "a", "b", "c")
    remote = remote_of(repo)
    put_live(remote, "f", "a", evidence=evidence(repo, "f-a"))
    put_live(remote, "f", "b", evidence=repo.oid("HEAD^{tree}"))
    [(step, out, err)] = logs.read(context_of(other), "f", "a")
    assert (step.n, step.command, out, err) == (1, "x", b"of f-a\n", b"")
    assert logs.read(context_of(other), "f", "a", step=1)[0][1] == b"of f-a\n"
    with pytest.raises(RunError, match="run 'f-a' has no step 2 that runs a command"):
        logs.read(context_of(other), "f", "a", step=2)
    with pytest.raises(RunError):
        logs.read(context_of(other), "f", "b")  # it has another tree
    with pytest.raises(FleetError, match="there is no output of the task 'c': it has not been started"):
        logs.read(context_of(other), "f", "c")
    put_result(remote, "f", Result("c", "cancelled"))
    with pytest.raises(FleetError, match="there is no output of the task 'c': it has no evidence"):
        logs.read(context_of(other), "f", "c")
    with pytest.raises(FleetError, match="fleet 'f' has no task 'd'"):
        logs.read(context_of(other), "f", "d")
