"""What went wrong with a call of a chat model, and whether it is worth another try.

Told by what the providers' libraries have in common (an HTTP status, a response with headers, the names of their
classes), so that none of them has to be there.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from typing import NamedTuple

# What a further try may mend: too slow, a conflict, too early, too often; 5xx beside these.
_PASSING = (408, 409, 425, 429)
_REFUSED_FOR_GOOD = ("insufficient_quota", "billing", "credit balance")
_OF_THE_NETWORK = ("Timeout", "Connection", "Connect", "Transport", "Network", "Protocol", "ReadError", "WriteError")
_LONGEST_TEXT = 400

LONGEST_WAIT = 120.0  # seconds: one that asks for more is not waited for
_FIRST_WAIT, _LAST_WAIT = 1.0, 30.0


class Trouble(NamedTuple):
    """`refused`: no further try can mend it. `status` is HTTP's, None where there was no answer; `wait` what the server
    asks for, in seconds; `tries` how often a call is made at most that fails like this."""

    refused: bool
    status: int | None
    said: str
    wait: float | None
    tries: int


def of(error: BaseException) -> Trouble:
    """What an exception of a provider's library means."""
    chain = list(_chain(error))
    status = next((each for each in map(_status, chain) if each is not None), None)
    said = " ".join(str(error).split())[:_LONGEST_TEXT] or type(error).__name__
    wait = next((each for each in map(_asked_to_wait, chain) if each is not None), None)
    if status is not None and 400 <= status < 500:
        refused = status not in _PASSING or (status == 429 and any(word in said for word in _REFUSED_FOR_GOOD))
        return Trouble(refused, status, said, wait, 6)
    if status is not None and status >= 500:
        return Trouble(False, status, said, wait, 6)
    names = [kind.__name__ for each in chain for kind in type(each).__mro__]
    if any("Timeout" in name for name in names):
        return Trouble(False, None, said, None, 2)
    if any(word in name for name in names for word in _OF_THE_NETWORK):
        return Trouble(False, None, said, None, 6)
    return Trouble(False, None, f"an answer that cannot be read ({type(error).__name__}: {said})", None, 3)


def delay(trouble: Trouble, tries: int, chance: float) -> float:
    """Seconds until the next try, where `tries` have failed; `chance` is from 0 to 1, so that not all who were refused
    at once come back at once."""
    usual = min(_FIRST_WAIT * 2.0 ** (tries - 1), _LAST_WAIT) * (1 + chance / 2)
    return max(usual, trouble.wait or 0.0)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        yield at
        at = at.__cause__ or at.__context__


def _status(error: BaseException) -> int | None:
    for source in (error, getattr(error, "response", None)):
        found = getattr(source, "status_code", None)
        if isinstance(found, int) and 100 <= found < 600:
            return found
    return None


def _asked_to_wait(error: BaseException) -> float | None:
    """Retry-After, in seconds or as a date (RFC 9110), or in milliseconds as some have it."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text)
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _until(text: str) -> float:
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return -1.0
