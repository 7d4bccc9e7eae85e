"""What `status` and `doctor` say of runs: those that were interrupted, and wait to be gone on with or taken back.

One that is open waits for nobody here: whoever drives it goes on with it.
"""

from __future__ import annotations

import os

from git_agentos.checkpoint.doctor import Finding
from git_agentos.checkpoint.model import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.run.kernel import kernel
from git_agentos.run.record import evidence, recovery, saved
from git_agentos.run.record.events import INTERRUPTED, OPEN, RUNNING, TAMPERED, TDD, Run


def interrupted(context: OpenWorktree) -> list[str]:
    """The ids of the runs that wait, newest first; one that was taken back does not."""
    return [each.run_id for each in kernel.all_(context) if _waits(each)]


def open_(context: OpenWorktree, tool: str = TDD) -> list[str]:
    """The ids of the runs that `tool` drives and that have not ended, newest first."""
    return [each.run_id for each in kernel.all_(context) if each.tool == tool and each.state in (OPEN, RUNNING)]


def examine(context: OpenWorktree, *, fix: bool = False) -> list[Finding]:
    """What is to be done about runs; which of it, is for people to decide. With `fix`, evidence that only git has is
    made again."""
    found = [_lost(context, run_id, fix=fix) for run_id in recovery.lost(context.location)]
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


def state_missing(id_: str, *, fixed: bool) -> Finding:
    """The finding for a workflow whose state only git still has; they are looked for by `tdd`."""
    message = f"the state of workflow '{id_}' is not in the workflow database"
    hint: str | None = "git agentos doctor --fix makes it again from git, and so does any git agentos tdd command"
    if fixed:
        message, hint = f"{message}: it was made again from git", None
    return Finding("workflow-state-missing", "warning", message, hint, fixed)


def _lost(context: OpenWorktree, run_id: str, *, fix: bool) -> Finding:
    folder = os.path.join(evidence.folder_of(context.location), run_id)
    message = f"evidence of run '{run_id}' is missing in '{folder}'"
    hint = "git agentos doctor --fix makes it again from git"
    if not fix:
        return Finding("run-evidence-missing", "warning", message, hint, False)
    try:
        saved.bring_back(context.location, run_id, parts=True)
    except (AgentosError, OSError) as error:
        return Finding("run-evidence-missing", "warning", f"{message}; {error}", None, False)
    return Finding("run-evidence-missing", "warning", f"{message}: it was made again from git", None, True)


def _waits(run: Run) -> bool:
    return run.state == INTERRUPTED and run.rolled_back_to is None and not run.problems
