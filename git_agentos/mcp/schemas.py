"""JSON schemas of the documents that the tools return, made from the types that the domain functions return.

The fields of these types are the keys of the documents (`cli/render/json.py`). A key is never absent, and new ones may
be added: so all are required, and others are allowed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
_PLAIN = {str: "string", bytes: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
_RENAMED = {"from_": "from"}


def document(kind: str, properties: Mapping[str, Schema]) -> Schema:
    """The schema of the document `agentos.<kind>.v1` with these keys."""
    return fields({"schema": {"const": f"agentos.{kind}.v1"}, **properties})


def fields(properties: Mapping[str, Schema]) -> Schema:
    """An object that has these keys, and perhaps others."""
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


@cache
def properties(kind: type) -> Mapping[str, Schema]:
    """The keys that the fields of a dataclass or of a named tuple become."""
    hints = typing.get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else _tuple_fields(kind)
    return {_RENAMED.get(name, name): of(hints[name]) for name in names}


def _tuple_fields(kind: Any) -> Sequence[str]:
    found: Sequence[str] = kind._fields
    return found


def of(hint: Any) -> Schema:
    """The schema of the values of a type."""
    if hint is Any or hint is object:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of(each) for each in inner]}
    if origin in (list, tuple, Sequence):
        return listed(of(inner[0]))
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": of(inner[1])}
    return fields(properties(hint))
