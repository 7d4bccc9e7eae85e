"""A Ray cluster that is lost, or was; and one that is started for a submission, and ends with it."""

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

pytest.importorskip("ray")

from git_agentos.errors import FleetError
from git_agentos.fleet.engines.port import Order
from git_agentos.fleet.engines.ray import RayEngine
from git_agentos.process import table
from tests.support import fleets, ray_clusters
from tests.support.fleets import Site, waits_for
from tests.support.repo import Repo
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own

_PATIENCE = 600.0  # seconds; a cluster takes long to start on a busy machine


@pytest.fixture
def alone() -> Iterator[None]:
    """There is no cluster on this machine."""
    with ray_clusters.alone():
        assert _of_ray() == set()
        yield
        wait_until(lambda: not _of_ray(), "Ray goes on", patience=_PATIENCE)


def _of_ray() -> set[int]:
    """The processes that make a node of a cluster."""
    return {pid for pid in table.pids() if os.path.basename((table.argv(pid) or [""])[0]) in ("raylet", "gcs_server")}


def _lose(cluster: Any) -> None:
    """All processes of the head node are killed."""
    started = [each.process.pid for kind in cluster.head_node.all_processes.values() for each in kind]
    below = [each for pid in started for each in table.descendants(pid)]
    for pid in (*started, *below):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_cluster_is_lost_while_workers_are_waited_for(tmp_path: Path) -> None:
    """That is an error, and not the end of this process, which Ray ends where it is in."""
    with ray_clusters.cluster({"num_cpus": 1}) as (cluster, _):
        engine = RayEngine(address=cluster.address, retries=2)
        engine.check([])
        pid = tmp_path / "pid"
        text = f"echo $$ >'{pid}.new'; mv '{pid}.new' '{pid}'; sleep 1000"
        engine.start(Order("t", ("sh", "-c", text, str(tmp_path), "t")))
        engine.poll(0)
        wait_until(pid.exists, "the worker does not begin", patience=_PATIENCE)

        _lose(cluster)
        with pytest.raises(
            FleetError, match=r"the connection to the Ray cluster is lost|the Ray cluster does not answer"
        ):
            while True:
                engine.poll(1)
        with contextlib.suppress(FleetError):
            engine.end()
        wait_until(lambda: not table.is_alive(int(pid.read_text())), "the worker goes on")


def test_a_cluster_that_was_lost_is_not_looked_for(alone: None) -> None:
    """Ray has written down its address."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, "object_store_memory": 100 << 20})
    _lose(made)
    made.shutdown()

    engine = RayEngine(address=None, retries=0)
    engine.check([])
    assert _of_ray()
    engine.end()


@pytest.fixture
def site(alone: None, repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


def _submit(site: Site, agent: str) -> subprocess.Popen[bytes]:
    file = site.folder / f"{fleets.FLEET}.jsonl"
    file.write_text(json.dumps({"id": "t", "agent": agent, "validate": "true"}) + "\n")
    argv = [sys.executable, "-m", "git_agentos", "--json", "fleet", "submit", str(file), "--engine", "ray"]
    environment = site.machine("machine").environment
    return subprocess.Popen(argv, cwd=site.repo.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_cluster_for_one_submission(site: Site) -> None:
    """It says nothing of itself, and ends; its workers get what this process gets of the processors."""
    out, err = _submit(site, "nice >x").communicate(timeout=_PATIENCE)

    assert json.loads(out)["counts"]["passed"] == 1, err
    lines = err.decode().splitlines()
    assert all(line.startswith(("fleet f on origin: ", "t ", "t:")) for line in lines), lines
    assert int(site.show("t", "x")) == os.nice(0)
    assert site.machine("machine").left() == {}


def test_who_submits_is_killed_and_so_ends_the_cluster(site: Site) -> None:
    go, begun = site.folder / "go", site.folder / "begun"
    agent = f"touch '{begun}'; {waits_for(go)}; echo x >x"
    child = _submit(site, agent)
    wait_until(begun.exists, "the worker does not begin", patience=_PATIENCE)
    child.kill()
    child.communicate()
    wait_until(lambda: not _of_ray(), "the cluster goes on", patience=_PATIENCE)

    go.touch()
    out, err = _submit(site, agent).communicate(timeout=_PATIENCE)
    assert json.loads(out)["counts"]["passed"] == 1, err
    assert site.machine("machine").left() == {}
