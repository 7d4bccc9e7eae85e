"""What a client may give as arguments: the schemas, and checks that hold whatever the client does with them.

An argument becomes a word of a command line. So it can be no option, has no byte that a command line cannot have, and
is no longer than the system allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from git_agentos.errors import UsageError
from git_agentos.mcp.schemas import Schema

_MOST = 500_000  # bytes of all arguments of a call
_LONGEST = 60_000  # characters of one; Linux allows 128 KiB of a word
_SHOWN = 200  # characters of a message of the validator


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "maxLength": _LONGEST, "description": description, **more}


def name(description: str) -> Schema:
    """An id, or another name that is no option."""
    return text(description, minLength=1, maxLength=1000, pattern="^[^-]")


def names(description: str, most: int = 1000) -> Schema:
    items = {"type": "string", "minLength": 1, "maxLength": 4096}
    return {"type": "array", "items": items, "maxItems": most, "description": description}


def flag(description: str, *, default: bool = False) -> Schema:
    return {"type": "boolean", "default": default, "description": description}


def number(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": 999_999_999, "description": description}


def schema(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def check(given: Mapping[str, Any], expected: Schema) -> dict[str, Any]:
    """The arguments with the defaults of those that are not given. UsageError if they do not follow the schema."""
    error = best_match(Draft202012Validator(expected).iter_errors(dict(given)))
    if error is not None:
        where = "".join(f"'{each}': " for each in error.absolute_path if isinstance(each, str))
        message = error.message if len(error.message) <= _SHOWN else f"{error.message[:_SHOWN]}..."
        raise UsageError(f"{where}{message}", "the schema of the tool's input says what it takes; nothing was changed")
    if sum(_length(each) for each in _texts(dict(given))) > _MOST:
        raise UsageError(f"the arguments are longer than {_MOST} bytes", "give less; nothing was changed")
    defaults = {key: each["default"] for key, each in expected["properties"].items() if "default" in each}
    return {**defaults, **given}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _length(word: str) -> int:
    try:
        length = len(os.fsencode(word))
    except UnicodeEncodeError as error:
        raise UsageError("an argument has characters that are not in UTF-8", "nothing was changed") from error
    if "\0" in word:
        raise UsageError("an argument has a NUL character", "nothing was changed")
    return length
