"""The status of agents' worktrees: of those that exist, those that are broken, and those that are archived.

How far a worktree is ahead of its base and behind it, and whether it is integrated, `base` says. Sizes count
blocks on disk of the worktree's folder and its git directory, a file with several names once; objects, which all
worktrees share, are not counted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RepositoryError, WorktreeError
from git_agentos.git import process, refs, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.diagnosis import probe
from git_agentos.process import occupants
from git_agentos.process.occupants import Occupant
from git_agentos.util import directories
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted
from git_agentos.worktree import base, journal, layout, pruned, record
from git_agentos.worktree.link import Linked
from git_agentos.worktree.record import Record

ARCHIVED = "archived"
BROKEN = "broken"
_STATUS = ("--no-optional-locks", "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all")
_THREADS = 8


@dataclass(frozen=True)
class Dirty:
    """Numbers of paths."""

    staged: int
    unstaged: int
    untracked: int
    conflicted: int

    def __bool__(self) -> bool:
        return bool(self.staged or self.unstaged or self.untracked or self.conflicted)


@dataclass(frozen=True)
class LastCheckpoint:
    """The newest checkpoint of a timeline."""

    id: str
    created_at: str
    trigger: str
    description: str


@dataclass(frozen=True)
class LastEntry:
    """The newest entry of an agent's log."""

    timestamp: str
    type: str
    summary: str


@dataclass(frozen=True)
class ActiveProcess:
    """A process that works in the worktree."""

    pid: int
    command: str


@dataclass(frozen=True)
class Worktree:
    """An agent's worktree; the fields are the keys of the JSON kind `worktree`. What cannot be known is None."""

    id: str  # of the agent, as a rule
    branch: str | None  # what its HEAD is on, short; None: detached
    path: str | None  # where it is or, archived, was
    base_ref: str | None  # what it was created from
    base_sha: str | None  # the commit that it was created from
    head_sha: str | None  # HEAD's commit
    task: str | None  # from the caller
    state: str  # active, complete, archived or broken
    dirty: Dirty | None  # counts of changed paths
    ahead: int | None  # commits that the base's present tip does not have
    behind: int | None  # commits of that tip which it does not have
    integrated: str | None  # how its work is in the base; None: it is not
    last_checkpoint: LastCheckpoint | None  # the newest
    last_log: LastEntry | None  # the newest log entry
    locked: bool  # as `git worktree lock` does
    process: ActiveProcess | None  # the first of those that work in it
    disk_bytes: int | None  # of folder and git directory
    revived_from: LastCheckpoint | None = None  # `create --revive`: from where, if that is not its last state
    guard: str | None = None  # on, off, or broken: set, and does not act
    base_follows: str | None = None  # `create`: the branch of a remote that the base follows
    base_behind: int | None = None  # `create`: the commits of that branch that the base does not have
    port_base: int | None = None  # the first of its ports; None: it has none, or is archived
    port_count: int | None = None  # how many it has
    linked: list[Linked] | None = None  # `create`: what agentos.link has brought
    changes_from: str | None = None  # the checkpoint whose uncommitted changes it began with


@dataclass(frozen=True)
class Worktrees:
    """The JSON kind `worktree-list`."""

    worktrees: list[Worktree]


class Source(NamedTuple):
    """What is recorded of one worktree. `git_dir` is None where no entry is left (archived)."""

    id: str
    git_dir: str | None
    root: str | None
    record: Record | None


def list_worktrees(context: OpenWorktree) -> Worktrees:
    """Every agent's worktree, by id: active, complete, archived and broken ones."""
    known = sources(context)
    there = occupants.standing_in(each.root for each in known if each.root is not None)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda each: _read_status(context, each, there), known)
        return Worktrees(list(counted(context.progress, "Looking at worktrees", found, len(known))))


all_ = list_worktrees  # the documented name (docs/api.md)


def show(context: OpenWorktree, id_: str, *, new: bool = False, saved: Checkpoint | None = None) -> Worktree:
    """One agent's worktree; WorktreeError where there is none of that id.

    `new`: it has just been created, so neither processes in it nor its size are determined. `saved` is a checkpoint
    that has just been created of it: then git does not scan it again, either.
    """
    known = find(context, id_)
    there = occupants.standing_in([known.root] if known.root is not None and not new else [])
    return _read_status(context, known, there, new=new, saved=saved)


