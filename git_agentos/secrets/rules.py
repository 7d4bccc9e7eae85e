"""Secrets in bytes: the tokens that `secret_forms` knows, and what has no form of its own but stands where only a
secret stands. Entropy alone makes nothing a secret.

| rule | what |
|---|---|
| tokens | a form, that is no placeholder |
| private keys | the marker with a key after it, also escaped in JSON or source code |
| values of names | a random value of 20 characters or more, assigned to `password`, `api_key`, `token` … |
| neighbours | what belongs to an identifier: the secret key beside an AWS access key, the token of a Twilio account |
| URLs | `scheme://user:password@host`, an npm registry's `_authToken`, the address of a Slack webhook |

Most text has no secret, so speed is that of the first look: runs of characters of which tokens are made (60 MB/s), and
whether one of the forms' words is in them. Only then a form is searched for, around each place of its word. What a
finding needs at least is in `suspects`, which looks at many blobs at once: a rule that finds more belongs there, too.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import json
import re
from collections.abc import Iterator
from functools import cache

from git_agentos import redact, secret_forms
from git_agentos.secret_forms import Form
from git_agentos.secrets import placeholders, suspects
from git_agentos.util.named_tuple import NamedTuple

PRIVATE_KEY = "private key"
VALUE = "assigned secret"
URL_PASSWORD = "password in a URL"

_RUN = re.compile(rb"(?<![A-Za-z0-9_.+/=~%:-])[A-Za-z0-9_.+/=~%:-]{20,}")
_VALUE = re.compile(rb"[A-Za-z0-9_.+/~%-]{20,}={0,2}")
_MAY_BE_RANDOM = re.compile(rb"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])")
# What lock files are full of: a hash in hexadecimal, or in base64 after the name of its algorithm.
_HASH = re.compile(
    rb"(?:\A|[-:=@/#])[0-9a-f]{32}(?:[0-9a-f]{8}|[0-9a-f]{24}|[0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{96})?\Z"
    rb"|sha\d{1,3}[-:=][A-Za-z0-9+/]{27,86}={0,2}\Z"
)
# Identifiers, for which the forms have a place in logs: they are no secrets.
_NO_SECRETS = ("AWS identity",)

_KEY = re.compile(
    redact.PRIVATE_KEY_BEGINS.encode()
    + rb"(?:\\+[nr]|[\s\"'+,;>*#|/-])*"
    + rb"((?:[A-Za-z][A-Za-z-]+: [^\n\\]*(?:\\+[nr]|\s)+)*(?:[A-Za-z0-9/+=]|\\+[nr]|[\s\"',;>*#|]){40,16384})"
)
_PUTTY_KEY = re.compile(
    rb"PuTTY-User-Key-File-\d: .{0,4000}?Private-Lines: \d+\s+([A-Za-z0-9+/=\s]{40,8000})", re.DOTALL
)
_NOT_IN_KEY = re.compile(rb"\\+[nr]|[^A-Za-z0-9/=]")

_URL = re.compile(rb"://([^\s/:@'\"<>`]{0,200}):([^\s/@'\"<>`]{6,300})@([A-Za-z0-9._-]{1,200})")
_WEBHOOK = re.compile(rb"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}")
_NPM = re.compile(rb":_(?:authToken|auth|password)\s{0,3}=\s{0,3}\"?([A-Za-z0-9+/_.=-]{16,})")
_EXAMPLE_HOST = re.compile(
    rb"(?i)(?:localhost|127\.|0\.0\.0\.0|host(?:name)?\Z|(?:.*\.)?example(?:\.|\Z)|.*\.(?:test|invalid|local|localhost)\Z"
    rb"|server|proxy|db\Z|foo|bar)"
)
_EXAMPLE_PASSWORD = re.compile(
    rb"(?i).*(?:pass|pw|secret|token|user|admin|root|guest|test|foo|bar|baz|example|change|postgres|mysql|redis|anon|your"
    rb"|xxx|\*\*\*|1234|qwert|tiger|[{}$<>%()\[\]]).*\Z"
)

_NAMES = (
    rb"pass(?:word|wd|phrase|code)|pwd|(?:client|app|consumer|shared|webhook|oauth|jwt)?[_-]?secret"
    rb"|(?:secret|access|api|account|auth|private|signing|encryption|master|storage|service|license|app|admin|user|bot)"
    rb"[_-]?(?:access[_-]?)?key(?:[_-]?base)?|(?:aws|azure|gcp|google|s3|twilio|sendgrid|stripe|slack|openai|anthropic"
    rb"|github|gitlab|npm|pypi|heroku|cloudflare|datadog|mailgun)[A-Za-z0-9_.-]{0,20}[_-]?key|apikey|authorization|credentials?|_auth"
    rb"|(?:auth|access|refresh|bearer|session|api|bot|deploy|personal|private|secret|user|admin|service|oauth|ci|id)?"
    rb"[_-]?token"
)
_SECRET_NAME = re.compile(rb"(?i)(?:" + _NAMES + rb")s?(?:_\d)?\Z")
_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
# What stands between a name and its value: `NAME=`, `"name": "`, `"NAME", "`, `<name>`, `--name `, `?name=`.
_JOIN = re.compile(
    rb"(?i)(?:\\?[\"'`\])])*[ \t]{0,20}(?:=>|:=|[=:,>]|[ \t])[ \t]{0,20}(?:[bru]{0,2}\\?[\"'`]|\()?"
    rb"(?:(?:bearer|basic|token)[ \t]+)?\Z"
)
# Names that end like those of secrets, and are no such.
_OTHER_NAMES = re.compile(
    rb"(?i).*(?:page|next|prev|sync|continuation|cursor|csrf|xsrf|public|cache|sort|primary|foreign|idempotency|resume"
    rb"|example|placeholder|test|fake|dummy|invalid|wrong|expected|etag|hash|digest|checksum|fingerprint|site|sha\d*)"
    rb"[A-Za-z0-9]*[ _-]?(?:token|key|secret|password)s?\Z"
)
_OTHER_WORDS = (b"page ", b"next ", b"sync ", b"public ")
_ATTRIBUTES = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_AWS_SECRET = re.compile(rb"(?<![A-Za-z0-9+/_-])(?![0-9a-f]{40})[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_-])")
# 64 bytes in base64 (not a hash of a lock file), and a bot's token with another beginning: where the text says whose.
_AZURE_ALONE = re.compile(rb"(?<![A-Za-z0-9+/=:-])[A-Za-z0-9+/]{86}==(?![A-Za-z0-9+/=])")
_OF_AZURE = (b"azure", b"core.windows.net", b"accountkey", b"storage_account", b"storageaccount")
_TELEGRAM = re.compile(rb"(?<![A-Za-z0-9])\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")
_OF_TELEGRAM = (b"telegr", b"bot_token", b"bottoken")
_TWILIO_ACCOUNT = re.compile(rb"(?<![A-Za-z0-9])AC[0-9a-f]{32}(?![A-Za-z0-9])")
_TWILIO_KEY = re.compile(rb"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])")
_HEX_TOKEN = re.compile(rb"(?<![A-Za-z0-9_.+/=-])[0-9a-f]{32}(?![A-Za-z0-9_.+/=-])")
_AZURE_KEY = re.compile(rb"[A-Za-z0-9+/]{86}==\Z")
_NEAR = 400
# Nothing longer is a token; a web token with many claims is the longest.
_LONGEST = 8192
# A web token that says something about somebody has one of these.
_CLAIMS = frozenset(
    "iss sub aud exp iat nbf jti role scope scp user userid user_id uid email client_id azp sid".split()
)
_EXAMPLE_SUBJECTS = ("1234567890", "test", "user", "someone", "alice", "bob")


class Match(NamedTuple):
    """A secret: its kind, where it is, and its value as it is the same wherever it stands."""

    kind: str
    start: int
    end: int
    value: bytes


def find(data: bytes, *, binary: bool = False) -> list[Match]:
    """The secrets in `data`, in their order; of overlapping ones the surest. In a binary file only those that have a
    form: names and URLs mean nothing there."""
    found = list(_RUN.finditer(data))
    runs = b"\n".join({each[0] for each in found})
    matches = list(_tokens(data, runs)) if runs else []
    if suspects.KEY_MARKERS[0] in data:
        matches += _private_keys(data)
    if suspects.KEY_MARKERS[1] in data:
        matches += [Match(PRIVATE_KEY, key.start(), key.end(), _of_key(key[1])) for key in _PUTTY_KEY.finditer(data)]
    if not binary:
        if runs:
            matches += _neighbours(data, runs, matches)
            matches += _values(data, found)
        matches += _in_urls(data)
    return _without_overlaps(matches)


def _tokens(data: bytes, runs: bytes) -> Iterator[Match]:
    for form, words, pattern in _forms():
        for word in words:
            at = data.find(word) if word in runs else -1
            while at >= 0:
                end = at + 1
                for start in range(max(at - form.inside, 0), at + 1):
                    found = pattern.match(data, start, start + _LONGEST)
                    if found is not None:
                        end = found.end()
                        if _is_token(form, found[0], found[0][at + len(word) - start :]):
                            yield Match(form.kind, start, end, found[0].removeprefix(b"bot"))
                        break
                at = data.find(word, end)


@cache
def _forms() -> list[tuple[Form, tuple[bytes, ...], re.Pattern[bytes]]]:
    return [
        (
            form,
            tuple(word.encode() for word in form.words),
            re.compile(f"{secret_forms.START}(?:{form.pattern}){secret_forms.END}".encode()),
        )
        for form in secret_forms.FORMS
        if form.kind not in _NO_SECRETS
    ]


def _is_token(form: Form, token: bytes, body: bytes) -> bool:
    if form.group == secret_forms.WEB_TOKEN:
        return _is_web_token(token)
    return not placeholders.is_placeholder(token, body)


def _is_web_token(token: bytes) -> bool:
    """Whether the first parts are JSON, and it is signed and no example."""
    header, payload = (_json(part) for part in token.split(b".")[:2])
    if not isinstance(header, dict) or not isinstance(payload, dict):
        return False
    signed = header.get("alg") not in (None, "none")
    return signed and not _CLAIMS.isdisjoint(payload) and payload.get("sub") not in _EXAMPLE_SUBJECTS


def _json(part: bytes) -> object:
    try:
        return json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None


def _private_keys(data: bytes) -> Iterator[Match]:
    for found in _KEY.finditer(data):
        value = _of_key(found[1])
        if len(value) >= 40 and placeholders.entropy(value) >= 3.5:
            yield Match(PRIVATE_KEY, found.start(), found.end(), value)


def _of_key(body: bytes) -> bytes:
    """A key's content as it is the same in a file of its own, in JSON and in source code."""
    return _NOT_IN_KEY.sub(b"", body)


