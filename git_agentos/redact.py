"""Removing secrets from text before it is written to a log. They are found by their form.

Known are the tokens of cloud, code-host and model providers (`secret_forms` has how they look), private keys, JSON web
tokens, `Authorization` headers, passwords in URLs, and values that are assigned to a name such as `password` or
`api_key`. A long hexadecimal number alone is not a secret: commits, checkpoints and UUIDs stay.

`redact` rather removes too much. `credentials` finds only what is certainly a credential: a file is refused for it, and
code that handles passwords is not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from git_agentos.util.named_tuple import NamedTuple

MASK = "[redacted]"

PRIVATE_KEY_BEGINS = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
PRIVATE_KEY_ENDS = r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = re.compile(rf"{PRIVATE_KEY_BEGINS}.*?(?:{PRIVATE_KEY_ENDS}|\Z)", re.DOTALL)
_WEBHOOK = re.compile(r"(https://hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{20,}")
_URL_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@'\"<>]{0,200}:)([^\s/@'\"<>]{1,500})(?=@)")
_URL_PARAMETER = re.compile(
    r"(?i)([?&](?:sig|key|code|x-amz-signature|x-amz-security-token|x-goog-signature)=)([A-Za-z0-9%._~+/=-]{8,})"
)
_HEADER = re.compile(
    r"(?i)((?:authorization|x-api-key|api-key|private-token)['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic|token)\s+)?)"
    r"([A-Za-z0-9._~+/=-]{8,})"
)
_BEARER = re.compile(r"(?i)((?<![\w-])bearer\s+)(?=[A-Za-z0-9._~+/=-]*\d)([A-Za-z0-9._~+/=-]{16,})")

_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret(?:[_-]?(?:access)?[_-]?key)?|(?:api|access|account|auth|private|signing"
    r"|encryption|master)[_-]?key|apikey|(?:auth|access|refresh|id|bearer|session|api|bot|deploy)?[_-]?token"
    r"|credentials?|client[_-]?secret|sas|signature)"
)
_NAME = rf"(?:[A-Za-z0-9_.-]{{0,60}}?[_.-])?(?:[A-Za-z]{{0,20}}?){_NAMES}"
_SECRET_NAME = re.compile(rf"(?i){_NAME}\Z")
# name = value, "name": "value", --name value, ?name=value
_ASSIGNMENT = re.compile(
    rf"(?i)(?P<before>(?<![A-Za-z0-9_.-])(?P<name>-{{0,2}}{_NAME})"
    r"(?P<join>[\"']?\s{0,4}(?:=>|:=|=|:)\s{0,4}|\s+(?=[^\s-])))"
    r"(?P<value>\[redacted\]|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s\"',;&)\]}]+)"
)
# Values that are not secrets: a name of one, a placeholder, a word of prose.
_PLACEHOLDER = re.compile(
    r"(?i)(?:\[redacted\]|\*+|x+|\.+|<.*>|\$.*|%.*%|\{.*|process\.env.*|os\.(?:environ|getenv).*|env[.(\[].*|getenv.*"
    r"|none|null|nil|undefined|true|false|yes|no|empty|unset|missing|required|optional|invalid|expired|changed|wrong"
    r"|str|string|text|bytes|int|number|token|password|secret|the|a|an|is|was|not|in|of|to|for|and|or|\d{1,7})\Z"
)
# Each with words of which one is in every text that it matches: to look for these is much faster. There are too many
# beginnings of tokens for that.
_PATTERNS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (_PRIVATE_KEY, ("-----begin",)),
    (_WEBHOOK, ("hooks.slack.com",)),
    (_URL_PASSWORD, ("://",)),
    (_URL_PARAMETER, ("sig=", "key=", "code=", "signature=", "token=")),
    (_HEADER, ("authorization", "api-key", "private-token")),
    (_BEARER, ("bearer",)),
)
# What `credentials` does not count: a marker that is only mentioned, an example's password, a value that a person would
# write.
_KEY_MATERIAL = re.compile(
    rf"(?m)(?:^[ \t]*{PRIVATE_KEY_BEGINS}[ \t]*\r?$"
    rf"|{PRIVATE_KEY_BEGINS}(?:\\[nr]|[\s\"'+,])*[A-Za-z0-9+/=]{{12}})"
)
_EXAMPLE_PASSWORD = re.compile(
    r"(?i)(?:p|pw|pwd|pass|passwd|user(?:name)?|admin|root|guest|test|foo|bar|baz|example|change[_-]?me|postgres|mysql"
    r"|redis|my[_-]?pass(?:word)?|your[_-].*|.*[{}<>$*].*)\Z"
)
_RANDOM = re.compile(r"(?=(?:[^0-9]*[0-9]){3})(?=(?:[^A-Za-z]*[A-Za-z]){3})[A-Za-z0-9+/_=~.!@#%^&*-]{20,}\Z")
_ATTRIBUTES = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_NOT_SECRET_ENOUGH = ("signature", "sas")
_NAME_ENDS = ("word", "wd", "phrase", "code", "secret", "key", "token", "credential", "credentials", "sas", "signature")
_AFTER_NAME = re.compile(r"[\"']?[\s=:]")


def may_hold(text: str) -> bool:
    """Whether `redact` may find a secret; if not, there is none. Fast, also for many lines at once."""
    folded = text.casefold()
    words = (word for _, words in _PATTERNS for word in words)
    return any(word in folded for word in words) or _has_name(folded) or _token().search(text) is not None


def redact(text: str) -> tuple[str, int]:
    """`text` without its secrets, and how many were removed. A second call changes nothing."""
    count = 0

    def mask(found: re.Match[str]) -> str:
        nonlocal count
        if found[0].endswith(MASK):
            return found[0]
        count += 1
        return (found[1] if found.re.groups else "") + MASK

    def assigned(found: re.Match[str]) -> str:
        nonlocal count
        if not _is_secret(found["name"], found["join"], found["value"]):
            return found[0]
        count += 1
        quote = found["value"][0] if found["value"][0] in "\"'" else ""
        return found["before"] + quote + MASK + quote

    folded = text.casefold()
    for pattern, words in _PATTERNS:
        if any(word in folded for word in words):
            text = pattern.sub(mask, text)
    text = _token().sub(mask, text)
    if _has_name(folded):
        text = _ASSIGNMENT.sub(assigned, text)
    return text, count


class Credential(NamedTuple):
    """Something that is a credential: what, and where in the text it begins."""

    kind: str
    start: int


def credentials(text: str) -> Iterator[Credential]:
    """What is certainly a credential: tokens, private keys with content after the marker, passwords in URLs that are no
    example's, and long values that look random and are assigned to the name of a secret."""
    for found in _token().finditer(text):
        from git_agentos import secret_forms

        yield Credential(secret_forms.group_of(found[0]), found.start())
    folded = text.casefold()
    if "private key" in folded:
        for found in _KEY_MATERIAL.finditer(text):
            yield Credential("a private key", found.start())
    if "hooks.slack.com" in folded:
        for found in _WEBHOOK.finditer(text):
            yield Credential("the address of a webhook", found.start())
    if "://" in text:
        for found in _URL_PASSWORD.finditer(text):
            if not _is_example(found[1], found[2]):
                yield Credential("a password in a URL", found.start())
    if _has_name(folded):
        for found in _ASSIGNMENT.finditer(text):
            if _looks_random(found["name"], found["value"]):
                yield Credential(f"a value of '{found['name'].lstrip('-')}'", found.start())


