"""Worktrees whose folder is there and whose entry in the repository is gone: `git worktree prune`, or a `git gc`,
removed it while the folder was away (on a disk that was not mounted, for example).

Such a folder still says in its `.git` file which entry it had. What was in the entry comes back from the checkpoints:
its id, record, HEAD and index. Files are not touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.findings import Fixable, repairable
from git_agentos.git import refs, state_dir, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import index_repair, layout, record
from git_agentos.worktree.record import Record


class Pruned(NamedTuple):
    """`git_dir` is where the entry was, and will be; `record` what the checkpoints know of the worktree."""

    id: str
    root: str
    git_dir: str
    record: Record


def find(context: OpenWorktree) -> Iterator[Pruned]:
    """Those in the folder that agents' worktrees are in, by name."""
    try:
        folder = layout.worktrees_folder(context.location, context.settings)
        found = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError:
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            one = _examine(context, entry.path)
            if one is not None:
                yield one


def _examine(context: OpenWorktree, root: str) -> Pruned | None:
    target = worktrees.read_gitfile(root)
    if target is None or os.path.lexists(target):
        return None
    common, kind = os.path.split(os.path.dirname(target))
    is_here = os.path.realpath(common) == context.location.common_dir
    if kind != "worktrees" or (os.path.lexists(common) and not is_here):
        return None  # where its repository is not there, this one may have been moved: the checkpoints tell
    name = os.path.basename(target)
    git_dir = os.path.join(context.location.common_dir, kind, name)
    known = [(id_, _record(context, id_)) for id_ in dict.fromkeys((os.path.basename(root), name))]
    there = [(id_, found) for id_, found in known if found is not None]
    there.sort(key=lambda each: os.path.realpath(each[1].path) != root)
    ids = map(record.identify, worktrees.linked_git_dirs(context.location.common_dir))
    if not there or there[0][0] in ids:
        return None
    return Pruned(there[0][0], root, git_dir, there[0][1])


def _record(context: OpenWorktree, id_: str) -> Record | None:
    with contextlib.suppress(AgentosError):
        if timeline.tip(context.location, id_) is not None:
            return record.record_from_timeline(context.repository, id_)
    return None


def check(context: OpenWorktree, one: Pruned) -> Fixable:
    """A worktree whose entry was pruned while its folder was away."""
    message = (
        f"the entry of the worktree '{one.id}' was removed (git worktree prune), and its folder is there: '{one.root}'"
    )
    return repairable(one.id, "worktree-pruned-entry", "warning", message, lambda: _rebuild_entry(context, one))


def _rebuild_entry(context: OpenWorktree, one: Pruned) -> str:
    """Rebuild the entry; what was done, in words. The lock on worktrees must be held."""
    location = context.location.worktree(one.root, one.git_dir)
    head, words = _head(context, one, location)
    os.makedirs(os.path.dirname(one.git_dir), exist_ok=True)
    with state_dir.scratch(context.location) as scratch:
        new = os.path.join(scratch, "entry")
        os.mkdir(new)
        worktrees.write_entry(context.location.worktree(one.root, new), head)
        made = replace(one.record, id=one.id, path=one.root, state=record.ACTIVE, completed_at=None)
        record.write(new, made)
        os.rename(new, one.git_dir)
    worktrees.relink(one.git_dir, one.root)
    index = f", its index {index_repair.rebuild(context, location, one.id).removesuffix(' again')}"
    guard = ""
    if activation.has_record(location):
        activation.enable_locked(location)
        guard = ", and it is guarded"
    return f"it has one again, {words}{index}{guard}"


def _head(context: OpenWorktree, one: Pruned, location: Location) -> tuple[refs.Head, str]:
    """HEAD as the newest checkpoint has it; detached where another worktree uses the branch by now."""
    commit: str | None = None
    branch: str | None = one.record.branch
    with contextlib.suppress(AgentosError):
        link = timeline.newest(context.repository, one.id)
        if link is not None:
            last = format.read(context.repository, link.checkpoint)
            commit, branch = last.commit, last.branch
    ref = None if branch is None else layout.HEADS + branch
    tip = None if ref is None else refs.resolve(context.location, ref)
    if ref is not None and (tip is not None or commit is None) and not worktrees.branch_users(location, ref):
        return refs.Head(ref, None), f"on branch '{branch}'"
    return refs.Head(None, tip or commit), f"at commit {(tip or commit or '')[:8]}"
