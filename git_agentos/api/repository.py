"""`open_repository()`: the entry point of the API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from git_agentos.api.checkpoints import Checkpoints, check_host
from git_agentos.api.conversion import convert
from git_agentos.api.fleets import Fleets
from git_agentos.api.guard import Approvals, Guard
from git_agentos.api.log import Log
from git_agentos.api.remotes import Remotes
from git_agentos.api.report_results import Report
from git_agentos.api.results import ExplainedLine, RecoverResult, RepositoryStatus, RestoreResult
from git_agentos.api.runs import Runs, run_result
from git_agentos.api.turns import Turns
from git_agentos.api.worktrees import Worktrees
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from git_agentos.findings import Finding


def open_repository(path: str | os.PathLike[str] = ".", *, agent: str | None = None) -> OpenRepository:
    """Open the repository of the worktree that `path` is in.

    `agent` is the id of the agent that acts; by default AGENTOS_AGENT_ID, else the worktree's own id. Raises
    RepositoryError outside a worktree, UnsupportedRepository if libgit2 cannot open it.
    """
    return OpenRepository(open_workspace(path, agent=agent), agent)


class OpenRepository:
    """A repository, seen from one of its worktrees, and the agent that acts in it. It belongs to one thread."""

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace = workspace
        self.checkpoints = Checkpoints(workspace, agent)
        self.worktrees = Worktrees(workspace)
        self.runs = Runs(workspace)
        self.fleets = Fleets(workspace)
        self.remotes = Remotes(workspace)
        self.log = Log(workspace)
        self.turns = Turns(workspace)
        self.guard = Guard(workspace, agent)
        self.approvals = Approvals(workspace, agent)

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

    def open_worktree(self, worktree_id: str) -> OpenRepository:
        """The repository as seen from an agent's worktree: its checkpoints, its log, its restore."""
        from git_agentos.worktree import status

        return open_repository(status.path(self._workspace.context, worktree_id))

    def restore(  # noqa: PLR0913 - the options of the command, documented
        self,
        checkpoint: str,
        *,
        paths: Sequence[str] = (),
        branch: str | None = None,
        keep_head: bool = False,
        keep_new: bool = False,
        hunks: Mapping[str, Sequence[int]] | None = None,
        dry_run: bool = False,
        expected: str | None = None,
        idempotency_key: str | None = None,
        host: str | None = None,
        worktree_id: str | None = None,
    ) -> RestoreResult:
        """Restore the state of a checkpoint, on a new branch (named `branch`). The state before is saved.

        With `expected` (the `state` of a dry run), ChangedState is raised if anything has changed since. A second call
        with the same `idempotency_key` does nothing and returns the result of the first.

        `paths` limits it to files and directories, relative to the path that was opened. HEAD does not move with
        `paths` or `keep_head`. `keep_new` keeps files that the checkpoint does not have. With `host`, the checkpoint is
        one of that host, as for `checkpoints.find`.

        `hunks` limits it to hunks of files, by path and number (`HunkHeader.number` of `checkpoints.diff(checkpoint)`).
        It changes the files alone, not the index, and goes with `dry_run` only.
        """
        check_host(host, worktree_id)
        if branch is not None and (keep_head or paths):
            raise UsageError("'branch' cannot be combined with 'keep_head' or 'paths'")
        specs = [f"{path}:{','.join(map(str, numbers))}" for path, numbers in (hunks or {}).items()]
        done = self._workspace.restore(
            checkpoint,
            paths,
            branch=branch,
            no_branch=keep_head,
            keep_new=keep_new,
            hunks=specs,
            dry_run=dry_run,
            expected=expected,
            idempotency_key=idempotency_key,
            agent=worktree_id,
            host=host,
        )
        return convert(RestoreResult, done)

    def undo(
        self, *, dry_run: bool = False, expected: str | None = None, idempotency_key: str | None = None
    ) -> RestoreResult:
        """Restore the state before the last restore or undo, HEAD's branch included. `expected` and `idempotency_key`
        as in `restore`."""
        return convert(
            RestoreResult,
            self._workspace.undo(dry_run=dry_run, expected=expected, idempotency_key=idempotency_key),
        )

    def recover(self, *, abort: bool = False) -> RecoverResult:
        """Finish an interrupted restore, or with `abort` return to the state before it."""
        return convert(RecoverResult, self._workspace.recover(abort=abort))

    def why(self, path: str, line: int | None = None) -> tuple[ExplainedLine, ...]:
        """Which turn, checkpoint and commit each line of a file comes from, or one line, counted from 1. The path is
        relative to the one that was opened."""
        from git_agentos.why import explain

        [name] = self._workspace.relative([path])
        found = explain.why(self._workspace.context, os.fsencode(name), line)
        return tuple(convert(ExplainedLine, each) for each in found.lines)

    def status(self) -> RepositoryStatus:
        """Changes, the last checkpoint, and unfinished work in the repository."""
        from git_agentos import overview

        found = overview.status(self._workspace)
        return convert(
            RepositoryStatus,
            found.worktree,
            interrupted_runs=found.interrupted_runs,
            open_workflows=found.open_workflows,
            guard_problems=found.guard_problems,
        )

    def report(self, agents: Sequence[str] = (), *, since: datetime | None = None) -> Report:
        """What all agents did, or these, with the conflicts, the storage and the runs of all. `since` leaves out what
        happened before. WorktreeError if one of `agents` has no worktree."""
        from git_agentos.report import collection

        if isinstance(agents, str):
            raise UsageError("'agents' is a sequence of ids")
        found = collection.collect(self._workspace.context, agents, since=since)
        return convert(Report, found, runs=tuple(map(run_result, found.runs)))

    def doctor(self, *, fix: bool = False) -> tuple[Finding, ...]:
        """The problems of the repository; with `fix`, those are fixed that can be fixed safely."""
        from git_agentos import overview

        return overview.examine(self._workspace, overview.watch(self._workspace.context), fix=fix)
