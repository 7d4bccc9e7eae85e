"""Commands that change a repository and its remote, killed step by step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.support import at_rest
from tests.support.faults.server import FaultCase, Runner, assert_sound, sample_steps, snapshot
from tests.support.repo import Repo


class Case:
    """A repository and its remote, made ready for a command, and made ready again for each attempt."""

    def __init__(self, repo: Repo, shared: Path, *argv: str) -> None:
        self.repo, self.shared, self.argv = repo, shared, argv
        for path in (repo.path, shared):
            at_rest.copy(path, self._template(path))

    def _template(self, path: Path) -> Path:
        return path.with_name(path.name + ".template")

    def fresh(self) -> None:
        shutil.rmtree(self.repo.path.with_name(self.repo.path.name + ".worktrees"), ignore_errors=True)
        for path in (self.repo.path, self.shared):
            at_rest.copy(self._template(path), path)

    def killed(self, runner: Runner, most: int = 24) -> Iterator[str]:
        """Kill the command at one step after the other, at most so many unless all are run; where it was killed."""
        self.fresh()
        before = snapshot(self.repo)
        done = runner.run_ok(self.repo.path, *self.argv)
        case = FaultCase(self.repo.path, self.repo.path, self.argv, before, before, done.steps)
        for step in sample_steps(case, most):
            self.fresh()
            done = runner.run(self.repo.path, *self.argv, step=step, mode="kill-group" if step % 2 else "kill")
            if done.code == 0 and len(done.steps) < step:
                continue
            assert done.code == -9, str(done)
            yield f"killed before step {step}: {done.steps[-1]}"


def assert_sound_after(runner: Runner, repo: Repo, what: str) -> None:
    """Nothing is left of it once `recover` has removed the locks of the process that was killed."""
    runner.run_ok(repo.path, "recover")
    assert_sound(repo, what)
