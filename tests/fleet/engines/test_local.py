"""Workers on this machine: real processes, some at a time, and none of them left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.errors import UsageError
from git_agentos.fleet.engines import choice
from git_agentos.fleet.engines.choice import Options
from git_agentos.fleet.engines.local import LocalEngine
from git_agentos.fleet.engines.port import Ended, Order, Unfit
from tests.support.waiting import PATIENCE, wait_until

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/", "LC_ALL": "C", "SECRET": "x", "AGENTOS_AGENT_ID": "me"}


def order(task: str, text: str, **fields: object) -> Order:
    return Order(task, ("/bin/sh", "-c", text), **fields)  # type: ignore[arg-type]


def ends(engine: LocalEngine, number: int) -> list[Ended]:
    found: list[Ended] = []
    while len(found) < number:
        found += engine.poll(PATIENCE)
    return found


def test_how_workers_end() -> None:
    engine = LocalEngine(4, ENVIRONMENT)
    assert list(engine.poll(0)) == []
    for each in (
        order("good", "exit 0"),
        order("bad", "echo 'error: it broke' >&2; echo 'hint: mend it' >&2; exit 3"),
        order("killed", "kill -9 $$"),
        order(
            "told", 'test "$KEY" = value && test -z "$SECRET$AGENTOS_AGENT_ID" && pwd >&2', environment={"KEY": "value"}
        ),
    ):
        engine.start(each)
    assert sorted(ends(engine, 4)) == [
        Ended("bad", 3, "error: it broke"),
        Ended("good", 0, None),
        Ended("killed", 137, None),
        Ended("told", 0, "/"),
    ]
    assert list(engine.poll(0)) == []


def test_some_run_at_a_time(tmp_path: Path) -> None:
    engine = LocalEngine(2, ENVIRONMENT)
    gate = tmp_path / "gate"
    for n in range(4):
        engine.start(order(f"t{n}", f"touch '{tmp_path}/began-{n}'; until test -e '{gate}'; do sleep 0.05; done"))
    wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, "two have begun")
    assert list(engine.poll(0.3)) == []
    engine.cancel("t3")
    engine.cancel("t0")
    assert sorted(each[:2] for each in ends(engine, 2)) == [("t0", 143), ("t3", 143)]
    gate.touch()
    assert sorted(each[:2] for each in ends(engine, 2)) == [("t1", 0), ("t2", 0)]
    assert sorted(path.name for path in tmp_path.glob("began-*")) == ["began-0", "began-1", "began-2"]


def test_the_end_of_the_engine_ends_its_workers(tmp_path: Path) -> None:
    engine = LocalEngine(1, ENVIRONMENT)
    saved = tmp_path / "saved"
    engine.start(
        order("a", f"trap 'touch {saved}; exit 0' TERM; echo $$ >'{tmp_path}/pid'; while :; do sleep 0.05; done")
    )
    engine.start(order("b", "exit 0"))
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "", "it has begun")
    engine.end()
    assert saved.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers outlive a process that is killed")
def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    text = f"""
import time
from git_agentos.fleet.engines.local import LocalEngine
from git_agentos.fleet.engines.port import Order
engine = LocalEngine(1, {ENVIRONMENT!r})
text = "trap 'touch {tmp_path}/ended; exit' TERM; touch {tmp_path}/began; while :; do sleep 0.05; done"
engine.start(Order("a", ("/bin/sh", "-c", text)))
time.sleep({PATIENCE})
"""
    child = subprocess.Popen([sys.executable, "-c", text])
    wait_until((tmp_path / "began").exists, "it has begun")
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until((tmp_path / "ended").exists, "the worker was ended")


def test_what_this_machine_does_not_have() -> None:
    engine = LocalEngine(2, ENVIRONMENT)
    engine.check([order("a", "x", cpus=0.5, memory=1 << 20, gpus=0.0)])
    for fields in ({"cpus": 10_000.0}, {"memory": 1 << 60}, {"gpus": 1.0}, {"labels": {"zone": "a"}}):
        with pytest.raises(Unfit, match="the task 'b' needs") as raised:
            engine.check([order("a", "x"), order("b", "x", **fields)])
        assert raised.value.task == "b"


def test_memory_is_shared_out(tmp_path: Path) -> None:
    engine = LocalEngine(2, ENVIRONMENT)
    half = engine._memory * 2 // 3
    gate = tmp_path / "gate"
    for task in ("a", "b"):
        engine.start(
            order(task, f"touch '{tmp_path}/{task}'; until test -e '{gate}'; do sleep 0.05; done", memory=half)
        )
    wait_until((tmp_path / "a").exists, "it has begun")
    assert list(engine.poll(0.3)) == [] and not (tmp_path / "b").exists()
    gate.touch()
    assert [each.task for each in ends(engine, 2)] == ["a", "b"]


def test_which_engine_is_meant() -> None:
    assert choice.make(Options(), "/", ENVIRONMENT).name == "local"
    assert choice.make(Options("command", template="sh -c {command}"), "/", ENVIRONMENT).name == "command"
    for options, said in (
        (Options("other"), "the engine 'other' is not known"),
        (Options("command"), "needs a template"),
        (Options("command", 3, template="{command}"), "--max-parallel is not for the engine 'command'"),
        (Options(template="{command}"), "--command is for the engine 'command', not for 'local'"),
        (Options(address="x"), "--address is for the engine 'ray'"),
    ):
        with pytest.raises(UsageError, match=said):
            choice.make(options, "/", ENVIRONMENT)
