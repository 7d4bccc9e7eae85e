"""Rebuilding the index of a worktree that git cannot read. No file of the worktree is touched, and the damaged index is
kept (`damaged`).

It is rebuilt from the newest checkpoint where that was created on the commit that HEAD is on: entries, conflicts,
intent-to-add entries and flags. Else it is HEAD's tree.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator

from git_agentos.checkpoint import format, operation, timeline
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import index_plan
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.findings import Fixable, repairable
from git_agentos.git import index, index_damage, lockfile, process, refs, state_dir
from git_agentos.git.index import IndexEdit
from git_agentos.git.location import Location
from git_agentos.util.values import parse_boolean
from git_agentos.worktree import damaged

_PATIENCE = 5.0  # seconds that another git may hold the index


def check(context: OpenWorktree, location: Location, id_: str, *, required: bool) -> Iterator[Fixable]:
    """An index that git cannot read; with `required`, also one that is missing."""
    is_missing = not os.path.lexists(os.path.join(location.git_dir, "index"))
    if required if is_missing else index_damage.is_damaged(location):
        message = f"the index of the worktree '{id_}' is {'missing' if is_missing else 'damaged'}"
        words = functools.partial(rebuild, context, location, id_)
        yield repairable(id_, "worktree-damaged-index", "error", message, lambda: f"it is {words()}")


def rebuild(context: OpenWorktree, location: Location, id_: str) -> str:
    """Rebuild the index; in words, what it holds now."""
    there = location if os.path.isdir(location.root) else location._replace(root=location.git_dir)
    inner = context.in_worktree(there)
    path = os.path.join(there.git_dir, "index")
    with state_dir.scratch(there) as folder:
        new = os.path.join(folder, "new-index")
        words = _build(inner, id_, new, folder)
        held = lockfile.acquire(there, path, patience=_PATIENCE)
        try:
            kept = damaged.keep(context.location, path)
            with open(new, "rb") as file:
                while part := file.read(1 << 20):
                    os.write(held.descriptor, part)
        except BaseException:
            lockfile.release(held)
            raise
        lockfile.commit(held, path)
    return f"{words} again" + damaged.describe(kept)


def _build(inner: OpenWorktree, id_: str, new: str, scratch: str) -> str:
    """Write a new index to the file `new`; what it holds, in words."""
    head = refs.read_head(inner.location).commit
    found = _newest(inner, id_)
    if found is not None and found[1].head.commit == head:
        checkpoint, state = found
        _read_tree(inner, new, "--no-sparse-checkout", state.index_tree)
        empty = inner.repository.hash.empty_tree
        begun = State(head=state.head, index_tree=state.index_tree, tree=empty, untracked_tree=empty)
        edit = index_plan.plan_index(inner.repository.writer(), begun, state, None)
        folder = os.path.join(scratch, "intended")
        os.mkdir(folder)
        index.apply(inner.repository, new, edit, folder, inner.settings.values)
        return f"as checkpoint {checkpoint[:8]} has it"
    if head is None:
        raise WorktreeError("there is neither a checkpoint nor a commit to make it from", "git add --all makes it")
    _read_tree(inner, new, inner.repository.commit_tree(head))
    _flag_sparse(inner, new, scratch)
    words = f"as commit {head[:8]} has it"
    if (what := operation.name_of(operation.read(inner.location))) is not None:
        words += f", without the conflicts of the {what} that is in progress"
    return words


def _flag_sparse(inner: OpenWorktree, new: str, scratch: str) -> None:
    """Flag what a sparse checkout leaves out, and what is not there: `read-tree` does so only where it writes files."""
    repository, values = inner.repository, inner.settings.values
    if parse_boolean(values.get("core.sparsecheckout", [""])[-1]) is not True:
        return
    env = {"GIT_INDEX_FILE": new}
    missing = repository.git("ls-files", "--deleted", "-z", env=env)
    try:
        wanted = set(repository.git("sparse-checkout", "check-rules", "-z", data=missing, env=env).split(b"\0"))
    except AgentosError:  # before git 2.41
        wanted = set()
    left_out = [path for path in missing.split(b"\0") if path and path not in wanted]
    index.apply(repository, new, IndexEdit(skip_worktree=left_out), scratch, values)


def _newest(inner: OpenWorktree, id_: str) -> tuple[str, State] | None:
    with contextlib.suppress(AgentosError):
        link = timeline.newest(inner.repository, id_)
        if link is not None:
            return link.checkpoint, format.read_state(inner.repository, link.checkpoint)
    return None


def _read_tree(inner: OpenWorktree, new: str, *args: str) -> None:
    env = inner.location.environment({"GIT_INDEX_FILE": new})
    process.run(["read-tree", "-m", *args], cwd=inner.location.root, env=env)
