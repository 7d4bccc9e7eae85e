"""What an agent did, in one stream by time: its commits, checkpoints, restores and log entries."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from git_agentos import log
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import (
    AgentosError,
    CheckpointFormatError,
    CheckpointNotFound,
    MissingObjectsError,
    UsageError,
    WorktreeError,
)
from git_agentos.git import refs, trees
from git_agentos.git.repository import Repository
from git_agentos.log import Entry
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted, phase
from git_agentos.worktree import agent_branch, record

COMMIT, CHECKPOINT, RESTORE, ENTRY = "commit", "checkpoint", "restore", "entry"
MOST = 5000  # of a kind, in a review


@dataclass(frozen=True)
class Event:
    """One event: `kind` is `commit`, `checkpoint`, `restore` or `entry`; `type` is the entry's type or the checkpoint's
    trigger; `id` that of the commit, the checkpoint (of a restore: the restored one) or the entry; `agent` did it."""

    time: str
    kind: str
    type: str | None
    summary: str
    id: str
    agent: str
    commit: str | None
    checkpoint_id: str | None
    task_id: str | None
    files: list[str]


@dataclass(frozen=True)
class Timeline:
    """The JSON kind `log-timeline`: newest first. `complete` is false if entries could not be read."""

    agent: str
    events: list[Event]
    complete: bool = True


@dataclass(frozen=True)
class Restored:
    """A restore: the restored checkpoint, and the one that saved the state before."""

    time: str
    checkpoint_id: str
    saved: str


@dataclass(frozen=True)
class CheckpointEvent:
    """A checkpoint and its event: `visible_tree` is the tree of its entry in a timeline, `link`."""

    event: Event
    visible_tree: str
    restored: Restored | None
    link: timeline.TimelineEntry


class CommitRange(NamedTuple):
    """An agent's commits: `tip` is its commit (None: it has none), `base` the one of its base that its own work began
    at (None: the beginning of history)."""

    tip: str | None = None
    base: str | None = None


@dataclass
class History:
    """What one agent did, not yet sorted."""

    range: CommitRange
    commits: list[Event] = field(default_factory=list)
    checkpoints: list[CheckpointEvent] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    complete: bool = True

    def events(self) -> list[Event]:
        """All events, newest first."""
        known = {each.event.checkpoint_id for each in self.checkpoints}
        restores = {each.restored.saved for each in self.checkpoints if each.restored is not None}
        own = [
            _of_entry(entry)
            for entry in self.entries
            # The checkpoint's event stands for its own entry, and for the entry of a restore.
            if not (entry.type == "checkpoint" and entry.checkpoint_id in known)
            and not (isinstance(entry.details.get("saved"), str) and entry.details["saved"] in restores)
        ]
        found = [*own, *self.commits, *(each.event for each in self.checkpoints)]
        return sorted(found, key=lambda event: event.time, reverse=True)


def timeline_of(context: OpenWorktree, agent: str | None = None, *, limit: int | None = 50) -> Timeline:
    """Commits, checkpoints, restores and log entries of an agent (of this worktree by default), newest first.

    CheckpointNotFound if there is no agent or worktree with the name `agent`.
    """
    if limit is not None and limit < 0:
        raise UsageError("the number of events cannot be negative")
    name = agent or context.worktree_id
    found = collect(context, agent, limit)
    events = found.events()
    shown = events if limit is None else events[:limit]
    return Timeline(name, [with_files(context, event) for event in shown], found.complete)


# -- collecting ------------------------------------------------------------------------------------------------------


def collect(
    context: OpenWorktree, agent: str | None, limit: int | None, before: dict[str, CheckpointEvent] | None = None
) -> History:
    """What an agent did (the one of this worktree by default), at most `limit` of each kind. `before` are checkpoints
    that were read before, by their timeline commits: they are not read again, and those that are read are added.

    CheckpointNotFound if there is no agent or worktree with the name `agent`."""
    name = agent or context.worktree_id
    found = History(_range(context, name))
    found.commits = list(_commits(context, found.range, MOST))
    names = [name] if agent is None else timeline.all_names(context.location)
    known = {} if before is None else before
    for each in names:
        checkpoints = _checkpoints(context.repository, each, known)
        mine = (one for one in checkpoints if agent is None or agent in (one.event.agent, each))
        found.checkpoints += itertools.islice(mine, limit)
    is_known = found.range.tip is not None or bool(found.checkpoints)
    try:
        read = log.read(context, agent=agent, limit=limit)
    except CheckpointNotFound:
        if not is_known:
            raise
        return found
    found.entries, found.complete = read.rows, read.complete
    read.report(empty=not (found.entries or found.commits or found.checkpoints) and limit != 0)
    return found


def collect_all(context: OpenWorktree, agents: Iterable[str]) -> dict[str, History]:
    """What each of these agents did, without a limit. Every timeline and every log is read once, for all of them."""
    found = {agent: History(_range(context, agent)) for agent in agents}
    for each in found.values():
        each.commits = list(_commits(context, each.range, None))
    for name in counted(context.progress, "Reading timelines", timeline.all_names(context.location)):
        for checkpoint in _checkpoints(context.repository, name, {}):
            for agent in {checkpoint.event.agent, name} & found.keys():
                found[agent].checkpoints.append(checkpoint)
    with phase(context.progress, "Reading the log"):
        read = log.read(context, every=True)
    read.report(empty=False)
    for entry in read.rows:
        for agent in {entry.agent_id, entry.worktree} & found.keys():
            found[agent].entries.append(entry)
    for each in found.values():
        each.complete = read.complete
    return found


def _range(context: OpenWorktree, name: str) -> CommitRange:
    location = context.location
    if name == timeline.MAIN:
        return CommitRange(refs.read_head(location.worktree(location.root, location.common_dir)).commit)
    try:
        found = agent_branch.find(context, name)
    except (WorktreeError, UsageError):
        return CommitRange()
    known = found.record
    if known is None:
        with contextlib.suppress(AgentosError):  # its timeline is damaged
            known = record.record_from_timeline(context.repository, name)
    return CommitRange(found.commit, known.base_commits[0] if known is not None else None)


def _commits(context: OpenWorktree, commits: CommitRange, most: int | None) -> Iterator[Event]:
    """The commits, newest first; at most MOST if their base is not there, since those before it are among them."""
    tip, base = commits
    if tip is None:
        return
    has_base = base is not None and context.repository.exists(base)
    limit = most if has_base else MOST
    # No limit by time: git compares the committer's time, and a rebase changes that.
    args = ["log", "-z", "--no-show-signature", "--encoding=UTF-8", "--format=%H%n%at%n%an%n%s"]
    args += [f"--max-count={limit}"] if limit is not None else []
    args += [tip, *([f"^{base}"] if has_base else []), "--"]
    for each in context.repository.git(*args).split(b"\0"):
        lines = each.strip(b"\n").split(b"\n", 3)
        if len(lines) < 3:
            continue
        oid, seconds, author = (os.fsdecode(line) for line in lines[:3])
        yield Event(
            time=commit_time(seconds),
            kind=COMMIT,
            type=None,
            summary=os.fsdecode(lines[3]) if len(lines) > 3 else "",
            id=oid,
            agent=author,
            commit=oid,
            checkpoint_id=None,
            task_id=None,
            files=[],
        )


def commit_time(seconds: str) -> str:
    """The time of a commit, of which git prints the seconds since 1970."""
    try:
        return times.seconds_to_text(int(seconds))
    except (OverflowError, ValueError, OSError):  # a commit may claim any year
        return times.seconds_to_text(0)


def _checkpoints(repository: Repository, name: str, known: dict[str, CheckpointEvent]) -> Iterator[CheckpointEvent]:
    """The checkpoints of a timeline, newest first, without those that cannot be read."""
    for link in timeline.walk(repository, name):
        if link.commit not in known:
            try:
                known[link.commit] = _of_checkpoint(repository, link)
            except (CheckpointFormatError, MissingObjectsError):
                continue
        yield known[link.commit]


def _of_checkpoint(repository: Repository, link: timeline.TimelineEntry) -> CheckpointEvent:
    meta = format.open_checkpoint(repository, link.checkpoint).meta
    saved = format.describe(link.checkpoint, meta)
    restored = meta.get("restores")
    goal = restored if isinstance(restored, str) else None
    hunks_of = (meta.get("restored_part") or {}).get("hunks_of")
    goal = hunks_of if goal is not None and isinstance(hunks_of, str) else goal
    subject = saved.description.split("\n", 1)[0]
    if goal is not None:
        what = f"hunks of {goal[:8]}" if isinstance(hunks_of, str) else goal[:8]
        subject = f"restored {what}; the state before is saved as {saved.id[:8]}"
    event = Event(
        time=saved.created_at,
        kind=RESTORE if goal is not None else CHECKPOINT,
        type=saved.trigger,
        summary=subject,
        id=goal or saved.id,
        agent=saved.created_by,
        commit=saved.commit,
        checkpoint_id=saved.id,
        task_id=saved.task_id,
        files=sorted({*saved.staged_changes, *saved.unstaged_changes, *saved.untracked_files}),
    )
    tree = repository.commit(link.commit).tree
    restore = Restored(saved.created_at, goal, saved.id) if goal is not None else None
    return CheckpointEvent(event, tree, restore, link)


def _of_entry(entry: Entry) -> Event:
    return Event(
        time=entry.timestamp,
        kind=ENTRY,
        type=entry.type,
        summary=entry.summary,
        id=entry.id,
        agent=entry.agent_id,
        commit=entry.commit,
        checkpoint_id=entry.checkpoint_id,
        task_id=entry.task_id,
        files=entry.files_changed,
    )


def with_files(context: OpenWorktree, event: Event) -> Event:
    """A commit with the paths that it changes."""
    if event.kind != COMMIT:
        return event
    repository = context.repository
    try:
        commit = repository.commit(event.id)
        before = repository.commit_tree(commit.parents[0] if commit.parents else None)
        paths = trees.diff(repository, before, commit.tree)
    except AgentosError:  # cut off by a shallow clone, or not fetched
        return event
    return replace(event, files=sorted(os.fsdecode(path) for path in paths))
