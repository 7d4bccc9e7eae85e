"""Reading runs: from their evidence, or from their final checkpoint where that is missing. Nothing changes.

`status` and `doctor` report those that were interrupted, to be resumed or rolled back; a run that is open is not among
them: the tool that drives it resumes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from git_agentos.checkpoint import format, journal, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable
from git_agentos.run import evidence_copy, evidence_store, lock, patches, preparation, sealing, snapshot
from git_agentos.run.context import evidence_path, with_current_paths, worktree_id
from git_agentos.run.events import EVENTS, INTERRUPTED, OPEN, RUNNING, TAMPERED, TDD, Run, Step, state_of
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import parse_events
from git_agentos.util import times
from git_agentos.worktree import record, revival


def current_run(context: OpenWorktree, found: Evidence, *, is_ours: bool = False) -> Run:
    """A run by its record, with the process that has it; `is_ours` says that this process has it, and is about to
    release it."""
    pid = None if is_ours else lock.holder(context.location, found.run_id)
    events, problem = found.record().events, found.record().problem
    run = found.state().run(found.folder, alive=pid is not None)
    if not events:
        run = replace(run, started_at=_made_at(found.folder))
    if run.context is None and run.state == TAMPERED:
        run = replace(run, context=preparation.last_known_context(context, run.run_id))
    run = _as_now(context, run)
    if run.rolled_back_to is not None and _was_undone(context, found.run_id, events):
        run = replace(run, rolled_back_to=None)
    problems = [problem] if problem is not None else []
    return replace(run, process=pid or None, problems=problems, archive=_archive(context, run))


def _archive(context: OpenWorktree, run: Run) -> str | None:
    """The checkpoint that the run's worktree was archived in; None where it was not archived."""
    if run.context is None or os.path.isdir(run.context.worktree_path):
        return None
    id_ = worktree_id(run.run_id)
    with contextlib.suppress(AgentosError, OSError):
        if record.get(context.location.common_dir, id_) is None:
            return revival.ended(context, id_).source.id
    return None


def _as_now(context: OpenWorktree, run: Run) -> Run:
    return run if run.context is None else replace(run, context=with_current_paths(context, run.context))


