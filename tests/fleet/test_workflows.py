"""Workflows as tasks: a worker does one until it would wait for a person; its result is as that of a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.errors import PolicyError, UsageError
from git_agentos.fleet import acceptance, collection, names, prepared, submission
from git_agentos.store import database_path
from git_agentos.tdd import query
from git_agentos.tdd.state import Workflow
from tests.support import fleets, postgres, tdd_project
from tests.support.fleet_engine import ScriptedEngine
from tests.support.fleets import FLEET, Machine, Site, waits_for
from tests.support.repo import Repo, git
from tests.support.sampling import EXHAUSTIVE
from tests.support.waiting import PATIENCE, wait_until

RUN = names.run_id(FLEET, "a")
long = pytest.mark.skipif(not EXHAUSTIVE, reason="make soak runs it")  # each of these has many workers
# `git-agentos`, whose process is killed when a function is called for the nth time, or stops there until it is killed,
# or finds that the database cannot be reached.
STRIKE = """
import functools, importlib, os, signal, sys, threading
from git_agentos.errors import DatabaseError
from git_agentos.launch import main
how, module, path, number = sys.argv[1:5]
*above, name = path.split(".")
owner = functools.reduce(getattr, above, importlib.import_module(module))
function, calls = getattr(owner, name), []
def strike(*args, **fields):
    calls.append(1)
    if len(calls) == int(number):
        if how == "away":
            raise DatabaseError("the database cannot be reached")
        os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else threading.Event().wait()
    return function(*args, **fields)
setattr(owner, name, strike)
sys.argv[1:] = sys.argv[5:]
sys.exit(main())
"""


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    tdd_project.project(repo)
    site = fleets.make(repo, tmp_path)
    site.configure("agentos.tdd.python", str(tdd_project.interpreter()))
    return site


@pytest.fixture(params=["file", "postgres"])
def database(request: pytest.FixtureRequest, site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where workers keep the state of workflows."""
    monkeypatch.delenv(database_path.VARIABLE, raising=False)
    with contextlib.ExitStack() as stack:
        if request.param == "postgres":
            site.environment[database_path.VARIABLE] = stack.enter_context(postgres.database())
        yield request.param


def task(agent: str, **fields: Any) -> dict[str, Any]:
    return {"id": "a", "tdd": {"issue": "87", "lld": tdd_project.LLD}, "agent": agent, **fields}


def agent(folder: Path, scaffold: str = "", implement: str = "") -> str:
    """An agent that does its work, and notes it; with shell text that runs before each of the two."""
    (folder / "tests.txt").write_text(tdd_project.TESTS)
    (folder / "stub.txt").write_text(tdd_project.STUB)
    (folder / "code.txt").write_text(tdd_project.CODE)
    script = folder / "agent.sh"
    script.write_text(
        f"""cd "$PWD"; cat >/dev/null; echo "$AGENTOS_TDD_NODE" >>'{folder}/calls'
if [ "$AGENTOS_TDD_NODE" = scaffold ]; then
    {scaffold or ":"}
    cp '{folder}/tests.txt' tests/test_more.py; cp '{folder}/stub.txt' calc/more.py
else
    {implement or ":"}
    cp '{folder}/code.txt' calc/more.py
fi
"""
    )
    return f"command:sh {script}"


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().split() if path.exists() else []


def workflows(site: Site, machine: Machine) -> list[Workflow]:
    """What `tdd list --all` has in the clone."""
    environment = {**os.environ, **site.environment}
    return list(query.list_workflows(open_workspace(machine.clone.path).context, environment, everywhere=True))


def struck(machine: Machine, how: str, module: str, path: str, number: int) -> subprocess.Popen[bytes]:
    """A worker that is killed there, or stops, or finds that the database cannot be reached."""
    words = machine.words("a")
    line = [sys.executable, "-P", "-c", STRIKE, how, module, path, str(number), *words[words.index("fleet") :]]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=machine.site.folder, env=machine.environment, stdout=pipe, stderr=pipe)


def kill_at(machine: Machine, module: str, path: str, number: int) -> None:
    """A worker that is killed there."""
    with struck(machine, "kill", module, path, number) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == -signal.SIGKILL, (child.returncode, out, err)


def lost_after(machine: Machine, step: int) -> None:
    """A machine that is lost when it has said that a step has ended, and before the next one begins."""
    site = machine.site
    with struck(machine, "stop", "git_agentos.fleet.kinds", "_Nodes.node_begins", step + 1) as child:
        wait_until(lambda: "live/a" in site.refs() and site.live("a").step == step, f"step {step} has ended")
        fleets.kill(child)


