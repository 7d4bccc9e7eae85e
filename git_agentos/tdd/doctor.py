"""What `doctor` says of workflows: those whose state only git still has."""

from __future__ import annotations

from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.doctor import Finding
from git_agentos.tdd import copies


def examine(context: Context, *, fix: bool) -> list[Finding]:
    """The workflows that are not in the database any more; with `fix`, they are put there again."""
    lost = copies.lost(context)
    done = copies.bring_back(context, every=True) if fix and lost else []
    return [_finding(id_, fixed=id_ in done) for id_ in lost]


def _finding(id_: str, *, fixed: bool) -> Finding:
    message = f"the state of workflow '{id_}' is not in the workflow database"
    if fixed:
        return Finding("workflow-state-missing", "warning", f"{message}: it was made again from git", None, True)
    hint = "git agentos doctor --fix makes it again from git, and so does any git agentos tdd command"
    return Finding("workflow-state-missing", "warning", message, hint, False)
