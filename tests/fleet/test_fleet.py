"""Whole fleets, by real commands: submitted, killed, interrupted and continued. Each task has one result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import fleets
from tests.support.fleets import Machine, Site, waits_for
from tests.support.repo import Repo
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


@pytest.fixture
def machine(site: Site) -> Machine:
    return site.machine("one")


def begin(site: Site, machine: Machine, path: Path, *options: str) -> subprocess.Popen[bytes]:
    """`fleet submit`, which goes on by itself."""
    return subprocess.Popen(
        [sys.executable, "-m", "git_agentos", "--json", "fleet", "submit", str(path), "--name", fleets.FLEET, *options],
        cwd=site.repo.path,
        env=machine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def submit(site: Site, machine: Machine, path: Path, *options: str) -> tuple[int, Any]:
    """`fleet submit`, to its end: exit code and document."""
    with begin(site, machine, path, *options) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert out, err
    return child.returncode, json.loads(out)


def tasks_file(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "fleet.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def states(document: Any) -> dict[str, str]:
    return {task["id"]: task["state"] for task in document["tasks"]}


def counted(folder: Path, task: str) -> str:
    """Shell text of an agent that notes each time that it runs, and makes a file."""
    return f"echo x >>'{folder}/{task}.ran'; echo {task} >{task}.txt"


def times_run(folder: Path, task: str) -> int:
    path = folder / f"{task}.ran"
    return len(path.read_text().split()) if path.exists() else 0


_MOMENTS: dict[str, Callable[[Site, Path], object]] = {
    "recorded": lambda site, _: "tasks" in site.refs(),
    "begun": lambda _, folder: times_run(folder, "a") == 1,
    "one result": lambda site, _: "results/a" in site.refs(),
}


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_submitter_that_is_killed(site: Site, machine: Machine, tmp_path: Path, moment: str) -> None:
    gate = tmp_path / "gate"
    path = tasks_file(
        tmp_path,
        {"id": "a", "agent": counted(tmp_path, "a"), "validate": "test -s a.txt"},
        {"id": "b", "agent": counted(tmp_path, "b"), "validate": f"{waits_for(gate)}; test -s b.txt"},
    )
    with begin(site, machine, path, "--max-parallel", "1") as child:
        wait_until(lambda: _MOMENTS[moment](site, tmp_path), moment)
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=PATIENCE)
    gate.touch()
    code, document = submit(site, machine, path)
    assert (code, states(document)) == (0, {"a": "passed", "b": "passed"})
    assert sorted(site.refs()) == ["results/a", "results/b", "tasks"]
    assert [site.show(task, f"{task}.txt") for task in "ab"] == [b"a\n", b"b\n"]
    assert machine.left() == {}
    if moment == "one result":
        assert times_run(tmp_path, "a") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers outlive a process that is killed")
def test_a_worker_that_takes_its_time_to_end_loses_no_task(site: Site, machine: Machine, tmp_path: Path) -> None:
    """Its submitter was killed; the next one is sooner, and starts workers that meet it."""
    gate = tmp_path / "gate"
    agent = f"trap '' TERM; touch '{tmp_path}/at'; {waits_for(gate)}; echo a >a.txt"
    path = tasks_file(tmp_path, {"id": "a", "agent": agent, "validate": "test -s a.txt"})
    with begin(site, machine, path) as child:
        wait_until((tmp_path / "at").exists, "its agent runs")
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=PATIENCE)
    (first,) = workers(site)
    with begin(site, machine, path, "--retries", "0") as child:
        wait_until(lambda: first not in workers(site), "its worker has ended")
        gate.touch()
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    assert states(json.loads(out)) == {"a": "passed"}
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


def test_an_interrupted_fleet_is_gone_on_with(site: Site, machine: Machine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    path = tasks_file(
        tmp_path, {"id": "a", "agent": counted(tmp_path, "a"), "validate": f"touch '{tmp_path}/at'; {waits_for(gate)}"}
    )
    with begin(site, machine, path) as child:
        wait_until((tmp_path / "at").exists, "its validation runs")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert states(json.loads(out)).keys() == {"a"}
    assert sorted(site.refs()) == ["live/a", "tasks"]
    gate.touch()
    code, document = submit(site, machine, path)
    assert (code, states(document)) == (0, {"a": "passed"})
    assert document["tasks"][0]["attempts"] == 2
    assert times_run(tmp_path, "a") == 1  # its agent had ended
    assert machine.left() == {}


def workers(site: Site) -> list[int]:
    """The processes of workers of the site, by their command lines."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = each.read_bytes().split(b"\0")
            if b"worker" in words and site.url.encode() in words:
                found.append(int(each.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_worker_that_is_killed_is_started_again(site: Site, machine: Machine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    path = tasks_file(
        tmp_path, {"id": "a", "agent": counted(tmp_path, "a"), "validate": f"touch '{tmp_path}/at'; {waits_for(gate)}"}
    )
    with begin(site, machine, path) as child:
        wait_until((tmp_path / "at").exists, "its validation runs")
        for pid in workers(site):
            os.kill(pid, signal.SIGKILL)
        gate.touch()
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    document = json.loads(out)
    assert (states(document), document["tasks"][0]["attempts"]) == ({"a": "passed"}, 2)
    assert times_run(tmp_path, "a") == 1
    assert sorted(site.refs()) == ["results/a", "tasks"]
    assert machine.left() == {}


def test_a_fleet_in_the_background(site: Site, machine: Machine, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, {"id": "a", "agent": 'echo "$KEY" >f', "validate": "grep value f"})
    site.environment["KEY"] = "value"
    code, document = submit(site, machine, path, "--detach", "--pass-env", "KEY")
    assert (code, states(document)) == (0, {"a": "waiting"})
    path.unlink()  # it has a copy
    wait_until(lambda: "results/a" in site.refs(), "it has a result")
    assert site.show("a", "f") == b"value\n"
    log = site.repo.git_dir / "agentos" / "fleets" / f"{fleets.FLEET}.log"
    wait_until(lambda: b"1 passed" in log.read_bytes(), "the submitter has ended")
