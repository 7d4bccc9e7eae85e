"""Runs a workflow in a process of its own, which may kill itself.

`python -m tests.support.tdd_worker ROOT VERB SCRIPT [STRIKE]`: VERB is `start`, or an id to resume. STRIKE is
`begins N3` or `ended N3`, the event when it dies. `ended` is when a node has done all of its work, and the graph does
not know it yet.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from git_agentos.tdd.state import Record, Workflow
from tests.support.repo import Repo
from tests.support.tdd_project import Person, resume, start


class Victim(Person):
    """Approves; and is killed, with everything that it is a part of, when it hears a certain thing."""

    strike = ""

    def node_begins(self, workflow: Workflow, node: str) -> None:
        super().node_begins(workflow, node)
        self._look()

    def node_ended(self, workflow: Workflow, record: Record) -> None:
        super().node_ended(workflow, record)
        self._look()

    def _look(self) -> None:
        if self.heard[-1] == self.strike:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    root, verb, script, *strike = sys.argv[1:]
    person = Victim(["approve"])
    person.strike = " ".join(strike)
    repo = Repo(Path(root))
    workflow = start(repo, script, person) if verb == "start" else resume(repo, verb, person)
    print(workflow.state)


if __name__ == "__main__":
    main()