def _neighbours(data: bytes, runs: bytes, tokens: list[Match]) -> Iterator[Match]:
    """Secrets that belong to an identifier beside them."""
    for token in tokens:
        if token.kind == "AWS access key":
            yield from _near(data, token.start, _AWS_SECRET, "AWS secret key")
    folded = data.lower()
    if any(word in folded for word in _OF_AZURE) and _AZURE_ALONE.search(runs) is not None:
        for found in _AZURE_ALONE.finditer(data):
            if placeholders.is_random(found[0][:86]):
                yield Match("Azure storage key", found.start(), found.end(), found[0])
    if any(word in folded for word in _OF_TELEGRAM):
        for found in _TELEGRAM.finditer(data):
            if placeholders.is_random(found[0].partition(b":")[2]):
                yield Match("Telegram bot token", found.start(), found.end(), found[0])
    if _TWILIO_KEY.search(runs) is not None:
        for found in _TWILIO_KEY.finditer(data):
            if not placeholders.is_placeholder(found[0], found[0][2:]):
                yield Match("Twilio key", found.start(), found.end(), found[0])
    if _TWILIO_ACCOUNT.search(runs) is not None:
        for found in _TWILIO_ACCOUNT.finditer(data):
            if not placeholders.is_placeholder(found[0], found[0][2:]):
                yield from _near(data, found.start(), _HEX_TOKEN, "Twilio auth token")


