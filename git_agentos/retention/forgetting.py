"""Forgetting checkpoints: the plan, the timelines without them, and the room that they took.

Order, so that a kill leaves the state before or the one asked for: note what may be deleted (`pending`), move the
timelines one by one, delete. Until a timeline has moved, everything in it is reachable, and nothing of it is deleted.
A restore waits meanwhile, and is waited for; checkpoints are taken as always.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.carrier import Lines
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError, MissingObjectsError, RepositoryError, UsageError
from git_agentos.git import gc, process, refs, state_dir, worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.retention import chain, evidence_notes, freeing, pending, plan, protection, unfinished
from git_agentos.retention.chain import Chain
from git_agentos.retention.freeing import Freed
from git_agentos.retention.plan import Link, Plan
from git_agentos.retention.rules import Rules
from git_agentos.util import directories, locks
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted, phase

_ATTEMPTS = 1000
_PATIENCE = 30.0  # seconds to wait for a restore that is going on
_PAUSE = 0.02


class Request(NamedTuple):
    """What is to be forgotten on some timelines: checkpoints by id (full, or as `restore` takes them), or what `rules`
    do not keep. Of the latter, checkpoints with a trigger in `more` stay, too."""

    timelines: Sequence[str]
    ids: Sequence[str] = ()
    rules: Rules | None = None
    more: Sequence[str] = ()


class Protected(NamedTuple):
    """A checkpoint that no rule forgets: `reason` is a word of `protection`."""

    id: str
    reason: str


class Kept(NamedTuple):
    """A checkpoint that rules keep: `rules` are their words."""

    id: str
    rules: tuple[str, ...]


class Rewritten(NamedTuple):
    """A checkpoint that was written again, and the id that it has now."""

    old: str
    new: str


class Forgotten(NamedTuple):
    """What `forget` did: ids of checkpoints, newest first in each timeline. `kept` are all others of these timelines,
    among them those that are `protected`; `reasons` say which rules keep the rest. `unreachable` says in words what
    could not be deleted."""

    forgotten: tuple[str, ...]
    kept: tuple[str, ...]
    protected: tuple[Protected, ...]
    rewritten: tuple[Rewritten, ...] = ()
    freed_bytes: int = 0
    unreachable: tuple[str, ...] = ()
    reasons: tuple[Kept, ...] = ()
    dry_run: bool = False


def forget(context: OpenWorktree, request: Request, *, dry_run: bool = False, worth: int = 0) -> Forgotten:
    """Forget checkpoints, and finish what a killed `forget` has left to delete.

    LockedError while another process forgets, or restores for longer than half a minute.
    """
    process.require_no_quarantine()
    with forgetting(context.location):
        with no_restores(context.location):
            with phase(context.progress, "Looking for checkpoints to forget"):
                plans = plans_of(context, request)
            plans, left = _without_unreadable(context.repository, plans, asked=bool(request.ids))
            changed = [each for each in plans if each.forgotten]
            if changed and not dry_run:
                roots = {oid for each in changed for oid in (each.tip, *each.forgotten)}
                pending.note(context.location, pending.ROOTS, sorted(roots))
                for each in counted(context.progress, "Rewriting timelines", changed):
                    move(context, each, left)
        if dry_run:
            return _result(plans, Freed(_estimate(context, plans)), dry_run=True)
        evidence_notes.finish(context.repository)
        newest = max((each.links[0].commit.time for each in changed), default=None)
        freed = freeing.free(context, used_until=newest, worth=worth)
        if unfinished.is_any(context.location):
            freed = freed._replace(left=(*freed.left, unfinished.MESSAGE))
        return _result(plans, freed)


def plans_of(context: OpenWorktree, request: Request) -> list[Plan]:
    """What becomes of each timeline, without a change."""
    if bool(request.ids) == (request.rules is not None):
        raise UsageError("name checkpoints, or give rules", "for example --keep-last 20, or --keep-within 7d")
    repository = context.repository
    found = [plan.read(repository, name) for name in request.timelines]
    plans = [each for each in found if each is not None]
    if request.rules is None:
        wanted = _found(repository, plans, request)
        plans = [each for each in (plan.by_ids(each, wanted) for each in plans) if each.forgotten]
        blocked = protection.busy(context.location) & {each.timeline for each in plans}
        if blocked:
            raise LockedError(
                f"another git-agentos command is at work on the worktree '{min(blocked)}'", "try again afterwards"
            )
        return plans
    needed, blocked = protection.needed(context), protection.busy(context.location)
    return [
        plan.by_rules(each, request.rules, needed, more=request.more) for each in plans if each.timeline not in blocked
    ]


def _found(repository: Repository, plans: Sequence[Plan], request: Request) -> set[str]:
    """The full ids of the checkpoints that are named. CheckpointNotFound for one that is not there."""
    known = {oid for each in plans for oid in each.checkpoints}
    others = [name for name in request.ids if name not in known]
    return known.intersection(request.ids) | {
        timeline.find(repository, name, list(request.timelines)).checkpoint for name in others
    }


def _without_unreadable(
    repository: Repository, plans: Sequence[Plan], *, asked: bool
) -> tuple[list[Plan], dict[str, Lines | None]]:
    """The plans without checkpoints whose log would be lost, unless they were asked for; and what the others leave."""
    left: dict[str, Lines | None] = {}
    found = []
    for each in plans:
        mine = chain.left_behind(repository, each)
        bad = {} if asked else {oid: protection.UNREADABLE for oid, lines in mine.items() if lines is None}
        found.append(each.without(bad))
        left.update(mine)
    return found, left


def _estimate(context: OpenWorktree, plans: Sequence[Plan]) -> int:
    """How many bytes would be freed."""
    changed = [each for each in plans if each.forgotten]
    if not changed:
        return 0
    kept = [
        oid
        for each in changed
        for link in each.links
        if link.checkpoint not in each.forgotten
        for oid in link.commit.parents[1:]
    ]
    trees = [link.commit.tree for each in changed for link in each.links if link.checkpoint not in each.forgotten]
    return freeing.estimate(
        context, [each.tip for each in changed], [timeline.PREFIX + each.timeline for each in changed], [*kept, *trees]
    )


def _result(plans: Sequence[Plan], freed: Freed, *, dry_run: bool = False) -> Forgotten:
    return Forgotten(
        forgotten=tuple(oid for each in plans for oid in each.checkpoints if oid in each.forgotten),
        kept=tuple(oid for each in plans for oid in each.kept),
        protected=tuple(
            Protected(oid, each.protected[oid]) for each in plans for oid in each.kept if oid in each.protected
        ),
        freed_bytes=freed.freed_bytes,
        unreachable=freed.left,
        reasons=tuple(Kept(oid, tuple(each.rules[oid])) for each in plans for oid in each.kept if oid in each.rules),
        dry_run=dry_run,
    )


# -- moving timelines --------------------------------------------------------------------------------------------------


class Rewriting(Protocol):
    """What is to become of the checkpoints that stay."""

    def begin(self, writer: Writer) -> Callable[[Link], Link]:
        """What writes a link again; the same link where nothing changes."""

    def record(self) -> None:
        """Called before the timeline moves, each time that it is tried."""


def move(
    context: OpenWorktree, found: Plan, left: Mapping[str, Lines | None], rewriting: Rewriting | None = None
) -> str:
    """Move a timeline to a chain without the checkpoints that a plan forgets; its new tip. What is appended meanwhile
    stays on top. With `rewriting`, checkpoints are written again; where that changes nothing, it does not move."""
    repository, location = context.repository, context.location
    name = timeline.PREFIX + found.timeline
    with repository.writer() as writer:
        rewrite = rewriting.begin(writer) if rewriting is not None else _unchanged
        new = Chain(writer, found, left, context.settings.committer, rewrite)
        old = found.tip
        if new.tip == old:
            return old
        with _timeline_lock(context, found.timeline):
            for _ in range(_ATTEMPTS):
                now = refs.resolve(location, name)
                if now is None:
                    raise RepositoryError(f"the timeline '{found.timeline}' is gone", "nothing of it was forgotten")
                if now != old:
                    new.extend(plan.links_of(repository, now, old))
                    old = now
                if writer.collected:  # nothing reaches these if this process is killed before the move
                    pending.note(location, pending.WRITTEN, writer.collected)
                writer.flush()
                if rewriting is not None:
                    rewriting.record()
                try:
                    with gc.objects_in_use(location):
                        refs.update(location, name, new.tip, old, ready=writer.rewrite_missing)
                except (refs.RefMoved, MissingObjectsError):
                    continue
                drop_reflog(repository, name)
                return new.tip
    raise LockedError(f"cannot move the timeline '{found.timeline}': other processes keep updating it", "try again")


def _unchanged(link: Link) -> Link:
    return link


def drop_reflog(repository: Repository, name: str) -> None:
    """Empty the reflog of a ref, if core.logAllRefUpdates has given it one: it names all that was forgotten."""
    if refs.read_log(repository.location, name):
        repository.git("reflog", "expire", "--expire=all", "--expire-unreachable=all", name)


@contextlib.contextmanager
def _timeline_lock(context: OpenWorktree, name: str) -> Iterator[None]:
    """Hold the lock under which checkpoints are appended, of the worktree to which a timeline belongs."""
    for where in context.all_worktrees():
        if timeline.worktree_id(where) == name:
            with state_dir.lock(where, "timeline"):
                yield
            return
    yield


@contextlib.contextmanager
def forgetting(location: Location, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock on forgetting; without `wait`, LockedError where another process has it."""
    folder = directories.make_own(location.shared_state_dir)
    with locks.hold(os.path.join(folder, "forget.turn"), wait=wait):
        yield


@contextlib.contextmanager
def no_restores(location: Location) -> Iterator[None]:
    """Keep restores, and commands that create or remove worktrees, from beginning; wait for those that go on.
    LockedError for a restore that takes longer than half a minute."""
    deadline = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as held:
        held.enter_context(worktrees.lock(location))
        for where in worktrees.list_existing(location):
            held.enter_context(_no_restore(where, deadline))
        yield


@contextlib.contextmanager
def _no_restore(where: Location, deadline: float) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(state_dir.lock(where, "worktree", shared=True, wait=False))
                break
            except LockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)
        yield
