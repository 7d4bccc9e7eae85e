"""What looks like a secret and is none: examples of documentation, placeholders, counted-up letters, words.

All of it takes bytes, as blobs are. None of it knows where a value stands.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter

# Words that are not in a random token: one of five letters is in a token of 100 characters once in a million times.
_WORDS = (
    b"example placeholder redacted changeme change_me change-me replace insert your_ your- yourtoken yourkey dummy"
    b" sample fake notreal not-real not_real invalid secret token password foobar testtest mytest -test- _test_"
    b" xxxxx ***** 0000000 1111111 abcdef 12345678 deadbeef cafebabe aaaaaa cccccc zzzzzz"
).split()
# Examples in the documentation of providers, and keys of emulators, that everybody knows: SHA-256 of each, shortened,
# so that this file has none of them.
_KNOWN = frozenset(
    """
    2cafc0970149a84f f2d6ca16515033e5 2d1f7723aabc5c7a ca7459e2b26776de 6c96130f130ab0d6 00cf4c781dc37003
    0b5dd075ccdd03c4 0011cc25eb432071 900e6c2bf8ce6c14 aa6547439583c3a2 a28c56ecb012bfd0 6ca6473b42d9c17e
    12d77baad5b1b5ee
    """.split()
)  # fmt: skip
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_PARTS = re.compile(rb"[^A-Za-z0-9]+")
_HEX = re.compile(rb"(?:[0-9a-f]+|[0-9A-F]+)\Z")
_DIGITS = re.compile(rb"[0-9]")
_LOWER = re.compile(rb"[a-z]")
_UPPER = re.compile(rb"[A-Z]")
_CHANGES = re.compile(rb"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=[0-9])[^0-9]")


def entropy(value: bytes) -> float:
    """Bits for each byte, by how often each occurs."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def is_placeholder(token: bytes, body: bytes) -> bool:
    """Whether a token of a known form is no token: `body` is what follows its prefix."""
    folded = body.lower()
    return (
        any(word in folded for word in _WORDS)
        or entropy(body) < (2.8 if len(body) < 24 else 3.0)
        or _is_counted(body)
        or _is_repeated(body)
        or digest(token) in _KNOWN
    )


def is_random(value: bytes) -> bool:
    """Whether a person would not write this value: no words, no path, no number, no UUID, no example."""
    if len(value) < 20 or _UUID.match(value) or is_placeholder(value, value):
        return False
    digits, lower, upper = (bool(each.search(value)) for each in (_DIGITS, _LOWER, _UPPER))
    if _HEX.match(value):
        return len(value) >= 32 and len(_DIGITS.findall(value)) >= 6
    if not any(_is_mixed(part) for part in _PARTS.split(value)):
        return False
    if not (lower and upper):
        return len(_DIGITS.findall(value)) >= 3 and entropy(value) >= 3.3
    return digits and len(_CHANGES.findall(value)) >= 0.36 * len(value) and entropy(value) >= 3.5


def is_text(value: bytes) -> bool:
    """Whether a person can read it: printable ASCII."""
    return value.isascii() and value.decode().isprintable()


def digest(token: bytes) -> str:
    """What `_KNOWN` has of an example."""
    return hashlib.sha256(token).hexdigest()[:16]


def _is_mixed(part: bytes) -> bool:
    """Whether letters and digits alternate, as in no word and no number."""
    return len(part) >= 8 and len(_CHANGES.findall(part)) >= 3


def _is_counted(body: bytes) -> bool:
    """Whether most characters are the neighbours of those before them: `abcdefg`, `1234567`, `aaaa`."""
    near = sum(-1 <= after - before <= 1 for before, after in itertools.pairwise(body))
    return near > 0.75 * (len(body) - 1)


def _is_repeated(body: bytes) -> bool:
    """Whether the same few characters follow each other again and again."""
    return any(body[period:] == body[:-period] for period in range(1, len(body) // 2 + 1))
