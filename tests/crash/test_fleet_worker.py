"""A worker that is killed at any step: the next one brings the task to its one result, and nothing else is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import fleets
from tests.support.faults.server import Ended, Runner
from tests.support.fleets import Machine, Site
from tests.support.repo import Repo, git
from tests.support.sampling import EXHAUSTIVE, budget, evenly
from tests.support.waiting import wait_until

_BUDGET = 16


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["0", "1h"])
def test_a_worker(runner: Runner, site: Site, interval: str) -> None:
    site.configure("agentos.fleet.liveInterval", interval)
    killing = _Killing(runner, site)
    total = len(killing.steps)
    for step in evenly(list(range(1, total + 1)), total if EXHAUSTIVE else budget(_BUDGET)):
        killing.kill(step, killing.two if step % 3 == 0 else killing.one)
    git(site.shared, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")


@pytest.mark.slow
def test_a_worker_that_deletes_folders(runner: Runner, site: Site) -> None:
    """Its task is done elsewhere then: of a folder that is deleted in part, another worker cannot tell what it was."""
    site.configure("agentos.fleet.liveInterval", "1h")
    killing = _Killing(runner, site)
    deleting = [n for n, step in enumerate(killing.steps, 1) if re.match(r"os\.(remove|rmdir) [^/]", step)]
    assert deleting
    for step in evenly(deleting, len(deleting) if EXHAUSTIVE else budget(_BUDGET)):
        killing.kill(step, killing.two)
    git(site.shared, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")


class _Killing:
    """Workers on two machines. `steps` are those of one that is not killed."""

    def __init__(self, runner: Runner, site: Site) -> None:
        self.runner, self.site = runner, site
        steps = [{"kind": "agent", "command": "echo x >f"}, {"kind": "validate", "command": "grep -q x f"}]
        site.submit(*({"id": id_, "steps": steps} for id_ in ("on-one", "on-two", *(f"t{n}" for n in range(3000)))))
        self.one, self.two = site.machine("one"), site.machine("two")
        for machine in (self.one, self.two):  # the clones are made, and there are prepared worktrees
            self._work(f"on-{machine.name}", machine)
        self.steps = self._work("t0", self.one).steps

    def _work(self, task: str, machine: Machine) -> Ended:
        return self.runner.run_ok(self.site.folder, *self._words(task), env=machine.variables)

    def _words(self, task: str) -> tuple[str, ...]:
        return ("fleet", "worker", fleets.FLEET, task, "--remote", self.site.url)

    def kill(self, step: int, next_one: Machine) -> None:
        """Kill a worker of the first machine before a step; the next worker of its task is on `next_one`."""
        site, task = self.site, f"t{step + 10}"
        mode = "kill-group" if step % 2 else "kill"
        done = self.runner.run(site.folder, *self._words(task), step=step, mode=mode, env=self.one.variables)
        what = f"killed before step {step} of {len(self.steps)}: {done.steps[-1]}"
        if done.code == 0 and len(done.steps) < step:
            return
        assert done.code == -9, f"{what}\n{done}"
        again = self.runner.run(site.folder, *self._words(task), env=next_one.variables)
        assert again.code == 0, f"{what}\n{again}"
        if next_one is self.two:
            self._work("t0", self.one)  # any worker of the first machine
        there = site.refs()
        assert f"results/{task}" in there, what
        assert not [ref for ref in there if ref.startswith("live/")], what
        assert site.show(task, "f") == b"x\n", what
        for machine in (self.one, self.two):
            # A process that prepares the next worktree for the pool goes on behind the worker.
            wait_until(lambda machine=machine: machine.left() == {}, f"nothing is left: {what} ({machine.name})")  # type: ignore[misc]
            assert len(machine.pool()) <= 1, what
