"""A workspace without git, for tests and for runs that need no boundary."""

from __future__ import annotations

import atexit
import os
import tempfile
from dataclasses import replace

from git_agentos.errors import RunError, UsageError
from git_agentos.git import refs, trees
from git_agentos.process import deletion
from git_agentos.run import evidence_store
from git_agentos.run.accept import Acceptance
from git_agentos.run.context import WorkspaceContext, check_id, worktree_id
from git_agentos.run.events import ACCEPTED, CANCELLED, FAILED, PASSED, PRE_RUN, Run
from git_agentos.run.snapshot import WorkspaceSnapshot
from git_agentos.util import times
from git_agentos.worktree import record
from git_agentos.worktree.agent_merge import Merge


class NullWorkspaceService:
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
            base_sha=refs.ZERO,
            head_sha=refs.ZERO,
            created_at=times.now_text(),
            task_id=self._task_id,
            agent_id=self._agent_id or worktree_id(run_id),
        )
        return self._context

    def rollback_pre_run(self) -> WorkspaceContext:
        """The same context: nothing was done."""
        return self.rollback_to(PRE_RUN)

    def current_context(self) -> WorkspaceContext | None:
        """The context that `prepare_pre_run` made."""
        return self._context

    def snapshot(self) -> WorkspaceSnapshot:
        """A snapshot of nothing."""
        run = self._prepared()
        return WorkspaceSnapshot(
            run.run_id,
            refs.ZERO,
            run.branch_name,
            trees.EMPTY_TREE,
            refs.ZERO,
            [],
            [],
            [],
            [],
            [],
            refs.ZERO,
            times.now_text(),
        )

    def diff_summary(self) -> str:
        """Nothing differs."""
        self._prepared()
        return ""

    def mark_step(self, n: int) -> str:
        """Remember that there is such a point."""
        self._prepared()
        self._points.add(point_name(n))
        return refs.ZERO

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
        if state not in (PASSED, FAILED, CANCELLED):
            raise UsageError(f"a run cannot end as '{state}'", f"one of: {PASSED}, {FAILED}, {CANCELLED}")
        return self._end(state, reason)

    def cancel(self, reason: str | None = None, *, roll_back: bool = False) -> Run:  # noqa: ARG002
        """The run, cancelled."""
        return self.end(CANCELLED, reason)

    def abandon(self, reason: str | None = None) -> Run:
        """The run, cancelled."""
        return self.end(CANCELLED, reason)

    def accept(
        self, *, into: str | None = None, squash: bool = False, cleanup: bool = False  # noqa: ARG002
    ) -> Acceptance:  # fmt: skip
        """The run, accepted; there was nothing to merge."""
        target = into or "HEAD"
        run = replace(self._end(ACCEPTED, None), accepted_into=target, merge_commit=refs.ZERO)
        merge = Merge(
            merged=False, target=target, before=refs.ZERO, merge_commit=refs.ZERO, sources=[], conflicts=[], saved=None,
            worktree_path=None, squashed=squash, dry_run=False,
        )  # fmt: skip
        return Acceptance(run, merge)

    def _end(self, state: str, reason: str | None) -> Run:
        context = self._prepared()
        if self._ended is not None:
            raise RunError(f"run '{context.run_id}' has ended: {self._ended}", "take another service for another run")
        self._ended = state
        return Run(
            run_id=context.run_id, state=state, reason=reason, context=context, task_id=context.task_id, steps=[],
            attempts=[], evidence=context.worktree_path, max_attempts=1, on_failure="keep", guarded=False, protected=[],
            started_at=context.created_at, ended_at=times.now_text(),
        )  # fmt: skip

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
