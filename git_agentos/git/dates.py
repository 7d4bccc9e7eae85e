"""Times as people write them, read by git: `2 hours ago`, ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from git_agentos.errors import GitCommandError, UsageError
from git_agentos.git import process
from git_agentos.git.location import Location

_TOO_LONG = re.compile(r"\d{15}")  # git's number overflows, and means now
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")


def parse(location: Location, text: str) -> datetime:
    """The time that `text` means, in UTC; UsageError if it is not a time."""
    if _ISO.fullmatch(text.strip()) is not None:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise UsageError(f"'{text}' is not a time") from error
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if text.strip() == "now":
        return datetime.now(UTC)
    # `rev-parse --since` reads what it does not understand as now; `config --type=expiry-date` fails.
    args = ["-c", f"agentos.time={text}", "config", "--type=expiry-date", "--get", "agentos.time"]
    try:
        seconds = int(process.run(args, cwd=location.root, env=location.environment()))
        if _TOO_LONG.search(text):
            raise ValueError
        return datetime.fromtimestamp(seconds, UTC)
    except (GitCommandError, ValueError, OverflowError, OSError) as error:
        hint = "for example '2 hours ago', or 2026-11-21T14:00:00Z"
        raise UsageError(f"'{text}' is not a time", hint) from error
