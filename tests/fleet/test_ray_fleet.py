"""A whole fleet on a Ray cluster of several nodes: two are lost, one is cut off, and who has submitted it is killed.

Each node has a folder for clones, and a git configuration of its own: to workers, it is a machine. The remote is a bare
repository behind git's own daemon. `make test-ray` takes 200 runs; by itself, the test takes fewer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("ray")

from git_agentos.fleet import acceptance
from git_agentos.process import table
from tests.support import fleets, ray_clusters, remotes
from tests.support.fleets import FLEET, Machine
from tests.support.repo import Repo, git
from tests.support.runs import context_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own

_RUNS = int(os.environ.get("AGENTOS_TEST_FLEET_RUNS", "24"))
_PATIENCE = 3600.0  # seconds; the machine may be busy with other things
_PAUSE = 0.2
_CUT = "cut"
# It runs on the node that is cut off, and waits for a file beside the clones of its machine.
_SLOW = 'until [ -e "$AGENTOS_FLEET_DIR.go" ]; do sleep 0.2; done; echo cut >cut.txt'
_OF_RAY = re.compile(rb"(?i)\bray|gcs|grpc|actor|dashboard|warning")


def _wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(_PAUSE)


@dataclass
class _Site(fleets.Site):
    served: str = ""

    @property
    def url(self) -> str:
        return self.served


class _Machine(Machine):
    """A machine with a configuration of git's. `clones` need not exist."""

    @property
    def _config(self) -> Path:
        return self.folder.with_suffix(".gitconfig")

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
        return {**super().environment, "PATH": path, "GIT_CONFIG_GLOBAL": str(self._config)}

    def heal(self) -> None:
        self._configure("")

    def _configure(self, more: str) -> None:
        """Replace the configuration, which git reads meanwhile."""
        new = self._config.with_suffix(".new")
        new.write_text(Path(os.environ["GIT_CONFIG_GLOBAL"]).read_text() + more)
        new.replace(self._config)

    def cut_off(self) -> None:
        """From now on, nothing answers where the remote is."""
        base = self.site.url.rpartition("/")[0]
        self._configure(f'[url "git://127.0.0.1:1"]\n\tinsteadOf = {base}\n')

    def may_go_on(self) -> None:
        self.folder.with_name(self.folder.name + ".go").touch()

    def begun(self) -> set[str]:
        """The tasks that workers of this machine have begun, and are not done with."""
        files = self.folder.glob("*/repository/.git/agentos/fleet/*.json")
        found = set()
        for each in files:
            with contextlib.suppress(OSError, ValueError):
                found.add(json.loads(each.read_bytes())["task"])
        return found


