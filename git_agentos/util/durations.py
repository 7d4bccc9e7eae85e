"""Lengths of time as people write them in settings and options: `90s`, `30m`, `1.5h`, `2d`; `90d`, `12w`, `3m`."""

from __future__ import annotations

import re

_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hr", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
}
_DAYS = {"": 1, "d": 1, "day": 1, "w": 7, "week": 7, "m": 30, "month": 30, "y": 365, "year": 365}
_WORD = re.compile(r"[A-Za-z]{2}")
_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)


def seconds(text: str, *, words: bool = True) -> float | None:
    """A number of seconds, or one with `s`, `m` (minutes), `h` or `d`, or with `words` `minutes` and the like; None for
    anything else."""
    return _read(text, _SECONDS) if words or not _WORD.search(text) else None


def days(text: str) -> float | None:
    """A number of days, or one with `d`, `w`, `m` (months of 30 days) or `y`; None for anything else."""
    return _read(text, _DAYS)


def _read(text: str, units: dict[str, int]) -> float | None:
    found = _NUMBER.fullmatch(text.strip().lower())
    if found is None:
        return None
    size = units.get(found[2].removesuffix("s") if len(found[2]) > 1 else found[2])
    return float(found[1]) * size if size is not None else None
