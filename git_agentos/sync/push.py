"""Pushing timelines: what the remote lacks, without what is held back, at most 20 refs at a time.

Nothing is forced. Whatever ends a push, what has arrived is known by the remote's own refs, and the next one goes on
from there: the commits that are appended are the same again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint import carrier, timeline
from git_agentos.errors import AgentosError, GitCommandError, RepositoryError
from git_agentos.git import refs, transport
from git_agentos.git.repository import CommitData, Repository
from git_agentos.git.transport import Update
from git_agentos.sync import chain, encrypted, fetched, names, notes, replaced
from git_agentos.sync.chain import Lacking
from git_agentos.sync.encrypted import Portion
from git_agentos.sync.names import RemoteTimeline
from git_agentos.sync.notes import Note
from git_agentos.sync.results import Refused, Session, Transferred
from git_agentos.sync.scan import HeldBack, Scan

MOST_REFS = 20  # of one push: forges fail with many more


@dataclass
class _Plan:
    """What is to be done for one timeline."""

    name: RemoteTimeline  # to push to
    tip: str
    remote_tip: str | None  # what the ref there is at
    base: str | None  # the commit of the chain of which that has everything; the same, if it is not encrypted
    older: dict[RemoteTimeline, str]  # generations on the remote that are to be deleted
    lacking: Lacking
    is_partial: bool = False
    chosen: list[CommitData] = field(default_factory=list)
    held_back: list[HeldBack] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    arrived: int = 0
    failed: str | None = None


@dataclass
class Pushed:
    """What a push did: the timelines, what was held back, and what was refused."""

    pushed: list[Transferred] = field(default_factory=list)
    held_back: list[HeldBack] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def push(session: Session, wanted: Iterable[str], *, last: int | None = None) -> Pushed:
    """Push timelines of this clone, of each at most the `last` newest checkpoints that the remote lacks."""
    repository = session.context.repository
    done = Pushed()
    known = notes.read(repository.location, session.remote)
    # What is encrypted is not searched, so nothing of it is held back.
    rules = notes.rules("encrypted" if session.recipients else session.scanner.version, session.allowed)
    plans = []
    for id_, tip in _tips(session, wanted):
        own = own_timelines(session, id_)
        current = max(own, key=lambda name: name.generation, default=None)
        remote_tip = own[current] if current is not None else None
        note = known.get(id_)
        if note is not None and note.holds(tip, remote_tip, rules) and _is_settled(session, own):
            done.held_back += note.held_back
            continue
        try:
            plans.append(_plan(session, id_, tip, own, last))
        except AgentosError as error:
            done.refused.append(Refused(id_, error.message))
    _choose(session, plans)
    if not session.dry_run:
        _write(repository, plans)
        _send(session, plans)
    for plan in plans:
        done.held_back += plan.held_back
        count = len(plan.chosen) if session.dry_run else plan.arrived
        arrived = (each for each in plan.chosen[:count] if not carrier.is_carrier(each))
        new = sum(each.parents[1] not in plan.lacking.kept for each in arrived)
        if new:
            done.pushed.append(Transferred(plan.name.timeline, session.host, new))
        if plan.failed is not None:
            done.refused.append(Refused(plan.name.timeline, plan.failed))
        elif not session.dry_run:
            known[plan.name.timeline] = Note(plan.tip, plan.remote_tip, rules, tuple(plan.held_back), plan.is_partial)
    if plans and not session.dry_run:
        notes.write(repository.location, session.remote, known)
    if not session.dry_run:
        _drop_gone(session, {plan.name for plan in plans})
    return done


def own_timelines(session: Session, id_: str) -> dict[RemoteTimeline, str]:
    """The generations of a timeline of this clone on the remote, and the commits that they are at."""
    return {name: oid for name, oid in session.there.items() if (name.host, name.timeline) == (session.host, id_)}


# -- deciding ----------------------------------------------------------------------------------------------------------


def _is_settled(session: Session, own: Mapping[RemoteTimeline, str]) -> bool:
    """Whether the newest of the generations is such as it should be, and replaces no other one."""
    current = max(own, key=lambda name: name.generation, default=None)
    if current is None:
        return True
    if current.is_encrypted != bool(session.recipients) or len(_alike(current, own)) > 1:
        return False
    return not current.is_encrypted or encrypted.reaches_all(session, current, own[current])


def _alike(current: RemoteTimeline, own: Mapping[RemoteTimeline, str]) -> dict[RemoteTimeline, str]:
    """The generations that are encrypted as this one, or not. The others stay on the remote until they are deleted
    there: whoever has no key has nothing else."""
    return {name: oid for name, oid in own.items() if name.is_encrypted == current.is_encrypted}


def _tips(session: Session, wanted: Iterable[str]) -> Iterable[tuple[str, str]]:
    for id_ in wanted:
        tip = timeline.tip(session.context.location, id_)
        if tip is not None:
            yield id_, tip


def _plan(session: Session, id_: str, tip: str, own: Mapping[RemoteTimeline, str], last: int | None) -> _Plan:
    repository = session.context.repository
    current = max(own, key=lambda name: name.generation, default=None)
    is_encrypted = bool(session.recipients)
    if current is None or current.is_encrypted != is_encrypted:
        found = chain.lacking(repository, tip, None)
        generation = 1 if current is None else current.generation + 1
        name, remote_tip, older = RemoteTimeline(session.host, id_, generation, is_encrypted), None, {}
    elif _is_replaced(session, current, own[current]):
        found = chain.lacking(repository, tip, None)
        name, remote_tip, older = current._replace(generation=current.generation + 1), None, _alike(current, own)
    else:
        at = _own_chain(session, current, own[current], tip)
        found = chain.lacking(repository, tip, at)
        if is_encrypted and not encrypted.reaches_all(session, current, own[current]):
            found = chain.anew(repository, tip, at)
        name, remote_tip, older = current, own[current], _alike(current, own)
        if found.is_new_generation:
            name, remote_tip = current._replace(generation=current.generation + 1), None
        older.pop(name, None)
    limited = chain.newest(found, last)
    return _Plan(
        name, tip, remote_tip, limited.base, older, limited, is_partial=len(limited.commits) < len(found.commits)
    )


def _is_replaced(session: Session, name: RemoteTimeline, oid: str) -> bool:
    """Whether `forget` has rewritten what the chain at `oid` has: then it is not here, and not fetched again."""
    at = encrypted.noted_tip(session, name, oid) if name.is_encrypted else oid
    return at is not None and replaced.is_noted(session.context.location, name.fetched_from(session.remote), at)


def _own_chain(session: Session, name: RemoteTimeline, oid: str, tip: str) -> str:
    """The end of this clone's own chain on the remote, whose ref there is at `oid`; it is here afterwards. `tip` is
    that of the timeline.

    RepositoryError where it may not be what this clone has pushed: another clone uses the same name. What that one has
    pushed must not be taken for checkpoints that were forgotten here.
    """
    repository = session.context.repository
    ref = name.fetched_from(session.remote)
    known = refs.resolve(repository.location, ref)
    # A push that was killed before it was noted: the commits were made here.
    if name.is_encrypted:
        pushed = encrypted.known_tip(session, name, oid)
        is_made_here = pushed is not None
        oid = pushed or encrypted.fetch_own(session, name, oid)
    else:
        is_made_here = known is not None and repository.exists(oid) and chain.is_appended(repository, known, oid)
    if known == oid:
        return oid
    if not is_made_here:
        if not repository.exists(oid):
            transport.fetch(repository.location, session.remote, [name.on_remote], session.observer.output)
        fetched.check(repository, name, oid, known)
        theirs = chain.contents(repository, oid, until=known)
        if theirs - chain.contents(repository, tip):
            raise RepositoryError(_another_clone(session))
    if not session.dry_run:
        _track(repository, ref, oid, known)
    return oid


def _another_clone(session: Session) -> str:
    return f"another clone pushes as the host '{session.host}', too: agentos.sync.host gives this one another name"


def _choose(session: Session, plans: Sequence[_Plan]) -> None:
    """Decide which checkpoints are pushed."""
    if session.recipients:
        for plan in plans:
            plan.chosen = list(plan.lacking.commits)
        return
    commits = [commit for plan in plans for commit in plan.lacking.commits]
    if not commits:
        return
    repository = session.context.repository
    known = [oid for oid in dict.fromkeys(session.every.values()) if repository.exists(oid)]
    session.observer.begins("Searching what is new for secrets")
    scan = Scan(repository, commits, known, session.scanner, session.allowed)
    for plan in plans:
        for commit in plan.lacking.commits:
            found = [] if commit.parents[1] in plan.lacking.kept else scan.held_back(plan.name.timeline, commit)
            plan.held_back += found
            if not found:
                plan.chosen.append(commit)


def _write(repository: Repository, plans: Sequence[_Plan]) -> None:
    with repository.writer() as writer:
        for plan in plans:
            plan.commits = chain.build(repository, writer, plan.lacking, plan.chosen)
        writer.flush()


# -- sending -----------------------------------------------------------------------------------------------------------


def _send(session: Session, plans: Sequence[_Plan]) -> None:
    """Push, in portions; then delete the generations that were replaced."""
    rounds = [list(chain.portions(plan.commits)) for plan in plans]
    for number in range(max(map(len, rounds), default=0)):
        due = [(plan, *steps[number]) for plan, steps in zip(plans, rounds, strict=True) if number < len(steps)]
        for first in range(0, len(due), MOST_REFS):
            batch = [each for each in due[first : first + MOST_REFS] if each[0].failed is None]
            if batch:
                _send_batch(session, batch)
    replaced = [plan for plan in plans if plan.older and plan.failed is None]
    for plan in replaced:
        _delete_older(session, plan)


def _send_batch(session: Session, batch: Sequence[tuple[_Plan, int, str]]) -> None:
    repository = session.context.repository
    count = sum(end - plan.arrived for plan, end, _ in batch)
    session.observer.begins(f"Pushing {count} checkpoints of {len(batch)} timelines")
    if session.recipients:
        portions = [Portion(plan.name, plan.remote_tip, plan.base, commit) for plan, _, commit in batch]
        answers, tips = encrypted.send(session, portions)
    else:
        updates = [Update(plan.name.on_remote, commit) for plan, _, commit in batch]
        tips = {plan.name.on_remote: commit for plan, _, commit in batch}
        try:
            answers = transport.push(repository.location, session.remote, updates, session.observer.output)
        except GitCommandError as error:
            answers = {each.name: error.message for each in updates}
    for plan, end, commit in batch:
        reason = answers.get(plan.name.on_remote, "the remote has not answered")
        if reason is not None:
            plan.failed = _explained(session, reason)
            continue
        ref = plan.name.fetched_from(session.remote)
        _track(repository, ref, commit, refs.resolve(repository.location, ref))
        plan.remote_tip, plan.base, plan.arrived = tips[plan.name.on_remote], commit, end


def _explained(session: Session, reason: str) -> str:
    if reason in ("fetch first", "non-fast-forward"):
        return _another_clone(session)
    return reason


def _delete_older(session: Session, plan: _Plan) -> None:
    """Delete the generations that another one has replaced, on the remote and here."""
    location = session.context.location
    updates = [Update(name.on_remote, None, oid) for name, oid in plan.older.items()]
    try:
        answers = transport.push(location, session.remote, updates, session.observer.output)
    except GitCommandError as error:
        answers = {each.name: error.message for each in updates}
    for name in plan.older:
        reason = answers.get(name.on_remote, "the remote has not answered")
        if reason is None:
            ref = name.fetched_from(session.remote)
            here = refs.resolve(location, ref)
            if here is not None:
                with contextlib.suppress(refs.RefMoved):
                    refs.drop(location, ref, here)
            encrypted.note(session, {name: []})
        else:
            plan.failed = f"the generation '{name.name}', which was replaced, could not be deleted: {reason}"


def _drop_gone(session: Session, pushed: Iterable[RemoteTimeline]) -> None:
    """Drop the refs here of generations that somebody has deleted on the remote, where it has a newer one. Without one,
    the remote may only not list it now, and what is known of it is needed to go on."""
    location = session.context.location
    there = {name._replace(is_encrypted=False) for name in (*session.there, *pushed)}
    newest: dict[str, int] = {}
    for name in there:
        if name.host == session.host:
            newest[name.timeline] = max(newest.get(name.timeline, 0), name.generation)
    mine = f"{timeline.FETCHED}{session.remote}/{session.host}/"
    for ref, oid in refs.list_refs(location, mine, skip_broken=True).items():
        parsed = names.parse_fetched(ref)
        if parsed is None or parsed[0] != session.remote or parsed[1] in there:
            continue
        if parsed[1].generation < newest.get(parsed[1].timeline, 0):
            with contextlib.suppress(refs.RefMoved):
                refs.drop(location, ref, oid)


def _track(repository: Repository, ref: str, new: str, old: str | None) -> None:
    """Set the ref that says what the remote has; the next sync does it if another process has moved it."""
    if new != old:
        with contextlib.suppress(refs.RefMoved):
            refs.update(repository.location, ref, new, old)
