"""Secrets in texts that must not be sent: tokens, private keys, passwords.

They are found by `redact.credentials`, and by detect-secrets if it is installed: by those of its detectors that know a
credential by its form. Its keyword and entropy detectors and those for addresses, for the mere words `BEGIN … PRIVATE
KEY` and for passwords in URLs match much ordinary code; `redact` has stricter rules for the same. detect-secrets'
verification, which uses the network, is off.
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
# Some of their patterns take time with the square of a line's length: they get no more than this at a time, and of a
# longer line pieces that overlap by more than the length of a token.
_PIECE, _OVERLAP = 1000, 300
_Detector = tuple[str, Callable[[str], Iterable[str]]]


def check(path: str, text: str) -> None:
    """ContextError if `text`, the file at `path`, holds a secret: it names the kind and the line, not the secret."""
    found = next(_find(text), None)
    if found is not None:
        kind, start = found
        line = text.count("\n", 0, start) + 1
        raise ContextError(
            f"'{path}' holds a secret: {kind} in line {line}",
            "remove it from the file (and revoke it, if it was ever shared), or leave the file out",
        )


def mask(text: str) -> str:
    """`text` as it is if `check` accepts it, else redacted."""
    return text if next(_find(text), None) is None else redact.redact(text)[0]


def _find(text: str) -> Iterator[tuple[str, int]]:
    yield from redact.credentials(text)
    detectors = _detectors()
    for start, piece in _pieces(text) if detectors else ():
        for kind, analyze in detectors:
            for secret in analyze(piece):
                yield f"what looks like a credential ({kind})", start + max(piece.find(secret.strip()), 0)


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


@cache
def _detectors() -> tuple[_Detector, ...]:
    """The kind that each detector finds, and its function; none if detect-secrets is not installed."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    except ImportError:
        return ()
    classes: Iterable[tuple[str, Any]] = get_mapping_from_secret_type_to_class().items()
    return tuple((kind, made().analyze_string) for kind, made in classes if made.__name__ in _DETECTORS)