def is_secret_name(name: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _SECRET_NAME.match(name.strip()) is not None


def redact_value(value: Any) -> tuple[Any, int]:
    """The same for a JSON value: texts, keys, and whatever is in lists and objects."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        pairs = [redact_value(each) for each in value]
        return [each for each, _ in pairs], sum(count for _, count in pairs)
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        total = 0
        for key, inner in value.items():
            name, first = redact(str(key))
            if isinstance(inner, str) and is_secret_name(name) and not _PLACEHOLDER.match(inner) and inner:
                cleaned, second = MASK, 1
            else:
                cleaned, second = redact_value(inner)
            result[name] = cleaned
            total += first + second
        return result, total
    return value, 0


def _has_name(folded: str) -> bool:
    """Whether there may be a name with a value that `_ASSIGNMENT` matches."""
    for word in _NAME_ENDS:
        at = folded.find(word)
        while at >= 0:
            if _AFTER_NAME.match(folded, at + len(word)) is not None:
                return True
            at = folded.find(word, at + 1)
    return False


def _is_secret(name: str, join: str, value: str) -> bool:
    quoted = value[0] in "\"'"
    bare = value[1:-1] if quoted else value
    if not bare or _PLACEHOLDER.match(bare) or MASK in bare:
        return False
    if join.isspace():  # an option with its value; two words of prose otherwise
        return name.startswith("--") and len(bare) >= 3
    if "=" in join or quoted:
        return len(bare) >= 3
    # `name: value` may be prose: what is meant has something of a password in it.
    return len(bare) >= 6 and any(not each.isalpha() for each in bare.rstrip(".!?"))


@cache
def _token() -> re.Pattern[str]:
    """Any of the tokens; compiled when it is first needed, since that would take a third of this module's import."""
    from git_agentos import secret_forms

    return secret_forms.any_token()


def _is_example(before: str, password: str) -> bool:
    user = before[:-1].rpartition("/")[2]
    return user == password or bool(_PLACEHOLDER.match(password) or _EXAMPLE_PASSWORD.match(password))


def _looks_random(name: str, value: str) -> bool:
    """Whether a person would not write the value in a program or an example."""
    quoted = value[0] in "\"'"
    bare = value[1:-1] if quoted else value
    if name.casefold().endswith(_NOT_SECRET_ENOUGH) or not _RANDOM.match(bare) or MASK in bare:
        return False
    if not quoted and _ATTRIBUTES.match(bare):
        return False
    shares = [count / len(bare) for count in Counter(bare).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0
