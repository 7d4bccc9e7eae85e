"""The rules: what restic's words mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.errors import UsageError
from git_agentos.retention import rules

NEWEST = datetime(2026, 3, 31, 12, 30, tzinfo=UTC)


def kept(words: str, times: list[datetime]) -> list[datetime]:
    wanted = rules.parse(words)
    assert wanted is not None
    reasons = rules.apply(wanted, times, NEWEST)
    return [at for at, why in zip(times, reasons, strict=True) if why]


def back(*hours: float) -> list[datetime]:
    return [NEWEST - timedelta(hours=each) for each in hours]


@pytest.mark.parametrize(
    ("words", "hours", "expected"),
    [
        ("last=2", (0, 1, 2, 3), (0, 1)),
        ("last=9", (0, 1, 2, 3), (0, 1, 2, 3)),
        # Two in the same hour, of which the newest stays; an hour without a checkpoint does not count.
        ("hourly=3", (0, 0.2, 1, 5, 9), (0, 1, 5)),
        # A rule that has periods left keeps the oldest as well.
        ("hourly=4", (0, 0.2, 0.3), (0, 0.3)),
        ("hourly=1", (0, 0.2, 0.3), (0,)),
        # 12:30: a day ends after 12.5 hours.
        ("daily=2", (0, 12, 13, 20, 40), (0, 13)),
        ("weekly=2", (0, 30, 50, 60, 24 * 7), (0, 50)),  # 2026-03-31 is a Tuesday: Monday is 12.5 to 36.5 hours back
        ("monthly=2", (0, 24 * 30, 24 * 31, 24 * 40), (0, 24 * 31)),
        ("within=2h", (0, 1.9, 2, 3), (0, 1.9)),
        ("within=1d", (0, 23, 24, 25), (0, 23)),
        ("last=1 within=1h", (0, 0.5, 3), (0, 0.5)),
        ("last=1 daily=2", (0, 1, 24, 25), (0, 24)),
    ],
)
def test_what_is_kept(words: str, hours: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert kept(words, back(*hours)) == back(*expected)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("7d", datetime(2026, 3, 24, 12, 30, tzinfo=UTC)),
        ("1w", datetime(2026, 3, 24, 12, 30, tzinfo=UTC)),
        ("1m", datetime(2026, 3, 3, 12, 30, tzinfo=UTC)),  # there is no February 31
        ("1y", datetime(2025, 3, 31, 12, 30, tzinfo=UTC)),
        ("1y2m3d4h", datetime(2025, 1, 28, 8, 30, tzinfo=UTC)),
        ("9999y", datetime(1, 1, 1, tzinfo=UTC)),
        ("999999d", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_age_is_of_the_calendar(text: str, before: datetime) -> None:
    wanted = rules.make({}, text)
    assert wanted.within is not None
    assert wanted.within.before(NEWEST) == before


def test_words_are_read_and_written_alike() -> None:
    text = "last=20 hourly=720 daily=365 within=7d"
    assert rules.parse(text) == rules.make({"last": "20", "hourly": 720, "daily": 365}, "7d")
    wanted = rules.parse(text)
    assert wanted is not None
    assert " ".join(wanted.words) == text
    assert [each.words for each in wanted.single()] == [["last=20"], ["hourly=720"], ["daily=365"], ["within=7d"]]
    assert rules.parse("keep") is None


@pytest.mark.parametrize("text", ["", "last", "last=", "last=0", "last=-1", "last=x", "yearly=1", "within=", "within=3",
                                  "within=3x", "keep last=1", "last=99999999999"])  # fmt: skip
def test_a_bad_value_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        rules.parse(text)


@given(
    hours=st.lists(st.integers(0, 5000), max_size=40),
    names=st.dictionaries(st.sampled_from(rules.COUNTED), st.integers(1, 30), min_size=1),
)
def test_rules_add_up(hours: list[int], names: dict[str, int]) -> None:
    """More rules, and larger numbers, never keep less; with any rule, the newest is kept."""
    times = sorted(back(*hours), reverse=True)
    found = rules.apply(rules.make(names, None), times, NEWEST)
    for name, count in names.items():
        alone = rules.apply(rules.make({name: count}, None), times, NEWEST)
        more = rules.apply(rules.make({name: count + 1}, None), times, NEWEST)
        for n in range(len(times)):
            assert (name in found[n]) == (alone[n] == [name])
    if times:
        assert found[0]
    # A larger number keeps at least the periods that a smaller one keeps; only its oldest may be another.
    assert sum(map(bool, more)) >= sum(map(bool, alone)) - 1
