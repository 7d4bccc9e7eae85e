"""`guard confirm`: the settings that make the guard weaker, those that wait for a person and those that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from git_agentos.errors import GuardError
from git_agentos.guard.configuration import confirmation, settings
from git_agentos.guard.configuration.confirmation import Unconfirmed


@dataclass(frozen=True)
class Confirmation:
    """The fields are the keys of JSON kind `confirm`: what does not count yet, and what was confirmed."""

    pending: list[Unconfirmed]
    confirmed: list[Unconfirmed]


def look(root: str, environment: Mapping[str, str]) -> Confirmation:
    """How it stands in the worktree at `root`."""
    applied, place = settings.review(root, environment)
    known = confirmation.load(environment)
    return Confirmation(list(applied.pending), confirmation.confirmed(known, place))


def confirm(root: str, environment: Mapping[str, str], keys: Sequence[str], *, by: str) -> Confirmation:
    """Let what is pending count, or only what is set of `keys`. GuardError where nothing is pending for one of them, or
    the key to sign it cannot be had."""
    applied, _ = settings.review(root, environment)
    pending = applied.settings
    if keys:
        wanted = {key.lower() for key in keys}
        pending = tuple(each for each in pending if each[0].key.lower() in wanted)
        missing = wanted - {each.key.lower() for each, _ in pending}
        if missing:
            raise GuardError(f"nothing is to be confirmed for '{min(missing)}'", "git agentos guard confirm --list")
    if pending:
        confirmation.confirm(pending, environment, by=by)
    return look(root, environment)


def worded(each: Unconfirmed) -> str:
    """A setting in words: `agentos.guard.mode = save`."""
    if each.value is None:
        return f"{each.key} (taken out)"
    return f"{each.key} = {each.value}"


def notice(pending: Sequence[Unconfirmed]) -> str:
    """What is told at the next guarded operation; empty where nothing is pending."""
    if not pending:
        return ""
    shown = ", ".join(f"{worded(each)} (in '{each.source}')" for each in pending[:3])
    more = f" and {len(pending) - 3} more" if len(pending) > 3 else ""
    return f"not confirmed, so the stricter value holds: {shown}{more} (git agentos guard confirm, by a person)"
