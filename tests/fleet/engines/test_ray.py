"""Workers as tasks of a Ray cluster: of several nodes on this machine, which are killed for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from git_agentos.errors import FleetError, UsageError
from git_agentos.fleet.engines.port import Ended, Order, Unfit
from git_agentos.fleet.engines.ray import RayEngine
from git_agentos.process import table
from tests.support import ray_clusters
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_clusters.cluster({"num_cpus": 2, "labels": {"zone": "head"}}) as (made, _):
        yield made


@pytest.fixture
def engine(cluster: Any) -> Iterator[RayEngine]:
    made = RayEngine(address=cluster.address, retries=2)
    made.check([])
    yield made
    made.end()


def _shell(task: str, text: str, fleet: Path, **needs: Any) -> Order:
    """An order whose command is shell text, of the fleet of that folder."""
    return Order(task, ("sh", "-c", f"cd '{fleet}'; {text}", str(fleet), task), **needs)


def _all(engine: RayEngine, orders: Sequence[Order]) -> dict[str, Ended]:
    """Start these, and wait until all have ended."""
    for order in orders:
        engine.start(order)
    return _ends(engine, len(orders))


def _ends(engine: RayEngine, count: int) -> dict[str, Ended]:
    ends: list[Ended] = []
    deadline = time.monotonic() + 2 * PATIENCE
    while len(ends) < count:
        assert time.monotonic() < deadline, ends
        ends += engine.poll(1)
    assert len({each.task for each in ends}) == len(ends) == count
    return {each.task: each for each in ends}


def _pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"nothing in {path.name}")
    return int(path.read_text().split()[-1])


def test_codes_and_what_was_said(engine: RayEngine, tmp_path: Path) -> None:
    ends = _all(
        engine,
        [
            _shell("passes", "echo one >&2; echo two >&2", tmp_path),
            _shell("fails", "exit 3", tmp_path),
            _shell("is-killed", "kill -9 $$", tmp_path),
            Order("is-not-there", ("there-is-no-such-program", str(tmp_path), "is-not-there")),
            _shell("says-a-secret", "echo token: $MY_TOKEN >&2", tmp_path, environment={"MY_TOKEN": "abcdefghijkl"}),
            _shell("elsewhere", "exit 4", tmp_path, cpus=0.5, memory=1 << 20, labels={"zone": "head"}),
        ],
    )

    assert ends == {
        "passes": Ended("passes", 0, "two"),
        "fails": Ended("fails", 3),
        "is-killed": Ended("is-killed", 137),
        "is-not-there": Ended("is-not-there", 127, "cannot run 'there-is-no-such-program': No such file or directory"),
        "says-a-secret": Ended("says-a-secret", 0, "token: [redacted]"),
        "elsewhere": Ended("elsewhere", 4),
    }


def test_a_worker_gets_what_was_passed_and_nothing_of_ray(engine: RayEngine, tmp_path: Path) -> None:
    _all(engine, [_shell("t", "env >got", tmp_path, environment={"PASSED": "value"})])

    names = {line.partition("=")[0] for line in (tmp_path / "got").read_text().splitlines()}
    assert {"PASSED", "PATH", "HOME"} <= names
    assert not [name for name in names if name.startswith("RAY_") or name == "PYTHONBREAKPOINT"]


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"cpus": 64}, "no node of the Ray cluster has what the task 't' needs: cpus = 64"),
        ({"gpus": 1}, "no node of the Ray cluster has what the task 't' needs: gpus = 1"),
        ({"memory": 1 << 60}, "no node of the Ray cluster has what the task 't' needs: memory = "),
        ({"labels": {"zone": "b"}}, "no node of the Ray cluster has what the task 't' needs: label zone=b"),
        ({"labels": {"zone": "b! c"}}, "Ray cannot start the task 't': "),
    ],
)  # fmt: skip
def test_what_no_node_has_is_refused_first(engine: RayEngine, needs: dict[str, Any], message: str) -> None:
    with pytest.raises(Unfit) as caught:
        engine.check([Order("first", ("true",), cpus=1), Order("t", ("true",), **needs)])

    assert str(caught.value).startswith(message)
    assert caught.value.task == "t"


def test_no_more_at_once_than_was_said(cluster: Any, tmp_path: Path) -> None:
    """Each counts those that run beside it: one, where the cluster has room for two."""
    engine = RayEngine(address=cluster.address, retries=2, most=1)
    engine.check([])

    count = "touch running.$$; ls running.* | wc -l >>counts; rm running.$$"
    _all(engine, [_shell(f"t{number}", count, tmp_path) for number in range(6)])
    engine.end()

    assert (tmp_path / "counts").read_text().split() == ["1"] * 6


def test_cancelled_while_it_runs_and_while_it_waits(engine: RayEngine, tmp_path: Path) -> None:
    whole = "trap 'echo saved >saved; exit 0' TERM; echo $$ >pid; while :; do sleep 0.1; done"
    engine.start(_shell("runs", whole, tmp_path, cpus=2))
    engine.start(_shell("waits", "touch begun", tmp_path, cpus=2))
    engine.poll(0)
    pid = _pid(tmp_path / "pid")

    engine.cancel("waits")
    engine.cancel("runs")
    engine.cancel("unknown")
    ends = _ends(engine, 2)

    assert ends == {"runs": Ended("runs", None, "cancelled"), "waits": Ended("waits", None, "cancelled")}
    wait_until(lambda: not table.is_alive(pid), "the worker goes on")
    assert (tmp_path / "saved").read_text() == "saved\n"
    assert not (tmp_path / "begun").exists()


_SUBMITTER = """
import sys
from pathlib import Path
from git_agentos.fleet.engines.ray import RayEngine
from tests.fleet.engines.test_ray import _shell
engine = RayEngine(address=sys.argv[1], retries=2)
engine.check([])
engine.start(_shell("t", sys.argv[3], Path(sys.argv[2])))
if sys.argv[4] == "wait":
    while True:
        engine.poll(1)