def _was_undone(context: OpenWorktree, run_id: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last restore in the run's worktree led elsewhere than its last rollback: `undo` is no event."""
    with contextlib.suppress(AgentosError, OSError, KeyError):
        last = journal.read_last(record.find(context.location.common_dir, worktree_id(run_id)).location)
        point = next(each["checkpoint"] for each in reversed(events) if each["event"] == "rolled-back")
        if last is not None and last.target != point:
            # Undone twice it is back there, in a checkpoint of its own.
            return _visible(context, last.target) != _visible(context, point)
    return False


def _visible(context: OpenWorktree, checkpoint: str) -> tuple[str | None, ...]:
    state = format.read_state(context.repository, checkpoint)
    return (state.head.commit, state.index_tree, state.tree, state.untracked_tree)


def show(context: OpenWorktree, run_id: str) -> Run:
    """A run by its record; of an archived one, by its final checkpoint."""
    try:
        found = evidence_store.open_to_read(context.location, run_id)
    except RunError:
        events = evidence_store.sealed_events(context, run_id)
        if events is not None:
            folder = evidence_path(context.location, run_id)
            return _as_now(context, state_of(run_id, events).run(folder, alive=False))
        if run_id not in _of_timelines(context, ()):
            raise
        reason = "its evidence is gone, and git has no copy: its checkpoints are all there is"
        return _as_now(context, _damaged(context, run_id, reason))
    if found.is_copy and found.is_foreign():
        copied = state_of(run_id, parse_events(found.read(EVENTS) or b"", run_id))
        return _as_now(context, replace(copied.run(found.folder, alive=False), here=False))
    return current_run(context, found)


def list_runs(context: OpenWorktree) -> Sequence[Run]:
    """All runs of the repository, newest first. One whose record is damaged is among them, and says so; one whose
    evidence is gone is shown as git has it."""
    found = []
    for run_id in ids(context)[::-1]:
        try:
            found.append(show(context, run_id))
        except (AgentosError, OSError) as error:
            found.append(_damaged(context, run_id, str(error)))
    return found[::-1]


def ids(context: OpenWorktree) -> list[str]:
    """The ids of all runs of the repository, newest first, those too of which only git still knows."""
    location = context.location
    found = evidence_store.ids(location)
    copied = [run_id for run_id in evidence_copy.ids(location) if run_id not in found]
    more = [*copied, *_of_timelines(context, [*found, *copied])]
    if not more:
        return found[::-1]
    dated = {run_id: evidence_store.begun_at(evidence_path(location, run_id)) for run_id in found}
    for run_id in more:
        with contextlib.suppress(AgentosError, OSError):
            dated[run_id] = show(context, run_id).started_at
    return sorted((*found, *more), key=lambda run_id: (dated.get(run_id, ""), run_id), reverse=True)


def _of_timelines(context: OpenWorktree, known: Collection[str]) -> list[str]:
    """The ids of runs that have a timeline, without those that are `known`."""
    prefix = worktree_id("")
    found = []
    for name in timeline.all_names(context.location):
        run_id = name.removeprefix(prefix)
        if name == run_id or run_id in known:
            continue
        with contextlib.suppress(AgentosError):
            newest = timeline.newest(context.repository, name)
            meta = None if newest is None else format.open_checkpoint(context.repository, newest.checkpoint).meta
            if meta is not None and meta.get("run_id") == run_id:
                found.append(run_id)
    return found


def _damaged(context: OpenWorktree, run_id: str, problem: str) -> Run:
    folder = evidence_path(context.location, run_id)
    known = None
    with contextlib.suppress(AgentosError, OSError):
        known = preparation.last_known_context(context, run_id)
    made = _made_at(folder)
    return Run(run_id, INTERRUPTED, problem, known, evidence=folder, started_at=made, problems=[problem])


def _made_at(folder: str) -> str:
    with contextlib.suppress(OSError):
        return times.seconds_to_text(os.lstat(folder).st_mtime)
    return ""


def logs(context: OpenWorktree, run_id: str, step: int | None = None) -> Sequence[tuple[Step, bytes, bytes]]:
    """The output of a run's commands: (step, stdout, stderr). RunError for a step that it does not have."""
    run = show(context, run_id)
    wanted = [each for each in run.steps if each.command is not None and step in (None, each.n)]
    if step is not None and not wanted:
        raise RunError(
            f"run '{run_id}' has no step {step} that runs a command", f"git agentos run show {run_id} lists its steps"
        )
    return [(each, _output(context, run, each.stdout), _output(context, run, each.stderr)) for each in wanted]


def _output(context: OpenWorktree, run: Run, name: str | None) -> bytes:
    if name is None:
        return b""
    with contextlib.suppress(RunError):
        data = evidence_store.open_to_read(context.location, run.run_id).read(name)
        if data is not None:
            return data
    return sealing.read_sealed(context.repository, run.run_id, name) or b""


def diff(context: OpenWorktree, run_id: str) -> bytes:
    """What a run changed, as a patch: from its base to its worktree (of one that was rolled back: to the state
    before)."""
    run = show(context, run_id)
    if run.context is None:
        return b""
    tree = _tree(context, run)
    return patches.patch(context.repository, run.context.base_sha, tree) if tree is not None else b""


def _tree(context: OpenWorktree, run: Run) -> str | None:
    """The tree of all visible files of a run's worktree; None where nothing has happened in it."""
    assert run.context is not None
    if run.rolled_back_to is None:
        try:
            inner = snapshot.run_context(context, run.context)
        except RunError:
            if run.archive is not None:
                return snapshot.saved_state(context.repository, run.archive).visible_tree
            # It is damaged: the last captured state is shown.
        else:
            return snapshot.visible_tree(inner)
    # The state before it was rolled back, or damaged.
    seen = [each.checkpoint_after or each.checkpoint_before for each in run.steps if each.command is not None]
    links = timeline.walk(context.repository, worktree_id(run.run_id))
    return next((context.repository.commit(each.commit).tree for each in links if each.checkpoint in seen[-1:]), None)


# -- what people should look at ----------------------------------------------------------------------------------------


def interrupted(context: OpenWorktree) -> list[str]:
    """The ids of interrupted runs that were not rolled back, newest first."""
    return [each.run_id for each in list_runs(context) if _waits(each)]


def open_(context: OpenWorktree, tool: str = TDD) -> list[str]:
    """The ids of the runs that `tool` drives and that have not ended, newest first."""
    return [each.run_id for each in list_runs(context) if each.tool == tool and each.state in (OPEN, RUNNING)]


def examine(context: OpenWorktree) -> Iterator[Finding | Fixable]:
    """What is to be done about runs; which of it, people decide. Evidence that only git still has can be rebuilt."""
    for run_id in evidence_store.incomplete_runs(context.location):
        yield _lost(context, run_id)
    for each in list_runs(context):
        id_ = each.run_id
        if _waits(each):
            hint = f"git agentos run resume {id_} continues it\ngit agentos rollback {id_} resets its worktree"
            yield Finding("run-interrupted", "warning", f"run '{id_}' was interrupted", hint)
        elif each.problems:
            hint = f"git agentos run verify {id_} shows details\ngit agentos rollback {id_} resets its worktree"
            if each.state == TAMPERED:
                hint += f", git agentos run cancel {id_} puts on record that it has ended by that"
            yield Finding("run-damaged", "warning", "; ".join(each.problems), hint)


def _lost(context: OpenWorktree, run_id: str) -> Fixable:
    folder = evidence_path(context.location, run_id)

    def rebuild() -> str:
        evidence_copy.rebuild_folder(context.location, run_id, parts=True)
        return "it was rebuilt from git"

    message = f"evidence of run '{run_id}' is missing in '{folder}'"
    return fixable("run-evidence-missing", "warning", message, rebuild, f"{DOCTOR_FIX} rebuilds it from git")


def _waits(run: Run) -> bool:
    return run.state == INTERRUPTED and run.rolled_back_to is None and not run.problems
