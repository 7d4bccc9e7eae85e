"""Runs: an agent and the validation of its work in a worktree of its own, which can always be rolled back.

commands     start, resume, cancel, roll back; `runner` runs attempts, each with feedback on the last, `step` one step
spec         what a run is to do; `lock` has the lock and the private files of a run, and says whether it is to stop
workspace    the boundary of a run, for other orchestrators, which end it themselves; `service` has its calls
preparation  making the workspace; `context` describes it, `baseline` says what it was like
snapshot     the state of the workspace, and what has changed in it; `branches` are the protected ones
rollback     resetting it; `rebuild` makes a damaged one again first
events       the events of a run and its state; `journal` and `journal_note` store and verify them
evidence     the folder of a run (`evidence_folder`); `evidence_store` finds it, `evidence_copy` is its copy in git,
             `patches` are without secrets, `sealing` closes and verifies it, `evidence_again` writes it without
             some texts
query        reading runs, and what people should look at
accept       merging what was `validated`; `cleanup` archives worktrees of ended runs, `discard` discards
             them; `adoption` goes on with a run of another clone

`kernel` is only the documented name of `commands` and `spec`. The names below are loaded when they are first used.
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


if not TYPE_CHECKING:  # or mypy would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("git_agentos.run.workspace"), name)