def _near(data: bytes, at: int, pattern: re.Pattern[bytes], kind: str) -> Iterator[Match]:
    for found in pattern.finditer(data, max(at - _NEAR, 0), at + _NEAR):
        if placeholders.is_random(found[0]):
            yield Match(kind, found.start(), found.end(), found[0])


def _values(data: bytes, runs: list[re.Match[bytes]]) -> Iterator[Match]:
    """Random values that have the name of a secret."""
    for run in runs:
        if _MAY_BE_RANDOM.match(run[0]) is None:
            continue
        before = data[max(run.start() - suspects.NAME_NEAR, 0) : run.end()].lower()
        if not any(word in before for word in suspects.NAME_WORDS):
            continue
        for found in _VALUE.finditer(data, run.start(), run.end() + 2):
            name = _name_before(data[max(found.start() - suspects.NAME_NEAR, 0) : found.start()])
            if name is None or not placeholders.is_random(found[0].rstrip(b"=")):
                continue
            if not _is_code(found[0], data[found.end() : found.end() + 1]) and not _is_encoded_example(found[0]):
                yield Match(_kind(name, found[0]), found.start(), found.end(), found[0])


def _name_before(before: bytes) -> bytes | None:
    """The name of a secret whose value comes after this text; None if there is none."""
    join = _JOIN.search(before)
    if join is None:
        return None
    rest = before[: join.start()].rstrip(_NAME_BYTES)
    name = before[len(rest) : join.start()]
    parameter = name.lower() == b"key" and rest.endswith((b"?", b"&"))
    if (_SECRET_NAME.search(name) is None and not parameter) or _OTHER_NAMES.match(name):
        return None
    return None if rest.lower().endswith(_OTHER_WORDS) else name


