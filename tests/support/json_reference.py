"""docs/json.md as a schema, and documents checked against it."""

from __future__ import annotations

import re
from typing import Any

from tests.support.env import PROJECT_ROOT

REFERENCE = (PROJECT_ROOT / "docs" / "json.md").read_text()

_SECTION = re.compile(r"^(?P<level>##+) (?P<name>.+)\n(?P<body>(?:(?!^##).*\n?)*)", re.MULTILINE)
_PATTERNS = {
    "id": re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "path": re.compile(r"(?!/)[^\0]+"),
    "absolute path": re.compile(r"/[^\0]*"),
    "text": re.compile(r"[^\0]*", re.DOTALL),
}

Schema = dict[str, str]


def sections() -> dict[str, tuple[bool, str]]:
    """Name -> (whether it is a kind, text) of each section."""
    return {found["name"]: (found["level"] == "##", found["body"]) for found in _SECTION.finditer(REFERENCE)}


def schema_of(name: str) -> Schema:
    """Key -> type, from the table of a section."""
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \| [^|]+ \|$", sections()[name][1], re.MULTILINE)
    return {key: kind.strip() for key, kind in rows if kind.strip() != "type"}


def check(value: Any, kind: str, where: str) -> None:
    """Assert that `value` is of a type as docs/json.md writes it."""
    if kind.endswith(" or null"):
        if value is not None:
            check(value, kind.removesuffix(" or null"), where)
    elif kind.startswith("list of "):
        assert isinstance(value, list), where
        for index, each in enumerate(value):
            check(each, kind.removeprefix("list of "), f"{where}[{index}]")
    elif kind.startswith("one of "):
        assert value in kind.removeprefix("one of ").split(", "), where
    elif kind == "object of text":
        assert isinstance(value, dict), where
        assert all(isinstance(key, str) and isinstance(each, str) for key, each in value.items()), where
    elif kind == "object":
        assert isinstance(value, dict), where
    elif kind == "boolean":
        assert isinstance(value, bool), where
    elif kind == "integer":
        assert isinstance(value, int), where
        assert not isinstance(value, bool), where
    elif kind == "number":
        assert isinstance(value, int | float), where
        assert not isinstance(value, bool), where
    elif kind in _PATTERNS:
        assert isinstance(value, str), where
        assert _PATTERNS[kind].fullmatch(value), f"{where}: {value!r} is no {kind}"
    else:
        check_fields(value, kind, where)


def check_fields(value: Any, section: str, where: str) -> None:
    schema = schema_of(section)
    assert isinstance(value, dict), where
    assert list(value) == list(schema), f"{where}: the keys, in the order of the reference"
    for key, kind in schema.items():
        check(value[key], kind, f"{where}.{key}")


def check_document(document: Any) -> str:
    """Assert that a document follows its schema; its kind."""
    found = re.fullmatch(r"agentos\.([a-z-]+)\.v1", document["schema"])
    assert found is not None
    assert next(iter(document)) == "schema"
    check_fields({key: value for key, value in document.items() if key != "schema"}, found[1], found[1])
    return found[1]
