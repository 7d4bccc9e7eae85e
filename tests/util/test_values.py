"""Values of settings and options, with the two meanings of `m` that the documentation promises."""

from __future__ import annotations

import pytest

from git_agentos.util.values import is_of_type, parse_boolean, parse_days, parse_duration, parse_size


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
def test_durations(text: str, seconds: float | None, days: float | None) -> None:
    assert (parse_duration(text), parse_days(text)) == (seconds, days)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("YES", True), ("on", True), ("1", True), ("-1", True), ("2k", True),
        ("false", False), ("No", False), ("off", False), ("", False), ("0", False), ("00", False),
        ("maybe", None), (" true", None), ("1.0", None), ("1e3", None),
    ],
)  # fmt: skip
def test_booleans(text: str, value: bool | None) -> None:
    assert parse_boolean(text) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("10", 10), (" 2K ", 2048), ("3m", 3 << 20), ("1g", 1 << 30), ("1t", None), ("-1", None), ("", None)],
)
def test_sizes(text: str, value: int | None) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("value", "type_", "fits"),
    [
        ("a", "str", True), (None, "str", False), (None, "str | None", True), (1, "str | None", False),
        (["a"], "list[str]", True), (["a", 1], "list[str]", False), ("a", "list[str]", False), ([], "list[str]", True),
        ({"a": 1}, "dict[str, Any]", True), ([], "dict[str, Any]", False), (1, "int", True), ("1", "int", False),
    ],
)  # fmt: skip
def test_types_of_fields(value: object, type_: str, fits: bool) -> None:
    assert is_of_type(value, type_) is fits
