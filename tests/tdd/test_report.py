"""Reports as pytest writes them, and whatever else may stand in their place."""

from __future__ import annotations

import json
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.tdd.gate import cases as reports
from git_agentos.tdd.gate.cases import Case


def suite(*cases: str) -> bytes:
    """A report with these elements in it."""
    inner = "".join(cases)
    return f'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>{inner}</testsuite></testsuites>'.encode()


def element(node_id: str, inner: str = "") -> str:
    """A test as our plugin marks it."""
    value = quoteattr(json.dumps(node_id))
    return (
        '<testcase classname="tests.test_a" name="x" file="tests/test_a.py" time="0.1"><properties>'
        f'<property name="agentos_node_id" value={value} /></properties>{inner}</testcase>'
    )


def plain(inner: str = "", **attributes: str) -> str:
    """One that was not marked."""
    words = " ".join(f"{name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<testcase {words}>{inner}</testcase>"


@pytest.mark.parametrize(
    ("inner", "outcome", "message"),
    [
        ("", reports.PASSED, ""),
        ("<system-out>noise</system-out>", reports.PASSED, ""),
        ('<failure message="assert 1 == 2">text</failure>', reports.FAILED, "assert 1 == 2"),
        ('<failure message="">first&#10;second</failure>', reports.FAILED, "first"),
        ('<error message="failed on setup with &quot;E&quot;">t</error>', reports.ERROR, 'failed on setup with "E"'),
        ('<skipped type="pytest.skip" message="why">t</skipped>', reports.SKIPPED, "why"),
        ('<skipped type="pytest.xfail" message="" />', reports.XFAILED, ""),
        ('<error message="e"/><failure message="f"/>', reports.FAILED, "f"),
        ('<failure message="f"/><error message="e"/>', reports.FAILED, "f"),
        ('<skipped message="s"/><error message="e"/>', reports.ERROR, "e"),
    ],
)
def test_an_outcome(inner: str, outcome: str, message: str) -> None:
    case = Case("tests/test_a.py::test_x", "tests/test_a.py", outcome, message)
    assert reports.read(suite(element("tests/test_a.py::test_x", inner))) == (case,)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_test_that_stands_there_twice_is_one_case_of_the_worse_outcome(backwards: bool) -> None:
    failed = element("a.py::t", '<failure message="f"/>'), element("a.py::t", '<error message="e"/>')
    other = element("a.py::u")
    cases = reports.read(suite(*(reversed(failed) if backwards else failed), other))
    assert cases == (Case("a.py::t", "a.py", reports.FAILED, "f"), Case("a.py::u", "a.py", reports.PASSED, ""))


def test_an_error_while_collecting_is_of_its_file_and_says_what_was_raised() -> None:
    text = (
        "ImportError while importing&#10;tests/sub/test_a.py:1: in &lt;module&gt;&#10;E   ImportError: no 'x'&#10;E  y"
    )
    inner = f'<error message="collection failure">{text}</error>'
    skip = '<skipped type="pytest.skip" message="collection skipped">why</skipped>'
    assert reports.read(
        suite(
            plain(inner, classname="", name="tests.sub.test_a", file="tests/sub/test_a.py"),
            plain(skip, classname="", name="tests.test_b", file="tests/test_b.py"),
        )
    ) == (
        Case("tests/sub/test_a.py", "tests/sub/test_a.py", reports.ERROR, "ImportError: no 'x'", True),
        Case("tests/test_b.py", "tests/test_b.py", reports.SKIPPED, "why", True),
    )


@pytest.mark.parametrize(
    ("attributes", "node_id"),
    [
        ({"classname": "tests.test_a", "name": "test_x[1]", "file": "tests/test_a.py"}, "tests/test_a.py::test_x[1]"),
        ({"classname": "tests.test_a.K.In", "name": "t", "file": "tests/test_a.py"}, "tests/test_a.py::K::In::t"),
        ({"classname": "pytest", "name": "internal"}, "pytest::internal"),
        ({"classname": "other", "name": "t", "file": "tests/test_a.py"}, "tests/test_a.py::t"),
    ],
)
def test_one_that_was_not_marked_is_known_by_its_name(attributes: dict[str, str], node_id: str) -> None:
    cases = reports.read(suite(plain(**attributes)))
    assert cases is not None
    assert [case.node_id for case in cases] == [node_id]


def test_secrets_are_taken_out_and_long_messages_cut() -> None:
    inner = f'<failure message="password=hunter22hunter {"x " * 600}"/>'
    cases = reports.read(suite(element("a.py::t", inner)))
    assert cases is not None
    assert cases[0].message.startswith("password=[redacted] x")
    assert len(cases[0].message) == 500


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0\0", b"<html/>", b"no xml", b"<testsuites>", suite(element("a.py::t"))[:-5], b'{"tests": []}',
        b'<?xml version="1.0"?><!DOCTYPE t [<!ENTITY a "b">]><testsuites/>',
        b'<?xml version="1.0" encoding="martian"?><testsuites/>',
    ],
)  # fmt: skip
def test_what_is_no_report(data: bytes) -> None:
    assert reports.read(data) is None


def test_a_report_of_nothing_is_one() -> None:
    assert reports.read(suite()) == ()
    assert reports.read(suite(plain(time="0.1"))) == ()  # what `pytest.exit` in a test leaves
    assert reports.read(b"<testsuite/>") == ()


def test_a_property_that_is_none_of_ours_is_not_believed() -> None:
    inner = '<properties><property name="agentos_node_id" value="[1]"/></properties>'
    cases = reports.read(suite(plain(inner, classname="tests.test_a", name="t", file="tests/test_a.py")))
    assert cases == (Case("tests/test_a.py::t", "tests/test_a.py", reports.PASSED, ""),)


@pytest.mark.law
@given(st.lists(st.text(st.characters(), min_size=1), unique=True, max_size=5))
def test_any_node_id_comes_back(node_ids: list[str]) -> None:
    cases = reports.read(suite(*map(element, node_ids)))
    assert cases is not None
    assert [case.node_id for case in cases] == node_ids


@pytest.mark.law
@given(st.binary() | st.binary().map(lambda data: b"<testsuites>" + data) | st.integers(0, 300).map(
    lambda size: suite(element("a.py::t", '<failure message="f">t</failure>'))[:size]
))  # fmt: skip
def test_it_reads_anything(data: bytes) -> None:
    whole = suite(element("a.py::t", '<failure message="f">t</failure>'))
    assert reports.read(data) is None or data == whole or b"<testcase" not in data