def details(site: Site) -> list[str]:
    """What the steps of the result's run say."""
    return [each["detail"] for each in site.evidence("a") if each["event"] == "step-ended"]


@pytest.mark.sampled(one_in=2)
def test_a_workflow_is_a_task_and_accepting_it_is_the_decision(site: Site, database: str) -> None:
    site.submit(task(tdd_project.script(site.folder)))
    machine = site.machine("one")
    done = machine.work("a")
    assert done.code == 0, done
    assert sorted(site.refs()) == ["results/a", "tasks"]
    found = site.result("a")
    assert (found.state, found.outcome, found.run_id, found.detail) == ("passed", "ok", RUN, None)
    assert site.show("a", "calc/more.py") == tdd_project.CODE.encode()
    assert machine.left() == {}
    assert workflows(site, machine) == []
    context = open_workspace(site.repo.path).context
    (collected,) = collection.collect(context, FLEET).results
    assert collected.commit == found.commit
    before = site.repo.oid("HEAD")
    (merged,) = acceptance.accept(context, FLEET).merged
    assert site.repo.oid("HEAD") == merged.merge_commit != before
    assert (site.repo.path / "calc/more.py").read_text() == tdd_project.CODE
    assert query.list_workflows(context, os.environ) == []  # a run of a fleet; nothing waits for a decision
    assert site.repo.text("log", "-1", "--format=%s", merged.commit) == "feat: issue 87"


def test_one_that_is_not_green_has_failed(site: Site) -> None:
    site.submit(task(tdd_project.script(site.folder, implement=[{"unusable": "it cannot be done"}])))
    machine = site.machine("one")
    assert machine.work("a").code == 1
    found = site.result("a")
    assert (found.state, found.outcome) == ("failed", "failed")
    assert found.detail is not None and "it cannot be done" in found.detail
    assert found.commit == site.repo.oid("HEAD")  # nothing of it was committed
    assert machine.left() == {}
    assert workflows(site, machine) == []


STRIKES = [
    ("git_agentos.tdd.handover", "workflows.working_on", 1),
    ("git_agentos.fleet.kinds", "_Nodes.node_ended", 1),  # N0 is not in the state yet
    ("git_agentos.fleet.kinds", "_Nodes.node_begins", 1),
    ("git_agentos.fleet.kinds", "_Nodes.node_ended", 2),
    ("git_agentos.fleet.kinds", "_Nodes.node_ended", 5),  # green
    ("git_agentos.fleet.kinds", "_Nodes.node_ended", 6),
    ("git_agentos.run.validated", "move_branch", 1),
    ("git_agentos.run.snapshot", "describe_end", 1),
    ("git_agentos.run.runner", "seal_run", 1),
    ("git_agentos.fleet.records", "write_result", 1),
    ("git_agentos.fleet.clearing", "done", 1),
    ("git_agentos.run.discard", "everything", 2),
]


@pytest.mark.slow
@pytest.mark.sampled(one_in=24)
@pytest.mark.parametrize(("module", "path", "number"), STRIKES)
def test_killed_anywhere_it_is_continued(site: Site, database: str, module: str, path: str, number: int) -> None:
    site.submit(task(agent(site.folder)))
    machine = site.machine("one")
    kill_at(machine, module, path, number)
    done = machine.work("a")
    assert done.code == 0, done
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert site.result("a").state == "passed"
    assert site.show("a", "calc/more.py") == tdd_project.CODE.encode()
    assert len(calls(site.folder)) == (3 if (path, number) == ("_Nodes.node_ended", 2) else 2)  # N1 ran twice there
    assert machine.left() == {}
    assert workflows(site, machine) == []
    (collected,) = collection.collect(open_workspace(site.repo.path).context, FLEET).results
    assert collected.run_id == RUN