def path(context: OpenWorktree, id_: str) -> str:
    """Where a worktree is; WorktreeError where there is none, or it has no folder any more."""
    found = find(context, id_)
    if found.git_dir is None:
        raise WorktreeError(
            f"the worktree '{id_}' is archived: it has no folder",
            f"git agentos worktree create {id_} --revive brings it back",
        )
    if found.root is None or not os.path.isdir(found.root):
        raise WorktreeError(f"the folder of the worktree '{id_}' is missing", f"git agentos worktree repair {id_}")
    return found.root


def sources(context: OpenWorktree) -> list[Source]:
    """What is recorded of each agent's worktree, by id; archived ones too."""
    return sorted([*_entries(context), *_archived(context)], key=lambda each: each.id)


def ids(context: OpenWorktree) -> list[str]:
    """The ids of all agents' worktrees, archived ones too, by name."""
    return sorted({each.id for each in (*_entries(context), *_archived(context))})


def find(context: OpenWorktree, id_: str) -> Source:
    """What is recorded of the worktree `id_`, live, broken or archived; WorktreeError where there is none."""
    for each in (*_entries(context), *_archived(context, only=id_)):
        if each.id == id_:
            return each
    layout.check_id(id_)
    raise WorktreeError(f"there is no agent's worktree '{id_}'", "git agentos worktree list shows them")


# -- which there are ---------------------------------------------------------------------------------------------------


def _entries(context: OpenWorktree) -> Iterator[Source]:
    """Agents' worktrees that have an entry, and those whose entry was pruned while their folder exists; one that is
    being created does not count yet."""
    location = context.location
    journals = [each for each in journal.find_all(location) if each.operation == "create"]
    alive = {each.id for each in journals if journal.owner_is_alive(each)}
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        id_ = record.identify(git_dir)
        if id_ is None or id_ in alive:
            continue
        made = None
        with contextlib.suppress(WorktreeError):
            made = record.read(git_dir)
        yield Source(id_, git_dir, worktrees.root_or_none(git_dir), made)
    for one in pruned.find(context):
        if one.id not in alive:
            yield Source(one.id, one.git_dir, one.root, one.record)


def _archived(context: OpenWorktree, only: str | None = None) -> Iterator[Source]:
    """Timelines that end in an archive and have no entry."""
    location = context.location
    live = {each.id for each in _entries(context)}
    for name in _timelines(location) if only is None else [only]:
        if name in live or name == timeline.MAIN:
            continue
        with contextlib.suppress(AgentosError):
            link = timeline.newest(context.repository, name)
            if link is None:
                continue
            parts = format.open_checkpoint(context.repository, link.checkpoint)
            if parts.meta.get("trigger") == ARCHIVED.removesuffix("d"):
                yield Source(name, None, None, record.record_from_checkpoint(context.repository, link.checkpoint))


def _timelines(location: Location) -> list[str]:
    """The ids of all timelines whose refs can be read: one that is damaged does not hide the others."""
    return [name.removeprefix(timeline.PREFIX) for name in refs.list_refs(location, timeline.PREFIX, skip_broken=True)]


# -- one of them -------------------------------------------------------------------------------------------------------


def _read_status(
    context: OpenWorktree,
    known: Source,
    there: Mapping[str, list[Occupant]],
    *,
    new: bool = False,
    saved: Checkpoint | None = None,
) -> Worktree:
    location = find_folder(context, known)
    if location is None or known.record is None:
        return _without_folder(context, known)
    try:
        head = refs.read_head(location)
        if saved is not None:
            dirty, size = _saved(saved), None
        else:
            dirty, size = (count_changes(location), None) if new else _counted(location)
    except (AgentosError, OSError):
        return _without_folder(context, known)
    return replace(
        _recorded(context, known, head.branch, head.commit, saved),
        state=known.record.state,
        dirty=dirty,
        last_log=_last_entry(context, location),
        process=first_process(there.get(location.root, [])),
        disk_bytes=size,
        guard=probe.state(location),
        port_base=known.record.port_base,
        port_count=known.record.port_count if known.record.port_base is not None else None,
    )


