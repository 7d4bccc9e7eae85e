"""What `doctor` says of workflows: those whose state only git still has."""

from __future__ import annotations

from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.doctor import Finding
from git_agentos.run import doctor as runs
from git_agentos.tdd import copies


def examine(context: Context, *, fix: bool) -> list[Finding]:
    """The workflows that are not in the database any more; with `fix`, they are put there again."""
    lost = copies.lost(context)
    done = copies.bring_back(context, every=True) if fix and lost else []
    return [runs.state_missing(id_, fixed=id_ in done) for id_ in lost]
