"""The public Python API: a repository, and what can be done in it.

    from git_agentos import open_repository

    repo = open_repository("path/to/worktree", agent="dev-1")
    saved = repo.checkpoints.create("before the experiment")
    repo.restore(saved.id)
    repo.undo()

repository   `open_repository()`, restore, undo, recover, status, doctor
checkpoints, worktrees, runs, log   `repo.checkpoints`, …: they do what the commands of these names do
guard        `repo.guard` and `repo.approvals`
results      what all of them return
conversion   the domain's results as the API's

Results are frozen: sequences are tuples, times are aware datetimes. Errors are subclasses of
`git_agentos.errors.AgentosError`. Nothing is printed. `git_agentos` exports all of it.
"""

from git_agentos.api.checkpoints import Checkpoints
from git_agentos.api.guard import Approvals, Guard
from git_agentos.api.log import Log
from git_agentos.api.repository import OpenRepository, open_repository
from git_agentos.api.results import (
    AcceptResult,
    ApprovalStatus,
    ChangeCounts,
    CheckpointSummary,
    ConflictReport,
    GuardDecision,
    LogEntry,
    MergeConflict,
    MergeResult,
    MergeSource,
    ProcessInfo,
    RecoverResult,
    RemovalResult,
    RepositoryStatus,
    RestoreResult,
    RollbackResult,
    RunResult,
    RunStep,
    SavedCheckpoint,
    Unreadable,
    VerifyResult,
    WorktreeStatus,
)
from git_agentos.api.runs import RunObserver, RunOptions, Runs
from git_agentos.api.worktrees import Worktrees

__all__ = [
    "AcceptResult", "ApprovalStatus", "Approvals", "ChangeCounts", "CheckpointSummary", "Checkpoints",
    "ConflictReport", "Guard", "GuardDecision", "Log", "LogEntry", "MergeConflict", "MergeResult", "MergeSource",
    "OpenRepository", "ProcessInfo", "RecoverResult", "RemovalResult", "RepositoryStatus", "RestoreResult",
    "RollbackResult", "RunObserver", "RunOptions", "RunResult", "RunStep", "Runs", "SavedCheckpoint", "Unreadable",
    "VerifyResult", "WorktreeStatus", "Worktrees", "open_repository",
]  # fmt: skip
