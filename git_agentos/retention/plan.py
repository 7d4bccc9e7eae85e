"""The plan: which checkpoints of a timeline are forgotten, which stay, and why. Only timeline commits are read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from git_agentos.checkpoint import carrier, timeline
from git_agentos.git.repository import CommitData, Repository
from git_agentos.retention import protection, rules
from git_agentos.retention.rules import Rules
from git_agentos.util.named_tuple import NamedTuple

_TRIGGER = rb"(?m)^Agentos-Trigger: (\S+)$"


class Link(NamedTuple):
    """A timeline commit, with what it stands for: a checkpoint, or (`is_carrier`) a carrier."""

    commit: CommitData
    checkpoint: str
    is_carrier: bool

    @property
    def at(self) -> datetime:
        try:
            return datetime.fromtimestamp(self.commit.time, UTC)
        except (OverflowError, ValueError, OSError):  # a commit may claim any time
            return datetime.fromtimestamp(0, UTC)

    @property
    def trigger(self) -> str:
        found = re.findall(_TRIGGER, self.commit.message)
        return found[-1].decode("ascii", "replace") if found else ""


class Plan(NamedTuple):
    """What becomes of a timeline: its links, newest first, as they were at `tip`; the ids of the checkpoints that are
    forgotten; why others stay (`rules`: words of rules, `protected`: a word of `protection`)."""

    timeline: str
    tip: str
    links: list[Link]
    forgotten: frozenset[str]
    rules: Mapping[str, list[str]] = {}
    protected: Mapping[str, str] = {}

    @property
    def checkpoints(self) -> list[str]:
        """The ids of all checkpoints, newest first."""
        return [link.checkpoint for link in self.links if not link.is_carrier]

    @property
    def kept(self) -> list[str]:
        """The ids of those that stay, newest first."""
        return [oid for oid in self.checkpoints if oid not in self.forgotten]

    def without(self, oids: Mapping[str, str]) -> Plan:
        """The plan with some more checkpoints protected, for the reasons given."""
        return self._replace(forgotten=self.forgotten - oids.keys(), protected={**self.protected, **oids})


def read(repository: Repository, name: str) -> Plan | None:
    """A timeline of which nothing is forgotten; None if there is none."""
    tip = timeline.tip(repository.location, name)
    if tip is None:
        return None
    return Plan(name, tip, links_of(repository, tip), frozenset())


def links_of(repository: Repository, tip: str, until: str | None = None) -> list[Link]:
    """The links of a timeline that ends at `tip`, newest first, down to the commit `until`, without it."""
    commits = itertools.takewhile(lambda commit: commit.oid != until, timeline.commits(repository, tip))
    return [Link(commit, commit.parents[1], carrier.is_carrier(commit)) for commit in commits]


def by_rules(found: Plan, wanted: Rules, needed: Mapping[str, str], *, more: Collection[str] = ()) -> Plan:
    """What the rules forget of a timeline. `needed` are ids that something needs, and why; `more` are names of triggers
    whose checkpoints stay."""
    protected = {}
    others: list[Link] = []
    newest = None
    for link in found.links:
        if link.is_carrier:
            continue
        newest = newest or link
        reason = _reason(link, newest, needed, more)
        if reason is None:
            others.append(link)
        else:
            protected[link.checkpoint] = reason
    if newest is None:
        return found
    # By time: a clock may have been set back.
    others.sort(key=lambda link: link.commit.time, reverse=True)
    latest = max(link.at for link in found.links if not link.is_carrier)
    reasons = rules.apply(wanted, [link.at for link in others], latest)
    kept = {link.checkpoint: why for link, why in zip(others, reasons, strict=True) if why}
    forgotten = frozenset(link.checkpoint for link in others if link.checkpoint not in kept)
    return found._replace(forgotten=forgotten, rules=kept, protected=protected)


def _reason(link: Link, newest: Link, needed: Mapping[str, str], more: Collection[str]) -> str | None:
    """Why a checkpoint is protected; None if it is not."""
    trigger = link.trigger
    if trigger in more:
        return trigger
    return (
        protection.by_trigger(trigger) or needed.get(link.checkpoint) or (protection.NEWEST if link is newest else None)
    )


def by_ids(found: Plan, oids: Collection[str]) -> Plan:
    """The plan that forgets exactly these checkpoints, whatever protects them."""
    return found._replace(forgotten=frozenset(oid for oid in found.checkpoints if oid in oids))
