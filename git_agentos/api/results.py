"""Results of the API: frozen, with tuples for sequences and aware datetimes for times.

Paths are text as by `os.fsdecode`; those of files are relative to the worktree's root. Ids are full. None means that a
value does not apply or is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.queries import Interrupted


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint. `commit` is HEAD's commit, None before the first commit; `branch` is None if HEAD is detached.

    `unchanged`: the trigger is automatic, and the state is that of this earlier checkpoint.
    """

    id: str
    created_at: datetime
    created_by: str
    worktree_id: str
    worktree_path: str
    branch: str | None
    commit: str | None
    trigger: str
    description: str
    task_id: str | None
    run_id: str | None
    session_id: str | None
    metadata: Mapping[str, str]
    staged: tuple[str, ...]
    unstaged: tuple[str, ...]
    untracked: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    operation: str | None
    unchanged: bool


@dataclass(frozen=True)
class RestoreResult:
    """The result of a restore or undo, or of a dry run (`dry_run`).

    `checkpoint` is the restored checkpoint, `saved` that of the state before; `branch` and `head` are HEAD's branch and
    commit afterwards. `state` is the state that is replaced, for `expected`.
    """

    checkpoint: str
    saved: str | None
    branch: str | None
    head: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    dry_run: bool
    state: str | None


@dataclass(frozen=True)
class RecoverResult:
    """The result of `recover`: `outcome` is `nothing`, `finished` or `went-back`; `cleaned` are the stale files
    removed."""

    outcome: str
    checkpoint: str | None
    saved: str | None
    branch: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    cleaned: tuple[str, ...]


@dataclass(frozen=True)
class ApprovalStatus:
    """An approval request: `state` is `pending`, `granted`, `denied`, `used` or `expired`; `commit` HEAD's commit when
    it was filed; `checkpoint` the state that was saved then; `note` the message of the decision."""

    id: str
    state: str
    operation: str
    command: tuple[str, ...]
    folder: str | None
    worktree_path: str
    agent: str
    branch: str | None
    commit: str | None
    reason: str | None
    instead: str | None
    checkpoint: str | None
    created_at: datetime
    expires_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    note: str | None


@dataclass(frozen=True)
class RepositoryStatus:
    """The state of the worktree, in numbers of paths, and unfinished work in the repository.

    `interrupted` is a restore that was killed: call `recover`. The last four are ids, and messages about the guard.
    """

    agent: str
    root: str
    branch: str | None
    commit: str | None
    dirty: bool
    staged: int
    unstaged: int
    untracked: int
    conflicted: int
    operation: str | None
    last_checkpoint: SavedCheckpoint | None
    interrupted: Interrupted | None
    pending_approvals: tuple[ApprovalStatus, ...]
    interrupted_worktrees: tuple[str, ...]
    interrupted_runs: tuple[str, ...]
    open_workflows: tuple[str, ...]
    guard_problems: tuple[str, ...]


@dataclass(frozen=True)
class LogEntry:
    """One entry of an agent's log; `redacted` counts the secrets that were removed from it."""

    id: str
    timestamp: datetime
    type: str
    summary: str
    details: Mapping[str, Any]
    commit: str | None
    files: tuple[str, ...]
    task_id: str | None
    checkpoint: str | None
    agent: str
    worktree_id: str
    redacted: int


@dataclass(frozen=True)
class Turn:
    """One turn of an agent. `ended_at` is None while it goes on, and if its client was killed; `ended_by` is `stop`,
    `prompt`, `session-end`, `lost` or None. `before` and `after` are checkpoints, which may be forgotten."""

    id: str
    session_id: str | None
    agent: str
    prompt: str
    started_at: datetime
    ended_at: datetime | None
    before: str | None
    after: str | None
    changed: tuple[str, ...]
    worktree_id: str
    harness: str
    ended_by: str | None


@dataclass(frozen=True)
class RevertResult:
    """The result of a revert, or of a dry run. `saved` is the checkpoint of the state before. With `conflicts`, and no
    markers, nothing was changed."""

    turn: str
    saved: str | None
    changed: tuple[str, ...]
    conflicts: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True)
