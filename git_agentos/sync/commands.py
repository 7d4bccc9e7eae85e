"""`sync` and `sync status`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from git_agentos.checkpoint import carrier, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError, UsageError
from git_agentos.git import transport
from git_agentos.git.repository import Repository
from git_agentos.guard import authorize
from git_agentos.sync import encrypted, encryption, fetch, host, names, notes, push, remotes, scanner
from git_agentos.sync.names import RemoteTimeline
from git_agentos.sync.results import Observer, Session, Stages, Synchronisation, SyncStatus, TimelineStatus
from git_agentos.sync.scan import Scanner

ALLOWING = "allowing what was found"


@authorize.entry("sync")
def sync(  # noqa: PLR0913 - the options of the command, documented
    context: OpenWorktree,
    remote: str | None = None,
    *,
    push: bool = False,
    fetch: bool = False,
    agent: str | None = None,
    all_timelines: bool = False,
    last: int | None = None,
    allow: Sequence[str] = (),
    dry_run: bool = False,
    observer: Observer | None = None,
) -> Synchronisation:
    """Push the timeline of this worktree to a remote (that of `agent`, or all of this clone), and fetch those of other
    hosts (of worktrees with the id `agent`). With one of `push` and `fetch`, only that is done.

    `last` limits a push to so many of the newest checkpoints. `allow` are fingerprints of findings that are no secrets,
    which is remembered. What was held back, or refused, is in the result.
    """
    if push and fetch:
        raise UsageError("--push and --fetch cannot be used together", "without them, sync does both")
    if last is not None and last < 1:
        raise UsageError("--last takes a number from 1 on")
    name = remotes.choose(context.settings.values, remote)
    wanted = _wanted(context, agent, every=all_timelines) if not fetch else []
    if allow:
        from git_agentos.guard import operator  # it takes time to load, as below

        operator.require_operator(context.location, None, ALLOWING)
        notes.check_fingerprints(allow)
        if not dry_run:
            notes.allow(context.location, allow)
    with contextlib.ExitStack() as stack:
        stages = Stages(context.progress)
        stack.callback(stages.ended)
        if not dry_run:
            stack.enter_context(notes.lock(context.location, name))
        session = _connect(context, name, scanner.installed(context.location), observer or stages, dry_run=dry_run)
        session = session._replace(allowed=session.allowed | set(allow))
        return _transfer(session, wanted, agent, last, fetching=not push)


def _transfer(
    session: Session, wanted: Sequence[str], agent: str | None, last: int | None, *, fetching: bool
) -> Synchronisation:
    if wanted and session.recipients:
        encryption.check(session.recipients)
    sent = push.push(session, wanted, last=last)
    received = fetch.fetch(session, agent) if fetching else fetch.Fetched()
    return Synchronisation(
        remote=session.remote,
        host=session.host,
        pushed=sent.pushed,
        fetched=received.fetched,
        held_back=sent.held_back,
        refused=[*sent.refused, *received.refused],
        dry_run=session.dry_run,
    )


def status(context: OpenWorktree, remote: str | None = None) -> SyncStatus:
    """Compare the timelines of this clone with those on a remote, and say which of other hosts are not here. The remote
    is asked; nothing is transferred."""
    name = remotes.choose(context.settings.values, remote)
    stages = Stages(context.progress)
    session = _connect(context, name, scanner.installed(context.location), stages, dry_run=True)
    stages.ended()
    known = notes.read(context.location, name)
    rows = []
    for id_ in timeline.all_names(context.location):
        is_searched = id_ in known and not session.recipients
        held = {each.checkpoint for each in known[id_].held_back} if is_searched else set()
        rows.append(_compare(session, id_, held))
    here = fetch.fetch(session).fetched
    for other in fetch.newest_generations(session):
        missing = any((each.host, each.timeline) == (other.host, other.timeline) for each in here)
        rows.append(TimelineStatus(other.timeline, other.host, 0, None if missing else 0, 0))
    return SyncStatus(name, session.host, rows)


def _compare(session: Session, id_: str, held: set[str]) -> TimelineStatus:
    """One timeline of this clone, and its chain on the remote."""
    repository = session.context.repository
    own = push.own_timelines(session, id_)
    current: RemoteTimeline | None = max(own, key=lambda each: each.generation, default=None)
    mine = _checkpoints(repository, timeline.tip(repository.location, id_))
    if current is None or current.is_encrypted != bool(session.recipients):
        theirs: set[str] = set()  # everything is pushed anew
    else:
        there = own[current]
        at = encrypted.known_tip(session, current, there) if current.is_encrypted else there
        if at is None or not repository.exists(at):
            return TimelineStatus(id_, session.host, 0, None, len(held))
        theirs = set(_checkpoints(repository, at))
    ahead = sum(1 for each in mine if each not in theirs and each not in held)
    return TimelineStatus(id_, session.host, ahead, len(theirs - set(mine)), len(held))


def _checkpoints(repository: Repository, tip: str | None) -> list[str]:
    commits = timeline.commits(repository, tip)
    return [each.parents[1] for each in commits if not carrier.is_carrier(each)]


def _connect(context: OpenWorktree, remote: str, scanner: Scanner, observer: Observer, *, dry_run: bool) -> Session:
    own = host.name(context)
    observer.begins(f"Asking '{remote}' what it has")
    every = transport.list_refs(context.location, remote)
    parsed = ((names.parse(ref), oid) for ref, oid in every.items())
    there = {name: oid for name, oid in parsed if name is not None}
    allowed = notes.allowed(context.location)
    to = encryption.recipients(context.location, context.settings.values)
    return Session(context, remote, own, every, there, scanner, allowed, observer, dry_run, to)


def _wanted(context: OpenWorktree, agent: str | None, *, every: bool) -> list[str]:
    """The timelines of this clone that are pushed."""
    with contextlib.suppress(LockedError):
        timeline.publish(context.repository)
    if every:
        return timeline.all_names(context.location)
    if agent is None:
        return [context.worktree_id]
    if timeline.tip(context.location, agent) is None:
        from git_agentos.checkpoint import queries

        raise queries.unknown_agent(agent)
    return [agent]