@pytest.mark.sampled(one_in=2)
def test_the_database_is_away_at_the_end(site: Site, database: str) -> None:
    """The result is there. The state that the database still has is removed by the next worker of the machine."""
    site.submit(task(agent(site.folder)), task(agent(site.folder), id="b"))
    machine = site.machine("one")
    with struck(machine, "away", "git_agentos.fleet.kinds", "forget_workflow", 2) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, (out, err)
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert [each.run_id for each in workflows(site, machine)] == [RUN]
    left = machine.left()
    assert (sorted(left.pop("files")), left) == (
        [f"agentos/fleet/{RUN}.json", f"agentos/fleet/{RUN}.turn"],
        {"refs": [f"refs/agentos/workflows/{RUN}"]},
    )
    assert machine.work("b").code == 0
    assert workflows(site, machine) == []
    assert machine.left() == {}


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("database", ["postgres", "file"], indirect=True)
def test_on_another_machine_it_goes_on_and_the_first_to_arrive_counts(site: Site, database: str) -> None:
    folder, go = site.folder, site.folder / "go"
    site.submit(task(agent(folder, implement=f"[ -e '{folder}/second' ] || {waits_for(go)}")))
    one, two = site.machine("one"), site.machine("two")
    first = one.begin("a")
    wait_until(lambda: calls(folder) == ["scaffold", "implement"], "it writes code")
    wait_until(lambda: "live/a" in site.refs() and site.live("a").step == 2, "the tests have failed")
    (folder / "second").touch()
    done = two.work("a")
    assert done.code == 0, done
    assert calls(folder) == ["scaffold", "implement", "implement"]
    assert site.result("a").attempts == 2
    assert site.show("a", "tests/test_more.py") == tdd_project.TESTS.encode()
    counts = site.refs()["results/a"]
    go.touch()
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 4, err
    again = one.work("a", "--json")
    assert (again.code, again.json["state"]) == (0, "there")
    assert (sorted(site.refs()), site.refs()["results/a"]) == (["results/a", "tasks"], counts)
    assert two.left() == {}
    assert workflows(site, one) == workflows(site, two) == []


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_what_a_lost_machine_has_written_is_judged_anew(site: Site, database: str, step: int) -> None:
    """The model is asked for what is missing; every gate is this machine's."""
    site.submit(task(agent(site.folder)))
    lost_after(site.machine("one"), step)
    written = calls(site.folder)
    assert written == ["scaffold", "implement"][: (step + 1) // 2]
    two = site.machine("two")
    done = two.work("a")
    assert done.code == 0, done
    assert calls(site.folder) == ["scaffold", "implement"]
    found = details(site)
    assert [each[:2] for each in found] == ["N1", "N2", "N3", "N4"]
    assert [each.endswith("and taken over)") for each in found] == [True, False, step > 2, False]
    assert found[1].startswith("N2_fail_gate: red:") and found[3].startswith("N4_pass_gate: green:")
    assert site.show("a", "calc/more.py") == tdd_project.CODE.encode()
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert two.left() == {}
    (collected,) = collection.collect(open_workspace(site.repo.path).context, FLEET).results
    assert collected.run_id == RUN


@long
def test_wrong_code_of_a_lost_machine_is_written_again(site: Site) -> None:
    folder = site.folder
    (folder / "wrong.txt").write_text(tdd_project.WRONG)
    wrong = f"[ $(grep -c implement '{folder}/calls') -gt 1 ] || {{ cp '{folder}/wrong.txt' calc/more.py; exit 0; }}"
    site.submit(task(agent(folder, implement=wrong)))
    lost_after(site.machine("one"), 3)
    two = site.machine("two")
    assert two.work("a").code == 0
    assert calls(folder) == ["scaffold", "implement", "implement"]
    assert [each[:2] for each in details(site)] == ["N1", "N2", "N3", "N4", "N3", "N4"]
    assert site.show("a", "calc/more.py") == tdd_project.CODE.encode()


def test_tests_of_another_machine_that_do_not_fail_here_do_not_count(site: Site) -> None:
    """Whoever can push may have written them: they are judged as what the model writes."""
    folder = site.folder
    (folder / "passes.txt").write_text("def test_nothing():\n    assert 1 + 1 == 2\n")
    once = (
        f"[ $(grep -c scaffold '{folder}/calls') -gt 1 ] || {{ cp '{folder}/passes.txt' tests/test_more.py; exit 0; }}"
    )
    site.submit(task(agent(folder, scaffold=once)))
    lost_after(site.machine("one"), 1)
    assert site.machine("two").work("a").code == 0
    assert calls(folder) == ["scaffold", "scaffold", "implement"]
    found = details(site)
    assert [each[:2] for each in found] == ["N1", "N2", "N1", "N2", "N3", "N4"]
    assert found[0].endswith("and taken over)") and found[1].startswith("N2_fail_gate: not red")
    assert site.show("a", "tests/test_more.py") == tdd_project.TESTS.encode()


@long
def test_from_the_start_nothing_is_taken_over(site: Site) -> None:
    site.submit(task(agent(site.folder)))
    lost_after(site.machine("one"), 1)
    assert site.machine("two").work("a", "--from-start").code == 0
    assert calls(site.folder) == ["scaffold", "scaffold", "implement"]


def test_a_second_worker_on_the_same_machine_is_refused(site: Site) -> None:
    go = site.folder / "go"
    site.submit(task(agent(site.folder, scaffold=waits_for(go))))
    machine = site.machine("one")
    first = machine.begin("a")
    wait_until((site.folder / "calls").exists, "the first worker begins")
    second = machine.work("a", "--json")
    assert (second.code, second.json["error"]["kind"]) == (1, "locked")
    go.touch()
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 0
    assert machine.left() == {}


def test_interrupted_it_is_continued(site: Site) -> None:
    go = site.folder / "go"
    site.submit(task(agent(site.folder, implement=waits_for(go))))
    machine = site.machine("one")
    first = machine.begin("a")
    wait_until(lambda: (site.folder / "calls").exists() and len(calls(site.folder)) == 2, "it writes code")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE)
    assert first.returncode == 130
    go.touch()
    assert machine.work("a").code == 0
    assert calls(site.folder) == ["scaffold", "implement", "implement"]
    assert machine.left() == {}


