"""The rules by which checkpoints are kept, in the words and with the meaning of restic-forget(1).

    last=N         the N newest
    hourly=N       of the last N hours in which there are checkpoints, the newest of each; also daily, weekly, monthly
    within=TIME    all that are younger than TIME when the newest checkpoint of the timeline was created

A checkpoint stays if any rule keeps it. Hours and other periods are those of UTC; weeks begin on Monday (ISO 8601). If
there are not as many periods as a rule has, it keeps the oldest checkpoint as well. TIME is made of numbers with `y`,
`m` (months), `w`, `d` and `h`: `7d`, `1y6m`. Months and years are those of the calendar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from git_agentos.errors import UsageError
from git_agentos.util.named_tuple import NamedTuple

COUNTED = ("last", "hourly", "daily", "weekly", "monthly")
WITHIN = "within"
KEEP = "keep"
_AGE = r"(?:(\d{1,4})y)?(?:(\d{1,5})m)?(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?"
_LARGEST = 10**9


class Age(NamedTuple):
    """A length of time, as it was written."""

    text: str
    years: int = 0
    months: int = 0
    days: int = 0
    hours: int = 0

    def before(self, moment: datetime) -> datetime:
        """The moment that was this long before another one; a day that a month does not have is one of the next."""
        months = moment.year * 12 + moment.month - 1 - self.years * 12 - self.months
        first = datetime.min.replace(tzinfo=UTC)
        if months < 12:
            return first
        try:
            then = moment.replace(year=months // 12, month=months % 12 + 1, day=1) + timedelta(days=moment.day - 1)
            return then - timedelta(days=self.days, hours=self.hours)
        except OverflowError:
            return first


class Rules(NamedTuple):
    """What is kept: numbers by the name of the rule, and an age. Without any, everything is."""

    counts: Mapping[str, int]
    within: Age | None = None

    def __bool__(self) -> bool:
        return bool(self.counts) or self.within is not None

    @property
    def words(self) -> list[str]:
        """The rules as `agentos.retention` has them."""
        found = [f"{name}={self.counts[name]}" for name in COUNTED if name in self.counts]
        return found + ([f"{WITHIN}={self.within.text}"] if self.within is not None else [])

    def single(self) -> list[Rules]:
        """Each rule alone."""
        found = [Rules({name: self.counts[name]}) for name in COUNTED if name in self.counts]
        return found + ([Rules({}, self.within)] if self.within is not None else [])


def make(counts: Mapping[str, str | int | None], within: str | int | None, *, source: str = "--keep-") -> Rules:
    """Rules of numbers and an age as text; None for those that are not given. UsageError for a bad value."""
    found = {}
    for name in COUNTED:
        value = counts.get(name)
        if value is not None:
            found[name] = _number(str(value), f"{source}{name}")
    return Rules(found, None if within is None else _age(str(within), f"{source}{WITHIN}"))


def parse(text: str) -> Rules | None:
    """The rules in a value of `agentos.retention`; None for `keep`. UsageError for anything else."""
    words = text.replace(",", " ").split()
    if words == [KEEP]:
        return None
    pairs = dict(word.partition("=")[::2] for word in words)
    unknown = [word for word in words if word.partition("=")[0] not in (*COUNTED, WITHIN) or "=" not in word]
    if not words or unknown:
        shown = f"'{unknown[0]}'" if unknown else "an empty value"
        raise UsageError(
            f"agentos.retention has {shown}", "words such as last=20 within=7d hourly=720 daily=365, or keep"
        )
    return make(pairs, pairs.get(WITHIN), source="agentos.retention: ")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) < _LARGEST):
        raise UsageError(f"{name} takes a number from 1, not '{text[:40]}'")
    return int(text)


def _age(text: str, name: str) -> Age:
    found = re.fullmatch(_AGE, text.strip().lower(), re.ASCII)
    if not text.strip() or found is None:
        raise UsageError(f"{name} takes a time such as 36h, 7d or 1y6m, not '{text[:40]}'")
    years, months, weeks, days, hours = (int(each or 0) for each in found.groups())
    return Age(text.strip().lower(), years, months, weeks * 7 + days, hours)


# -- applying them -----------------------------------------------------------------------------------------------------

_PERIODS: Mapping[str, Callable[[datetime], tuple[int, ...]]] = {
    "hourly": lambda at: (at.year, at.month, at.day, at.hour),
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: tuple(at.isocalendar()[:2]),
    "monthly": lambda at: (at.year, at.month),
}


def apply(rules: Rules, times: Sequence[datetime], newest: datetime) -> list[list[str]]:
    """Why each checkpoint is kept (the words of rules), none if it is not.

    `times` are those of the checkpoints to which the rules apply, newest first, in UTC; `newest` is that of the newest
    of the timeline.
    """
    reasons: list[list[str]] = [[] for _ in times]
    for name, count in rules.counts.items():
        for n in _counted(name, count, times):
            reasons[n].append(name)
    if rules.within is not None:
        start = rules.within.before(newest)
        for n, at in enumerate(times):
            if at > start:
                reasons[n].append(WITHIN)
    return reasons


def _counted(name: str, count: int, times: Sequence[datetime]) -> list[int]:
    """The positions that a counting rule keeps."""
    if name == "last":
        return list(range(min(count, len(times))))
    period = _PERIODS[name]
    found: list[int] = []
    last = None
    for n, at in enumerate(times):
        if len(found) == count:
            break
        this = period(at)
        if this != last or n == len(times) - 1:
            found.append(n)
            last = this
    return found
