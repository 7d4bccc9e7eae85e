"""`guard confirm`: the settings that make the guard weaker, and that count once a person has confirmed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from git_agentos.errors import GuardError
from git_agentos.guard.configuration import confirmation, settings
from git_agentos.guard.configuration.confirmation import Unconfirmed


@dataclass(frozen=True)
class Confirmation:
    """The settings that do not count yet, and those that were confirmed; the fields are the keys of JSON kind
    `confirm`."""

    pending: list[Unconfirmed]
    confirmed: list[Unconfirmed]


def review(root: str, environment: Mapping[str, str]) -> Confirmation:
    """The settings of the worktree at `root`."""
    applied, place = settings.review(root, environment)
    known = confirmation.load(environment)
    return Confirmation(list(applied.pending), confirmation.confirmed(known, place))


def confirm(root: str, environment: Mapping[str, str], keys: Sequence[str], *, by: str) -> Confirmation:
    """Confirm the pending settings, or only those of `keys`. GuardError where nothing is pending for one of them, or
    there is no key to sign the confirmation."""
    applied, _ = settings.review(root, environment)
    pending = applied.settings
    if keys:
        wanted = {key.lower() for key in keys}
        pending = tuple(each for each in pending if each[0].key.lower() in wanted)
        missing = wanted - {each.key.lower() for each, _ in pending}
        if missing:
            raise GuardError(
                f"no setting waits for confirmation for '{min(missing)}'", "git agentos guard confirm --list"
            )
    if pending:
        confirmation.confirm(pending, environment, by=by)
    return review(root, environment)


def format_setting(each: Unconfirmed) -> str:
    """A setting as text: `agentos.guard.mode = save`."""
    if each.value is None:
        return f"{each.key} (removed)"
    return f"{each.key} = {each.value}"


def notice(pending: Sequence[Unconfirmed]) -> str:
    """The message at the next guarded operation; empty where nothing is pending."""
    if not pending:
        return ""
    shown = ", ".join(f"{format_setting(each)} (in '{each.source}')" for each in pending[:3])
    more = f" and {len(pending) - 3} more" if len(pending) > 3 else ""
    return f"not confirmed, so the stricter value holds: {shown}{more} (git agentos guard confirm, by a person)"
