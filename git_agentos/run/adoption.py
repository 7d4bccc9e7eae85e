"""Going on in this clone with a run that was begun in another: its timeline, its branch, and its evidence so far.

Its events are signed again with this user's key, as they are, but for the paths of the workspace; so it is for the
caller to know whom they come from. The worktree is made anew, and the run is interrupted: `resume` rolls it back to
where its next step begins. The evidence is written last. Without it, what is there is no run, and `discard` removes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError
from git_agentos.git import refs, trees
from git_agentos.run import baseline, evidence_store, lock
from git_agentos.run import spec as specs
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import ADOPTED, EVENTS, MANIFEST, new_mark, state_of
from git_agentos.run.journal import parse_events
from git_agentos.run.spec import RunSpec
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout, new_worktree, record
from git_agentos.worktree.new_worktree import WorktreeSpec


class Begun(NamedTuple):
    """A run of another clone: the newest commit of its timeline, and the tree of its evidence. Both are here."""

    run_id: str
    timeline: str
    evidence: str


def adopt(context: OpenWorktree, begun: Begun, spec: RunSpec, *, origin: str) -> None:
    """Make a run of another clone, of which there is nothing here, an interrupted one of this clone. `spec` is what it
    is to do; `origin` says for people where it was begun. RunError where it cannot be continued: nothing of it is
    left."""
    id_ = begun.run_id
    found = _files(context, begun)
    events = parse_events(found.pop(EVENTS, b""), id_)
    state = state_of(id_, events)
    run = state.recorded.context
    if state.begun is None or state.prepared is None or run is None or state.ended is not None:
        raise RunError(f"run '{id_}' cannot be continued: it has no workspace yet, or has ended")
    branch = record.branch_of(worktree_id(id_), id_)
    if run.branch_name != branch or run.base_sha != spec.base_ref:
        raise RunError(f"run '{id_}' cannot be continued: it is not on '{branch}', or has another base")
    for name, expected in state.files.items():
        if hashlib.sha256(found.get(name, b"")).hexdigest() != expected:
            raise RunError(f"run '{id_}' cannot be continued: '{name}' of its evidence is not what was recorded")
    _check_timeline(context, begun, events)
    here = _make_worktree(context, begun, run, state.begun, spec)
    text = specs.to_json(replace(spec, run_id=None))
    with lock.hold(context.location, id_):
        lock.save_spec(context.location, id_, text)
        _write(context, id_, found, [_here(each, here, text, id_) for each in events], origin)


def _files(context: OpenWorktree, begun: Begun) -> dict[str, bytes]:
    """The files of the evidence. Names that could lead out of the folder are refused."""
    repository = context.repository
    found = {}
    for path, (mode, oid) in trees.walk(repository, begun.evidence):
        name = path.decode("utf-8", "surrogateescape")
        if mode != trees.REGULAR or any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
            raise RunError(f"run '{begun.run_id}' cannot be continued: '{name}' of its evidence is no plain file")
        if name != MANIFEST:
            found[name] = repository.blob(oid)
    return found


def _check_timeline(context: OpenWorktree, begun: Begun, events: list[dict[str, Any]]) -> None:
    """RunError where the timeline does not have the checkpoints that the events name."""
    there = {commit.parents[1] for commit in timeline.commits(context.repository, begun.timeline)}
    named = {each["checkpoint"] for each in events if isinstance(each.get("checkpoint"), str)}
    if named - there:
        raise RunError(f"run '{begun.run_id}' cannot be continued: not all of its checkpoints are here")
    for oid in there:
        format.open_checkpoint(context.repository, oid)


def _make_worktree(
    context: OpenWorktree, begun: Begun, run: WorkspaceContext, event: Mapping[str, Any], spec: RunSpec
) -> WorkspaceContext:
    """The worktree, at the base of the run; its context."""
    location, id_ = context.location, worktree_id(begun.run_id)
    wanted = WorktreeSpec(
        id_,
        run.base_ref,
        run.base_sha,
        run.task_id,
        guard=spec.guard,
        run_id=begun.run_id,
        protected=tuple(str(each) for each in event.get("protected") or ()),
    )
    refs.update(location, timeline.refname(id_), begun.timeline, None)
    with new_worktree.creating(context, wanted) as new:
        baseline.record(new.inner)
        root = new.inner.location.root
    return replace(run, repo_root=layout.main_folder(location), worktree_path=root)


def _here(event: Mapping[str, Any], run: WorkspaceContext, spec: str, run_id: str) -> dict[str, Any]:
    """An event, as it would be had the run been begun here."""
    if event["event"] == "prepared":
        return {**event, "context": run.fields()}
    if event["event"] == "begun":
        # Another mark: processes with the former one are the other clone's, which may be on this machine.
        return {**event, "spec": lock.sign_spec(run_id, spec), "mark": new_mark(run_id)}
    return dict(event)


def _write(
    context: OpenWorktree, run_id: str, found: Mapping[str, bytes], events: list[dict[str, Any]], origin: str
) -> None:
    made = evidence_store.create(context.location, run_id)
    try:
        for name, data in found.items():
            made.put(name, data, vouched=False)
        reason = f"it was begun in {origin}"
        now = times.now_text()
        added: list[dict[str, Any]] = [
            {"event": ADOPTED, "at": now, "origin": origin},
            {"event": "interrupted", "at": now, "signal": None, "error": reason},
        ]
        made.begin_with([*events, *added])
    except BaseException:
        evidence_store.remove(context.location, run_id)
        raise
