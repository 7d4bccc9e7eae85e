"""The outcomes that the plugin records, and whatever else may stand in their place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.tdd.gate.pytest_run import ERROR, FAILED, PASSED, SKIPPED, XFAILED, Case, read_cases

TEST = "tests/test_a.py::test_x"


@pytest.mark.parametrize(
    ("recorded", "outcome", "message"),
    [
        ([(PASSED, "")], PASSED, ""),
        ([(FAILED, "assert 1 == 2")], FAILED, "assert 1 == 2"),
        ([(FAILED, "\n  first\nsecond")], FAILED, "first"),
        ([(SKIPPED, "why")], SKIPPED, "why"),
        ([(XFAILED, "")], XFAILED, ""),
        ([(ERROR, "e"), (FAILED, "f")], FAILED, "f"),
        ([(FAILED, "f"), (ERROR, "e")], FAILED, "f"),
        ([(PASSED, ""), (ERROR, "e")], ERROR, "e"),
        ([(SKIPPED, "s"), (ERROR, "e")], ERROR, "e"),
    ],
)
def test_outcome_that_matters_most_counts(recorded: list[tuple[str, str]], outcome: str, message: str) -> None:
    cases = read_cases([(TEST, each, text, False) for each, text in recorded])
    assert cases == (Case(TEST, "tests/test_a.py", outcome, message),)


def test_file_that_cannot_be_collected_is_a_case() -> None:
    assert read_cases([["tests/test_a.py", ERROR, "E", True]]) == (
        Case("tests/test_a.py", "tests/test_a.py", ERROR, "E", collecting=True),
    )


def test_secrets_are_removed_and_long_messages_cut() -> None:
    cases = read_cases([[TEST, FAILED, f"password=hunter22hunter {'x ' * 600}", False]])
    assert cases is not None
    assert cases[0].message.startswith("password=[redacted] x")
    assert len(cases[0].message) <= 500


@pytest.mark.parametrize("recorded", [["x"], [1], [[TEST, "odd", "", False]], [[TEST, PASSED, 1, False]], [[TEST]]])
def test_invalid_records_are_ignored(recorded: list[Any]) -> None:
    assert read_cases(recorded) is None


@pytest.mark.law
@given(st.lists(st.text(st.characters(), min_size=1), unique=True, max_size=5))
def test_any_node_id_comes_back(node_ids: list[str]) -> None:
    cases = read_cases([[each, PASSED, "", False] for each in node_ids])
    assert cases is not None
    assert [case.node_id for case in cases] == node_ids
