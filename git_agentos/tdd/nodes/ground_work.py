"""N0 and N8: the worktree that everything happens in is made, and taken away."""

from __future__ import annotations

import contextlib
import json
import time

from git_agentos import log
from git_agentos.errors import RunError, TddError
from git_agentos.run import preparation, query, sealing
from git_agentos.run.context import worktree_id
from git_agentos.run.events import PRE_RUN
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.snapshot import run_context
from git_agentos.run.workspace import GitWorktreeWorkspaceService
from git_agentos.store import location as places
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.gate import gates, setup
from git_agentos.tdd.node_run import Site, Stopped
from git_agentos.tdd.nodes.frame import Update, ended, tell
from git_agentos.tdd.query import PLACE
from git_agentos.tdd.state import ABORT, N0, N8, ImplementationState
from git_agentos.worktree import journal, record, removal, repair


def load_context(site: Site, state: ImplementationState) -> Update:
    """Make the worktree for what was read and checked before (`service.start`): nothing is made where that is wrong."""
    began = time.monotonic()
    service = GitWorktreeWorkspaceService(
        site.context,
        base_ref=state["into"],
        task_id=state["issue_id"],
        guard=True,
        protected=state["protected"],
        branch=state["branch"],
        tool="tdd",
        held=True,
    )
    run = preparation.recorded_context(site.context, site.id)
    if run is None:
        try:
            with site.stop.interruptible():
                run = service.prepare_pre_run(run_id=site.id)
        except KeyboardInterrupt:
            raise Stopped from None
    kept = site.evidence()
    if not places.is_url(site.place):
        kept.put(PLACE, json.dumps({"database": site.place}).encode() + b"\n")
    if not any(each["event"] == "attempt" for each in kept.events()):
        kept.event("attempt", number=1, point=None)
    here = run_context(site.context, run)
    log.note(here, "action", f"tdd {site.id} begun", commit=run.base_sha, task_id=run.task_id)
    saved = sites.save(here, run, f"tdd {site.id}: after {N0}", node=N0, phase="after")
    python = None
    with contextlib.suppress(TddError):  # it may be an agent's to make
        python = gates.python_of(setup.of(here, site.environment, mark=state["mark"]))
    update: Update = {"worktree_path": run.worktree_path, "base_sha": run.base_sha, "python": python}
    count = len(state.get("context_paths", ())) + 1
    files = "1 document" if count == 1 else f"{count} documents"
    said = f"{files} read, worktree ready at {run.base_sha[:12]}"
    return ended(site, state, N0, update, said, began, checkpoint_after=saved.checkpoint.id)


def clean_up(site: Site, state: ImplementationState) -> Update:
    """Save everything, seal the evidence, and remove the worktree and its branch. `--revive` brings them back."""
    began = time.monotonic()
    id_ = worktree_id(site.id)
    aborted = state.get("human_decision") == ABORT and not state.get("merge_commit")
    final = state.get("final_checkpoint")
    if any(each.id == id_ for each in journal.interrupted(site.context.location)):  # its creation or removal was killed
        repair.repair(site.context, id_)
    made = preparation.recorded_context(site.context, site.id) is not None  # not where it was killed while it was made
    if aborted and made:
        tell(site, "ended", state="cancelled", reason="aborted")
    if record.get(site.context.location.common_dir, id_) is not None:
        run, kept = site.run(), site.evidence()
        sites.reached(kept, state)
        try:
            here = run_context(site.context, run)
        except RunError:  # an agent has wrecked it: it is made again, and what can be read is saved
            rollback_and_record(site.context, run, kept, _last_checkpoint(state))
            here = run_context(site.context, run)
        log.note(here, "action", f"tdd {site.id} {'aborted' if aborted else 'merged'}", task_id=run.task_id)
        sealing.seal(here, kept, query.current_run(site.context, kept))
        final = removal.remove(site.context, id_, delete_branch=True).checkpoint
    said = "worktree and branch removed" if made else "there was no worktree yet"
    if final:
        said += f", saved as {final[:12]}"
    return ended(site, state, N8, {"final_checkpoint": final}, said, began, checkpoint_after=final)


def _last_checkpoint(state: ImplementationState) -> str:
    """How the worktree was last seen."""
    seen = (each["checkpoint_after"] for each in reversed(state.get("history") or []))
    return next((each for each in seen if each is not None), PRE_RUN)
