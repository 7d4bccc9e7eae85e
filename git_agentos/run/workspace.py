"""The workspace of a run: a worktree of its own at a recorded base, that can always be taken back there.

Setting up (`prepare_pre_run`) and looking (`current_context`, `snapshot`, `diff_summary`) are separate calls; whatever
rolls back works from the stored context, so another process, or the same after a crash, picks a run up by its id.

    service = GitWorktreeWorkspaceService("path/to/repository", base_ref="main")
    context = service.prepare_pre_run(run_id="T-42-1")
    ...                                  # an agent works in context.worktree_path
    service.mark_step(1)
    service.rollback_pre_run()           # discard and recreate at context.base_sha
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from git_agentos.checkpoint import capture, format, take
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, RunError
from git_agentos.git import moment, refs, trees
from git_agentos.guard import authorize
from git_agentos.run import lock, preparation
from git_agentos.run.context import WorkspaceContext, check_id, worktree_id
from git_agentos.run.preparation import Plan
from git_agentos.run.record import evidence as folders
from git_agentos.run.record import recovery
from git_agentos.run.record.events import SERVICE
from git_agentos.run.rollback import rollback
from git_agentos.run.rollback.rollback import PRE_RUN
from git_agentos.workspace import open_workspace
from git_agentos.worktree import end, place, record

__all__ = [
    "GitWorktreeWorkspaceService", "NullWorkspaceService", "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot",
    "inner",
]  # fmt: skip


@dataclass(frozen=True)
class WorkspaceSnapshot:
    """How a run's worktree stands; the fields are the keys of its JSON.

    `head_sha` and `branch` are HEAD's (None: unborn, detached); `tree` is the tree of all visible files; `checkpoint`
    the id that holds this state; `commits` the run's own, newest first; `staged`, `unstaged`, `untracked` and
    `changed` (all that differs from the base) are paths; `digest` is the same for the same state.
    """

    run_id: str
    head_sha: str | None
    branch: str | None
    tree: str
    checkpoint: str
    commits: list[str]
    staged: list[str]
    unstaged: list[str]
    untracked: list[str]
    changed: list[str]
    digest: str
    taken_at: str


class WorkspaceService(Protocol):
    """What an orchestrator asks of a run's workspace."""

    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """Make the workspace of a run, and record its base. RunError where the run has one already."""

    def rollback_pre_run(self) -> WorkspaceContext:
        """Discard what the run did, and make the workspace anew at its base. What is discarded is saved first."""

    def current_context(self) -> WorkspaceContext | None:
        """The run's context with HEAD as it is now; None before `prepare_pre_run`."""

    def snapshot(self) -> WorkspaceSnapshot:
        """How the workspace stands. Nothing changes in it."""

    def diff_summary(self) -> str:
        """What differs from the base, for people: as `git diff --stat` tells it; empty where nothing does."""

    def mark_step(self, n: int) -> str:
        """Make the state now the point `step:<n>`; its checkpoint's id."""

    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """Back to a step's point (a number or `step:N`), `pre_run`, or a checkpoint of the run's timeline."""