class ExplainedLine:
    """A line, and where it comes from: the commit that git blame names, the first checkpoint with it, and the turn that
    wrote it; None where that is unknown, or cannot be told. `created_at` is of the checkpoint, else of the commit."""

    line: int
    text: str
    commit: str | None
    checkpoint: str | None
    agent: str | None
    session_id: str | None
    turn: str | None
    prompt: str | None
    created_at: datetime | None


@dataclass(frozen=True)
class GuardDecision:
    """What policy decides about a command: `decision` is `allow`, `approve` or `forbid`; `operations` are the names of
    what the command does, the strictest first; `rule` decided; `instead` is a safe command in its place."""

    decision: str
    operations: tuple[str, ...]
    rule: str | None
    reason: str | None
    instead: str | None


# -- worktrees ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeCounts:
    """Numbers of paths with changes."""

    staged: int
    unstaged: int
    untracked: int
    conflicted: int


@dataclass(frozen=True)
class CheckpointSummary:
    """The newest checkpoint of a worktree."""

    id: str
    created_at: datetime
    trigger: str
    description: str


@dataclass(frozen=True)
class ProcessInfo:
    """A process that works in a worktree."""

    pid: int
    command: str


@dataclass(frozen=True)
class LinkedPath:
    """A file or folder that agentos.link has brought: its files, their bytes, and how they were brought."""

    path: str
    files: int
    bytes: int
    cloned: int
    hard_linked: int
    copied: int


@dataclass(frozen=True)
class WorktreeStatus:
    """An agent's worktree. `state` is `active`, `complete`, `archived` or `broken`; `path` its current or former
    folder.

    `ahead` and `behind` count commits, compared with the current tip of the base; `integrated` says how its commits are
    in the base (None: they are not); `process` is one that uses it. `guard` is `on`, `off` or `broken`. After `create`,
    `base_behind` counts the commits of the remote's branch `base_follows` that the base does not have. `port_base` is
    the first of its `port_count` ports. `changes_from` is the checkpoint whose uncommitted changes it was created with.
    After `create`, `linked` is what agentos.link has brought.
    """

    id: str
    path: str | None
    branch: str | None
    commit: str | None
    base_ref: str | None
    base_commit: str | None
    task_id: str | None
    state: str
    changes: ChangeCounts | None
    ahead: int | None
    behind: int | None
    integrated: str | None
    last_checkpoint: CheckpointSummary | None
    locked: bool
    process: ProcessInfo | None
    guard: str | None
    base_follows: str | None
    base_behind: int | None
    port_base: int | None
    port_count: int | None
    changes_from: str | None
    linked: tuple[LinkedPath, ...] | None


