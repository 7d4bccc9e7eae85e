"""Results as JSON documents; docs/json.md is the reference, and tests/cli/test_documents.py compares them.

The fields of the results (dataclasses and named tuples) are the keys of the documents. Only `from_` is renamed, to
`from`, which Python does not allow as a name. Paths are strings; a byte that is not UTF-8 is the surrogate that
`os.fsdecode` makes of it. The dump is ASCII, so these survive every pipe.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError

if TYPE_CHECKING:
    from git_agentos.run.events import Step


def document(kind: str, fields: object) -> dict[str, object]:
    """The document `agentos.<kind>.v1` of a result dataclass or of a mapping of keys to values."""
    body = plain(fields)
    if not isinstance(body, dict):
        raise TypeError(f"a document is made of named fields, not of {type(fields).__name__}")
    return {"schema": f"agentos.{kind}.v1", **body}


def error(failure: AgentosError) -> dict[str, object]:
    """The document of an error."""
    body = {"kind": failure.kind, "message": failure.message, "hint": failure.hint}
    return {"schema": "agentos.error.v1", "error": body}


def dump(body: Mapping[str, object]) -> str:
    return json.dumps(body, ensure_ascii=True, allow_nan=False)


def diff(result: object, *, patch: bytes | None) -> dict[str, object]:
    """The fields of a `checkpoint-diff`: `from_` under its real name, the patch as text (None: `--stat`)."""
    fields = _fields(result)
    fields["from"] = fields.pop("from_")
    fields["patch"] = None if patch is None else patch.decode("utf-8", "surrogateescape")
    return {key: fields[key] for key in ("from", "to", "files", "patch")}


def contents(result: object, content: bytes) -> dict[str, object]:
    """The fields of a `checkpoint-cat`: the bytes in base64."""
    fields = _fields(result)
    del fields["content"]
    fields["content_base64"] = base64.b64encode(content).decode("ascii")
    return fields


def step_log(step: Step, out: bytes, err: bytes) -> dict[str, object]:
    """One of the `logs` of a `run-logs`: the step, and its output as text."""
    fields = {name: getattr(step, name) for name in ("n", "kind", "attempt", "command", "outcome", "exit_code")}
    output = {"stdout": out.decode("utf-8", "surrogateescape"), "stderr": err.decode("utf-8", "surrogateescape")}
    return {**fields, **output}


def plain(value: object) -> object:
    """`value` as JSON types."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        # Fast for lists of paths, which are most of a long list of checkpoints.
        return [inner if type(inner) is str else plain(inner) for inner in value]
    if isinstance(value, tuple) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return {
            name: inner if inner is None or type(inner) is str else plain(inner)
            for name, inner in _fields(value).items()
        }
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _fields(value: object) -> dict[str, object]:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no named fields")
    return dict(vars(value))
