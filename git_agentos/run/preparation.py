"""Making the workspace of a run: all of it or nothing; the next attempt cleans up after one that was killed.

    the evidence's folder     made first, unless `run start` has made it: it takes the id
    the worktree              as `worktree.create` makes one, and in it, before it counts as made: the checkpoint
                              `pre_run` with all ignored files, the baseline, and
                              workspace_context.json, which the checkpoint carries as well
    the event `prepared`      last

A worktree that is recorded with the run's id is whole: where only the event is missing, it is added. One that is not
recorded yet is aborted by its journal, and a context without either belongs to no run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from git_agentos import config, log
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.creation import Created, create_checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.timeline import TimelineEntry
from git_agentos.errors import RepositoryError, RunError
from git_agentos.git import trees
from git_agentos.git.repository import Writer
from git_agentos.run import baseline, evidence_store
from git_agentos.run.context import (
    CONTEXT,
    WorkspaceContext,
    attachment_path,
    run_metadata,
    with_current_paths,
    worktree_id,
)
from git_agentos.run.events import SERVICE
from git_agentos.run.evidence import Evidence
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import base, journal, layout, new_worktree, record, repair
from git_agentos.worktree.new_worktree import ReadyWorktree, WorktreeSpec
from git_agentos.worktree.record import AgentWorktree


class WorkspaceSpec(NamedTuple):
    """The workspace to make; see `GitWorktreeWorkspaceService`."""

    run_id: str
    base_ref: str | None
    task_id: str | None
    agent_id: str | None
    guard: bool
    protected: tuple[str, ...]
    branch: str | None = None
    tool: str = SERVICE


def prepare(context: OpenWorktree, spec: WorkspaceSpec, evidence: Evidence | None = None) -> WorkspaceContext:
    """Make the workspace of a run; the run's lock must be held. RunError where it has one. `evidence` is the run's, of
    a caller that has it already."""
    if spec.agent_id is not None:
        config.agent_id(spec.agent_id, source="agent_id")
    id_ = worktree_id(spec.run_id)
    if any(each.id == id_ for each in journal.interrupted(context.location)):
        repair.repair(context, id_)
    if _managed(context, spec.run_id) is not None:
        return _record_finished(context, spec.run_id, evidence)
    if spec.branch is not None:
        layout.check_branch_name(context, spec.branch)
    base_ref, base_sha = base.base_of(context, spec.base_ref or config.run_base(context.settings.values))
    kept, fresh = _folder(context, spec, base_ref, evidence)
    wanted = WorktreeSpec(
        id_,
        base_ref,
        base_sha,
        spec.task_id,
        guard=spec.guard,
        run_id=spec.run_id,
        protected=spec.protected,
        own_branch=spec.branch,
    )

    try:
        with new_worktree.creating(context, wanted) as new:
            made, taken = _fill(context, new, spec, kept)
    except BaseException:
        kept.remove(CONTEXT)
        if fresh:
            evidence_store.remove(context.location, spec.run_id)
        raise
    _record_prepared(kept, made, taken.checkpoint.id, taken.state.visible_tree)
    return made


def recorded_context(context: OpenWorktree, run_id: str) -> WorkspaceContext | None:
    """The context of a run that has a workspace, as the record has it, or else its first checkpoint, or its evidence;
    None where it has none (yet)."""
    found = _recorded(context, run_id)
    return None if found is None else with_current_paths(context, found)


def _recorded(context: OpenWorktree, run_id: str) -> WorkspaceContext | None:
    try:
        kept = evidence_store.open_to_read(context.location, run_id)
    except (RunError, RepositoryError):
        return _carried(context, run_id)
    known = kept.state().recorded.context
    if known is not None:
        return known
    if _managed(context, run_id) is None:
        return None  # of an attempt that was killed
    return _carried(context, run_id) or (evidence_store.file_context(kept) if kept.read(CONTEXT) is not None else None)


def last_known_context(context: OpenWorktree, run_id: str) -> WorkspaceContext | None:
    """The context of a run, also where agents have destroyed its record: from the note outside of the repository, or
    from its timeline."""
    found = recorded_context(context, run_id)
    if found is not None:
        return found
    with contextlib.suppress(RunError, RepositoryError):
        if evidence_store.open_to_read(context.location, run_id).record().problem is None:
            return None  # nothing was destroyed: it was never ready
    noted = evidence_store.noted_prepared(context.location, run_id)
    if noted is not None:
        return with_current_paths(context, WorkspaceContext.from_fields(noted["context"], "a note"))
    found = _in_timeline(context, run_id)
    return None if found is None else with_current_paths(context, found)


def check_file(context: OpenWorktree, run_id: str) -> None:
    """RunError where the file of the context is damaged."""
    try:
        kept = evidence_store.open_existing(context.location, run_id)
    except RunError:
        return
    if kept.read(CONTEXT) is not None:
        evidence_store.file_context(kept)


# -- steps ----------------------------------------------------------------------------------------------------------


def _folder(context: OpenWorktree, spec: WorkspaceSpec, base_ref: str, known: Evidence | None) -> tuple[Evidence, bool]:
    """The evidence's folder, and whether it was made just now; RunError where the id is that of a run that has had a
    workspace."""
    try:
        kept = known or evidence_store.open_or_rebuild(context.location, spec.run_id)
    except RunError:
        kept, fresh = evidence_store.create(context.location, spec.run_id), True
    else:
        fresh = False
        if kept.state().prepared is not None:
            raise evidence_store.id_taken(spec.run_id)
        kept.remove(CONTEXT)  # of an attempt that was killed
    if not kept.events():
        kept.event(
            "begun",
            task=spec.task_id,
            max_attempts=1,
            on_failure="keep",
            guard=spec.guard,
            protected=list(spec.protected),
            steps=[],
            tool=spec.tool,
            base=base_ref,
        )
    return kept, fresh


def _fill(
    context: OpenWorktree, new: ReadyWorktree, spec: WorkspaceSpec, kept: Evidence
) -> tuple[WorkspaceContext, Created]:
    """Fill the new worktree, and record it, before it counts as made."""
    inner, made = new.inner, new.record
    run = WorkspaceContext(
        run_id=spec.run_id,
        repo_root=layout.main_folder(context.location),
        worktree_path=inner.location.root,
        branch_name=made.branch,
        base_ref=made.base_ref,
        base_sha=made.base_sha,
        head_sha=made.base_sha,
        created_at=made.created_at,
        task_id=spec.task_id,
        agent_id=spec.agent_id or made.id,
    )
    log.try_add(inner, "action", f"run {run.run_id} prepared", commit=run.base_sha, task_id=run.task_id)
    text = run.to_json()
    agent, description = inner._replace(agent=run.agent_id), f"run {run.run_id}: before it begins"
    metadata = run_metadata(agent, run, trigger="pre_run", description=description)
    request = CaptureRequest(complete=True)

    def attach(writer: Writer) -> Mapping[bytes, trees.Entry]:
        return {attachment_path(run.run_id, CONTEXT): (trees.REGULAR, writer.write("blob", text.encode()))}

    taken = create_checkpoint(inner, metadata, scan=new.scan(), request=request, attach=attach)
    baseline.record(inner)
    kept.write_once(CONTEXT, text)
    return run, taken


def _record_finished(context: OpenWorktree, run_id: str, known: Evidence | None) -> WorkspaceContext:
    """Record a workspace that was finished and not recorded. RunError where it was: the run has one."""
    kept = known or evidence_store.open_or_rebuild(context.location, run_id)
    link = initial_link(context, run_id)
    if link is None or kept.state().prepared is not None:
        raise evidence_store.id_taken(run_id)
    made = _carried(context, run_id) or evidence_store.file_context(kept)
    _record_prepared(kept, made, link.checkpoint, context.repository.commit_tree(link.commit))
    return made


def _record_prepared(kept: Evidence, made: WorkspaceContext, checkpoint: str, tree: str) -> None:
    kept.event("prepared", context=made.fields(), checkpoint=checkpoint, tree=tree)


# -- what is on record ------------------------------------------------------------------------------------------------


def _managed(context: OpenWorktree, run_id: str) -> AgentWorktree | None:
    """The run's worktree, if it is whole."""
    found = record.get(context.location.common_dir, worktree_id(run_id))
    return found if found is not None and found.record.run_id == run_id else None


def initial_link(context: OpenWorktree, run_id: str) -> TimelineEntry | None:
    """The checkpoint `pre_run`, as the timeline has it."""
    found = None
    for link in timeline.walk(context.repository, worktree_id(run_id)):
        meta = format.open_checkpoint(context.repository, link.checkpoint).meta
        if meta.get("trigger") == "pre_run" and meta.get("run_id") == run_id:
            found = link
    return found


def _carried(context: OpenWorktree, run_id: str) -> WorkspaceContext | None:
    """The context as the checkpoint `pre_run` of a recorded worktree carries it."""
    return _in_timeline(context, run_id) if _managed(context, run_id) is not None else None


def _in_timeline(context: OpenWorktree, run_id: str) -> WorkspaceContext | None:
    """The context as the checkpoint `pre_run` carries it."""
    link = initial_link(context, run_id)
    if link is None:
        return None
    data = format.read_attachment(context.repository, link.checkpoint, attachment_path(run_id, CONTEXT))
    return None if data is None else WorkspaceContext.from_json(data)
