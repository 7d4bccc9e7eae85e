"""The one table of which value of a setting makes the guard weaker than another.

    agentos.policy.<operation>    forbid, approve, allow; unset is the operation's default
    agentos.guard.mode            strict, save
    agentos.guard.preset          strict, recoverable
    agentos.auto.beforeRisky      true, false
    agentos.approvalExpiry        the shorter, the stricter; unset is an hour
    agentos.approvalKey           none, any file; another file is as weak as a first one
    agentos.protected             patterns: each one that is missing makes it weaker

The strictest comes first. `agentos.guard.everyone` is not here: it concerns people, who are never stopped. Neither are
the other automatic checkpoints: no decision of the guard depends on them. Invalid values are not compared: they are
errors wherever they are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from git_agentos.guard.decision import ALLOW, APPROVE, FORBID
from git_agentos.util.values import parse_boolean, parse_duration

PROTECTED = "agentos.protected"
DEFAULT_EXPIRY = 3600.0

_POLICY = "agentos.policy."
_KEY_FILE, _EXPIRY = "agentos.approvalkey", "agentos.approvalexpiry"
_WORDS = {
    "agentos.guard.mode": ("strict", "save"),
    "agentos.guard.preset": ("strict", "recoverable"),
}
_BEFORE_RISKY = "agentos.auto.beforerisky"
# As the documentation writes keys; git gives them in lower case.
_NAMES = {
    _KEY_FILE: "agentos.approvalKey",
    _EXPIRY: "agentos.approvalExpiry",
    _BEFORE_RISKY: "agentos.auto.beforeRisky",
}


def counts(key: str) -> bool:
    """Whether a value of this key (as git gives it) can make the guard weaker."""
    if key.startswith(_POLICY):
        return key.removeprefix(_POLICY) in _defaults()
    return key in _WORDS or key in (_KEY_FILE, _EXPIRY, _BEFORE_RISKY, PROTECTED)


def name(key: str) -> str:
    """A key as it is written in the documentation."""
    return _NAMES.get(key, key)


def loosens(key: str, old: str | None, new: str | None) -> bool:
    """Whether the guard is weaker with `new` than with `old`; None is a key that is not set. Not for `PROTECTED`."""
    if key == _KEY_FILE:
        return bool(new) and new != old
    return _weakness(key, new) > _weakness(key, old)


def is_readable(key: str, value: str | None) -> bool:
    """Whether the guard knows this value; any other is an error where it is used."""
    return key in (_KEY_FILE, PROTECTED, _BEFORE_RISKY) or value is None or _weakness(key, value) >= 0


def patterns(values: Iterable[str]) -> list[str]:
    """The patterns in values of `agentos.protected`."""
    return list(dict.fromkeys(pattern for value in values for pattern in value.replace(",", " ").split()))


def _weakness(key: str, value: str | None) -> float:
    text = None if value is None else value.strip().lower()
    if key.startswith(_POLICY):
        decision = _defaults()[key.removeprefix(_POLICY)] if text is None else text
        return _place(decision, (FORBID, APPROVE, ALLOW))
    if key in _WORDS:
        return _place(text or _WORDS[key][0], _WORDS[key])
    if key == _BEFORE_RISKY:
        return float(text is not None and parse_boolean(text) is False)
    seconds = DEFAULT_EXPIRY if text is None else parse_duration(text)
    return -1.0 if seconds is None else seconds


def _place(word: str, words: tuple[str, ...]) -> float:
    return float(words.index(word)) if word in words else -1.0


@cache
def _defaults() -> dict[str, str]:
    """The decision about each operation unless configuration says otherwise."""
    from git_agentos.guard.operation_table import ALLOWED, APPROVED, FORBIDDEN

    texts = ((ALLOW, ALLOWED), (APPROVE, APPROVED), (FORBID, FORBIDDEN))
    return {line.partition("|")[0].strip(): default for default, text in texts for line in text.strip().splitlines()}