@dataclass(frozen=True)
class MergeConflict:
    """Two branches that conflict: `a` is an agent or the target of the merge, `b` an agent; `messages` are git's."""

    a: str
    b: str
    files: tuple[str, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Unreadable:
    """An agent whose branch could not be read, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class ConflictReport:
    """The pairs of agents that conflict, and the order in which to merge all of them."""

    pairs: tuple[MergeConflict, ...]
    order: tuple[str, ...]
    left_out: tuple[Unreadable, ...]


@dataclass(frozen=True)
class MergeSource:
    """One agent's part of a merge: `state` is `merged`, `up-to-date`, `nothing-to-add` or `not-merged`; `uncommitted`
    counts the uncommitted paths in its worktree."""

    id: str
    branch: str | None
    commit: str
    state: str
    merge_commit: str | None
    uncommitted: int


@dataclass(frozen=True)
class MergeResult:
    """The result of a merge. `merged`: the branch `target` has moved from `before` to `merge_commit` (in a dry run:
    would move). With `conflicts`, nothing was changed. `saved` is the checkpoint of the worktree that was updated."""

    merged: bool
    target: str
    before: str
    merge_commit: str | None
    sources: tuple[MergeSource, ...]
    conflicts: tuple[MergeConflict, ...]
    saved: str | None
    dry_run: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class SyncedWorktree:
    """A worktree whose branch was brought up to its base, from `before` to `after`; `saved` is the checkpoint of the
    state before. In a dry run, `after` and `saved` are None."""

    id: str
    before: str
    after: str | None
    saved: str | None


@dataclass(frozen=True)
class SyncConflict:
    """A worktree that is as it was, because the base conflicts with its commits, or with what is `uncommitted` in
    it."""

    id: str
    files: tuple[str, ...]
    uncommitted: bool


@dataclass(frozen=True)
class WorktreeReason:
    """A worktree that was left alone, and why, for people."""

    id: str
    reason: str


@dataclass(frozen=True)
class WorktreeSyncResult:
    """What became of each worktree that was to be brought up to its base."""

    synced: tuple[SyncedWorktree, ...]
    conflicts: tuple[SyncConflict, ...]
    skipped: tuple[WorktreeReason, ...]
    dry_run: bool


@dataclass(frozen=True)
class ArchivedWorktree:
    """A worktree that was archived, and why; `archive` is the checkpoint with everything in it (None in a dry run)."""

    id: str
    archive: str | None
    reason: str
    branch_deleted: bool


@dataclass(frozen=True)
class CleanupResult:
    """The worktrees that were archived, and all others, with the reasons."""

    archived: tuple[ArchivedWorktree, ...]
    kept: tuple[WorktreeReason, ...]
    dry_run: bool


@dataclass(frozen=True)
class RemovalResult:
    """A worktree that was archived or removed. `checkpoint` contains everything in it, except `discarded` (ignored
    files, if that was requested) and `not_saved` (sockets, files that could not be read)."""

    id: str
    path: str
    branch: str
    branch_deleted: bool
    commit: str | None
    checkpoint: str
    discarded: tuple[Skipped, ...]
    not_saved: tuple[Skipped, ...]


# -- runs --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunStep:
    """One step of a run. `kind` is `agent`, `validate`, `rollback` or `checkpoint`; `outcome` is None while it runs;
    `before` and `after` are checkpoints; `changed` counts paths."""

    number: int
    kind: str
    attempt: int
    command: str | None
    outcome: str | None
    exit_code: int | None
    started_at: datetime
    ended_at: datetime | None
    before: str | None
    after: str | None
    changed: int | None
    detail: str | None


@dataclass(frozen=True)
class RunResult:
    """A run. `state` is as in docs/json.md (`passed`, `failed`, `accepted` …), `reason` says why it is in this state.

    `worktree_path`, `branch` and `base_commit` are None before the worktree is created. `final_checkpoint` contains the
    evidence; `rolled_back_to` is the point to which the worktree was rolled back, if nothing was done since.
    """

    id: str
    state: str
    reason: str | None
    task_id: str | None
    worktree_path: str | None
    branch: str | None
    base_commit: str | None
    steps: tuple[RunStep, ...]
    max_attempts: int
    evidence: str
    started_at: datetime
    ended_at: datetime | None
    final_checkpoint: str | None
    rolled_back_to: str | None
    accepted_into: str | None
    merge_commit: str | None
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the validation has passed, and the work can be accepted."""
        return self.state == "passed"


@dataclass(frozen=True)
class RollbackResult:
    """The result of a rollback. `checkpoint` is the state of `point`, `saved` the complete state before; `recreated`:
    the folder or git's entry of the worktree was damaged, and was created again."""

    run_id: str
    point: str
    checkpoint: str
    saved: str | None
    worktree_path: str
    branch: str | None
    head: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    recreated: bool
    not_saved: tuple[Skipped, ...]
    dry_run: bool


@dataclass(frozen=True)
class AcceptResult:
    """The result of accepting a run. With conflicts in `merge`, nothing was changed."""

    run: RunResult
    merge: MergeResult


@dataclass(frozen=True)
class VerifyResult:
    """Whether the evidence of a run is complete and unchanged since it was sealed: `ok` if there are no `problems`.
    `rewritten`: something of it was forgotten since."""

    run_id: str
    ok: bool
    final_checkpoint: str | None
    files: int
    commits: int
    problems: tuple[str, ...]
    rewritten: bool = False


@dataclass(frozen=True)
class ProtectedCheckpoint:
    """A checkpoint that no rule forgets, and why: `manual`, `newest`, `run` …"""

    id: str
    reason: str


@dataclass(frozen=True)
class KeptCheckpoint:
    """A checkpoint that rules keep: `last`, `daily` …"""

    id: str
    rules: tuple[str, ...]


@dataclass(frozen=True)
class RewrittenCheckpoint:
    """A checkpoint that was written again, without a file or a text: its former id, and the one that it has now."""

    old: str
    new: str


@dataclass(frozen=True)
class ForgetResult:
    """What was forgotten. `kept` are all other checkpoints of these worktrees, the protected ones among them;
    `unreachable` says what could not be deleted, `rewritten` what has another id now."""

    forgotten: tuple[str, ...]
    kept: tuple[str, ...]
    protected: tuple[ProtectedCheckpoint, ...]
    reasons: tuple[KeptCheckpoint, ...]
    freed_bytes: int
    unreachable: tuple[str, ...]
    dry_run: bool
    rewritten: tuple[RewrittenCheckpoint, ...] = ()


@dataclass(frozen=True)
class TimelineStorage:
    """What the checkpoints of one worktree take; `freeable_bytes` are of those that nothing protects."""

    timeline: str
    checkpoints: int
    bytes: int
    freeable_bytes: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True)
