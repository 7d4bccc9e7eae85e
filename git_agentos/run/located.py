"""Where a run's worktree is now. The evidence of a run keeps the paths that it was made with, since it is signed; the
repository may have been moved since."""

from __future__ import annotations

import os
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import worktrees
from git_agentos.run import evidence_store
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.evidence import Evidence
from git_agentos.worktree import layout, record


def with_current_paths(context: OpenWorktree, run: WorkspaceContext) -> WorkspaceContext:
    """The context of a run with paths as they are now: its worktree's by the repository's entry of it. Where that leads
    nowhere, the worktree is as far from the repository as it was, if it is there."""
    top = layout.main_folder(context.location)
    path = _entry(context, run, top) or run.worktree_path
    if not os.path.lexists(path) and run.repo_root != top:
        moved = os.path.normpath(os.path.join(top, os.path.relpath(run.worktree_path, run.repo_root)))
        path = moved if os.path.isdir(moved) else path
    return replace(run, repo_root=top, worktree_path=path)


def workspace_of(context: OpenWorktree, kept: Evidence) -> WorkspaceContext:
    """The context of the run whose evidence this is, with paths as they are now."""
    return with_current_paths(context, evidence_store.context_of(kept))


def _entry(context: OpenWorktree, run: WorkspaceContext, top: str) -> str | None:
    common, id_ = context.location.common_dir, worktree_id(run.run_id)
    usual = os.path.join(common, "worktrees", id_)
    if record.id_of(usual) == id_:
        return worktrees.root_or_none(usual)
    if run.repo_root == top and os.path.lexists(run.worktree_path):
        return None
    found = record.get(common, id_)
    return found.root if found is not None else None
