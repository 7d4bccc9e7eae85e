"""What a failed call of a chat model means, and whether to repeat it.

It is known by what the providers' libraries have in common (an HTTP status, a response with headers, the names of their
classes), so that none of them has to be installed.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator

from git_agentos.util.named_tuple import NamedTuple

_TEMPORARY = (408, 409, 425, 429)  # timeout, conflict, too early, too many requests; and 5xx
_PERMANENT_LIMITS = ("insufficient_quota", "billing", "credit balance")
_NETWORK_ERRORS = ("Timeout", "Connection", "Connect", "Transport", "Network", "Protocol", "ReadError", "WriteError")
_MAX_TEXT = 400

MAX_WAIT = 120.0  # seconds: a server that asks for more is not waited for
_FIRST_WAIT, _LAST_WAIT = 1.0, 30.0


class Failure(NamedTuple):
    """`permanent`: no repetition can help. `status` is HTTP's, None if there was no response; `wait` is what the server
    asks for, in seconds; `tries` is how often to make a call that fails like this."""

    permanent: bool
    status: int | None
    text: str
    wait: float | None
    tries: int


def classify(error: BaseException) -> Failure:
    """What an exception of a provider's library means."""
    chain = list(_chain(error))
    status = next((each for each in map(_status, chain) if each is not None), None)
    text = " ".join(str(error).split())[:_MAX_TEXT] or type(error).__name__
    wait = next((each for each in map(_retry_after, chain) if each is not None), None)
    if status is not None and status >= 400:
        is_over = status == 429 and any(word in text for word in _PERMANENT_LIMITS)
        return Failure(status < 500 and (status not in _TEMPORARY or is_over), status, text, wait, 6)
    names = [kind.__name__ for each in chain for kind in type(each).__mro__]
    if any("Timeout" in name for name in names):
        return Failure(False, None, text, None, 2)
    if any(word in name for name in names for word in _NETWORK_ERRORS):
        return Failure(False, None, text, None, 6)
    return Failure(False, None, f"an answer that cannot be read ({type(error).__name__}: {text})", None, 3)


def delay(failure: Failure, tries: int, chance: float) -> float:
    """Seconds until the next call, after `tries` have failed; `chance` is from 0 to 1, so that callers that were
    refused at once do not return at once."""
    usual = min(_FIRST_WAIT * 2.0 ** (tries - 1), _LAST_WAIT) * (1 + chance / 2)
    return max(usual, failure.wait or 0.0)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


def _status(error: BaseException) -> int | None:
    for source in (error, getattr(error, "response", None)):
        status = getattr(source, "status_code", None)
        if isinstance(status, int) and 100 <= status < 600:
            return status
    return None


def _retry_after(error: BaseException) -> float | None:
    """Retry-After, in seconds or as a date (RFC 9110), or in milliseconds as some servers have it."""
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
            seconds = _seconds_until(text)
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _seconds_until(date: str) -> float:
    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return -1.0
