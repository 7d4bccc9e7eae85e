"""git-agentos: work that agents do in a repository is never lost.

    from git_agentos import open_repository

    repo = open_repository("path/to/worktree")
    saved = repo.checkpoints.create("before the experiment")
    repo.restore(saved.id)

The names below are loaded when they are first used: importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from git_agentos.api import (
        GuardDecision,
        LogEntry,
        OpenRepository,
        RecoverResult,
        RestoreResult,
        SavedCheckpoint,
        open_repository,
    )
    from git_agentos.checkpoint.model import Checkpoint, Skipped
    from git_agentos.checkpoint.queries import Diff, FileContent
    from git_agentos.errors import AgentosError
    from git_agentos.run.events import Run
    from git_agentos.run.workspace import (
        GitWorktreeWorkspaceService,
        NullWorkspaceService,
        WorkspaceContext,
        WorkspaceService,
        WorkspaceSnapshot,
    )
    from git_agentos.store.database_path import ensure_agentos_dir, get_checkpoint_db_path, get_repo_root
    from git_agentos.workspace import Workspace, open_workspace
    from git_agentos.worktree.agent_merge import Merge
    from git_agentos.worktree.removal import Removal
    from git_agentos.worktree.status import Worktree

_HOMES = {
    "AgentosError": "git_agentos.errors",
    "Checkpoint": "git_agentos.checkpoint.model",
    "Diff": "git_agentos.checkpoint.queries",
    "FileContent": "git_agentos.checkpoint.queries",
    "GitWorktreeWorkspaceService": "git_agentos.run.workspace",
    "GuardDecision": "git_agentos.api",
    "LogEntry": "git_agentos.api",
    "Merge": "git_agentos.worktree.agent_merge",
    "NullWorkspaceService": "git_agentos.run.workspace",
    "OpenRepository": "git_agentos.api",
    "RecoverResult": "git_agentos.api",
    "Removal": "git_agentos.worktree.removal",
    "RestoreResult": "git_agentos.api",
    "Run": "git_agentos.run.events",
    "SavedCheckpoint": "git_agentos.api",
    "Skipped": "git_agentos.checkpoint.model",
    "Workspace": "git_agentos.workspace",
    "WorkspaceContext": "git_agentos.run.workspace",
    "WorkspaceService": "git_agentos.run.workspace",
    "WorkspaceSnapshot": "git_agentos.run.workspace",
    "Worktree": "git_agentos.worktree.status",
    "ensure_agentos_dir": "git_agentos.store.database_path",
    "get_checkpoint_db_path": "git_agentos.store.database_path",
    "get_repo_root": "git_agentos.store.database_path",
    "open_repository": "git_agentos.api",
    "open_workspace": "git_agentos.workspace",
}

__all__ = [
    "AgentosError", "Checkpoint", "Diff", "FileContent", "GitWorktreeWorkspaceService", "GuardDecision", "LogEntry",
    "Merge", "NullWorkspaceService", "OpenRepository", "RecoverResult", "Removal", "RestoreResult", "Run",
    "SavedCheckpoint", "Skipped", "Workspace", "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot",
    "Worktree", "__version__", "ensure_agentos_dir", "get_checkpoint_db_path", "get_repo_root", "open_repository",
    "open_workspace",
]  # fmt: skip


if not TYPE_CHECKING:  # or mypy would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
