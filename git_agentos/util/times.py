"""Times as they are written everywhere: ISO 8601, UTC, milliseconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(moment: datetime) -> str:
    """An aware datetime as text."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_to_text(seconds: float) -> str:
    """Seconds since the epoch as text; OverflowError, ValueError or OSError for years that Python does not know."""
    return to_text(datetime.fromtimestamp(seconds, UTC))


def now_text() -> str:
    """The current time as text."""
    return to_text(datetime.now(UTC))


def to_seconds(text: str) -> float:
    """The seconds since the epoch of a time; ValueError for text that is no ISO 8601 time."""
    return datetime.fromisoformat(text).timestamp()


def name_stamp() -> str:
    """The current time for the names of files and branches: `20261123T174200Z`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
