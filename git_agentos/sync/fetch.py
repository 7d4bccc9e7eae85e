"""Fetching timelines of other hosts: only those that have changed, each checked before its ref here is set."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint import timeline
from git_agentos.errors import AgentosError, GitCommandError
from git_agentos.git import refs, transport
from git_agentos.git.quarantine import Quarantine
from git_agentos.sync import encrypted, fetched, names
from git_agentos.sync.names import RemoteTimeline
from git_agentos.sync.results import Refused, Session, Transferred

_MOST_REFS = 50  # of one fetch: one that is cut off has what came before


@dataclass
class Fetched:
    """What a fetch did."""

    fetched: list[Transferred] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def fetch(session: Session, agent: str | None = None) -> Fetched:
    """Fetch the timelines of other hosts; with `agent`, only those of worktrees with this id."""
    location = session.context.location
    here = refs.list_refs(location, f"{timeline.FETCHED}{session.remote}/", skip_broken=True)
    current = newest_generations(session, agent)
    due = [name for name, oid in current.items() if not _is_here(session, name, oid, here)]
    done = Fetched()
    for batch in _batches(due):
        if session.dry_run:
            done.fetched += [Transferred(name.timeline, name.host, None) for name in batch]
            continue
        session.observer.begins(f"Fetching {len(batch)} timelines")
        failed = (_fetch_encrypted if batch[0].is_encrypted else _fetch_clear)(session, batch, done)
        done.refused += [Refused(f"{name.host}/{name.timeline}", failed[name]) for name in batch if name in failed]
    if not session.dry_run:
        _drop_older(session, current, here)
    return done


def newest_generations(session: Session, agent: str | None = None) -> dict[RemoteTimeline, str]:
    """The timelines of other hosts on the remote, each in its newest generation, and the commits that they are at."""
    newest: dict[tuple[str, str], RemoteTimeline] = {}
    for name in session.there:
        if name.host != session.host and agent in (None, name.timeline):
            other = newest.setdefault((name.host, name.timeline), name)
            # A number is given once. If somebody has given it twice, the encrypted one counts.
            if (name.generation, name.is_encrypted) > (other.generation, other.is_encrypted):
                newest[name.host, name.timeline] = name
    return {name: session.there[name] for name in sorted(newest.values())}


def _is_here(session: Session, name: RemoteTimeline, oid: str, here: Mapping[str, str]) -> bool:
    """Whether a timeline on the remote, whose ref there is at `oid`, was fetched."""
    if name.is_encrypted:
        return encrypted.is_taken(session, name, oid)
    return here.get(name.fetched_from(session.remote)) == oid


def _batches(names: Iterable[RemoteTimeline]) -> Iterator[list[RemoteTimeline]]:
    """Timelines that are fetched together: all encrypted, or none."""
    for _, group in itertools.groupby(sorted(names, key=_is_encrypted), _is_encrypted):
        due = list(group)
        yield from (due[first : first + _MOST_REFS] for first in range(0, len(due), _MOST_REFS))


def _is_encrypted(name: RemoteTimeline) -> bool:
    return name.is_encrypted


def _fetch_clear(session: Session, batch: Sequence[RemoteTimeline], done: Fetched) -> dict[RemoteTimeline, str]:
    """Fetch timelines and set their refs; why those failed that did."""
    failed = _fetch_batch(session, batch)
    for name in batch:
        if name not in failed:
            reason = _take(session, name, session.there[name], done)
            if reason is not None:
                failed[name] = reason
    return failed


def _fetch_encrypted(session: Session, batch: Sequence[RemoteTimeline], done: Fetched) -> dict[RemoteTimeline, str]:
    """The same for encrypted ones: they are decrypted in a quarantine. Without a key, nothing is fetched."""
    try:
        by = encrypted.identity(session)
        with encrypted.room(session, batch) as room:
            failed = _fetch_batch(session, batch, room)
            for name in batch:
                if name in failed:
                    continue
                try:
                    found = encrypted.receive(session, room, name, session.there[name], by)
                except AgentosError as error:
                    reason: str | None = error.message
                else:
                    reason = _take(session, name, found.timeline, done)
                    if reason is None:
                        encrypted.note(session, {name: [found]})
                if reason is not None:
                    failed[name] = reason
            return failed
    except AgentosError as error:
        return dict.fromkeys(batch, error.message)


def _fetch_batch(
    session: Session, batch: Sequence[RemoteTimeline], room: Quarantine | None = None
) -> dict[RemoteTimeline, str]:
    """Fetch the objects of some timelines; why those failed that did. If one of them is damaged on the remote, the
    others come all the same."""
    location = session.context.location
    try:
        transport.fetch(location, session.remote, [name.on_remote for name in batch], session.observer.output, room)
        return {}
    except GitCommandError as error:
        if len(batch) == 1:
            return {batch[0]: error.message}
        try:
            transport.list_refs(location, session.remote)
        except AgentosError:
            return dict.fromkeys(batch, error.message)  # the connection is gone
    failed: dict[RemoteTimeline, str] = {}
    for name in batch:
        failed |= _fetch_batch(session, [name], room)
    return failed


def _take(session: Session, name: RemoteTimeline, oid: str, done: Fetched) -> str | None:
    """Check what was fetched and set its ref; the reason if that is refused."""
    try:
        new = fetched.take(session.context.repository, session.remote, name, oid)
    except AgentosError as error:
        return error.message
    except refs.RefMoved:
        return "another process has fetched it meanwhile"
    done.fetched.append(Transferred(name.timeline, name.host, new))
    return None


def _drop_older(session: Session, current: Iterable[RemoteTimeline], before: Mapping[str, str]) -> None:
    """Remove the refs of generations that another one has replaced, which is here by now."""
    location = session.context.location
    newest = {(name.host, name.timeline): name for name in current}
    for ref, oid in before.items():
        parsed = names.parse_fetched(ref)
        name = None if parsed is None else newest.get((parsed[1].host, parsed[1].timeline))
        if parsed is None or name is None or parsed[1].generation >= name.generation:
            continue
        if refs.resolve(location, name.fetched_from(session.remote)) is not None:
            with contextlib.suppress(refs.RefMoved):
                refs.drop(location, ref, oid)
            encrypted.note(session, {parsed[1]: []})
