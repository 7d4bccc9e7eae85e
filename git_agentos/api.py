"""The public Python API: a repository, and what can be done in it.

    from git_agentos import open_repository

    repo = open_repository("path/to/worktree", agent="dev-1")
    saved = repo.checkpoints.create("before the experiment")
    repo.restore(saved.id)
    repo.undo()

`repo.checkpoints`, `repo.worktrees`, `repo.runs`, `repo.log` and `repo.guard` do what the commands of these names do.
Results are frozen: sequences are tuples, times are aware datetimes, paths are text relative to the worktree's root.
Errors are subclasses of `git_agentos.errors.AgentosError`. Nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from git_agentos.checkpoint.model import Checkpoint, Skipped
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from git_agentos.checkpoint.queries import Diff, FileContent
    from git_agentos.checkpoint.restore.commands import Recovery
    from git_agentos.checkpoint.restore.request import Restoration
    from git_agentos.run.events import Run
    from git_agentos.run.observer import Observer
    from git_agentos.store.entries import Entry
    from git_agentos.worktree.agent_merge import Merge
    from git_agentos.worktree.removal import Removal
    from git_agentos.worktree.status import Worktree


# -- results -----------------------------------------------------------------------------------------------------------


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
    """What a restore or an undo did, or would do (`dry_run`).

    `checkpoint` is the checkpoint restored, `saved` the one that holds the state before; `branch` and `head` are where
    HEAD is afterwards.
    """

    checkpoint: str
    saved: str | None
    branch: str | None
    head: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    dry_run: bool


@dataclass(frozen=True)
class RecoverResult:
    """What a recovery did: `outcome` is `nothing`, `finished` or `went-back`; `cleaned` are the stale files removed."""

    outcome: str
    checkpoint: str | None
    saved: str | None
    branch: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    cleaned: tuple[str, ...]


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
class GuardDecision:
    """What policy decides about a command: `decision` is `allow`, `approve` or `forbid`; `operations` are the names of
    what the command does, the strictest first; `rule` decided; `instead` is a safe command in its place."""

    decision: str
    operations: tuple[str, ...]
    rule: str | None
    reason: str | None
    instead: str | None


# -- the repository ----------------------------------------------------------------------------------------------------


def open_repository(path: str | os.PathLike[str] = ".", *, agent: str | None = None) -> OpenRepository:
    """Open the repository of the worktree that `path` is in.

    `agent` is the id of the agent that acts; by default AGENTOS_AGENT_ID, else the worktree's own id. Raises
    RepositoryError outside of a worktree, UnsupportedRepository if libgit2 cannot open it.
    """
    return OpenRepository(open_workspace(path, agent=agent), agent)


class OpenRepository:
    """A repository, seen from one of its worktrees, and the agent that acts in it. It belongs to one thread."""

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace = workspace
        self.checkpoints = Checkpoints(workspace)
        self.worktrees = Worktrees(workspace)
        self.runs = Runs(workspace)
        self.log = Log(workspace)
        self.guard = Guard(workspace, agent)

    @property
    def root(self) -> str:
        """The absolute path of the worktree's top."""
        return self._workspace.root

    @property
    def agent(self) -> str:
        """The id of the agent that acts."""
        return self._workspace.agent

    @property
    def worktree_id(self) -> str:
        """The worktree's id, which names its timeline."""
        return self._workspace.timeline

    def restore(
        self,
        checkpoint: str,
        *,
        paths: Sequence[str] = (),
        branch: str | None = None,
        keep_head: bool = False,
        keep_new: bool = False,
        dry_run: bool = False,
    ) -> RestoreResult:
        """Restore the state of a checkpoint, on a new branch (named `branch`). The state before is saved.

        `paths` limits it to files and directories, relative to the path that was opened. HEAD stays where it is with
        `paths` or `keep_head`. `keep_new` keeps files that the checkpoint does not have.
        """
        if branch is not None and (keep_head or paths):
            raise UsageError("'branch' cannot be combined with 'keep_head' or 'paths'")
        return _restore_result(
            self._workspace.restore(
                checkpoint, paths, branch=branch, no_branch=keep_head, keep_new=keep_new, dry_run=dry_run
            )
        )

    def undo(self, *, dry_run: bool = False) -> RestoreResult:
        """Go back to the state before the last restore or undo, HEAD's branch included."""
        return _restore_result(self._workspace.undo(dry_run=dry_run))

    def recover(self, *, abort: bool = False) -> RecoverResult:
        """Finish an interrupted restore, or with `abort` go back to the state before it."""
        return _recover_result(self._workspace.recover(abort=abort))