def _lose(cluster: Any, node: Any, is_time: Callable[[], object]) -> None:
    """All processes of a node are killed at once, as where its machine loses its power: when it `is_time`."""
    raylet = node.all_processes["raylet"][0].process.pid
    while True:
        _wait(is_time, "the node has nothing to do")
        frozen: set[int] = set()
        while new := {raylet, *table.descendants(raylet)} - frozen:  # none can start another one then
            for pid in new:
                _send(pid, signal.SIGSTOP)
            frozen |= new
        if is_time():
            break
        for pid in frozen:
            _send(pid, signal.SIGCONT)
        time.sleep(_PAUSE)
    for pid in frozen:
        _send(pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class _Submitter:
    """`fleet submit`, in a process of its own."""

    def __init__(self, desk: _Machine, file: Path, address: str) -> None:
        words = ("fleet", "submit", str(file), "--engine", "ray", "--address", address)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.child = subprocess.Popen(
            [sys.executable, "-m", "git_agentos", "--json", *words],
            cwd=desk.site.repo.path,
            env=desk.environment,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that happens while this one waits for the fleet."""
        _wait(lambda: condition() or self.child.poll() is not None, f"{what}: {self.said()!r}")
        assert self.child.poll() is None, self.said()

    def said(self) -> bytes:
        self._errors.seek(0)
        return self._errors.read()

    def end(self) -> Any:
        """Its document, once every task has passed."""
        out, _ = self.child.communicate(timeout=_PATIENCE)
        assert self.child.returncode == 0, (out[:2000], self.said())
        return json.loads(out)


def _tasks(file: Path) -> None:
    rows: list[Mapping[str, Any]] = [
        {"id": _CUT, "agent": _SLOW, "validate": "true", "labels": {"machine": "cut"}},
        *({"id": f"t{n}", "agent": f"echo {n} >t{n}.txt", "validate": f"grep -qx {n} t{n}.txt"} for n in range(_RUNS)),
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _work(machine: _Machine, task: str) -> None:
    """A worker, to its end."""
    with machine.begin(task) as child:
        said = child.communicate(timeout=_PATIENCE)
    assert child.returncode == 0, said


def _workers(folder: Path) -> list[int]:
    """Workers of this test that live."""
    return [pid for pid in table.pids() if "worker" in table.argv(pid) and str(folder) in " ".join(table.argv(pid))]


def test_every_task_has_one_result_whatever_is_lost(repo: Repo, tmp_path: Path) -> None:
    shared = remotes.make_bare(tmp_path, repo)
    with remotes.git_daemon(tmp_path) as base, contextlib.ExitStack() as stack:
        site = _Site(repo, shared, tmp_path, served=f"{base}/{shared.name}")
        remotes.connect(repo, site.url, "desk")
        machines = [_Machine(site, name) for name in ("one", "two", "three", "four", "desk", "elsewhere")]
        for machine in machines:
            machine.heal()
        *nodes, desk, elsewhere = machines
        cut = nodes[-1]
        file = tmp_path / f"{FLEET}.jsonl"
        _tasks(file)

        with ray_clusters.variables(desk.environment):
            cluster, _ = stack.enter_context(ray_clusters.cluster({"num_cpus": 0}))
        made = []
        for machine in nodes:
            more = {"num_cpus": 2, "labels": {"machine": "cut"}} if machine is cut else {"num_cpus": 1}
            with ray_clusters.variables(machine.environment):
                made.append(ray_clusters.add(cluster, **more))

        def results() -> dict[str, str]:
            return {ref.removeprefix("results/"): oid for ref, oid in site.refs().items() if ref.startswith("results/")}

        first = _Submitter(desk, file, cluster.address)
        first.wait_for(lambda: len(results()) >= _RUNS // 6, "no results come")
        first.child.kill()  # who has submitted is gone
        first.child.communicate()

        second = _Submitter(desk, file, cluster.address)
        second.wait_for(lambda: len(results()) >= _RUNS // 4, "no more results come")
        _lose(cluster, made[0], lambda: nodes[0].begun() - results().keys())
        second.wait_for(lambda: len(results()) >= _RUNS // 2, "no results come once a node is lost")
        _lose(cluster, made[1], lambda: nodes[1].begun() - results().keys())
        before = results()

        second.wait_for(lambda: f"live/{_CUT}" in site.refs(), "the task does not say that it runs")
        cut.cut_off()
        cut.may_go_on()
        elsewhere.may_go_on()  # another worker does the task, as an engine may start it twice
        _work(elsewhere, _CUT)
        counts = results()[_CUT]
        assert _CUT in cut.begun()
        cut.heal()

        found = second.end()
        assert found["counts"]["passed"] == len(found["tasks"]) == _RUNS + 1
        after = site.refs()
        assert sorted(after) == sorted(["tasks", *(f"results/{task['id']}" for task in found["tasks"])])
        assert {task: after[f"results/{task}"] for task in before} == before  # none was replaced
        assert after[f"results/{_CUT}"] == counts
        _wait(lambda: _CUT not in cut.begun(), "the worker that was cut off goes on")

        third = _Submitter(desk, file, cluster.address)
        assert third.end() == found
        assert site.refs() == after
        for each in (first, second, third):
            said = each.said().replace(b"by the engine ray", b"")
            assert not _OF_RAY.search(said), said

        stack.close()  # the cluster ends
        _wait(lambda: not _workers(tmp_path), "a worker has outlived the cluster")
        # What was on lost machines is removed when these are back, by their next worker.
        for machine in nodes[:2]:
            _work(machine, "t0")
        _nothing_is_left(nodes, elsewhere, cut)
        _all_is_merged_once(repo, [task["id"] for task in found["tasks"]])


def _nothing_is_left(nodes: list[_Machine], elsewhere: _Machine, cut: _Machine) -> None:
    found = {machine.name: machine.left() for machine in (*nodes, elsewhere)}
    refused = found.pop(cut.name)
    assert found == {machine.name: {} for machine in (*nodes, elsewhere) if machine is not cut}
    # The evidence of a run that was refused stays on its machine, with the run.
    run = f"{FLEET}-{_CUT}"
    assert refused == {
        "evidence": [run],
        "refs": [f"refs/agentos/runs/{run}", f"refs/agentos/timelines/run-{run}"],
        "files": [f"agentos/runs/{run}.turn"],
    }


def _all_is_merged_once(repo: Repo, tasks: list[str]) -> None:
    fetched = repo.text("for-each-ref", "--format=%(refname)", f"refs/agentos/fleets/origin/{FLEET}/live")
    assert fetched == ""
    argv = [sys.executable, "-m", "git_agentos", "--json", "fleet", "collect", FLEET]
    collected = json.loads(subprocess.run(argv, cwd=repo.path, check=True, capture_output=True).stdout)
    assert ([each["task"] for each in collected["results"]], collected["refused"]) == (tasks, [])

    base = repo.oid("HEAD")
    context = context_of(repo)
    made = acceptance.accept(context, FLEET)
    assert sorted(each.task for each in made.merged) == sorted(tasks)
    assert (made.conflicts, made.refused) == ((), ())
    again = acceptance.accept(context, FLEET)
    assert (again.merged, again.before) == ((), made.merge_commit)
    assert len(repo.text("rev-list", "--merges", f"{base}..HEAD").split()) == len(tasks)
    for number in range(_RUNS):
        assert (repo.path / f"t{number}.txt").read_text() == f"{number}\n"
    assert git(repo.path, "fsck", "--strict", "--no-dangling") == b""