class RuleStorage:
    """What rules would free."""

    rule: str
    freeable_bytes: int


@dataclass(frozen=True)
class LargePath:
    """What all contents of a path take, and the oldest checkpoint with the largest of them."""

    path: str
    bytes: int
    checkpoint: str


@dataclass(frozen=True)
class LargeCheckpoint:
    """What a checkpoint has and no older one of its worktree."""

    id: str
    timeline: str
    bytes: int


@dataclass(frozen=True)
class StorageResult:
    """Bytes on disk; those of archives are among those of timelines, all others are apart."""

    total_bytes: int
    timelines: tuple[TimelineStorage, ...]
    archives_bytes: int
    runs_bytes: int
    databases_bytes: int
    kept_bytes: int
    pool_bytes: int
    rules: tuple[RuleStorage, ...]
    largest: tuple[LargePath, ...]
    largest_checkpoints: tuple[LargeCheckpoint, ...]
    budget_bytes: int | None


# -- remotes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransferredCheckpoints:
    """How many checkpoints of a worktree of a host were pushed or fetched (None: a dry run of a fetch cannot know)."""

    worktree_id: str
    host: str
    checkpoints: int | None


@dataclass(frozen=True)
class HeldBackCheckpoint:
    """A checkpoint that was not pushed, and what was found in it. `path` is the file, or says what it is; `line` is
    None for the name of a file. For an archive with ignored files, `path`, `line` and `fingerprint` are None."""

    worktree_id: str
    checkpoint: str
    path: str | None
    line: int | None
    kind: str
    fingerprint: str | None


@dataclass(frozen=True)
class RefusedTimeline:
    """What was not pushed (`<worktree id>`) or fetched (`<host>/<worktree id>`), and why, for people."""

    timeline: str
    reason: str


@dataclass(frozen=True)
class SyncResult:
    """The result of a transfer. `host` is the name of this clone."""

    remote: str
    host: str
    pushed: tuple[TransferredCheckpoints, ...]
    fetched: tuple[TransferredCheckpoints, ...]
    held_back: tuple[HeldBackCheckpoint, ...]
    refused: tuple[RefusedTimeline, ...]
    dry_run: bool


@dataclass(frozen=True)
class RemoteWorktree:
    """How the checkpoints of a worktree of a host compare with a remote: `ahead` are only here, `behind` only there
    (None: how many is known when they are fetched); `held_back` were not pushed."""

    worktree_id: str
    host: str
    ahead: int
    behind: int | None
    held_back: int


@dataclass(frozen=True)
class SyncStatus:
    """How the checkpoints here compare with those on a remote. `host` is the name of this clone."""

    remote: str
    host: str
    worktrees: tuple[RemoteWorktree, ...]