class Checkpoints:
    """The checkpoints of the worktree."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def create(
        self,
        description: str = "",
        *,
        trigger: str = "manual",
        task_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SavedCheckpoint:
        """Save the complete state of the worktree; nothing in it changes."""
        return _checkpoint(self._workspace.checkpoint(description, trigger=trigger, task_id=task_id, meta=metadata))

    def list(
        self,
        *,
        limit: int | None = None,
        since: datetime | None = None,
        task_id: str | None = None,
        trigger: str | None = None,
        agent: str | None = None,
    ) -> tuple[SavedCheckpoint, ...]:
        """The checkpoints of this worktree, or those that `agent` created; newest first."""
        text = None if since is None else since.astimezone().isoformat()
        found = self._workspace.checkpoints(limit=limit, since=text, task_id=task_id, trigger=trigger, agent=agent)
        return tuple(map(_checkpoint, found))

    def find(self, name: str) -> SavedCheckpoint:
        """The checkpoint that `name` names: at least 4 digits of its id, `latest`, or `@{N}`."""
        return _checkpoint(self._workspace.find(name))

    def search(self, text: str, *, limit: int | None = None) -> tuple[SavedCheckpoint, ...]:
        """The checkpoints in whose description, task, metadata or changed paths `text` occurs, newest first."""
        return tuple(map(_checkpoint, self._workspace.search(text, limit=limit)))

    def diff(self, older: str, newer: str | None = None, *, paths: Sequence[str] = ()) -> Diff:
        """What changed from checkpoint `older` to `newer`, or to the worktree as it is now."""
        return self._workspace.diff(older, newer, paths)

    def read_file(self, checkpoint: str, path: str) -> FileContent:
        """A file of a checkpoint, with the bytes that it had in the worktree; `path` is relative to the root."""
        return self._workspace.read_file(f"{checkpoint}:{path}")


class Worktrees:
    """The agents' worktrees of the repository."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def create(
        self,
        worktree_id: str,
        *,
        from_ref: str | None = None,
        task: str | None = None,
        sparse: Sequence[str] = (),
        revive: bool = False,
        guard: bool = True,
    ) -> Worktree:
        """Create a worktree on its branch `agent/<id>`, at `from_ref` or HEAD; or `revive` an archived one."""
        from git_agentos.worktree import creation

        return creation.create(
            self._workspace.context,
            worktree_id,
            from_ref=from_ref,
            task=task,
            sparse=sparse,
            revive=revive,
            guard=guard,
        )

    def list(self) -> tuple[Worktree, ...]:
        """All agents' worktrees, archived ones included."""
        from git_agentos.worktree import status

        return tuple(status.list_worktrees(self._workspace.context).worktrees)

    def show(self, worktree_id: str) -> Worktree:
        from git_agentos.worktree import status

        return status.show(self._workspace.context, worktree_id)

    def merge(
        self, worktree_ids: Sequence[str], *, into: str | None = None, squash: bool = False, dry_run: bool = False
    ) -> Merge:
        """Merge the committed work of agents, all of them or none; with conflicts in the result nothing was changed."""
        from git_agentos.worktree import agent_merge

        return agent_merge.merge(self._workspace.context, worktree_ids, into=into, squash=squash, dry_run=dry_run)

    def archive(self, worktree_id: str) -> Removal:
        """Remove a worktree after a checkpoint of everything in it; its branch stays."""
        from git_agentos.worktree import removal

        return removal.archive(self._workspace.context, worktree_id)

    def remove(self, worktree_id: str, *, delete_branch: bool = False, discard_ignored: bool = False) -> Removal:
        """Remove a worktree after a checkpoint of everything in it."""
        from git_agentos.worktree import removal

        return removal.remove(
            self._workspace.context, worktree_id, delete_branch=delete_branch, discard_ignored=discard_ignored
        )


