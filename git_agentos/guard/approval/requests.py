"""What a request for approval says: everything that decides what will run, as it is shown and as it is bound.

What people are shown has no secrets in it and may be cut short; each part of it goes with a digest of the real one. The
id of a request is made of all of it, so a request cannot say something else than its id stands for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from git_agentos.redact import MASK

_ID_DIGITS = 32
# Fields that say nothing about what runs: the same question may be asked again with others.
_ABOUT = ("reason", "instead", "checkpoint")
_TEXTS = ("operation", "bound", "worktree", "agent", "reason", "instead", "bound_environment", "bound_configuration")
_TEXTS_OR_NONE = ("cwd", "head", "branch", "checkpoint", "text", "bound_text")
_LISTS = ("operations", "argv", "environment", "configuration")
_MOST_TEXT = 20_000


class Asked(NamedTuple):
    """What is asked for.

    `argv` is for people, without the secrets in it; `bound` is the digest of the real one. `cwd` is the folder that the
    command was given in; `worktree` the root of its worktree, `head` HEAD's commit there (None while unborn), `branch`
    the full name of what HEAD points at (None when detached).
    `environment` are the variables that decide what runs (`NAME=value`), `configuration` the values that name programs
    and places (`key=value`), `text` the whole shell text or tool input of a harness that the command is a part of, None
    where there is none. The `bound_` fields are digests of the real ones; that of the configuration is of all of it.
    """

    operation: str
    operations: tuple[str, ...]
    argv: tuple[str, ...]
    bound: str
    cwd: str | None
    worktree: str
    head: str | None
    branch: str | None
    agent: str
    reason: str = ""
    instead: str = ""
    checkpoint: str | None = None
    environment: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()
    text: str | None = None
    bound_environment: str = ""
    bound_configuration: str = ""
    bound_text: str | None = None


def digest(argv: Sequence[str]) -> str:
    """What a grant is bound to of a command line: every word of it, however the program is called."""
    words = [os.path.basename(argv[0]), *argv[1:]] if argv else []
    return digest_of(words)


def digest_of(words: Sequence[str]) -> str:
    """The digest of some texts, in their order."""
    return hashlib.sha256(json.dumps(list(words)).encode("ascii")).hexdigest()


def cut(text: str, most: int = _MOST_TEXT) -> str:
    """A text as it is shown: what is too long ends with how much is missing."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def request_id(asked: Asked, number: int) -> str:
    """The id of the request number `number` for the same thing."""
    words = [*asked._replace(checkpoint=None), number]
    return hashlib.sha256(json.dumps(words).encode("ascii")).hexdigest()[:_ID_DIGITS]


def is_same(one: Asked, other: Asked) -> bool:
    """Whether two requests are for the same thing.

    What was asked for by a harness holds for the command that it then starts, which does not know of the text; what was
    given in a folder holds where the folder is not known.
    """
    empty = dict.fromkeys(_ABOUT, "")
    if one.cwd is None or other.cwd is None:
        empty["cwd"] = ""
    if one.bound_text is None or other.bound_text is None:
        empty |= {"text": "", "bound_text": ""}
    return one._replace(**empty) == other._replace(**empty)  # type: ignore[arg-type]  # all of them are texts


def from_document(document: Mapping[str, Any]) -> Asked | None:
    """What a request's document says; None for one that nothing of ours has written."""
    texts = all(isinstance(document.get(name), str) for name in _TEXTS)
    maybe = all(document.get(name, 0) is None or isinstance(document.get(name), str) for name in _TEXTS_OR_NONE)
    if not texts or not maybe or not all(_is_list_of_text(document.get(name)) for name in _LISTS):
        return None
    try:
        datetime.fromisoformat(document["created_at"])
        number = document["number"]
    except (KeyError, TypeError, ValueError):
        return None
    if type(number) is not int:
        return None
    values = {name: document[name] for name in Asked._fields}
    return Asked(**{**values, **{name: tuple(document[name]) for name in _LISTS}})


def is_self_evident(asked: Asked) -> bool:
    """Whether the digests are those of what the request shows: nothing in it was taken out or cut short."""
    shown = [*asked.argv, *asked.environment, *asked.configuration, asked.text or ""]
    if any(MASK in each for each in shown):
        return False
    text = None if asked.text is None else digest_of([asked.text])
    return (digest(asked.argv), digest_of(asked.environment), text) == (
        asked.bound, asked.bound_environment or digest_of(()), asked.bound_text,
    )  # fmt: skip


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
