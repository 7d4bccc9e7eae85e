"""The service of a run's workspace, as an orchestrator calls it; and one without git."""

from __future__ import annotations

import atexit
import os
import tempfile
from dataclasses import replace
from typing import Protocol

from git_agentos.errors import RunError, UsageError
from git_agentos.git.hash_algorithm import SHA1
from git_agentos.process import deletion
from git_agentos.run import evidence_store
from git_agentos.run.accept import Acceptance
from git_agentos.run.context import WorkspaceContext, check_id, worktree_id
from git_agentos.run.events import ACCEPTED, CANCELLED, FAILED, PASSED, PRE_RUN, Run
from git_agentos.run.snapshot import WorkspaceSnapshot
from git_agentos.util import times
from git_agentos.worktree import record
from git_agentos.worktree.agent_merge import Merge

_NO_COMMIT = SHA1.zero  # a dry run has no repository; these are git's default ids


class WorkspaceService(Protocol):
    """The calls of an orchestrator for a run's workspace."""

    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """Make the workspace of a run, and record its base. RunError where the run has one already."""

    def rollback_pre_run(self) -> WorkspaceContext:
        """Reset the workspace to its base. What the run did is saved first."""
        return self.rollback_to(PRE_RUN)

    def current_context(self) -> WorkspaceContext | None:
        """The run's context with HEAD as it is now; None before `prepare_pre_run`. RunError where the service was to
        pick up a run that is not there."""

    def snapshot(self) -> WorkspaceSnapshot:
        """The state of the workspace. Nothing changes in it."""

    def diff_summary(self) -> str:
        """What differs from the base, for people: as `git diff --stat` tells it; empty where nothing does."""

    def mark_step(self, n: int) -> str:
        """Make the state now the point `step:<n>`; its checkpoint's id."""

    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """Roll back to the point of a step (a number or `step:N`), `pre_run`, or a checkpoint of the run's timeline."""

    def end(
        self, state: str, reason: str | None = None, *, roll_back: bool = False, cleanup: bool = False
    ) -> Run:  # fmt: skip
        """End the run as `passed`, `failed` or `cancelled`."""

    def cancel(self, reason: str | None = None, *, roll_back: bool = False) -> Run:
        """End the run as cancelled."""
        return self.end(CANCELLED, reason, roll_back=roll_back)

    def abandon(self, reason: str | None = None) -> Run:
        """End the run as cancelled, archive its worktree and delete its branch; nothing is lost."""
        return self.end(CANCELLED, reason, cleanup=True)

    def accept(self, *, into: str | None = None, squash: bool = False, cleanup: bool = False) -> Acceptance:
        """Merge the workspace as it stands into a branch, and end the run as accepted."""


class NullWorkspaceService(WorkspaceService):
    """A workspace without git: it keeps a context in memory and never changes anything. For tests, and for runs that
    need no boundary.

    `root` is the folder that the run works in. Without one it is an empty folder of its own, made by `prepare_pre_run`
    and removed when this process ends. UsageError for `/` and for what is no folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        task_id: str | None = None,
        agent_id: str | None = None,
        branch: str | None = None,
    ) -> None:
        self._root = None if root is None else _null_root(os.fspath(root))
        self._branch = branch
        self._task_id = task_id
        self._agent_id = agent_id
        self._context: WorkspaceContext | None = None
        self._points: set[str] = {PRE_RUN}
        self._ended: str | None = None

    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """A context for the run, with a null commit."""
        check_id(run_id)
        if self._context is not None:
            raise evidence_store.id_taken(run_id)
        root = self._root or _folder_until_exit()
        self._context = WorkspaceContext(
            run_id=run_id,
            repo_root=root,
            worktree_path=root,
            branch_name=self._branch or record.branch_of(worktree_id(run_id), run_id),
            base_ref="HEAD",
            base_sha=_NO_COMMIT,
            head_sha=_NO_COMMIT,
            created_at=times.now_text(),
            task_id=self._task_id,
            agent_id=self._agent_id or worktree_id(run_id),
        )
        return self._context

    def current_context(self) -> WorkspaceContext | None:
        """The context that `prepare_pre_run` made."""
        return self._context

    def snapshot(self) -> WorkspaceSnapshot:
        """A snapshot of nothing."""
        run = self._prepared()
        none: list[str] = []
        return WorkspaceSnapshot(
            run.run_id, _NO_COMMIT, run.branch_name, SHA1.empty_tree, _NO_COMMIT, none, none, none, none, none,
            _NO_COMMIT, times.now_text(),
        )  # fmt: skip

    def diff_summary(self) -> str:
        """Nothing differs."""
        self._prepared()
        return ""

    def mark_step(self, n: int) -> str:
        """Remember that there is such a point."""
        self._prepared()
        self._points.add(point_name(n))
        return _NO_COMMIT

    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """The same context; RunError for a point that was never marked."""
        run = self._prepared()
        if point_name(point) not in self._points:
            raise RunError(f"run '{run.run_id}' has no point '{point_name(point)}'", "mark_step makes one")
        return run

    def end(
        self, state: str, reason: str | None = None, *, roll_back: bool = False, cleanup: bool = False  # noqa: ARG002
    ) -> Run:  # fmt: skip
        """The run, ended so; RunError where it has ended."""
        check_end_state(state)
        return self._end(state, reason)

    def accept(
        self, *, into: str | None = None, squash: bool = False, cleanup: bool = False  # noqa: ARG002
    ) -> Acceptance:  # fmt: skip
        """The run, accepted; there was nothing to merge."""
        target = into or "HEAD"
        run = replace(self._end(ACCEPTED, None), accepted_into=target, merge_commit=_NO_COMMIT)
        merge = Merge(merged=False, target=target, before=_NO_COMMIT, merge_commit=_NO_COMMIT, squashed=squash)
        return Acceptance(run, merge)

    def _end(self, state: str, reason: str | None) -> Run:
        context = self._prepared()
        if self._ended is not None:
            raise RunError(f"run '{context.run_id}' has ended: {self._ended}", "take another service for another run")
        self._ended = state
        run = Run(
            context.run_id, state, reason, context, context.task_id, evidence=context.worktree_path, guarded=False
        )
        return replace(run, started_at=context.created_at, ended_at=times.now_text())

    def _prepared(self) -> WorkspaceContext:
        if self._context is None:
            raise not_prepared()
        return self._context


def _null_root(root: str) -> str:
    """The folder of the workspace, absolute."""
    path = os.path.realpath(root)
    if not root or not os.path.isdir(path):
        raise UsageError(f"there is no folder '{root}'", "give a folder that is there, or none")
    if path == os.path.dirname(path):
        raise UsageError(f"a run cannot work in '{path}'", "give a folder of its own, or none")
    return path


def _folder_until_exit() -> str:
    """An empty folder that is removed when this process ends."""
    path, owner = os.path.realpath(tempfile.mkdtemp(prefix="agentos-run-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not a child that was forked meanwhile
            deletion.remove_folder(path)

    atexit.register(remove)
    return path


def point_name(point: int | str) -> str:
    """The name of a point: `step:2` for 2."""
    return f"step:{point}" if isinstance(point, int) else point


def not_prepared() -> RunError:
    """The error for a run that has no workspace."""
    return RunError("the run has no workspace yet", "prepare_pre_run makes it")


def check_end_state(state: str) -> None:
    """UsageError for a state in which an orchestrator cannot end a run."""
    if state not in (PASSED, FAILED, CANCELLED):
        raise UsageError(f"a run cannot end as '{state}'", f"one of: {PASSED}, {FAILED}, {CANCELLED}")