class Runs:
    """Runs: an agent's commands and their validation, in a worktree of their own."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def start(
        self,
        agents: Sequence[str],
        validations: Sequence[str] = (),
        *,
        task: str | None = None,
        max_attempts: int = 1,
        timeout: float | None = None,
        observer: Observer | None = None,
    ) -> Run:
        """Run the agents' commands (shell text), then the validations, and return how the run ended.

        Call it in the main thread: signals interrupt it. `timeout` is in seconds, for each command.
        """
        from git_agentos.run import commands, spec

        given = {"task": task, "max_attempts": max_attempts, "timeout": timeout}
        wanted = spec.from_options(
            agents, validations, **{key: each for key, each in given.items() if each is not None}
        )
        return commands.start(self._workspace.context, wanted, observer)

    def resume(self, run_id: str, *, observer: Observer | None = None) -> Run:
        """Continue an interrupted run at the step that it was in."""
        from git_agentos.run import commands

        return commands.resume(self._workspace.context, run_id, observer)

    def list(self) -> tuple[Run, ...]:
        """All runs, newest first."""
        from git_agentos.run import query

        return tuple(query.list_runs(self._workspace.context))

    def show(self, run_id: str) -> Run:
        from git_agentos.run import query

        return query.show(self._workspace.context, run_id)


class Log:
    """The agent's log."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def add(
        self,
        kind: str,
        summary: str,
        *,
        details: Mapping[str, Any] | None = None,
        files: Sequence[str] = (),
        commit: str | None = None,
        task_id: str | None = None,
    ) -> LogEntry:
        """Write an entry; `kind` is `action`, `decision`, `error` …. Secrets are removed from it first."""
        from git_agentos import log

        return _log_entry(
            log.add(
                self._workspace.context, kind, summary, details=details, files=files, commit=commit, task_id=task_id
            )
        )

    def list(
        self,
        *,
        agent: str | None = None,
        all_agents: bool = False,
        kinds: Sequence[str] | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        text: str | None = None,
    ) -> tuple[LogEntry, ...]:
        """The entries of this worktree, of `agent`, or of all agents; newest first."""
        from git_agentos import log

        found = log.entries(
            self._workspace.context, agent=agent, every=all_agents, kinds=kinds, since=since, limit=limit, text=text
        )
        return tuple(map(_log_entry, found))


class Guard:
    """The guard's policy."""

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace = workspace
        self._agent = agent

    def check(self, argv: Sequence[str]) -> GuardDecision:
        """Whether the agent may run a command; it is not run. A person's commands are always allowed."""
        from git_agentos.guard import identity
        from git_agentos.guard.assessment import assessor
        from git_agentos.guard.call import Call

        folder = self._workspace.root
        caller = identity.identify(os.environ, identity.find_git_dir(folder), os.getpid(), self._agent)
        found = assessor.assess_argv(Call(tuple(argv), folder, os.environ), caller).decision
        return GuardDecision(found.decision, tuple(found.operations), found.rule, found.reason, found.instead)


# -- from the results of the domain ------------------------------------------------------------------------------------


def _checkpoint(found: Checkpoint) -> SavedCheckpoint:
    return SavedCheckpoint(
        id=found.id,
        created_at=datetime.fromisoformat(found.created_at),
        created_by=found.created_by,
        worktree_id=found.timeline,
        worktree_path=found.worktree_path,
        branch=found.branch,
        commit=found.commit,
        trigger=found.trigger,
        description=found.description,
        task_id=found.task_id,
        run_id=found.run_id,
        session_id=found.session_id,
        metadata=found.meta,
        staged=tuple(found.staged_changes),
        unstaged=tuple(found.unstaged_changes),
        untracked=tuple(found.untracked_files),
        skipped=tuple(found.skipped),
        operation=found.operation,
        unchanged=found.unchanged,
    )


def _restore_result(done: Restoration) -> RestoreResult:
    return RestoreResult(
        checkpoint=done.checkpoint,
        saved=done.saved,
        branch=done.branch,
        head=done.head,
        changed=tuple(done.changed),
        removed=tuple(done.removed),
        skipped=tuple(done.skipped),
        dry_run=done.dry_run,
    )


def _recover_result(done: Recovery) -> RecoverResult:
    return RecoverResult(
        outcome=done.outcome,
        checkpoint=done.checkpoint,
        saved=done.saved,
        branch=done.branch,
        changed=tuple(done.changed),
        removed=tuple(done.removed),
        skipped=tuple(done.skipped),
        cleaned=tuple(done.cleaned),
    )


def _log_entry(found: Entry) -> LogEntry:
    return LogEntry(
        id=found.id,
        timestamp=datetime.fromisoformat(found.timestamp),
        type=found.type,
        summary=found.summary,
        details=found.details,
        commit=found.commit,
        files=tuple(found.files_changed),
        task_id=found.task_id,
        checkpoint=found.checkpoint_id,
        agent=found.agent_id,
        worktree_id=found.worktree,
        redacted=found.redacted,
    )