class NullWorkspaceService:
    """A workspace that is none: it keeps a context in memory and never touches anything. For tests, and for runs that
    need no boundary."""

    def __init__(
        self,
        root: str = os.sep,
        *,
        task_id: str | None = None,
        agent_id: str | None = None,
        branch: str | None = None,
    ) -> None:
        self._root = root
        self._branch = branch
        self._task_id = task_id
        self._agent_id = agent_id
        self._context: WorkspaceContext | None = None
        self._points: set[str] = {PRE_RUN}

    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """A context for the run, of commits that there are none of."""
        check_id(run_id)
        if self._context is not None:
            raise folders.taken(run_id)
        self._context = WorkspaceContext(
            run_id=run_id,
            repo_root=self._root,
            worktree_path=self._root,
            branch_name=self._branch or record.branch_of(worktree_id(run_id), run_id),
            base_ref="HEAD",
            base_sha=refs.ZERO,
            head_sha=refs.ZERO,
            created_at=_now(),
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
        """A workspace in which nothing is."""
        run = self._prepared()
        return WorkspaceSnapshot(
            run.run_id, refs.ZERO, run.branch_name, trees.EMPTY_TREE, refs.ZERO, [], [], [], [], [], refs.ZERO, _now()
        )

    def diff_summary(self) -> str:
        """Nothing differs."""
        self._prepared()
        return ""

    def mark_step(self, n: int) -> str:
        """Remember that there is such a point."""
        self._prepared()
        self._points.add(_point(n))
        return refs.ZERO

    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """The same context; RunError for a point that was never marked."""
        run = self._prepared()
        if _point(point) not in self._points:
            raise RunError(f"run '{run.run_id}' has no point '{_point(point)}'", "mark_step makes one")
        return run

    def _prepared(self) -> WorkspaceContext:
        if self._context is None:
            raise _not_prepared()
        return self._context


def _of_run(service: GitWorktreeWorkspaceService) -> dict[str, object]:
    """What a call for a run is about, for whoever has to allow it."""
    return {"operands": (service._run_id,) if service._run_id is not None else ()}


def _guarded(service: GitWorktreeWorkspaceService) -> dict[str, object]:
    return {"guard": service._guard}


class GitWorktreeWorkspaceService:
    """A dedicated worktree under the stable root, on the branch `agentos/run-<run id>`, or `branch`.

    `repo` is a path in the repository, or the context of one of its worktrees; it says who acts. `base_ref` names the
    base (else `agentos.runBase`, else HEAD), `agent_id` is who works in it (else `run-<run id>`), `protected` are
    patterns of branches that the guard closes to it. `tool` is who drives the run, as its record says it. `run_id`
    picks a run up from disk. `held` tells that the caller has the run's lock (`lock.hold`), which every call that
    changes something takes otherwise.
    """

    def __init__(
        self,
        repo: str | os.PathLike[str] | Context,
        *,
        base_ref: str | None = None,
        task_id: str | None = None,
        agent_id: str | None = None,
        guard: bool = True,
        protected: Sequence[str] = (),
        branch: str | None = None,
        tool: str = SERVICE,
        run_id: str | None = None,
        held: bool = False,
    ) -> None:
        self._context = repo if isinstance(repo, Context) else open_workspace(repo).context
        self._base_ref = base_ref
        self._task_id = task_id
        self._agent_id = agent_id
        self._guard = guard
        self._protected = tuple(protected)
        self._branch = branch
        self._tool = tool
        self._run_id = None if run_id is None else check_id(run_id)
        self._held = held

    @property
    def context(self) -> Context:
        """Where the service works, and as whom."""
        return self._context

    @authorize.entry("worktree", "create", also=_guarded)
    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """Make the worktree at the base, ready for work; RunError where the run has one already.

        All or nothing: on any error nothing is left. What a killed call has left is settled by the next.
        """
        check_id(run_id)
        if self._run_id not in (None, run_id):
            raise RunError(f"this is the workspace of run '{self._run_id}'", "take another service for another run")
        plan = Plan(
            run_id,
            self._base_ref,
            self._task_id,
            self._agent_id,
            self._guard,
            self._protected,
            self._branch,
            self._tool,
        )
        with self._turn(run_id):
            made = preparation.prepare(self._context, plan)
        self._run_id = run_id
        return made

    def rollback_pre_run(self) -> WorkspaceContext:
        """Discard what the run did, and make the workspace anew at its base. What is discarded is saved first."""
        return self.rollback_to(PRE_RUN)

    def current_context(self) -> WorkspaceContext | None:
        """The run's context with HEAD as it is now; None before `prepare_pre_run`. Of a worktree that is gone, the
        branch tells."""
        if self._run_id is None:
            return None
        run = preparation.recorded(self._context, self._run_id)
        if run is None:
            return None
        preparation.check_file(self._context, self._run_id)
        return replace(run, head_sha=self._head(run))

    def snapshot(self) -> WorkspaceSnapshot:
        """How the workspace stands; nothing in it changes, and a checkpoint holds it."""
        run = self._prepared()
        return snapshot(inner(self._context, run), run)

    def diff_summary(self) -> str:
        """What differs from the base, as `git diff --stat` tells it; empty where nothing does."""
        run = self._prepared()
        here = inner(self._context, run)
        with here.repository.writer() as writer:
            state = capture.capture(here.repository, writer, here.settings)
            writer.flush()
            args = ("diff-tree", "-r", "--stat", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
            out = here.repository.git(*args, run.base_sha, state.visible_tree)
        return out.decode("utf-8", "replace")

    @authorize.entry("checkpoint")
    def mark_step(self, n: int) -> str:
        """Make the state now the point `step:<n>`; its checkpoint's id."""
        run = self._prepared()
        point = _point(n)
        with self._turn(run.run_id):
            here = inner(self._context, run)
            origin = here.origin(
                trigger="pre_step",
                description=f"run {run.run_id}: {point}",
                task_id=run.task_id,
                run_id=run.run_id,
                meta={"point": point},
            )
            taken = take.take(here.repository, here.settings, origin)
            recovery.have(here.location, run.run_id).event("marked", n=n, checkpoint=taken.checkpoint.id)
        return taken.checkpoint.id

    @authorize.entry("rollback", named=("point",), also=_of_run)
    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """Back to a step's point (a number or `step:N`), `pre_run`, or a checkpoint of the run's timeline."""
        run = self._prepared()
        with self._turn(run.run_id):
            done = rollback.rollback(self._context, run, _point(point))
            with contextlib.suppress(RunError):  # it is done, also where the evidence is gone or damaged
                kept = recovery.have(self._context.location, run.run_id)
                kept.event("rolled-back", point=done.point, checkpoint=done.checkpoint, saved=done.saved)
                if kept.state().final_checkpoint is not None:
                    folders.seal(inner(self._context, run), kept, kept.run(alive=True))
        return replace(run, head_sha=self._head(run))

    # -- inside ---------------------------------------------------------------------------------------------

    def _turn(self, run_id: str) -> AbstractContextManager[object]:
        return contextlib.nullcontext() if self._held else lock.hold(self._context.location, run_id)

    def _prepared(self) -> WorkspaceContext:
        found = None if self._run_id is None else preparation.recorded(self._context, self._run_id)
        if found is None:
            raise _not_prepared()
        return found

    def _head(self, run: WorkspaceContext) -> str:
        with contextlib.suppress(AgentosError):
            head = refs.read_head(inner(self._context, run).location)
            if head.commit is not None:
                return head.commit
        return refs.resolve(self._context.location, place.HEADS + run.branch_name) or run.base_sha


def inner(context: Context, run: WorkspaceContext) -> Context:
    """The run's agent at work in the run's worktree; RunError where that is not what was made."""
    id_ = worktree_id(run.run_id)
    hint = f"git agentos rollback {run.run_id} saves what can be read, and makes it again"
    managed = next((each for each in record.managed(context.location.common_dir) if each.id == id_), None)
    if managed is None:
        revived = f"git agentos worktree create {id_} --revive brings it back, if it was archived"
        raise RunError(f"the worktree of run '{run.run_id}' is gone", f"{revived}\n{hint}")
    root = managed.root
    if os.path.islink(root) or not os.path.isdir(root):
        raise RunError(f"the worktree of run '{run.run_id}' is not in '{root}'", hint)
    pointed = end.pointed_at(root)
    if pointed is None or os.path.realpath(pointed) != os.path.realpath(managed.git_dir):
        raise RunError(f"'{root}' is not the worktree of run '{run.run_id}' any more: its '.git' is another", hint)
    try:
        refs.read_head(managed.location)
        return end.inner_context(context, managed)._replace(agent=run.agent_id)
    except (AgentosError, OSError) as error:
        raise RunError(f"the worktree of run '{run.run_id}' is damaged: {error}", hint) from error


def snapshot(here: Context, run: WorkspaceContext) -> WorkspaceSnapshot:
    """How a run's worktree `here` stands; nothing in it changes, and a checkpoint holds it."""
    origin = here.origin(trigger="post_step", description=f"run {run.run_id}", task_id=run.task_id, run_id=run.run_id)
    taken = take.take(here.repository, here.settings, origin)
    state = taken.state
    base = here.repository.commit_tree(run.base_sha)
    with here.repository.writer() as store:
        changed = trees.diff(store, base, state.visible_tree)
    commits = here.repository.git("rev-list", f"{run.base_sha}..{state.head.commit}") if state.head.commit else b""
    return WorkspaceSnapshot(
        run_id=run.run_id,
        head_sha=state.head.commit,
        branch=state.head.branch,
        tree=state.visible_tree,
        checkpoint=taken.checkpoint.id,
        commits=commits.decode().split(),
        staged=[os.fsdecode(path) for path in state.staged],
        unstaged=[os.fsdecode(path) for path in state.unstaged],
        untracked=[os.fsdecode(path) for path in state.untracked],
        changed=[os.fsdecode(path) for path in sorted(changed)],
        digest=format.digest(state),
        taken_at=_now(),
    )


def _point(point: int | str) -> str:
    return f"step:{point}" if isinstance(point, int) else point


def _not_prepared() -> RunError:
    return RunError("the run has no workspace yet", "prepare_pre_run makes it")


def _now() -> str:
    return moment.stamp(datetime.now(UTC))
