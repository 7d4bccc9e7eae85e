"""Encrypted timelines: what is known of their chains of bundles, and how these are sent and received.

In `agentos/sync/remote-NAME.bundles` in the common git directory is, for each, where its chain ends and which commit of
the timeline that is. Without it, all bundles are fetched again, and those of this clone need `agentos.sync.identity`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from git_agentos.errors import AgentosError, GitCommandError, RepositoryError, converted_storage_errors
from git_agentos.git import quarantine, refs, transport
from git_agentos.git.location import Location
from git_agentos.git.quarantine import Quarantine
from git_agentos.git.transport import Update
from git_agentos.sync import bundles, encryption, notes
from git_agentos.sync.bundles import Contents, End
from git_agentos.sync.encryption import Identity
from git_agentos.sync.names import RemoteTimeline
from git_agentos.sync.results import Session
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_KIND = "bundles"


class Known(NamedTuple):
    """A chain that was pushed or fetched: its end, the commit of the timeline in it, and, if it was pushed from here,
    all to whom it is encrypted."""

    end: End
    timeline: str
    recipients: tuple[str, ...] = ()


class Portion(NamedTuple):
    """What is to be appended to a chain, which ends with `end` and has the timeline up to `base`: all up to `tip`."""

    name: RemoteTimeline
    end: str | None
    base: str | None
    tip: str


class Sent(NamedTuple):
    """The answers of the remote, by ref, as of `transport.push`, and the ends of the chains that it has now."""

    answers: Mapping[str, str | None]
    ends: Mapping[str, str]


# -- what is known -----------------------------------------------------------------------------------------------------


def known(location: Location, remote: str) -> dict[str, list[Known]]:
    """What is known of each timeline, by host and name; the last is what was to be pushed, and may not have arrived."""
    try:
        body = files.read_object(notes.path(location, remote, _KIND))
        return {key: [_known(location, row) for row in rows] for key, rows in body["timelines"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def key(name: RemoteTimeline) -> str:
    """By which `known` has a timeline."""
    return f"{name.host}/{name.name}"


def noted_tip(session: Session, name: RemoteTimeline, end: str) -> str | None:
    """The commit of a timeline in the chain that ends so, whether or not it is here; None if that is not known."""
    found = _at(known(session.context.location, session.remote), name, end)
    return None if found is None else found.timeline


def known_tip(session: Session, name: RemoteTimeline, end: str) -> str | None:
    """The commit of a timeline in the chain that ends so; None if that is not known, or the commit is not here."""
    found = _at(known(session.context.location, session.remote), name, end)
    return None if found is None or not session.context.repository.exists(found.timeline) else found.timeline


def reaches_all(session: Session, name: RemoteTimeline, end: str) -> bool:
    """Whether all that a chain has is encrypted to each of the recipients."""
    found = _at(known(session.context.location, session.remote), name, end)
    return found is not None and set(session.recipients) <= set(found.recipients)


def note(session: Session, found: Mapping[RemoteTimeline, Sequence[Known]]) -> None:
    """Remember what is known of timelines now; nothing, if that is empty."""
    location = session.context.location
    before = known(location, session.remote)
    rows = {**before, **{key(name): list(value) for name, value in found.items()}}
    if {each: value for each, value in rows.items() if value} == before:
        return
    body = {
        each: [[known.end.tip, known.end.raw.decode("ascii"), known.timeline, known.recipients] for known in value]
        for each, value in sorted(rows.items())
        if value
    }
    data = json.dumps({"timelines": body}, indent=1).encode("ascii") + b"\n"
    files.replace(notes.path(location, session.remote, _KIND), data)


def _known(location: Location, row: list[object]) -> Known:
    tip, raw, timeline, recipients = row
    data = str(raw).encode("ascii")
    if location.hash.object_id("commit", data) != tip or not isinstance(recipients, list):
        raise ValueError("not what was written")
    return Known(End(str(tip), data), str(timeline), tuple(map(str, recipients)))


def _at(rows: Mapping[str, Sequence[Known]], name: RemoteTimeline, end: str) -> Known | None:
    return next((each for each in rows.get(key(name), ()) if each.end.tip == end), None)


# -- sending -----------------------------------------------------------------------------------------------------------


def send(session: Session, portions: Sequence[Portion]) -> Sent:
    """Encrypt and push. What is sent is noted before: a push that is killed afterwards has arrived, or not."""
    location, repository = session.context.location, session.context.repository
    rows = known(location, session.remote)
    before = {each.name: [row for row in rows.get(key(each.name), ()) if row.end.tip == each.end] for each in portions}
    boundary = {found.end.tip: found.end.raw for value in before.values() for found in value}
    answers: dict[str, str | None] = {}
    made: dict[RemoteTimeline, Known] = {}
    with quarantine.opened(repository, boundary) as room:
        for each in portions:
            contents = Contents(each.name, each.tip, each.base, _public(session))
            try:
                with converted_storage_errors():
                    end = bundles.append(room, each.end, contents, session.recipients)
            except AgentosError as error:
                answers[each.name.on_remote] = error.message
            else:
                # Who was a recipient and is none any more can read only what came before.
                made[each.name] = Known(end, each.tip, session.recipients)
        note(session, {name: [*before[name], found] for name, found in made.items()})
        updates = [Update(name.on_remote, found.end.tip) for name, found in made.items()]
        try:
            answers |= transport.push(location, session.remote, updates, session.observer.output, room)
        except AgentosError as error:
            answers |= {each.name: error.message for each in updates}
    note(session, {name: [found] for name, found in made.items() if answers.get(name.on_remote, "") is None})
    return Sent(answers, {name.on_remote: found.end.tip for name, found in made.items()})


def _public(session: Session) -> list[str]:
    """The commits of the branches and tags of the remote that are here."""
    found = (oid for ref, oid in session.every.items() if ref.startswith(("refs/heads/", "refs/tags/")))
    return [oid for oid in dict.fromkeys(found) if session.context.repository.exists(oid)]


# -- receiving ---------------------------------------------------------------------------------------------------------


def identity(session: Session) -> Identity:
    """The keys that decrypt; ConfigurationError where there are none."""
    return encryption.identity(session.context.location, session.context.settings.values)


@contextlib.contextmanager
def room(session: Session, names: Iterable[RemoteTimeline]) -> Iterator[Quarantine]:
    """A quarantine into which the chains of timelines are fetched, from where they ended the last time."""
    rows = known(session.context.location, session.remote)
    ends = [_taken(session, rows, name) for name in names]
    boundary = {found.end.tip: found.end.raw for found in ends if found is not None}
    with quarantine.opened(session.context.repository, boundary) as made:
        yield made


def receive(session: Session, room: Quarantine, name: RemoteTimeline, end: str, by: Identity) -> Known:
    """Decrypt what was fetched of a chain that ends so, and write it to the store, all or nothing. RepositoryError or
    CheckpointFormatError if anything is wrong with it; no ref leads to it yet."""
    with converted_storage_errors():
        chain = bundles.unread(room, end)

        def reads(number: int) -> None:
            session.observer.begins(f"Decrypting bundle {number} of {len(chain.bundles)} of {key(name)}")

        tip = bundles.read(room, chain.bundles, name, by, reads)
        if tip is None:
            before = _taken(session, known(session.context.location, session.remote), name)
            if before is None or before.end.tip != end:
                raise RepositoryError("it has no bundles")
            return before
        try:
            quarantine.keep(room, tip)
        except GitCommandError as error:
            raise RepositoryError(f"its bundles lack a part of it, or have a damaged one: {error.message}") from error
    return Known(chain.end, tip)


def fetch_own(session: Session, name: RemoteTimeline, end: str) -> str:
    """The commit of a timeline in this clone's own chain on the remote, which ends so and is not known; it is here
    afterwards. RepositoryError if that cannot be found out."""
    try:
        by = identity(session)
        with room(session, [name]) as made:
            transport.fetch(session.context.location, session.remote, [name.on_remote], session.observer.output, made)
            return receive(session, made, name, end, by).timeline
    except AgentosError as error:
        raise RepositoryError(
            f"the remote has bundles of the host '{session.host}' that this clone does not know: {error.message}"
        ) from error


def is_taken(session: Session, name: RemoteTimeline, end: str) -> bool:
    """Whether a chain that ends so was fetched, and the ref here says so."""
    found = _taken(session, known(session.context.location, session.remote), name)
    return found is not None and found.end.tip == end


def _taken(session: Session, rows: Mapping[str, Sequence[Known]], name: RemoteTimeline) -> Known | None:
    """What is known of a timeline that is here in full: that to which its ref leads."""
    tip = refs.resolve(session.context.location, name.fetched_from(session.remote))
    return next((each for each in rows.get(key(name), ()) if each.timeline == tip), None)
