"""The commands that create an agent's worktree: new, revived, or of a checkpoint. `new_worktree` does the work."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from git_agentos.checkpoint import format, operation
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UNCHANGED, AgentosError, AgentosWarning, RestoreError, UsageError, WorktreeError
from git_agentos.guard import authorize
from git_agentos.util.progress import phase
from git_agentos.watch import automatic
from git_agentos.worktree import base, base_fetch, layout, new_worktree
from git_agentos.worktree.new_worktree import ReadyWorktree, WorktreeSpec

if TYPE_CHECKING:
    from git_agentos.checkpoint.restore.request import Restoration
    from git_agentos.worktree.status import Worktree


@authorize.entry("worktree", "create")
def create(  # noqa: PLR0913 - the options of the command, documented
    context: OpenWorktree,
    id_: str,
    *,
    from_ref: str | None = None,
    task: str | None = None,
    sparse: Sequence[str] = (),
    lock: bool = False,
    revive: bool = False,
    host: str | None = None,
    guard: bool = True,
    fetch: bool | None = None,
    with_changes: bool = False,
) -> Worktree:
    """Create the worktree `id_` on its branch `agent/<id_>`, ready for work, with a first checkpoint in it.

    `from_ref` is the commit to begin at, by default HEAD of `context`; `sparse` are folders. `revive` brings an
    archived worktree back instead; with `host`, one of that host, as it was fetched. `guard` enables the guard in it.
    `fetch`: whether the base is fetched first, if it follows a branch of a remote; None: if the last fetch is 15
    minutes old. `with_changes` carries the uncommitted changes of `context` along, which stay there, too (`changes`).
    On any error nothing is left.
    """
    layout.check_id(id_)
    if host is not None and not revive:
        raise UsageError("--host is for --revive", f"git agentos worktree create {id_} --revive --host {host}")
    if revive:
        if from_ref is not None:
            raise UsageError("--from and --revive cannot be used together: the branch is the one that was archived")
        if sparse:
            raise UsageError("--sparse and --revive cannot be used together: the worktree comes back as it was")
        if fetch:
            raise UsageError("--fetch and --revive cannot be used together: the worktree comes back as it was")
        if with_changes:
            raise UsageError("--with-changes and --revive cannot be used together: the worktree comes back as it was")
        from git_agentos.worktree import revival, status

        ended = revival.revive(context, id_, task=task, lock=lock, guard=guard, host=host).ended
        source = None if ended.as_left else status.describe_checkpoint(ended.source)
        return replace(_status_of(context, id_), revived_from=source)
    follows = base_fetch.followed(context, from_ref)
    if follows is not None and fetch is not False:
        with phase(context.progress, f"Fetching '{follows.name}'"):
            base_fetch.refresh(context, follows, always=fetch is True)
    elif fetch:
        warnings.warn(AgentosWarning("the base follows no branch of a remote: nothing was fetched"), stacklevel=2)
    base_ref, base_sha = base.base_of(context, from_ref)
    spec = WorktreeSpec(id_, base_ref, base_sha, task, base.folders(context, base_sha, sparse), lock, guard=guard)
    if with_changes:
        from git_agentos.worktree import changes  # which few worktrees are created with

        spec = changes.carried(context, spec)
    with new_worktree.creating(context, spec) as made:
        first = _first_checkpoint(made)
    automatic.start_for(context.location, context.settings.values, os.environ)
    made_status = replace(_status_of(context, id_, first), linked=list(made.linked))
    if follows is None:
        return made_status
    return replace(made_status, base_follows=follows.name, base_behind=base_fetch.behind(context, follows, base_sha))


def _status_of(context: OpenWorktree, id_: str, saved: Checkpoint | None = None) -> Worktree:
    """The status of the new worktree. An error here does not undo the creation."""
    from git_agentos.worktree import status  # nothing that comes before needs it, and it takes long to load

    try:
        return status.show(context, id_, new=True, saved=saved)
    except (AgentosError, OSError) as error:
        raise WorktreeError(
            f"the worktree '{id_}' was created, but its status cannot be read: {error}",
            f"git agentos worktree show {id_}",
        ) from error


def _first_checkpoint(made: ReadyWorktree) -> Checkpoint:
    """Write the log's first entry, and create the first checkpoint."""
    from git_agentos import log  # loaded while git checks out

    inner, known = made.inner, made.record
    scan = made.scan()  # git scans the files, where that is needed, while the log is written
    try:
        log.try_add(inner, "action", f"worktree {known.id} created", commit=known.base_sha, task_id=known.task)
    except BaseException:
        scan.discard()
        raise
    metadata = inner.metadata(trigger="milestone", description=f"worktree {known.id} created", task_id=known.task)
    return create_checkpoint(inner, metadata, scan=scan).checkpoint


def create_from_checkpoint(context: OpenWorktree, checkpoint: str, id_: str) -> Restoration:
    """Create the worktree `id_` and restore `checkpoint` in it: `restore --worktree`.

    UsageError for an ill-formed id, WorktreeError where the id, its branch or its folder is taken, RestoreError where
    the checkpoint was made before the first commit.
    """
    from git_agentos.checkpoint.restore import commands

    layout.check_id(id_, source="--worktree")
    target = format.read_state(context.repository, checkpoint)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {checkpoint[:8]} was made before the first commit: git cannot make a worktree of it",
            f"restore it in place, or with --no-branch; {UNCHANGED}",
        )
    detached = target.head.ref is None or operation.detaches_head(target.operation)
    spec = WorktreeSpec(id_, target.head.branch or target.head.commit, target.head.commit, detached=detached)
    with new_worktree.creating(context, spec) as made:
        metadata = made.inner.metadata()._replace(created_by=context.agent)
        options = commands.RestoreOptions(no_branch=True)
        return commands.restore(made.inner, metadata, checkpoint, options)
