"""A worker that is killed at any step: the next one brings the task to its one result, and nothing else is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import fleets
from tests.support.faults.server import Runner
from tests.support.fleets import Site
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
    steps = [{"kind": "agent", "command": "echo x >f"}, {"kind": "validate", "command": "grep -q x f"}]
    site.submit(*({"id": id_, "steps": steps} for id_ in ("on-one", "on-two", *(f"t{n}" for n in range(3000)))))
    one, two = site.machine("one"), site.machine("two")

    def words(task: str) -> tuple[str, ...]:
        return ("fleet", "worker", fleets.FLEET, task, "--remote", site.url)

    environment = one.variables
    for machine in (one, two):  # the clones are made, and there are prepared worktrees
        runner.run_ok(site.folder, *words(f"on-{machine.name}"), env=machine.variables)
    total = len(runner.run_ok(site.folder, *words("t0"), env=environment).steps)
    for step in evenly(list(range(1, total + 1)), total if EXHAUSTIVE else budget(_BUDGET)):
        task = f"t{step + 10}"
        mode = "kill-group" if step % 2 else "kill"
        done = runner.run(site.folder, *words(task), step=step, mode=mode, env=environment)
        what = f"killed before step {step} of {total}: {done.steps[-1]}"
        if done.code == 0 and len(done.steps) < step:
            continue
        assert done.code == -9, f"{what}\n{done}"
        next_one = two if step % 3 == 0 else one
        again = runner.run(site.folder, *words(task), env=next_one.variables)
        assert again.code == 0, f"{what}\n{again}"
        if next_one is two:
            runner.run_ok(site.folder, *words("t0"), env=environment)  # any worker of the first machine
        there = site.refs()
        assert f"results/{task}" in there, what
        assert not [ref for ref in there if ref.startswith("live/")], what
        assert site.show(task, "f") == b"x\n", what
        for machine in (one, two):
            # A process that prepares the next worktree for the pool goes on behind the worker.
            wait_until(lambda machine=machine: machine.left() == {}, f"nothing is left: {what} ({machine.name})")  # type: ignore[misc]
            assert len(machine.pool()) <= 1, what
    git(site.shared, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
