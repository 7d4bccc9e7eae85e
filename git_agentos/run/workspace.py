"""The workspace of a run: a worktree of its own at a recorded base, to which it can always be rolled back.

Setting up (`prepare_pre_run`) and reading (`current_context`, `snapshot`, `diff_summary`) are separate calls; rollbacks
work from the stored context, so another process, or the same after a crash, can continue a run by its id.

    service = GitWorktreeWorkspaceService("path/to/repository", base_ref="main")
    context = service.prepare_pre_run(run_id="T-42-1")
    ...                                  # an agent works in context.worktree_path
    service.mark_step(1)
    service.rollback_pre_run()           # discard and recreate at context.base_sha
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.hooks import pending
from git_agentos.run import branches, evidence_store, lock, preparation, query, rollback, sealing
from git_agentos.run import cleanup as cleaning
from git_agentos.run.accept import (
    Acceptance,
    ValidatedWork,
    acceptance_message,
    base_branch,
    merge_validated,
    recording_failure,
)
from git_agentos.run.context import WorkspaceContext, check_id, run_metadata
from git_agentos.run.events import PASSED, SERVICE, TDD, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.preparation import WorkspaceSpec
from git_agentos.run.rollback import PRE_RUN
from git_agentos.run.runner import seal_run
from git_agentos.run.service import (
    NullWorkspaceService,
    WorkspaceService,
    check_end_state,
    not_prepared,
    point_name,
)
from git_agentos.run.snapshot import WorkspaceSnapshot, add_log_entry, run_context, take_snapshot, visible_tree
from git_agentos.workspace import open_workspace
from git_agentos.worktree import layout

__all__ = [
    "GitWorktreeWorkspaceService", "NullWorkspaceService", "WorkspaceContext", "WorkspaceService", "WorkspaceSnapshot",
]  # fmt: skip


def _of_run(service: GitWorktreeWorkspaceService) -> dict[str, object]:
    """The operands of a call, for `authorize`."""
    return {"operands": (service._run_id,) if service._run_id is not None else ()}


def _guarded(service: GitWorktreeWorkspaceService) -> dict[str, object]:
    return {"guard": service._guard}


class GitWorktreeWorkspaceService(WorkspaceService):
    """A dedicated worktree under the stable root, on the branch `agentos/run-<run id>`, or `branch`.

    `repo` is a path in the repository, or the context of one of its worktrees; it says who acts. `base_ref` names the
    base (else `agentos.runBase`, else HEAD), `agent_id` is who works in it (else `run-<run id>`), `protected` are
    patterns of branches that are protected beside those that always are (`branches.protected_patterns`). `tool` is who
    drives the run, as its record says it. `run_id` picks up a run that is there; without it the service is fresh, and
    `prepare_pre_run` makes the run. `held` tells that the caller has the run's lock (`lock.hold`), which every call
    that changes something takes otherwise.
    """

    def __init__(  # noqa: PLR0913 - documented
        self,
        repo: str | os.PathLike[str] | OpenWorktree,
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
        self._context = repo if isinstance(repo, OpenWorktree) else open_workspace(repo).context
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
    def context(self) -> OpenWorktree:
        """Where the service works, and as whom."""
        return self._context

    @authorize.entry("worktree", "create", also=_guarded)
    def prepare_pre_run(self, *, run_id: str) -> WorkspaceContext:
        """Make the worktree at the base, ready for work; RunError where the run has one already.

        All or nothing: on an error nothing is left; the next call cleans up after one that was killed.
        """
        check_id(run_id)
        if self._run_id not in (None, run_id):
            raise RunError(f"this is the workspace of run '{self._run_id}'", "take another service for another run")
        plan = WorkspaceSpec(
            run_id,
            self._base_ref,
            self._task_id,
            self._agent_id,
            self._guard,
            tuple(branches.protected_patterns(self._context, self._protected)),
            self._branch,
            self._tool,
        )
        with self._lock(run_id):
            made = preparation.prepare(self._context, plan)
        self._run_id = run_id
        return made

    def current_context(self) -> WorkspaceContext | None:
        """The run's context with HEAD as it is now; None before `prepare_pre_run`. Of a worktree that is gone, the
        branch tells. RunError where there is no run `run_id`."""
        if self._run_id is None:
            return None
        run = preparation.recorded_context(self._context, self._run_id)
        if run is None:
            evidence_store.open_to_read(
                self._context.location, self._run_id
            )  # one that was begun, and has no worktree yet
            return None
        preparation.check_file(self._context, self._run_id)
        return replace(run, head_sha=self._head(run))

    def snapshot(self) -> WorkspaceSnapshot:
        """The state of the workspace, saved in a checkpoint; nothing in it changes."""
        run = self._prepared()
        return take_snapshot(run_context(self._context, run), run)

    def diff_summary(self) -> str:
        """What differs from the base, as `git diff --stat` tells it; empty where nothing does."""
        run = self._prepared()
        here = run_context(self._context, run)
        args = ("diff-tree", "-r", "--stat", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        out = here.repository.git(*args, run.base_sha, visible_tree(here))
        return out.decode("utf-8", "replace")

    @authorize.entry("checkpoint")
    def mark_step(self, n: int) -> str:
        """Make the state now the point `step:<n>`; its checkpoint's id."""
        run = self._prepared()
        point = point_name(n)
        with self._lock(run.run_id):
            here = run_context(self._context, run)
            description, meta = f"run {run.run_id}: {point}", {"point": point}
            metadata = run_metadata(here, run, trigger="pre_step", description=description, meta=meta)
            pending.record(
                here.location
            )  # else the checkpoint of a git command that has just ended would be the newest
            taken = create_checkpoint(here, metadata)
            evidence_store.open_or_rebuild(here.location, run.run_id).event(
                "marked", n=n, checkpoint=taken.checkpoint.id
            )
        return taken.checkpoint.id

    @authorize.entry("rollback", named=("point",), also=_of_run)
    def rollback_to(self, point: int | str) -> WorkspaceContext:
        """Roll back to the point of a step (a number or `step:N`), `pre_run`, or a checkpoint of the run's timeline."""
        run = self._prepared()
        with self._lock(run.run_id):
            done = rollback.rollback_worktree(self._context, run, point_name(point))
            with contextlib.suppress(RunError):  # it is done, also where the evidence is gone or damaged
                kept = evidence_store.open_or_rebuild(self._context.location, run.run_id)
                kept.event("rolled-back", **done.fields())
                if kept.state().recorded.final_checkpoint is not None:
                    sealing.seal(run_context(self._context, run), kept, kept.run(alive=True))
        return replace(run, head_sha=self._head(run))

    # -- the end: only the orchestrator knows how the run went ---------------------------------------------------------

    @authorize.entry("run", "accept")
    def accept(self, *, into: str | None = None, squash: bool = False, cleanup: bool = False) -> Acceptance:
        """Merge the worktree as it stands into `into` (its base's branch), as `worktree merge` does, and end the run as
        accepted; one that was ended as passed can be accepted too. What is in no commit is committed on its branch
        first. With conflicts nothing has changed."""
        context, run_id = self._context, self._prepared().run_id
        with self._lock(run_id) as is_ours:
            evidence = self._open(run_id, is_ours, passed=True)
            run = evidence_store.workspace_of(context, evidence)
            target = into if into is not None else base_branch(context, run)
            here = run_context(context, run)
            now = take_snapshot(here, run).checkpoint
            message = acceptance_message(evidence.run(alive=True))
            work = ValidatedWork(run, here, now, now)
            made = merge_validated(context, work, into=target, message=message, squash=squash, check=evidence.check)
            if made.conflicts:
                return Acceptance(query.current_run(context, evidence, is_ours=True), made)
            with recording_failure(run_id, made):
                if evidence.state().ended is None:
                    evidence.event("ended", state=PASSED, reason=None)
                evidence.event("accepted", into=made.target, merge_commit=made.merge_commit)
                seal_run(context, evidence)
            return Acceptance(cleaning.finish(context, evidence, wanted=cleanup), made)

    def end(
        self, state: str, reason: str | None = None, *, roll_back: bool = False, cleanup: bool = False
    ) -> Run:  # fmt: skip
        """End the run as `passed`, `failed` or `cancelled`; its worktree stays as it is. `roll_back` takes that back to
        where the run began before, `cleanup` archives it afterwards, and deletes the branch. RunError where the run has
        ended, or is not driven through the service."""
        if cleanup:
            return self._end_and_clean(state, reason, roll_back=roll_back)
        return self._end(state, reason, roll_back=roll_back)

    @authorize.entry("run", "cancel", named=("state", "reason"), also=_of_run)
    def _end(self, state: str, reason: str | None, *, roll_back: bool, cleanup: bool = False) -> Run:
        context, run_id = self._context, self._prepared().run_id
        with self._lock(run_id) as is_ours:
            check_end_state(state)
            evidence = self._open(run_id, is_ours)
            run = evidence_store.workspace_of(context, evidence)
            if roll_back:
                rollback.rollback_and_record(context, run, evidence, PRE_RUN)
            with contextlib.suppress(RunError):  # its worktree is gone
                details = {"reason": reason} if reason else {}
                kind = "action" if state == PASSED else "error"
                add_log_entry(context, run, kind, f"run {run_id} {state}", details)
            evidence.event("ended", state=state, reason=reason)
            seal_run(context, evidence)
            return cleaning.finish(context, evidence, wanted=cleanup)

    @authorize.entry("run", "cleanup", named=("state", "reason"), also=_of_run)
    def _end_and_clean(self, state: str, reason: str | None, *, roll_back: bool) -> Run:
        return self._end(state, reason, roll_back=roll_back, cleanup=True)

    # -- inside ---------------------------------------------------------------------------------------------

    def _lock(self, run_id: str) -> AbstractContextManager[Callable[[], bool]]:
        return contextlib.nullcontext(lambda: True) if self._held else lock.hold(self._context.location, run_id)

    def _open(self, run_id: str, is_ours: Callable[[], bool], *, passed: bool = False) -> Evidence:
        """The evidence of the open run, pinned; with `passed` also of one that has passed and was not merged yet."""
        evidence = evidence_store.open_or_rebuild(self._context.location, run_id)
        evidence.pin(is_ours)
        run = evidence.run()
        if evidence.state().ended is not None and not (passed and run.state == PASSED and run.is_external):
            raise RunError(f"run '{run_id}' has ended: {run.state}", f"git agentos run show {run_id} shows details")
        if not run.is_external or run.tool == TDD:
            word = "tdd abort" if run.tool == TDD else "run cancel"
            raise RunError(f"run '{run_id}' is driven by '{run.tool}'", f"git agentos {word} {run_id} ends it")
        return evidence

    def _prepared(self) -> WorkspaceContext:
        found = None if self._run_id is None else preparation.recorded_context(self._context, self._run_id)
        if found is None:
            if self._run_id is not None:
                evidence_store.open_to_read(self._context.location, self._run_id)
            raise not_prepared()
        return found

    def _head(self, run: WorkspaceContext) -> str:
        with contextlib.suppress(AgentosError):
            head = refs.read_head(run_context(self._context, run).location)
            if head.commit is not None:
                return head.commit
        return refs.resolve(self._context.location, layout.HEADS + run.branch_name) or run.base_sha