@long
def test_samples_of_one_issue_run_in_one_clone(site: Site) -> None:
    site.submit(task(tdd_project.script(site.folder), samples=2))
    machine = site.machine("one")
    both = [machine.begin(f"a.{n}") for n in (1, 2)]
    for child in both:
        _, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, err
    assert sorted(site.refs()) == ["results/a.1", "results/a.2", "tasks"]
    assert machine.left() == {}


# -- a forged result ---------------------------------------------------------------------------------------------------


def test_the_run_of_another_kind_or_agent_is_refused(site: Site) -> None:
    """The evidence verifies, and is not that of the task's workflow."""
    name = f"{names.PREFIX}{FLEET}/tasks"
    context = open_workspace(site.repo.path).context
    commands = {"id": "a", "agent": "echo x >f", "validate": "true"}
    ours = task(tdd_project.script(site.folder))
    made: dict[str, str] = {}
    for kind, row in (("commands", commands), ("workflow", ours)):
        site.submit(row)
        assert site.machine(kind).work("a").code == 0
        made[kind] = site.refs()["results/a"]
        for ref in (name, f"{names.PREFIX}{FLEET}/results/a"):
            git(site.shared, "update-ref", "-d", ref)
    other_issue: dict[str, Any] = {**ours, "tdd": {**ours["tdd"], "issue": "88"}}
    others: list[tuple[str, dict[str, Any]]] = [
        ("commands", ours), ("workflow", {**ours, "agent": "command:other"}), ("workflow", other_issue)
    ]  # fmt: skip
    for kind, asked in others:
        site.submit(asked)
        git(site.shared, "update-ref", f"{names.PREFIX}{FLEET}/results/a", made[kind])
        (refused,) = acceptance.accept(context, FLEET).refused
        assert refused.reason.startswith(f"its run is not the workflow of issue '{asked['tdd']['issue']}'"), kind
        git(site.shared, "update-ref", "-d", name)
        git(site.shared, "update-ref", "-d", f"{names.PREFIX}{FLEET}/results/a")
    site.submit(ours)
    git(site.shared, "update-ref", f"{names.PREFIX}{FLEET}/results/a", made["workflow"])
    assert acceptance.accept(context, FLEET).refused == ()


# -- the data policy ---------------------------------------------------------------------------------------------------


def test_a_fleet_with_workflows_needs_the_consent_of_who_submits_it(site: Site) -> None:
    path = site.folder / "w.jsonl"
    path.write_text(json.dumps(task(f"command:cat {site.folder}/x")) + "\n")
    context = open_workspace(site.repo.path).context
    engine = ScriptedEngine(site.repo)
    planned = submission.plan(context, prepared.Request(str(path)), engine, environment={})
    assert any(tdd_project.LLD in line for line in planned.status.policy)
    with pytest.raises(PolicyError, match="nothing was recorded or sent"):
        submission.detach(context, prepared.Request(str(path)), engine, (), environment={})
    assert git(site.shared, "for-each-ref", names.PREFIX) == b""
    path.write_text(json.dumps(task("mock", tdd={"issue": 1, "lld": "docs/none.md"})) + "\n")
    with pytest.raises(UsageError, match=r"w.jsonl', line 1: 'docs/none.md' does not exist in commit"):
        submission.plan(context, prepared.Request(str(path)), engine, environment={})
    path.write_text(json.dumps(task("nobody")) + "\n")
    with pytest.raises(UsageError, match=r"w.jsonl', line 1: 'nobody' is not an agent"):
        submission.plan(context, prepared.Request(str(path)), engine, environment={})


def test_a_worker_does_no_workflow_whose_policy_nobody_has_accepted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("git_agentos.fleet.tasks.accepted", lambda given: given)
    site.submit(task(agent(site.folder)))
    done = site.machine("one").work("a")
    assert done.code == 3
    assert b"nobody has accepted the data policy" in done.err
    assert not (site.folder / "calls").exists()
    assert sorted(site.refs()) == ["tasks"]
