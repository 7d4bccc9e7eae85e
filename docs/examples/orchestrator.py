"""An orchestrator: an agent for each task, side by side; what passes its tests goes into a branch, the rest goes back.

    python orchestrator.py REPOSITORY --agent 'claude -p "do $AGENTOS_TASK_ID"' --validate 'make test' TASK...

Everything that it does is git-agentos' Python API (docs/api.md). The agents never decide: exit codes do, and this.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from git_agentos import AgentosError, open_workspace
from git_agentos.run import accept, commands, spec
from git_agentos.run.events import PASSED, Run, Step


class Teller:
    """Says on stderr how a run goes; `commands.start` tells it."""

    def prepared(self, run: Run) -> None:
        self._say(run, "begins")

    def step_begins(self, run: Run, step: Step) -> None:
        self._say(run, f"{step.kind}, attempt {step.attempt}")

    def output(self, line: bytes) -> None:
        """A line that the command said. It is in the evidence, too."""

    def step_ended(self, run: Run, step: Step) -> None:
        self._say(run, f"{step.kind}: {step.outcome}")

    def _say(self, run: Run, what: str) -> None:
        print(f"{run.task_id}: {what}", file=sys.stderr, flush=True)


def work(repository: str, agent: str, validation: str, base: str, task: str) -> Run:
    """One run, from its beginning to its end. Each is done in a process of its own: a signal interrupts all of them."""
    wanted = spec.from_options(
        [agent], [validation], task=task, base_ref=base, max_attempts=2, timeout=1800.0, retry_from="here"
    )
    return commands.start(open_workspace(repository).context, wanted, Teller())


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

    context = open_workspace(given.repository).context
    left = 0
    for run in runs:
        if run.state != PASSED:
            left += 1
            print(f"{run.task_id}: {run.state}: {run.reason}")
            if run.context is not None:
                # Everything that the agent did is saved first; `undo` in the worktree would bring it back.
                back = commands.rollback(context, run.run_id, "pre_run")
                print(f"{run.task_id}: taken back to {back.head}, saved as {back.saved}")
            continue
        try:
            _, merge = accept.accept(context, run.run_id, into=given.base)
        except AgentosError as error:
            left += 1
            print(f"{run.task_id}: not accepted: {error}")
            continue
        if merge.conflicts:
            left += 1
            files = sorted({path for each in merge.conflicts for path in each.files})
            print(f"{run.task_id}: passed, but conflicts with what is in {given.base}: {', '.join(files)}")
        else:
            print(f"{run.task_id}: in {given.base}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
