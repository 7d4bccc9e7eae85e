"""Lengths of time: one reader, and the two meanings of `m` that the documentation promises."""

from __future__ import annotations

import pytest

from git_agentos.util import durations


@pytest.mark.parametrize(
    ("text", "seconds", "days"),
    [
        ("90", 90, 90),
        ("90s", 90, None),
        ("30m", 1800, 900),
        ("30 min", 1800, None),
        ("2 months", None, 60),
        ("1.5h", 5400, None),
        ("2 hours", 7200, None),
        ("2d", 172800, 2),
        (" 2 Days ", 172800, 2),
        ("12w", None, 84),
        ("1y", None, 365),
        ("", None, None),
        ("s", None, None),
        ("-1d", None, None),
        ("1e9", None, None),
        ("٣d", None, None),
        ("9" * 5000, None, None),
        ("1d2h", None, None),
    ],
)
def test_lengths_of_time(text: str, seconds: float | None, days: float | None) -> None:
    assert (durations.seconds(text), durations.days(text)) == (seconds, days)
