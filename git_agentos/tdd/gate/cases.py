"""pytest's junit report as cases.

The report is what pytest wrote with `junit_family=xunit1`; the exact node id of a test is a property that
`evidence_plugin` has given it. What went wrong while collecting has none: it is known by the file. A test may stand
there twice (it failed, and its fixture could not be taken down): it is one case, of the outcome that matters most.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from git_agentos.redact import redact

PASSED, FAILED, ERROR, SKIPPED, XFAILED = "passed", "failed", "error", "skipped", "xfailed"
NODE_ID = "agentos_node_id"  # as `evidence_plugin`, which is loaded elsewhere, has it

_MOST = 128 << 20
_LONGEST = 500
_COLLECTING = ("collection failure", "collection skipped")
# The least first: of several, the last counts.
_ORDER = (PASSED, XFAILED, SKIPPED, ERROR, FAILED)


@dataclass(frozen=True)
class Case:
    """One test that was run: its node id as pytest has it, the outcome (`failed`: in its call phase; `error`: in a
    fixture or while collecting), and the first line of what it said. `path` is relative to the worktree."""

    node_id: str
    path: str
    outcome: str
    message: str
    collecting: bool = False


def read(data: bytes) -> tuple[Case, ...] | None:
    """The cases of a report; None where it is none (cut off, not XML, of something else)."""
    # pytest declares no entities; one that does is no report of its.
    if len(data) > _MOST or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return None
    try:
        top = ET.fromstring(data)
    except (ET.ParseError, ValueError, LookupError):
        return None
    if top.tag not in ("testsuites", "testsuite"):
        return None
    found: dict[str, Case] = {}
    for case in map(_case, (each for each in top.iter("testcase") if each.attrib.keys() - {"time"})):
        before = found.get(case.node_id)
        if before is None or _ORDER.index(case.outcome) > _ORDER.index(before.outcome):
            found[case.node_id] = case
    return tuple(found.values())


def _case(element: Element) -> Case:
    outcome, message, collecting = PASSED, "", False
    for kind, text, detail in _results(element):
        if _ORDER.index(kind) >= _ORDER.index(outcome):
            outcome, message, collecting = kind, _first_line(text, detail), text in _COLLECTING
    node_id = _node_id(element)
    return Case(node_id, node_id.partition("::")[0], outcome, message, collecting)


def _results(element: Element) -> Iterator[tuple[str, str, str]]:
    """Outcome, message and text of each thing that the report says of a test."""
    for each in element:
        message, text = each.get("message", ""), each.text or ""
        if each.tag == "failure":
            yield FAILED, message, text
        elif each.tag == "error":
            yield ERROR, message, text
        elif each.tag == "skipped":
            yield XFAILED if each.get("type") == "pytest.xfail" else SKIPPED, message, text


def _first_line(message: str, text: str) -> str:
    """What went wrong, in a line: of an error while collecting, the message says no more than that."""
    told = _errors(text) or text if message in _COLLECTING else message
    line = next((line.strip() for line in (told or message or text).splitlines() if line.strip()), "")
    return redact(line)[0][:_LONGEST]


def _errors(text: str) -> str:
    """The first of the lines in which pytest says what was raised."""
    return next((line[1:].strip() for line in text.splitlines() if line.startswith("E ")), "")


def _node_id(element: Element) -> str:
    for each in element.iter("property"):
        if each.get("name") == NODE_ID:
            try:
                found = json.loads(each.get("value", ""))
            except ValueError:
                break
            if isinstance(found, str):
                return found
    return _guessed(element)


def _guessed(element: Element) -> str:
    """The node id of what has not told it: its file, and what its name says beside that."""
    path, name, parts = element.get("file", ""), element.get("name", ""), element.get("classname", "")
    dotted = path.removesuffix(".py").replace("/", ".")
    if not path:
        return "::".join(each for each in (parts, name) if each)
    if not name or (not parts and name in (dotted, path.replace("/", "."))):
        return path
    inner = parts.removeprefix(dotted).strip(".").split(".") if parts.startswith(dotted) else []
    return "::".join([path, *(each for each in inner if each), name])
