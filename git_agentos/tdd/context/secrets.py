"""Secrets in texts that must not be sent: tokens, private keys, passwords.

They are found by `redact.credentials`, and by detect-secrets if it is installed (`secrets.detectors`). An example is
refused as well: what is sent is few and chosen files, whose author can write an example differently.
"""

from __future__ import annotations

from collections.abc import Iterator

from git_agentos import redact
from git_agentos.errors import ContextError
from git_agentos.secrets import detectors


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
    for found in detectors.find(text):
        yield f"what looks like a credential ({found.kind})", found.start
