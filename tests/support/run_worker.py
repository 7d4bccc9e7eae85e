"""A kernel in a process of its own: `python run_worker.py REPOSITORY VERB RUN [SPEC [WHEN N]]` does what VERB
says (`start` or `resume`) and prints the state that the run is in then.

SPEC is a file with the description of the run. With WHEN and N the process kills itself (SIGKILL) at the N-th event
that it puts on record: `before` it is there, or right `after`. Commands of the run find its process id in KERNEL.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from git_agentos import open_workspace
from git_agentos.run import commands, spec
from git_agentos.run.evidence import Evidence


def main(repository: str, verb: str, run_id: str, path: str = "", when: str = "", n: str = "0") -> None:
    os.environ["KERNEL"] = str(os.getpid())
    context = open_workspace(repository).context
    if when:
        _strike(when, int(n))
    if verb == "resume":
        run = commands.resume(context, run_id)
    else:
        with open(path, encoding="utf-8") as file:
            wanted = spec.from_json(file.read(), path)
        run = commands.start(context, wanted)
    print(run.state)


def _strike(when: str, n: int) -> None:
    put = Evidence.event
    count = 0

    def event(evidence: Evidence, kind: str, /, **fields: Any) -> None:
        nonlocal count
        count += 1
        if (when, count) == ("before", n):
            os.kill(os.getpid(), signal.SIGKILL)
        put(evidence, kind, **fields)
        if (when, count) == ("after", n):
            os.kill(os.getpid(), signal.SIGKILL)

    Evidence.event = event  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
