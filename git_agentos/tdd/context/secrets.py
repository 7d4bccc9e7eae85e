"""What must not be sent because of what it says: tokens, private keys, passwords.

`redact.credentials` looks, and where it is installed detect-secrets as well, by those of its detectors that know a
credential by its form. Its keyword and entropy detectors and those for addresses, for the mere words `BEGIN … PRIVATE
KEY` and for passwords in URLs find something in much ordinary code; they are left out, and `redact` has stricter ones
for the same. Nothing is ever asked of a network: detect-secrets' verification is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from git_agentos import redact
from git_agentos.errors import ContextError

_DETECTORS = frozenset(
    "ArtifactoryDetector AWSKeyDetector AzureStorageKeyDetector CloudantDetector DiscordBotTokenDetector"
    " GitHubTokenDetector GitLabTokenDetector IbmCloudIamDetector IbmCosHmacDetector JwtTokenDetector MailchimpDetector"
    " NpmDetector OpenAIDetector PypiTokenDetector SendGridDetector SlackDetector SoftlayerDetector SquareOAuthDetector"
    " StripeDetector TelegramBotTokenDetector TwilioKeyDetector".split()
)
# Some of their patterns take time with the square of a line's length: they are given no more than this at a time, and
# of a longer line pieces that overlap by more than a token has.
_PIECE, _OVERLAP = 1000, 300
_Detector = tuple[str, Callable[[str], Iterable[str]]]


def check(path: str, text: str) -> None:
    """ContextError where `text`, the file at `path`, holds a secret: of which kind and in which line, but not which."""
    found = next(_found(text), None)
    if found is not None:
        kind, start = found
        line = text.count("\n", 0, start) + 1
        raise ContextError(
            f"'{path}' holds a secret: {kind} in line {line}",
            "take it out of the file (and make it void, if it was ever shared), or leave the file out",
        )


def masked(text: str) -> str:
    """`text` as it is where `check` has nothing against it, else as a log would have it."""
    return text if next(_found(text), None) is None else redact.redact(text)[0]


def _found(text: str) -> Iterator[tuple[str, int]]:
    yield from redact.credentials(text)
    detectors = _detectors()
    for start, piece in _pieces(text) if detectors else ():
        for kind, look in detectors:
            for secret in look(piece):
                yield f"what looks like a credential ({kind})", start + max(piece.find(secret.strip()), 0)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Where each piece of the text begins, and it: whole lines where they are not too long."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end >= len(text):
            yield start, text[start:]
            return
        line_end = text.rfind("\n", start, end) + 1
        yield start, text[start : line_end or end]
        start = line_end or end - _OVERLAP


@cache
def _detectors() -> tuple[_Detector, ...]:
    """What each detector looks for, and how; none where detect-secrets is not installed."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    except ImportError:
        return ()
    classes: Iterable[tuple[str, Any]] = get_mapping_from_secret_type_to_class().items()
    return tuple((kind, made().analyze_string) for kind, made in classes if made.__name__ in _DETECTORS)
