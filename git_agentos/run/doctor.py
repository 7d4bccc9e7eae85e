"""What `status` and `doctor` report about runs: those that were interrupted, to be resumed or rolled back.

A run that is open is not among them: the tool that drives it resumes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable
from git_agentos.run import commands, evidence_copy, evidence_store
from git_agentos.run.events import INTERRUPTED, OPEN, RUNNING, TAMPERED, TDD, Run


def interrupted(context: OpenWorktree) -> list[str]:
    """The ids of interrupted runs that were not rolled back, newest first."""
    return [each.run_id for each in commands.list_runs(context) if _waits(each)]


def open_(context: OpenWorktree, tool: str = TDD) -> list[str]:
    """The ids of the runs that `tool` drives and that have not ended, newest first."""
    return [each.run_id for each in commands.list_runs(context) if each.tool == tool and each.state in (OPEN, RUNNING)]


def examine(context: OpenWorktree) -> Iterator[Finding | Fixable]:
    """What is to be done about runs; which of it, people decide. Evidence that only git still has can be rebuilt."""
    for run_id in evidence_store.incomplete_runs(context.location):
        yield _lost(context, run_id)
    for each in commands.list_runs(context):
        id_ = each.run_id
        if _waits(each):
            hint = f"git agentos run resume {id_} continues it\ngit agentos rollback {id_} resets its worktree"
            yield Finding("run-interrupted", "warning", f"run '{id_}' was interrupted", hint)
        elif each.problems:
            hint = f"git agentos run verify {id_} shows details\ngit agentos rollback {id_} resets its worktree"
            if each.state == TAMPERED:
                hint += f", git agentos run cancel {id_} puts on record that it has ended by that"
            yield Finding("run-damaged", "warning", "; ".join(each.problems), hint)


def _lost(context: OpenWorktree, run_id: str) -> Fixable:
    folder = os.path.join(evidence_store.runs_folder(context.location), run_id)

    def rebuild() -> str:
        evidence_copy.rebuild_folder(context.location, run_id, parts=True)
        return "it was rebuilt from git"

    message = f"evidence of run '{run_id}' is missing in '{folder}'"
    return fixable("run-evidence-missing", "warning", message, rebuild, f"{DOCTOR_FIX} rebuilds it from git")


def _waits(run: Run) -> bool:
    return run.state == INTERRUPTED and run.rolled_back_to is None and not run.problems
