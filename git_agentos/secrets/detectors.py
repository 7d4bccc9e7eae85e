"""detect-secrets, where it is installed: those of its detectors that know a credential by its form.

Its keyword and entropy detectors and those for addresses, for the mere words `BEGIN … PRIVATE KEY` and for passwords in
URLs match much ordinary code. Its verification, which uses the network, is off: a detector is only asked for what
matches. They are listed by name, so that a new release adds none unnoticed.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

NAMES = frozenset(
    "ArtifactoryDetector AWSKeyDetector AzureStorageKeyDetector CloudantDetector DiscordBotTokenDetector"
    " GitHubTokenDetector GitLabTokenDetector IbmCloudIamDetector IbmCosHmacDetector JwtTokenDetector MailchimpDetector"
    " NpmDetector OpenAIDetector PypiTokenDetector SendGridDetector SlackDetector SoftlayerDetector SquareOAuthDetector"
    " StripeDetector TelegramBotTokenDetector TwilioKeyDetector".split()
)
# Some of their patterns take time with the square of a line's length: they get no more than this at a time, and of a
# longer line pieces that overlap by more than the length of a token.
_PIECE, _OVERLAP = 1000, 300
_UNKNOWN = "unknown"
_Detector = tuple[str, Callable[[str], Iterable[str]]]


class Detected(NamedTuple):
    """What a detector found: its kind, where it begins, and what it is."""

    kind: str
    start: int
    secret: str


def find(text: str, *, without: frozenset[str] = frozenset()) -> Iterator[Detected]:
    """What they find in `text`; nothing if detect-secrets is not installed. `without` are names of detectors."""
    detectors = installed(NAMES - without)
    for start, piece in _pieces(text) if detectors else ():
        for kind, analyze in detectors:
            for secret in analyze(piece):
                yield Detected(kind, start + max(piece.find(secret.strip()), 0), secret.strip())


@cache
def installed(names: frozenset[str] = NAMES) -> tuple[_Detector, ...]:
    """The kind that each detector finds, and its function; none if detect-secrets is not installed."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    except ImportError:
        return ()
    classes: Iterable[tuple[str, Any]] = get_mapping_from_secret_type_to_class().items()
    return tuple((kind, made().analyze_string) for kind, made in classes if made.__name__ in names)


@cache
def version() -> str | None:
    """The version of detect-secrets; None if it is not installed. It is not loaded for that: it loads `requests`."""
    found = importlib.machinery.PathFinder.find_spec("detect_secrets")
    if found is None or found.origin is None:
        return None
    try:
        text = files.read(os.path.join(os.path.dirname(found.origin), "__version__.py"), limit=1 << 16)
    except OSError:
        return _UNKNOWN
    written = re.search(rb"VERSION = '([^']+)'", text)
    return _UNKNOWN if written is None else written[1].decode("ascii", "replace")


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The pieces of the text with their positions: whole lines if they are not too long."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end >= len(text):
            yield start, text[start:]
            return
        line_end = text.rfind("\n", start, end) + 1
        yield start, text[start : line_end or end]
        start = line_end or end - _OVERLAP