engine.end()
"""


@pytest.mark.parametrize("how", ["wait", "detach"])
def test_workers_go_on_without_who_submitted_and_are_found_again(
    cluster: Any, engine: RayEngine, tmp_path: Path, how: str
) -> None:
    """The submitter is killed, or has only handed over; another one starts the same, and it does not run twice."""
    os.mkfifo(tmp_path / "go")
    text = "echo $$ >>begun; read line <go; echo $line >&2; exit 5"
    root = Path(__file__).parents[3]
    argv = [sys.executable, "-c", _SUBMITTER, cluster.address, str(tmp_path), text, how]
    submitter = subprocess.Popen(argv, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    worker = _pid(tmp_path / "begun")
    if how == "wait":
        submitter.kill()
    assert submitter.wait() == (-signal.SIGKILL if how == "wait" else 0)

    engine.start(_shell("t", text, tmp_path))
    assert engine.poll(0) == []
    assert table.is_alive(worker)
    (tmp_path / "go").write_text("gone on\n")

    assert _ends(engine, 1) == {"t": Ended("t", 5, "gone on")}
    assert (tmp_path / "begun").read_text().split() == [str(worker)]


def test_the_same_task_can_be_started_again_once_it_has_ended(engine: RayEngine, tmp_path: Path) -> None:
    order = _shell("t", "echo x >>runs; exit $(wc -l <runs)", tmp_path)

    ends = [_all(engine, [order])["t"].code for _ in range(3)]

    assert ends == [1, 2, 3]


def test_what_starts_workers_is_killed(cluster: Any, engine: RayEngine, tmp_path: Path) -> None:
    """Another one is started by who waits; the worker has ended with the first, and is started once more."""
    engine.start(_shell("t", "echo $$ >>begun; test $(wc -l <begun) = 2 || sleep 1000", tmp_path))
    engine.poll(0)
    first = _pid(tmp_path / "begun")

    raylet = cluster.head_node.all_processes["raylet"][0].process.pid
    keepers = [pid for pid in table.descendants(raylet) if table.argv(pid)[0].startswith("ray::Keeper")]
    assert keepers
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)

    assert _ends(engine, 1) == {"t": Ended("t", 0)}
    wait_until(lambda: not table.is_alive(first), "the first worker goes on")


def test_the_process_that_talks_to_the_cluster_is_killed(cluster: Any, tmp_path: Path) -> None:
    """Ray ends it where its part of the cluster is lost."""
    engine = RayEngine(address=cluster.address, retries=0)
    engine.start(_shell("t", "true", tmp_path))
    (process,) = [
        pid for pid in table.descendants(os.getpid()) if "git_agentos.fleet.engines.ray_driver" in table.argv(pid)
    ]
    os.kill(process, signal.SIGKILL)

    with pytest.raises(FleetError, match="the connection to the Ray cluster is lost"):
        engine.poll(1)
    with pytest.raises(FleetError, match="the connection to the Ray cluster is lost"):
        engine.end()
    engine.end()


def test_a_lost_node_s_worker_runs_elsewhere(cluster: Any, engine: RayEngine, tmp_path: Path) -> None:
    nodes = [ray_clusters.add(cluster, num_cpus=1, labels={"zone": "lost"}) for _ in range(2)]
    text = "echo $$ >>{0}; test $(wc -l <{0}) = 2 || sleep 1000"
    try:
        engine.start(_shell("again", text.format("again"), tmp_path, labels={"zone": "lost"}))
        engine.poll(0)
        first = _pid(tmp_path / "again")
        holder = next(node for node in nodes if _is_below(first, node))
        cluster.remove_node(holder, allow_graceful=False)
        ends = _ends(engine, 1)
    finally:
        for node in nodes:
            if node in cluster.worker_nodes:
                cluster.remove_node(node)

    assert ends == {"again": Ended("again", 0)}
    wait_until(lambda: not table.is_alive(first), "the worker of the lost node goes on")


def test_a_worker_that_may_not_run_again_is_given_up(cluster: Any, tmp_path: Path) -> None:
    node = ray_clusters.add(cluster, num_cpus=1, labels={"zone": "lost"})
    engine = RayEngine(address=cluster.address, retries=0)
    engine.check([])
    engine.start(_shell("t", "echo $$ >begun; sleep 1000", tmp_path, labels={"zone": "lost"}))
    engine.poll(0)
    _pid(tmp_path / "begun")

    cluster.remove_node(node, allow_graceful=False)
    ends = _ends(engine, 1)
    engine.end()

    assert ends["t"].code is None
    assert ends["t"].detail


def _is_below(pid: int, node: Any) -> bool:
    """Whether a process descends from a node's."""
    raylet = node.all_processes["raylet"][0].process.pid
    return pid in table.descendants(raylet)


@pytest.mark.parametrize("address", ["nowhere.invalid:6379", "127.0.0.1:1"])
def test_an_address_where_nothing_answers(address: str) -> None:
    with pytest.raises(FleetError, match=f"the Ray cluster at '{address}' cannot be reached: "):
        RayEngine(address=address, retries=2).check([])


def test_an_address_where_something_else_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections, and says nothing."""
    monkeypatch.setattr("git_agentos.fleet.engines.ray._LONGEST_CONNECT", 10.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(FleetError, match=f"the Ray cluster at '{address}' cannot be reached: "):
            RayEngine(address=address, retries=2).check([])


def test_another_version_of_ray(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both versions are named."""
    import ray

    (tmp_path / "sitecustomize.py").write_text("import ray\nray.__version__ = '2.0.1'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(FleetError, match=r"cannot be reached: .*ersion") as caught:
        RayEngine(address=cluster.address, retries=2).check([])
    assert ray.__version__ in caught.value.message and "2.0.1" in caught.value.message


@pytest.mark.parametrize("address", ["head", "head:", "ray://head:10001"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError, match=f"'{address}' is no address of a Ray cluster"):
        RayEngine(address=address, retries=2).check([])
