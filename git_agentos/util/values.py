"""Values as people write them in settings and options (booleans, sizes, lengths of time, ids), and in JSON.

Each parser gives None for text that is no such value: what that means is for the caller to say.
"""

from __future__ import annotations

import os
import re
from typing import Any

_TRUE, _FALSE = frozenset(("true", "yes", "on")), frozenset(("false", "no", "off", ""))
_INTEGER = r"[+-]?([0-9]{1,9})[kmg]?"

_SIZE = r"([0-9]{1,18})([kmg]?)"
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hr", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
}
_DAYS = {"": 1, "d": 1, "day": 1, "w": 7, "week": 7, "m": 30, "month": 30, "y": 365, "year": 365}
_WORD = r"[A-Za-z]{2}"
_DURATION = r"(?a)(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)"


def parse_boolean(text: str) -> bool | None:
    """A boolean as git reads it: `true`, `yes`, `on`, `false`, `no`, `off`, nothing, or an integer; None for others."""
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    number = re.fullmatch(_INTEGER, word)
    return None if number is None else int(number[1]) != 0


def parse_size(text: str) -> int | None:
    """A number of bytes, or one with `k`, `m` or `g` (powers of 1024)."""
    found = re.fullmatch(_SIZE, text.strip().lower())
    return None if found is None else int(found[1]) * _BYTES[found[2]]


def parse_duration(text: str, *, words: bool = True) -> float | None:
    """A number of seconds, or one with `s`, `m` (minutes), `h` or `d`; with `words` also `minutes` and the like."""
    return _duration(text, _SECONDS) if words or not re.search(_WORD, text) else None


def parse_days(text: str) -> float | None:
    """A number of days, or one with `d`, `w`, `m` (months of 30 days) or `y`."""
    return _duration(text, _DAYS)


def _duration(text: str, units: dict[str, int]) -> float | None:
    found = re.fullmatch(_DURATION, text.strip().lower())
    if found is None:
        return None
    unit = units.get(found[2].removesuffix("s") if len(found[2]) > 1 else found[2])
    return float(found[1]) * unit if unit is not None else None


def is_hex(text: str) -> bool:
    """Whether there are only digits of object ids in a text."""
    return not text.strip("0123456789abcdef")


def is_of_type(value: Any, type_: str) -> bool:
    """Whether a JSON value fits the type of a field, as its annotation names it."""
    if type_.startswith("list["):
        return isinstance(value, list) and all(is_of_type(each, type_[len("list[") : -1]) for each in value)
    if type_.startswith("dict["):
        return isinstance(value, dict)
    return (value is None and type_.endswith("None")) or type(value).__name__ == type_.removesuffix(" | None")


def ordered_id(time_ns: int) -> str:
    """A new id, 32 hex digits, that sorts by `time_ns` (nanoseconds since the epoch)."""
    return f"{time_ns:016x}{os.urandom(8).hex()}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
