"""An orchestrator: an agent for each task, side by side; what passes its tests is merged, the rest is rolled back.

    python orchestrator.py REPOSITORY --agent 'claude -p "do $AGENTOS_TASK_ID"' --validate 'make test' TASK...

Everything that it does is the Python API of git-agentos (docs/api.md). Exit codes decide, not the agents.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from git_agentos import AgentosError, OpenRepository, RunResult, RunStep, open_repository


class ProgressPrinter:
    """Prints the progress of a run on stderr."""

    def prepared(self, run: RunResult) -> None:
        self._print(run, "begins")

    def step_begins(self, run: RunResult, step: RunStep) -> None:
        self._print(run, f"{step.kind}, attempt {step.attempt}")

    def output(self, line: bytes) -> None:
        """A line that the command has written. The evidence has it too."""

    def step_ended(self, run: RunResult, step: RunStep) -> None:
        self._print(run, f"{step.kind}: {step.outcome}")

    def _print(self, run: RunResult, what: str) -> None:
        print(f"{run.task_id}: {what}", file=sys.stderr, flush=True)


def work(repository: str, agent: str, validation: str, base: str, task: str) -> RunResult:
    """One run. Each has a process of its own, since signals interrupt a run."""
    return open_repository(repository).runs.start(
        [agent],
        [validation],
        task_id=task,
        base_ref=base,
        max_attempts=2,
        timeout=1800.0,
        observer=ProgressPrinter(),
    )


def finish(repo: OpenRepository, run: RunResult, base: str) -> bool:
    """Merge a run that passed, roll back one that did not; whether it was merged."""
    if not run.passed:
        print(f"{run.task_id}: {run.state}: {run.reason}")
        if run.worktree_path is not None:
            # Everything that the agent did is saved first; `undo` in the worktree would restore it.
            done = repo.runs.rollback(run.id)
            print(f"{run.task_id}: rolled back to {done.head}, saved as {done.saved}")
        return False
    try:
        merge = repo.runs.accept(run.id, into=base).merge
    except AgentosError as error:
        print(f"{run.task_id}: not accepted: {error}")
        return False
    if merge.conflicts:
        files = sorted({path for each in merge.conflicts for path in each.files})
        print(f"{run.task_id}: passed, but conflicts with {base}: {', '.join(files)}")
        return False
    print(f"{run.task_id}: merged into {base}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("repository")
    parser.add_argument("task", nargs="+")
    parser.add_argument("--agent", required=True)
    parser.add_argument("--validate", required=True)
    parser.add_argument("--base", default="main")
    given = parser.parse_args()

    with ProcessPoolExecutor(max_workers=4) as pool:
        do = partial(work, given.repository, given.agent, given.validate, given.base)
        runs = list(pool.map(do, given.task))
    repo = open_repository(given.repository)
    merged = [finish(repo, run, given.base) for run in runs]
    return 0 if all(merged) else 1


if __name__ == "__main__":
    sys.exit(main())
