"""What `status` and `doctor` say of runs: those that were interrupted, and wait to be gone on with or taken back.

One that is open waits for nobody here: whoever drives it goes on with it.
"""

from __future__ import annotations

from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.doctor import Finding
from git_agentos.errors import AgentosError
from git_agentos.run.kernel import kernel
from git_agentos.run.record.events import INTERRUPTED, OPEN, RUNNING, TAMPERED, TDD, Run


def interrupted(context: Context) -> list[str]:
    """The ids of the runs that wait, newest first; one that was taken back does not."""
    return [each.run_id for each in kernel.all_(context) if _waits(each)]


def open_(context: Context, tool: str = TDD) -> list[str]:
    """The ids of the runs that `tool` drives and that have not ended, newest first."""
    return [each.run_id for each in kernel.all_(context) if each.tool == tool and each.state in (OPEN, RUNNING)]


def examine(context: Context) -> list[Finding]:
    """What is to be done about runs; which of it, is for people to decide."""
    found = []
    for each in kernel.all_(context):
        id_ = each.run_id
        if _waits(each):
            hint = f"git agentos run resume {id_} goes on with it\ngit agentos rollback {id_} takes it back"
            found.append(Finding("run-interrupted", "warning", f"run '{id_}' was interrupted", hint, False))
        elif each.problems:
            hint = f"git agentos run verify {id_} tells more\ngit agentos rollback {id_} takes it back"
            if each.state == TAMPERED:
                hint += f", git agentos run cancel {id_} puts on record that it has ended by that"
            found.append(Finding("run-damaged", "warning", "; ".join(each.problems), hint, False))
    return found


def interrupted_workflow(id_: str, node: str | None) -> Finding:
    """What is to be done about a workflow of `tdd` that was interrupted at a node."""
    where = f" at {node}" if node is not None else ""
    hint = f"git agentos tdd resume {id_} goes on with it\ngit agentos tdd abort {id_} gives it up"
    return Finding("workflow-interrupted", "warning", f"workflow '{id_}' was interrupted{where}", hint, False)


def unreadable_workflows(error: AgentosError) -> Finding:
    """What is to be done where the state of workflows cannot be read."""
    return Finding("workflow-unreadable", "warning", f"workflows cannot be read: {error}", error.hint, False)


def _waits(run: Run) -> bool:
    return run.state == INTERRUPTED and run.rolled_back_to is None and not run.problems
