"""git-agentos: work that agents do in a repository is never lost.

    from git_agentos import open_workspace

    workspace = open_workspace("path/to/worktree")
    checkpoint = workspace.checkpoint("before the experiment")
    workspace.restore(checkpoint.id)

The names below are loaded when they are first used: importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from git_agentos.checkpoint.model import Checkpoint
    from git_agentos.errors import AgentosError
    from git_agentos.run.workspace import (
        GitWorktreeWorkspaceService,
        NullWorkspaceService,
        WorkspaceContext,
        WorkspaceService,
        WorkspaceSnapshot,
    )
    from git_agentos.store.database_path import ensure_agentos_dir, get_checkpoint_db_path, get_repo_root
    from git_agentos.workspace import Workspace, open_workspace

_HOMES = {
    "AgentosError": "git_agentos.errors",
    "Checkpoint": "git_agentos.checkpoint.model",
    "GitWorktreeWorkspaceService": "git_agentos.run.workspace",
    "NullWorkspaceService": "git_agentos.run.workspace",
    "Workspace": "git_agentos.workspace",
    "WorkspaceContext": "git_agentos.run.workspace",
    "WorkspaceService": "git_agentos.run.workspace",
    "WorkspaceSnapshot": "git_agentos.run.workspace",
    "ensure_agentos_dir": "git_agentos.store.database_path",
    "get_checkpoint_db_path": "git_agentos.store.database_path",
    "get_repo_root": "git_agentos.store.database_path",
    "open_workspace": "git_agentos.workspace",
}

__all__ = [
    "AgentosError", "Checkpoint", "GitWorktreeWorkspaceService", "NullWorkspaceService", "Workspace",
    "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot", "__version__", "ensure_agentos_dir",
    "get_checkpoint_db_path", "get_repo_root", "open_workspace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
