"""The same file of tasks by each engine: the same results, by whichever their workers were started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import fleets
from tests.support.fleets import Site
from tests.support.repo import Repo, git

_FILE = """
[[task]]
id = "passes"
agent = "echo \\"$GREETING\\" >made.txt"
validate = ["test -s made.txt", "grep -q hello made.txt"]
cpus = 1

[[task]]
id = "fails"
agent = "echo other >made.txt"
validate = "grep -q hello made.txt"
max_attempts = 2

[[task]]
id = "sampled"
samples = 2
agent = "echo hello >made.txt"
validate = "true"
memory = "64m"

[[task]]
id = "of-an-older-base"
base = "HEAD~1"
agent = "git rev-parse HEAD^{tree} >made.txt"
validate = "true"
"""
# What becomes of a worker that a queue has started: nobody waits for it.
_QUEUE = "sh -c {command} </dev/null >/dev/null 2>&1 &"


def _environment(site: Site) -> dict[str, str]:
    """What a person has, and every machine: the commands of this environment are on PATH."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    return {**site.environment, "PATH": path, "GREETING": "hello", "AGENTOS_FLEET_DIR": str(site.folder / "machine")}


def _results(site: Site, name: str, *options: str) -> Mapping[str, Any]:
    """Submit the file, and wait; what each task's result says, and the files that it leaves."""
    path = site.folder / "tasks.toml"
    path.write_text(_FILE)
    words = ("fleet", "submit", str(path), "--name", name, "--pass-env", "GREETING", "--remote", "origin", *options)
    argv = [sys.executable, "-m", "git_agentos", "--json", *words]
    environment = {**os.environ, **_environment(site)}
    done = subprocess.run(argv, cwd=site.repo.path, env=environment, capture_output=True)
    assert done.returncode == 1, done  # one task fails
    found = {}
    for task in json.loads(done.stdout)["tasks"]:
        tree = git(site.shared, "ls-tree", "-r", f"refs/agentos/fleet/{name}/results/{task['id']}^1").decode()
        found[task["id"]] = (task["state"], task["outcome"], task["attempts"], task["detail"], tree)
    refs = git(site.shared, "for-each-ref", "--format=%(refname)", f"refs/agentos/fleet/{name}/").decode().split()
    assert sorted(refs) == sorted(
        [f"refs/agentos/fleet/{name}/tasks", *(f"refs/agentos/fleet/{name}/results/{task}" for task in found)]
    )
    return found


def _expected(site: Site) -> Mapping[str, Any]:
    """By the engine local; what it says is right is said here as well."""
    found = _results(site, "local", "--engine", "local", "--max-parallel", "2")
    assert {task: each[:3] for task, each in found.items()} == {
        "passes": ("passed", "ok", 1),
        "fails": ("failed", "failed", 1),
        "sampled.1": ("passed", "ok", 1),
        "sampled.2": ("passed", "ok", 1),
        "of-an-older-base": ("passed", "ok", 1),
    }
    return found


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


def test_local_and_command(site: Site) -> None:
    assert _results(site, "command", "--engine", "command", "--command", _QUEUE) == _expected(site)


@pytest.mark.slow
def test_local_and_ray(site: Site) -> None:
    pytest.importorskip("ray")
    from tests.support import ray_clusters

    of_nodes = {name: value for name, value in _environment(site).items() if name != "GREETING"}
    with ray_clusters.variables(of_nodes), ray_clusters.cluster({"num_cpus": 1}, {"num_cpus": 1}) as (cluster, _):
        found = _results(site, "ray", "--engine", "ray", "--address", cluster.address)

    assert found == _expected(site)
