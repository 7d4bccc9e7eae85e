"""Telling `agentos.notify` that a worktree is idle, and that agents' branches conflict. The watch daemon asks for it.

    <common dir>/agentos/notified.json   {"version", "idle": {id: time}, "conflicts": [[a, b]]}: what was told
    <common dir>/agentos/notified.lock   flock(2): one process at a time tells

It is written down before it is told: nothing is told twice, whatever is killed. A worktree that was idle and is used
again is told again when it is idle the next time; so is a conflict that was gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from git_agentos import config, notification
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.notification import CONFLICTS, IDLE, Notification
from git_agentos.process import occupants
from git_agentos.util import directories, files, locks, times
from git_agentos.util.values import count
from git_agentos.worktree import activity, conflicts, record
from git_agentos.worktree.record import AgentWorktree

_FILE, _LOCK = "notified.json", "notified.lock"
_VERSION = 1
_MOST_FILES = 5


@dataclass(frozen=True)
class Notices:
    """What was told: ids of worktrees, or pairs of them as `a b`. `is_idle` is False if the worktree is in use."""

    told: list[str]
    is_idle: bool = True


def tell_idle(context: OpenWorktree) -> Notices:
    """Tell once that the agent's worktree `context` is idle: there is no process in it, and for agentos.notifyIdle no
    file in it has changed, its HEAD has not moved, and no checkpoint of it was created."""
    location, after = context.location, config.notify_idle(context.settings.values)
    known = record.read(location.git_dir)
    if after is None or known is None or known.run_id is not None or known.state != record.ACTIVE:
        return Notices([])
    if notification.command(location) is None:
        return Notices([])
    worktree, now = AgentWorktree(known, location.git_dir, location.root, location.common_dir), time.time()
    with _told(context) as told:
        before = told["idle"].get(known.id)
        if isinstance(before, float) and not activity.has_changed(context, worktree, before):
            return Notices([])
        since = now - after
        is_new = times.to_seconds(known.created_at) > since
        if is_new or occupants.find(worktree.root) or activity.has_changed(context, worktree, since):
            return Notices([], is_idle=False)
        told["idle"][known.id] = now
    message = f"the worktree '{known.id}' is idle: nothing has changed in it for {after:g} seconds"
    found = Notification(IDLE, known.id, message, worktree.root, known.id, {"task": known.task, "seconds": after})
    notification.send(location, found)
    return Notices([known.id])


def tell_conflicts(context: OpenWorktree) -> Notices:
    """Tell about each pair of agents' branches that conflicts and did not before."""
    if notification.command(context.location) is None:
        return Notices([])
    found = conflicts.conflicts(context)
    unknown = {each.id for each in found.left_out}
    with _told(context) as told:
        before = {(a, b) for a, b in told["conflicts"]}
        new = [each for each in found.pairs if (each.a, each.b) not in before]
        kept = [list(pair) for pair in sorted(before) if not unknown.isdisjoint(pair)]
        told["conflicts"] = [*([each.a, each.b] for each in found.pairs), *kept]
    for each in new:
        shown = ", ".join(each.files[:_MOST_FILES]) + (" and more" if len(each.files) > _MOST_FILES else "")
        message = f"'{each.a}' and '{each.b}' conflict in {count(len(each.files), 'file')}: {shown}"
        details = {"a": each.a, "b": each.b, "files": each.files[:_MOST_FILES]}
        notification.send(context.location, Notification(CONFLICTS, f"{each.a} {each.b}", message, details=details))
    return Notices([f"{each.a} {each.b}" for each in new])


@contextlib.contextmanager
def _told(context: OpenWorktree) -> Iterator[dict[str, Any]]:
    """What was told until now, to be changed: it is written at the end."""
    folder = directories.make_own(context.location.shared_state_dir)
    path = os.path.join(folder, _FILE)
    with locks.hold(os.path.join(folder, _LOCK)):
        found = _read(path)
        before = json.dumps(found)
        yield found
        ids = {each.id for each in record.agent_worktrees(context.location.common_dir)}
        found["idle"] = {id_: at for id_, at in found["idle"].items() if id_ in ids}
        if json.dumps(found) != before:
            files.replace(path, json.dumps({"version": _VERSION, **found}).encode("ascii") + b"\n")


def _read(path: str) -> dict[str, Any]:
    """What the file says; of one that is missing or damaged nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        body = files.read_object(path)
        pairs = [[str(a), str(b)] for a, b in body["conflicts"]]
        return {"idle": {str(id_): float(at) for id_, at in body["idle"].items()}, "conflicts": pairs}
    return {"idle": {}, "conflicts": []}
