"""The simulation of fleets: its script runs, and what it says follows from what it is given."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from tests.support.env import PROJECT_ROOT

_SCRIPT = PROJECT_ROOT / "bench/fleet_simulation.py"


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fleet_simulation", _SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fleet_simulation"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_script_measures_and_simulates() -> None:
    out = subprocess.run([sys.executable, str(_SCRIPT), "--tiny"], capture_output=True, check=True, text=True).stdout

    lines = out.splitlines()
    assert lines[0] == "10 machines, 50 runs of 10 minutes in 3 steps"
    costs = [line.split()[0] for line in lines[2:6]]
    assert costs == ["list", "fetch", "live", "settle"]
    assert len([line for line in lines if "x as long as without any wait" in line]) == 5


def test_each_run_has_one_result_whatever_is_refused(simulation: ModuleType) -> None:
    work = simulation.Work(machines=20, runs=200, minutes=0.5)
    for server in simulation.SERVERS:
        out = simulation.simulate(server, work)
        assert out.operations["settle"] == 200, server.name
        assert out.operations["fetch"] == 20
        assert out.ratio >= 1
        assert out.most_refs == 201
        assert out == simulation.simulate(server, work)


def test_a_limit_costs_time_and_is_kept(simulation: ModuleType) -> None:
    """6 pushes a minute: 200 results take half an hour at least, whoever makes them."""
    work = simulation.Work(machines=50, runs=200, minutes=0.1, interval=1e9)
    free, slow = (simulation.simulate(simulation.Server("", pushes=pushes), work) for pushes in (None, 6))

    assert free.refused == 0
    assert free.seconds < 300
    assert slow.refused > 200
    assert slow.seconds > 200 / 6 * 60 - 60


def test_more_refs_are_more_bytes(simulation: ModuleType) -> None:
    few, many = (simulation.simulate(simulation.SERVERS[0], simulation.Work(20, 200, others=n)) for n in (0, 10_000))

    assert many.bytes > 50 * few.bytes
    assert simulation.cost(simulation.MEASURED, "list", 20_000).bytes > 1.9 * 839_427


def test_a_slow_server_needs_longer_runs(simulation: ModuleType) -> None:
    work = simulation.Work(machines=50, runs=100)
    quick, slow = (simulation.shortest(server, work) for server in (simulation.SERVERS[0], simulation.SERVERS[-1]))

    assert slow > 10 * quick
