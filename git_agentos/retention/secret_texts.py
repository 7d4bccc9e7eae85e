"""Secrets in bytes: found in any form in which text is usually written, and replaced.

A secret is looked for as it is, as part of a JSON string (also of one inside another), percent-encoded, escaped for
HTML, in UTF-16, and in base64. What is compressed or encrypted is not seen.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from git_agentos.errors import UsageError

SHORTEST = 8  # bytes
_PLACEHOLDERS = ("(forgotten)", "(removed)", "(-)")  # the last one is shorter than any secret
_UTF16 = ("utf-16-le", "utf-16-be")


class GivenSecrets:
    """Secrets as they were given. They are not in what this is written out as: a request for approval is shown."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = tuple(dict.fromkeys(texts))

    def __repr__(self) -> str:
        return f"{len(self.texts)} texts"


class Secrets:
    """Some secrets, and how they are found and replaced."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.placeholder = next(each for each in _PLACEHOLDERS if not any(text in each.encode() for text in texts))
        replacements: dict[bytes, bytes] = {}
        for text in texts:
            for form, replacement in _forms(text, self.placeholder):
                replacements.setdefault(form, replacement)
        self._replacements = replacements
        longest_first = sorted(replacements, key=len, reverse=True)
        self._forms = sorted(replacements, key=len)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        self.longest = max(map(len, replacements), default=0)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def is_in(self, data: bytes) -> bool:
        """Whether one of them is in the bytes."""
        return any(form in data for form in self._forms)

    def replace(self, data: bytes) -> bytes:
        """The bytes with a placeholder in the place of each."""
        # What was replaced may leave another one between its neighbours.
        while self._forms and self.is_in(data):
            data = self._pattern.sub(lambda found: self._replacements[found[0]], data)
        return data

    def replace_text(self, text: str) -> str:
        """The same of text, in which bytes that are not UTF-8 are lone surrogates."""
        data = text.encode("utf-8", "surrogatepass")
        return self.replace(data).decode("utf-8", "surrogatepass") if self.is_in(data) else text


def parse(data: bytes) -> GivenSecrets:
    """The secrets in lines of text. UsageError for one that is too short, which is not shown, and if there is none."""
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.removesuffix(b"\r")
        if not text:
            continue
        if len(text) < SHORTEST:
            raise UsageError(
                f"line {number} of standard input has fewer than {SHORTEST} bytes",
                "so short a text is everywhere: nothing was changed",
            )
        found.append(text)
    if not found:
        raise UsageError("there is no secret on standard input", "give one on each line, not on the command line")
    return GivenSecrets(found)


def given(texts: Iterable[str]) -> GivenSecrets:
    """Secrets that a program gives. UsageError for one that is too short."""
    found = [text.encode("utf-8", "surrogateescape") for text in texts]
    if any(len(text) < SHORTEST for text in found):
        raise UsageError(f"a secret has fewer than {SHORTEST} bytes", "so short a text is everywhere")
    return GivenSecrets(found)


def _forms(text: bytes, placeholder: str) -> Iterator[tuple[bytes, bytes]]:
    """The ways in which a secret may be written, each with what takes its place."""
    plain = placeholder.encode("ascii")
    for form in _written(text):
        yield form, plain
    with_text = _decoded(text)
    if with_text is not None:
        for encoding in _UTF16:
            yield with_text.encode(encoding), placeholder.encode(encoding)
    for form in _in_base64(text):
        yield form, b"x" * len(form)


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _written(text: bytes) -> Iterable[bytes]:
    """Plain, and with the escapes of JSON, of URLs and of HTML."""
    word = text.decode("utf-8", "surrogateescape")
    found = {text, quote(text, safe="").encode(), quote(text).encode()}
    for ascii_only in (True, False):
        once = json.dumps(word, ensure_ascii=ascii_only)[1:-1]
        for each in (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]):
            found.add(each.encode("utf-8", "surrogateescape"))
    for each in (html.escape(word), html.escape(word, quote=False)):
        found.add(each.encode("utf-8", "surrogateescape"))
    return sorted(found)


def _in_base64(text: bytes) -> Iterator[bytes]:
    """The letters that are the same whatever stands before and after the secret."""
    for skipped in range(3):
        padded = bytes(skipped) + text
        first = -(-skipped * 8 // 6)
        last = len(padded) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(padded)[first:last]
