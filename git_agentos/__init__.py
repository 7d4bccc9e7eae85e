"""git-agentos: keeps agents' work in a repository from being lost.

    from git_agentos import open_repository

    repo = open_repository("path/to/worktree")
    saved = repo.checkpoints.create("before the experiment")
    repo.restore(saved.id)

The names below are imported when they are first used, so importing this package is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than some clients have
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # `__all__` says which of their names are exported
    from git_agentos.api.checkpoints import *
    from git_agentos.api.fleet_results import *
    from git_agentos.api.fleets import *
    from git_agentos.api.guard import *
    from git_agentos.api.log import *
    from git_agentos.api.remotes import *
    from git_agentos.api.report_results import *
    from git_agentos.api.repository import *
    from git_agentos.api.results import *
    from git_agentos.api.runs import *
    from git_agentos.api.turns import *
    from git_agentos.api.worktrees import *
    from git_agentos.checkpoint.model import *
    from git_agentos.checkpoint.queries import *
    from git_agentos.errors import *
    from git_agentos.findings import *
    from git_agentos.run.workspace import *
    from git_agentos.store.database_path import *
    from git_agentos.workspace import *

_MODULES = {
    "git_agentos.api.checkpoints": "Checkpoints",
    "git_agentos.api.fleet_results": (
        "AcceptedTasks CollectedResults CollectedTask ConflictingTask FleetStatus FleetSummary FleetTask MergedTask "
        "RefusedTask SkippedTask"
    ),
    "git_agentos.api.fleets": "FleetObserver Fleets SubmitOptions",
    "git_agentos.api.guard": "Approvals Guard",
    "git_agentos.api.log": "Log",
    "git_agentos.api.remotes": "Remotes SyncObserver",
    "git_agentos.api.report_results": "Report ReportLane ReportMark",
    "git_agentos.api.repository": "OpenRepository open_repository",
    "git_agentos.api.results": (
        "AcceptResult ApprovalStatus ArchivedWorktree ChangeCounts CheckpointSummary CleanupResult "
        "ConflictReport ExplainedLine ForgetResult GuardDecision HeldBackCheckpoint KeptCheckpoint LargeCheckpoint "
        "LargePath LinkedPath LogEntry MergeConflict MergeResult MergeSource ProcessInfo ProtectedCheckpoint "
        "RecoverResult RefusedTimeline RemoteWorktree RemovalResult RepositoryStatus RestoreResult RevertResult "
        "RewrittenCheckpoint RollbackResult RuleStorage RunResult RunStep SavedCheckpoint StorageResult SyncConflict "
        "SyncResult SyncStatus SyncedWorktree TimelineStorage TransferredCheckpoints Turn Unreadable VerifyResult "
        "WorktreeReason WorktreeStatus WorktreeSyncResult"
    ),
    "git_agentos.api.runs": "RunObserver RunOptions Runs",
    "git_agentos.api.turns": "Turns",
    "git_agentos.api.worktrees": "Worktrees",
    "git_agentos.checkpoint.model": "Checkpoint Skipped",
    "git_agentos.checkpoint.queries": "Diff FileChange FileContent HunkHeader Interrupted",
    "git_agentos.errors": (
        "AgentosError AgentosWarning ChangedState CheckpointFormatError CheckpointNotFound ConfigurationError "
        "ConflictError ContextError DamagedDatabase DamagedFile DatabaseError FleetError GitCommandError GuardError "
        "IncompleteCaptureError InterruptedRestore LockedError McpError MissingObjectsError PolicyError "
        "RepositoryError RestoreError RunError StorageError TddError UiError UnreadableConfiguration "
        "UnsupportedRepository UsageError WorkflowConfigurationError WorktreeError"
    ),
    "git_agentos.findings": "Finding",
    "git_agentos.run.workspace": (
        "GitWorktreeWorkspaceService NullWorkspaceService WorkspaceContext WorkspaceService WorkspaceSnapshot"
    ),
    "git_agentos.store.database_path": "ensure_agentos_dir get_checkpoint_db_path get_repo_root",
    "git_agentos.workspace": "Workspace open_workspace",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AcceptResult", "AcceptedTasks", "AgentosError", "AgentosWarning", "ApprovalStatus", "Approvals",
    "ArchivedWorktree", "ChangeCounts", "ChangedState", "Checkpoint", "CheckpointFormatError", "CheckpointNotFound",
    "CheckpointSummary", "Checkpoints", "CleanupResult", "CollectedResults", "CollectedTask", "ConfigurationError",
    "ConflictError", "ConflictReport", "ConflictingTask", "ContextError", "DamagedDatabase", "DamagedFile",
    "DatabaseError", "Diff", "ExplainedLine", "FileChange", "FileContent", "Finding", "FleetError", "FleetObserver",
    "FleetStatus", "FleetSummary", "FleetTask", "Fleets", "ForgetResult", "GitCommandError",
    "GitWorktreeWorkspaceService", "Guard", "GuardDecision", "GuardError", "HeldBackCheckpoint",
    "IncompleteCaptureError", "Interrupted", "InterruptedRestore", "KeptCheckpoint", "LargeCheckpoint", "LargePath",
    "LinkedPath", "LockedError", "Log", "LogEntry", "McpError", "MergeConflict", "MergeResult", "MergeSource",
    "MergedTask", "MissingObjectsError", "NullWorkspaceService", "OpenRepository", "PolicyError", "ProcessInfo",
    "ProtectedCheckpoint", "RecoverResult", "RefusedTask", "RefusedTimeline", "RemoteWorktree", "Remotes",
    "RemovalResult", "Report", "ReportLane", "ReportMark", "RepositoryError", "RepositoryStatus", "RestoreError",
    "RestoreResult", "RevertResult", "RewrittenCheckpoint", "RollbackResult", "RuleStorage", "RunError", "RunObserver",
    "RunOptions", "RunResult", "RunStep", "Runs", "SavedCheckpoint", "Skipped", "SkippedTask", "StorageError",
    "StorageResult", "SubmitOptions", "SyncConflict", "SyncObserver", "SyncResult", "SyncStatus", "SyncedWorktree",
    "TddError", "TimelineStorage", "TransferredCheckpoints", "Turn", "Turns", "UiError", "Unreadable",
    "UnreadableConfiguration", "UnsupportedRepository", "UsageError", "VerifyResult", "WorkflowConfigurationError",
    "Workspace", "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot", "WorktreeError", "WorktreeReason",
    "WorktreeStatus", "WorktreeSyncResult", "Worktrees", "__version__", "ensure_agentos_dir", "get_checkpoint_db_path",
    "get_repo_root", "open_repository", "open_workspace",
]  # fmt: skip


if not TYPE_CHECKING:  # otherwise mypy would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
