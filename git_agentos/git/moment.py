"""Times as people write them, read by git: `2 hours ago`, ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from git_agentos.errors import UsageError
from git_agentos.git import process
from git_agentos.git.location import Location

_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")


def parse(location: Location, text: str) -> datetime:
    """The moment that `text` means, in UTC; UsageError for what is no time."""
    if _ISO.fullmatch(text.strip()) is not None:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise UsageError(f"'{text}' is not a time") from error
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    out = process.run(["rev-parse", f"--since={text}"], cwd=location.root, env=location.environment())
    seconds = out.strip().removeprefix(b"--max-age=")
    # git's approxidate answers with the present moment for what it does not understand.
    if not seconds.isdigit() or (int(seconds) >= int(datetime.now(UTC).timestamp()) - 1 and "now" not in text):
        raise UsageError(f"'{text}' is not a time", "for example '2 hours ago', or 2026-11-21T14:00:00Z")
    return datetime.fromtimestamp(int(seconds), UTC)


def stamp(moment: datetime) -> str:
    """A moment as it is written everywhere: ISO 8601, UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
