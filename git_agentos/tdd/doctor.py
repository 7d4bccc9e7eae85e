"""What `doctor` reports about workflows: those that were interrupted, and those whose state only git still has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, StorageError
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable
from git_agentos.run import query as run_query
from git_agentos.tdd import query, state_copies
from git_agentos.tdd.state import INTERRUPTED


def examine(context: OpenWorktree, environment: Mapping[str, str]) -> Iterator[Finding | Fixable]:
    """The workflows whose rows are missing in the database (they can be put back), and those that were interrupted:
    people decide whether to resume or to abort them."""
    for id_ in state_copies.lost(context):
        yield _state_missing(context, id_)
    # To list workflows puts missing rows back, which is for a fix alone.
    if run_query.open_(context) and not state_copies.lost(context):
        yield from _interrupted(context, environment)


def _state_missing(context: OpenWorktree, id_: str) -> Fixable:
    def put_back() -> str:
        if id_ in state_copies.lost(context):
            state_copies.restore_missing(context, every=True)
        if id_ in state_copies.lost(context):
            raise StorageError("the rows that git has cannot be written to the database")
        return "it was rebuilt from git"

    message = f"the state of workflow '{id_}' is not in the workflow database"
    hint = f"{DOCTOR_FIX} rebuilds it from git, and so does any git agentos tdd command"
    return fixable("workflow-state-missing", "warning", message, put_back, hint)


def _interrupted(context: OpenWorktree, environment: Mapping[str, str]) -> Iterator[Finding]:
    try:
        workflows = query.list_workflows(context, environment)
    except AgentosError as error:
        yield Finding("workflow-unreadable", "warning", f"workflows cannot be read: {error}", error.hint)
        return
    for each in workflows:
        if each.here and each.state == INTERRUPTED:
            where = f" at {each.node}" if each.node is not None else ""
            hint = f"git agentos tdd resume {each.id} resumes it\ngit agentos tdd abort {each.id} ends it"
            message = f"workflow '{each.id}' was interrupted{where}"
            yield Finding("workflow-interrupted", "warning", message, hint)