def find_folder(context: OpenWorktree, known: Source) -> Location | None:
    """Where a worktree is; None of one that is archived or broken."""
    if known.git_dir is None or known.root is None or known.record is None:
        return None
    if not worktrees.is_linked(known.root, known.git_dir) or worktrees.unreadable_file(known.git_dir) is not None:
        return None
    return context.location.worktree(known.root, known.git_dir)


def _counted(location: Location) -> tuple[Dirty, int]:
    """What has changed in a worktree, and its bytes on disk; git scans while the sizes are added up."""
    with ThreadPoolExecutor(1) as pool:
        dirty = pool.submit(count_changes, location)
        size = directories.disk_usage(location.root) + directories.disk_usage(location.git_dir)
        return dirty.result(), size


def _without_folder(context: OpenWorktree, known: Source) -> Worktree:
    """One that is archived, or broken."""
    made = known.record
    branch = made.branch if made is not None else record.BRANCHES + known.id
    head = None
    with contextlib.suppress(RepositoryError, OSError):
        head = refs.resolve(context.location, layout.HEADS + branch)
    found = _recorded(context, known, branch if head is not None else None, head)
    size = directories.disk_usage(known.git_dir) if known.git_dir is not None else None
    return replace(found, state=ARCHIVED if known.git_dir is None else BROKEN, disk_bytes=size)


def _recorded(
    context: OpenWorktree, known: Source, branch: str | None, head: str | None, saved: Checkpoint | None = None
) -> Worktree:
    """What is known of a worktree without its files."""
    made = known.record
    ahead, behind, integrated = base.compare(context, head, made) if made is not None else (None, None, None)
    return Worktree(
        id=known.id,
        branch=branch,
        path=known.root or (made.path if made is not None else None),
        base_ref=made.base_ref if made is not None else None,
        base_sha=made.base_sha if made is not None else None,
        head_sha=head,
        task=made.task if made is not None else None,
        state=BROKEN,
        dirty=None,
        ahead=ahead,
        behind=behind,
        integrated=integrated,
        last_checkpoint=last_checkpoint(context, known.id) if saved is None else describe_checkpoint(saved),
        last_log=None,
        locked=known.git_dir is not None and os.path.exists(os.path.join(known.git_dir, "locked")),
        process=None,
        disk_bytes=None,
        changes_from=made.changes_from if made is not None else None,
    )


def count_changes(location: Location) -> Dirty:
    """Counts as `git status` has them; a path that is staged and changed again counts for both."""
    staged = unstaged = untracked = conflicted = 0
    out = process.run(_STATUS, cwd=location.root, env=location.environment())
    for line in out.split(b"\0"):
        if line.startswith(b"1 "):
            staged += line[2:3] != b"."
            unstaged += line[3:4] != b"."
        elif line.startswith(b"? "):
            untracked += 1
        elif line.startswith(b"u "):
            conflicted += 1
    return Dirty(staged, unstaged, untracked, conflicted)


def last_checkpoint(context: OpenWorktree, id_: str) -> LastCheckpoint | None:
    """The newest checkpoint of a timeline; None where there is none, or it cannot be read."""
    with contextlib.suppress(AgentosError, OSError):
        link = timeline.newest(context.repository, id_)
        if link is not None:
            found = format.read(context.repository, link.checkpoint)
            return describe_checkpoint(found)
    return None


def describe_checkpoint(found: Checkpoint) -> LastCheckpoint:
    """A checkpoint as `Worktree` has it."""
    return LastCheckpoint(found.id, found.created_at, found.trigger, found.description)


def _saved(found: Checkpoint) -> Dirty:
    """What the state that a checkpoint holds is in numbers; it has no conflicts where a worktree is new."""
    return Dirty(len(found.staged_changes), len(found.unstaged_changes), len(found.untracked_files), 0)


def _last_entry(context: OpenWorktree, location: Location) -> LastEntry | None:
    from git_agentos import log  # loads the database's driver

    found = log.last(context, location)
    return LastEntry(found.timestamp, found.type, found.summary) if found is not None else None


def first_process(inside: Sequence[Occupant]) -> ActiveProcess | None:
    """The first process that did not start this command."""
    return next((ActiveProcess(each.pid, each.name) for each in inside if not each.ancestor), None)
