"""How values are written in a column."""

from __future__ import annotations

import time
from datetime import datetime

_AGES = ((86_400 * 365, "y"), (86_400 * 30, "mo"), (86_400 * 7, "w"), (86_400, "d"), (3600, "h"), (60, "min"))


def age(created_at: str, now: float | None = None) -> str:
    """How long ago an ISO 8601 time was, in one unit: `5 min`; `now` is in seconds since the epoch."""
    try:
        seconds = (time.time() if now is None else now) - datetime.fromisoformat(created_at).timestamp()
    except ValueError:
        return created_at
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now" if seconds < 10 else f"{int(seconds)} s"
