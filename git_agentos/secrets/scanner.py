"""Scans blobs for secrets before they leave this machine.

    scanner = Scanner(fingerprints.key(location))
    findings = scanner.scan(path, data)
    findings = scanner.scan_all(blobs)  # of many, where most have none

Our own rules go first, then detect-secrets where it is installed; `programs.scan_all` asks gitleaks or betterleaks as
well. A finding has the secret's fingerprint and never the secret.

What is not looked at: `unread` says it for a blob. Text may be UTF-8, any other encoding that has ASCII in it, or
UTF-16 with a byte order mark. In a binary file (a NUL in its first 8,000 bytes, as git decides) only what has a form of
its own is found. Nothing is decompressed or decoded. detect-secrets, which is slow, gets only the lines that may have a
token, at most 128 KiB of a blob.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from git_agentos.secrets import detectors, fingerprints
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.secrets import rules

# Changes with the rules.
_RULES = "1"
# Of a larger blob, only its beginning is looked at.
MAX_BYTES = 64 << 20
_FOR_DETECTORS = 128 << 10
_BINARY = 8000
# As many blobs are looked at in one pass as have so many bytes together.
_PASS = 1 << 20
# The account of Twilio, by which theirs begins, is no secret; our own rule looks for what belongs to it.
_NO_SECRET = ("AC",)
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
}


class Finding(NamedTuple):
    """A secret in the blob at `path`: the line it begins in (from 1), of what kind it is, and its fingerprint."""

    path: bytes
    line: int
    kind: str
    fingerprint: str


class Scanner:
    """Scans blobs. `key` is that of the repository's fingerprints; what is `allowed` by its fingerprint is not
    reported. Without `detect_secrets`, detect-secrets is not asked, even where it is installed."""

    def __init__(self, key: bytes, *, allowed: Collection[str] = (), detect_secrets: bool = True) -> None:
        self._key = key
        self._allowed = frozenset(allowed)
        self._detect_secrets = detect_secrets

    @property
    def version(self) -> str:
        """Changes whenever the same blob may have other findings: what was scanned before has to be scanned again."""
        return f"{_RULES}+{detectors.version() or 'none'}" if self._detect_secrets else _RULES

    def scan_all(self, blobs: Iterable[tuple[str | bytes, bytes]]) -> list[tuple[Finding, ...]]:
        """What is in each of the blobs (path, data), in their order: as by `scan`, and much faster where most of them
        have nothing. No more of them are held in memory than are looked at in one pass."""
        found: list[tuple[Finding, ...]] = []
        batch: list[tuple[str | bytes, bytes]] = []
        size = 0
        for each in blobs:
            batch.append(each)
            size += len(each[1])
            if size >= _PASS:
                found += self._scan_batch(batch)
                batch, size = [], 0
        return found + self._scan_batch(batch)

    def _scan_batch(self, blobs: list[tuple[str | bytes, bytes]]) -> list[tuple[Finding, ...]]:
        from git_agentos.secrets import suspects  # it takes time to load the forms

        release = detectors.version() if self._detect_secrets else None
        held = suspects.find([data[:MAX_BYTES] for _, data in blobs], release)
        return [self.scan(*each) if number in held else () for number, each in enumerate(blobs)]

    def scan(self, path: str | bytes, data: bytes) -> tuple[Finding, ...]:
        """What is in one blob, in the order of its lines; each secret once in a line."""
        from git_agentos.secrets import rules  # it takes time to compile them

        text = _as_text(data)
        binary = b"\0" in text[:_BINARY]
        matches = rules.find(text, binary=binary)
        if self._detect_secrets and not binary:
            matches += _second_opinion(text, matches)
        return self.findings(path, list(_with_lines(text, matches)))

    def findings(self, path: str | bytes, secrets: Collection[tuple[int, str, bytes]]) -> tuple[Finding, ...]:
        """The findings for secrets (line, kind, value) that somebody found, without those that are allowed."""
        name = os.fsencode(path)
        found: dict[tuple[int, str], Finding] = {}
        for line, kind, value in sorted(secrets, key=lambda secret: secret[0]):
            fingerprint = fingerprints.of(value, self._key)
            if fingerprint not in self._allowed:
                found.setdefault((line, fingerprint), Finding(name, line, kind, fingerprint))
        return tuple(found.values())


def unread(data: bytes) -> str | None:
    """What a scan of a blob does not look at, in words that follow its name; None where it looks at everything."""
    if len(data) > MAX_BYTES:
        return f"only its first {MAX_BYTES >> 20} MiB are looked at, of {count(len(data), 'byte')}"
    for begin, name in _COMPRESSED.items():
        if data.startswith(begin):
            return f"it is compressed ({name}): what it holds is not looked at"
    return None


def _as_text(data: bytes) -> bytes:
    """What is looked at: the beginning of a large blob, UTF-8 where it is UTF-16."""
    data = data[:MAX_BYTES]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    return data


def _with_lines(text: bytes, matches: list[rules.Match]) -> Iterator[tuple[int, str, bytes]]:
    line, at = 1, 0
    for each in sorted(matches, key=lambda match: match.start):
        line += text.count(b"\n", at, each.start)
        at = each.start
        yield line, each.kind, each.value


def _second_opinion(text: bytes, known: list[rules.Match]) -> list[rules.Match]:
    """What detect-secrets finds beside that."""
    from git_agentos.secrets import placeholders, rules, suspects

    lines, size = [], 0
    for start, line in rules.lines_to_look_at(text):
        if any(each.start < start + len(line) and start < each.end for each in known):
            continue
        size += len(line) + 1
        if size > _FOR_DETECTORS:
            break
        lines.append((start, line))
    found: list[rules.Match] = []
    given = b"\n".join(line for _, line in lines)
    if not suspects.may_be_detected(given, detectors.version()):
        return found
    joined = given.decode("latin-1")
    for each in detectors.find(joined):
        secret = each.secret.encode("latin-1")
        beside = joined[max(each.start - 1, 0) : each.start] + joined[each.start + len(secret) :][:1]
        if (
            each.secret.startswith(_NO_SECRET)
            or any(one.isalnum() for one in beside)
            or placeholders.is_placeholder(secret, secret)
        ):
            continue
        found.append(rules.Match(each.kind, _position(lines, each.start), 0, secret))
    return found


def _position(lines: list[tuple[int, bytes]], at: int) -> int:
    """Where in the text is what is at `at` in its chosen lines."""
    for start, line in lines:
        if at <= len(line):
            return start + at
        at -= len(line) + 1
    return lines[-1][0]
