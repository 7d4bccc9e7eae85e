"""Discarding what a run has left in this clone, without a checkpoint: for whoever has all of it elsewhere.

Its worktree becomes a prepared one (`worktree.pool`), if it can be reset to its base at the cost of what has changed in
it; else it is removed. Everything that a run has is named by its id, so what a kill leaves is discarded the same way.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import process, refs
from git_agentos.git.location import Location
from git_agentos.process import marked
from git_agentos.run import baseline, evidence_store, lock
from git_agentos.run.context import evidence_path, worktree_id
from git_agentos.run.evidence_folder import Folder
from git_agentos.run.journal import Journal
from git_agentos.util import files
from git_agentos.worktree import discard, journal, layout, record, repair
from git_agentos.worktree.record import AgentWorktree

# What of a file's times git compares, whatever the user's settings say.
_STRICT = ("-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.fileMode=true")


def everything(context: OpenWorktree, run_id: str) -> None:
    """Discard a run that no process has: its worktree, branch, timeline and evidence."""
    with lock.hold(context.location, run_id):
        _workspace(context, run_id)
        location = context.location
        for name in (_branch(run_id), timeline.PREFIX + worktree_id(run_id)):
            refs.drop(location, name, refs.resolve(location, name))
        Journal(Folder(evidence_path(location, run_id)), run_id).forget()
        evidence_store.remove(location, run_id)
        lock.discard(location, run_id, "json", "cancel", "turn")


def workspace(context: OpenWorktree, run_id: str) -> None:
    """Discard the worktree and the branch of a run that has ended; its timeline, which has their states, and its
    evidence stay."""
    with lock.hold(context.location, run_id):
        _workspace(context, run_id)
        branch = _branch(run_id)
        refs.drop(context.location, branch, refs.resolve(context.location, branch))


def _workspace(context: OpenWorktree, run_id: str) -> None:
    """End what a killed process has left running, and discard the worktree."""
    location, id_ = context.location, worktree_id(run_id)
    with contextlib.suppress(AgentosError, OSError):
        begun = evidence_store.open_to_read(location, run_id).state().begun
        if begun is not None and begun.get("mark") is not None:
            marked.sweep(begun["mark"])
    if any(each.id == id_ for each in journal.interrupted(location)):
        repair.repair(context, id_)
    found = record.get(location.common_dir, id_)
    if found is None:
        return
    if os.path.isdir(found.root) and not os.path.islink(found.root) and _to_pool(context, found):
        return
    discard.to_trash(location, found)


def _to_pool(context: OpenWorktree, found: AgentWorktree) -> bool:
    """Make the worktree a prepared one, if it is known how it differs from its base; whether that was done."""
    known = baseline.read(found.location)
    if known is None or known.config is not None or _has_submodules(found.location):
        return False
    compared = baseline.compare(found.location, known)
    if compared.touched is None:
        return False
    touched = sorted(compared.touched)

    def reset(location: Location) -> None:
        environment = location.environment()
        if touched:
            # The copy of the index names all of them.
            args = [*_STRICT, "checkout-index", "--force", "--index", "--quiet", "-z", "--stdin"]
            names = b"".join(path + b"\0" for path in touched)
            process.run(args, cwd=location.root, env=environment, data=names)
        process.run(["clean", "-ffdxq"], cwd=location.root, env=environment)

    try:
        discard.to_pool(context, found, found.record.base_sha, files.read(known.copy), reset)
    except (AgentosError, OSError):
        return record.get(context.location.common_dir, found.id) is None
    return True


def _branch(run_id: str) -> str:
    return layout.HEADS + record.branch_of(worktree_id(run_id), run_id)


def _has_submodules(location: Location) -> bool:
    return os.path.lexists(os.path.join(location.root, ".gitmodules")) or os.path.isdir(
        os.path.join(location.git_dir, "modules")
    )
