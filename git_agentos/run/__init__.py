"""Runs: an agent and the validation of its work in a worktree of their own, which can always be taken back.

    workspace     the boundary of a run: its worktree, branch and base; other orchestrators import this
    inside        the worktree of a run from inside; `null_workspace` is one that is none
    branches      which branches are protected
    driven        the end of a run that an orchestrator drives itself
    cleanup       worktrees and branches of ended runs go out of the way
    context       where a run works, as it is recorded; `preparation` makes it, `lock` is who is at work
    kernel/       doing a run, step by step
    rollback/     taking it back
    record/       what is kept of it: events, evidence, seals
    accept        a run's work goes into a branch, once validation has passed
    landing       how: a commit of what was validated, and a merge; orchestrators call it as well
    reflog        reading reflogs, also torn ones
    doctor        runs that wait for somebody

The names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from git_agentos.run.context import WorkspaceContext
    from git_agentos.run.workspace import (
        GitWorktreeWorkspaceService,
        NullWorkspaceService,
        WorkspaceService,
        WorkspaceSnapshot,
    )

__all__ = [
    "GitWorktreeWorkspaceService", "NullWorkspaceService", "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("git_agentos.run.workspace"), name)