def _is_code(value: bytes, after: bytes) -> bool:
    """Whether a value is no text but an expression: a call, an item, an attribute."""
    return after in (b"(", b"[") or _ATTRIBUTES.match(value) is not None


def _is_encoded_example(value: bytes) -> bool:
    """Whether a value is the base64 of an example's password, as `user:password` is."""
    try:
        text = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return False
    return text.isascii() and _EXAMPLE_PASSWORD.match(text) is not None and placeholders.is_text(text)


def _kind(name: bytes, value: bytes) -> str:
    folded = name.lower()
    if len(value) == 40 and (b"aws" in folded or (b"secret" in folded and b"access" in folded)):
        return "AWS secret key"
    if _AZURE_KEY.match(value):
        return "Azure storage key"
    return "Twilio auth token" if b"twilio" in folded else VALUE


def _in_urls(data: bytes) -> Iterator[Match]:
    if b"://" in data and b"@" in data:
        for found in _URL.finditer(data):
            if _is_password(found[1], found[2], found[3]):
                yield Match(URL_PASSWORD, found.start(), found.end(), found[2])
    if b"hooks.slack.com" in data:
        for found in _WEBHOOK.finditer(data):
            if not placeholders.is_placeholder(found[0], found[0].rpartition(b"/")[2]):
                yield Match("Slack webhook", found.start(), found.end(), found[0])
    if b":_" in data:
        for found in _NPM.finditer(data):
            if not placeholders.is_placeholder(found[1], found[1]) and not _is_encoded_example(found[1]):
                yield Match("npm token", found.start(), found.end(), found[1])


def _is_password(user: bytes, password: bytes, host: bytes) -> bool:
    if placeholders.is_random(password):
        return True
    if user == password or _EXAMPLE_HOST.match(host) or _EXAMPLE_PASSWORD.match(password):
        return False
    kinds = sum(bool(re.search(each, password)) for each in (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9]"))
    return (len(password) >= 8 and kinds >= 2) or len(password) >= 16


def _without_overlaps(matches: list[Match]) -> list[Match]:
    """Those that overlap no earlier one of the list, by where they are."""
    kept: list[Match] = []
    starts: list[int] = []
    for match in matches:
        at = bisect.bisect(starts, match.start)
        if (at == 0 or kept[at - 1].end <= match.start) and (at == len(kept) or match.end <= starts[at]):
            kept.insert(at, match)
            starts.insert(at, match.start)
    return kept


def lines_to_look_at(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that have a run of letters and digits as in a token, and not of a hash, with their positions; of long
    ones, parts."""
    end = 0
    for run in _RUN.finditer(data):
        if run.start() < end or _MAY_BE_RANDOM.match(run[0]) is None or _HASH.search(run[0]) is not None:
            continue
        start = max(data.rfind(b"\n", 0, run.start()) + 1, run.start() - suspects.AROUND)
        end = data.find(b"\n", run.end(), run.end() + suspects.AROUND)
        end = run.end() + suspects.AROUND if end < 0 else end
        yield start, data[start:end]


def normal(secret: bytes) -> tuple[str | None, bytes]:
    """The kind and the value that these rules give to a secret that somebody else found; the kind is None and the value
    as it is where they do not know it."""
    found = find(secret)
    return (found[0].kind, found[0].value) if found else (None, secret)
