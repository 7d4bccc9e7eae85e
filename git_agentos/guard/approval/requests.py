"""The content of an approval request: everything that decides what will run, as it is shown and as it is bound.

What people are shown has no secrets in it and may be cut, so each part goes with a digest of the real one. The id of a
request is a digest of all of it: a request cannot say anything else than its id stands for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from git_agentos.redact import MASK
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

_ID_DIGITS = 32
_MAX_TEXT = 20_000  # characters
# Fields that do not say what runs: a request is the same with others.
_REMARKS = ("reason", "instead", "checkpoint")
# The keys of the document that are not called like the field.
_KEYS = {
    "command_digest": "bound",
    "environment_digest": "bound_environment",
    "configuration_digest": "bound_configuration",
    "text_digest": "bound_text",
}
_LISTS = ("operations", "argv", "environment", "configuration")
_TEXTS = (
    "operation", "command_digest", "worktree", "agent", "reason", "instead", "environment_digest",
    "configuration_digest",
)  # fmt: skip
_TEXTS_OR_NONE = ("cwd", "head", "branch", "checkpoint", "text", "text_digest")


class ApprovalRequest(NamedTuple):
    """A request. The digests are of what the command really is, without anything left out."""

    operation: str  # the first of `operations`
    operations: tuple[str, ...]  # everything that the command does
    argv: tuple[str, ...]  # the command line, without secrets
    command_digest: str  # of the real command line
    cwd: str | None  # the folder in which the command was given
    worktree: str  # the root of its worktree
    head: str | None  # HEAD's commit there; None while unborn
    branch: str | None  # full name; None if HEAD is detached
    agent: str  # who asks
    reason: str = ""  # why it needs approval
    instead: str = ""  # what the agent could do instead
    checkpoint: str | None = None  # the state before, where it was saved
    environment: tuple[str, ...] = ()  # the variables that decide what runs: `NAME=value`
    configuration: tuple[str, ...] = ()  # the values that name programs and places: `key=value`
    text: str | None = None  # the whole shell text or tool input of a harness that the command is a part of
    environment_digest: str = ""  # of `environment`
    configuration_digest: str = ""  # of the whole configuration
    text_digest: str | None = None  # of `text`


def command_digest(argv: Sequence[str]) -> str:
    """The digest of a command line: of every word, and of the program without its folder."""
    words = [os.path.basename(argv[0]), *argv[1:]] if argv else []
    return digest_of(words)


def digest_of(words: Sequence[str]) -> str:
    """The digest of some texts, in their order."""
    return hashlib.sha256(json.dumps(list(words)).encode("ascii")).hexdigest()


def cut(text: str, most: int = _MAX_TEXT) -> str:
    """A text as it is shown: one that is too long ends with the number of characters that are missing."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def request_id(request: ApprovalRequest, number: int) -> str:
    """The id of the request number `number` for the same thing."""
    words = [*request._replace(checkpoint=None), number]
    return hashlib.sha256(json.dumps(words).encode("ascii")).hexdigest()[:_ID_DIGITS]


def is_same(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    """Whether two requests are for the same thing.

    A request of a harness is also for the command that the harness then starts, which does not know the text; one from
    a folder is also for a command whose folder is not known.
    """
    empty = dict.fromkeys(_REMARKS, "")
    if one.cwd is None or other.cwd is None:
        empty["cwd"] = ""
    if one.text_digest is None or other.text_digest is None:
        empty |= {"text": "", "text_digest": ""}
    return one._replace(**empty) == other._replace(**empty)  # type: ignore[arg-type]  # all of them are texts


def to_document(request: ApprovalRequest) -> dict[str, Any]:
    """A request as JSON values."""
    return {_KEYS.get(field, field): value for field, value in request._asdict().items()}


def from_document(document: Mapping[str, Any]) -> ApprovalRequest | None:
    """The request in a document; None where it does not have the form that we write."""
    values = {field: document.get(_KEYS.get(field, field), 0) for field in ApprovalRequest._fields}
    if not (
        all(isinstance(values[field], str) for field in _TEXTS)
        and all(isinstance(values[field], str | None) for field in _TEXTS_OR_NONE)
        and all(_is_list_of_texts(values[field]) for field in _LISTS)
        and type(document.get("number")) is int
    ):
        return None
    try:
        times.to_seconds(document["created_at"])
    except (KeyError, TypeError, ValueError):
        return None
    return ApprovalRequest(**{**values, **{field: tuple(values[field]) for field in _LISTS}})


def shows_all(request: ApprovalRequest) -> bool:
    """Whether the digests are those of what the request shows: nothing in it was redacted or cut."""
    shown = [*request.argv, *request.environment, *request.configuration, request.text or ""]
    if any(MASK in each for each in shown):
        return False
    text = None if request.text is None else digest_of([request.text])
    return (command_digest(request.argv), digest_of(request.environment), text) == (
        request.command_digest, request.environment_digest or digest_of(()), request.text_digest,
    )  # fmt: skip


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
