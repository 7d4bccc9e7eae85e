"""The routes: every exit code, with and without vetoes, with and without retries left."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from git_agentos.tdd import routing
from git_agentos.tdd.routing import ROUTES
from git_agentos.tdd.state import END, N0, N1, N2, N3, N4, N5, N6, N7, N8, NODES, ExitCode

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 124, 137, 143, 255, ExitCode.TIMED_OUT)


# exit code -> where a faultless report leads; with retries left, and without
RED = {1: (N3, N3), 0: (N1, N6), 4: (N1, N6), 5: (N1, N6)}
GREEN = {0: (N5, N5), 1: (N3, N6)}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_the_red_gate_by_exit_code(code: int) -> None:
    left, none = RED.get(code, (N6, N6))
    state: dict[str, Any] = {"test_exit_code": code}
    assert routing.route_n2_fail_gate(state) == left
    for retries in (0, 1, 2):
        assert routing.route_n2_fail_gate(state | {"scaffold_retry_count": retries}) == left
    for retries in (3, 4):
        assert routing.route_n2_fail_gate(state | {"scaffold_retry_count": retries}) == none


@pytest.mark.parametrize("code", EXIT_CODES)
def test_the_green_gate_by_exit_code(code: int) -> None:
    left, none = GREEN.get(code, (N6, N6))
    state: dict[str, Any] = {"test_exit_code": code}
    assert routing.route_n4_pass_gate(state) == left
    for retries in (0, 1, 2):
        assert routing.route_n4_pass_gate(state | {"retry_count": retries}) == left
    for retries in (3, 4):
        assert routing.route_n4_pass_gate(state | {"retry_count": retries}) == none


def test_an_error_while_collecting_is_a_faulty_try() -> None:
    state = {"test_exit_code": 2, "collect_error": True}
    assert routing.route_n2_fail_gate(state) == N1
    assert routing.route_n2_fail_gate(state | {"scaffold_retry_count": 3}) == N6
    assert routing.route_n4_pass_gate(state) == N3
    assert routing.route_n4_pass_gate(state | {"retry_count": 3}) == N6


@pytest.mark.parametrize("code", [*EXIT_CODES, None])
def test_veto_only_refuses(code: int | None) -> None:
    """No veto leads further than none; where the exit code said yes, it leads back."""
    order = {N6: 0, N1: 1, N3: 2}
    with_veto = routing.route_n2_fail_gate({"test_exit_code": code, "vetoes": ["x"]})
    assert with_veto in (N1, N6)
    assert order[with_veto] <= order[routing.route_n2_fail_gate({"test_exit_code": code})] or code is None
    assert routing.route_n4_pass_gate({"test_exit_code": code, "vetoes": ["x"]}) in (N3, N6)
    assert routing.route_n2_fail_gate({"test_exit_code": 1, "vetoes": ["x"], "scaffold_retry_count": 3}) == N6
    assert routing.route_n4_pass_gate({"test_exit_code": 0, "vetoes": ["x"], "retry_count": 3}) == N6


def test_routes_after_models_without_and_with_an_error() -> None:
    assert routing.route_n0_load_context({}) == N1
    assert routing.route_n1_scaffold_tests({}) == N2
    assert routing.route_n1_scaffold_tests({"error_message": "x"}) == N6
    assert routing.route_n3_implement({}) == N4
    assert routing.route_n3_implement({"error_message": "x"}) == N6


def test_the_audit() -> None:
    assert routing.route_n5_audit({}) == N6
    assert routing.route_n5_audit({"findings": ["x"]}) == N3
    assert routing.route_n5_audit({"findings": ["x"], "retry_count": 3}) == N6


@pytest.mark.parametrize(
    ("word", "green", "red", "to"),
    [
        ("approve", True, True, N7),
        ("approve", False, True, N6),
        ("abort", True, True, N8),
        ("abort", False, False, N8),
        ("retry", False, False, N1),
        ("retry", False, True, N3),
        ("retry", True, True, N4),
        *[(word, True, True, N6) for word in ("Approve", "approve ", "yes", "y", "", "approved", "APPROVE", None)],
    ],
)
def test_decision_of_a_person(word: str | None, green: bool, red: bool, to: str) -> None:
    state = {"human_decision": word, "green": green, "red": ["t::x"] if red else []}
    assert routing.route_n6_human_review(state) == to


def test_the_end() -> None:
    assert routing.route_n7_merge({"merge_commit": "1" * 40}) == N8
    assert routing.route_n7_merge({"conflicts": [{}]}) == N6
    assert routing.route_n8_clean_up({}) == END


def test_the_table_is_whole() -> None:
    """Every node has its row, and no state leads where the table (and so the drawn graph) does not say."""
    assert tuple(ROUTES) == NODES == (N0, N1, N2, N3, N4, N5, N6, N7, N8)
    seen: dict[str, set[str]] = {name: set() for name in ROUTES}
    choices = itertools.product(
        (*EXIT_CODES, None), ([], ["veto"]), (False, True), (0, 3), (0, 3), (None, "approve", "abort", "retry"),
        (False, True), ([], ["t::x"]), (None, "error"), (None, "1" * 40),
    )  # fmt: skip
    for code, vetoes, collecting, scaffolds, retries, word, green, red, error, commit in choices:
        state = {
            "test_exit_code": code, "vetoes": vetoes, "collect_error": collecting, "scaffold_retry_count": scaffolds,
            "retry_count": retries, "human_decision": word, "green": green, "red": red, "error_message": error,
            "merge_commit": commit, "findings": vetoes,
        }  # fmt: skip
        for name, (route, _) in ROUTES.items():
            seen[name].add(route(state))
    assert {name: seen[name] for name in ROUTES} == {name: set(targets) for name, (_, targets) in ROUTES.items()}


def test_the_public_names() -> None:
    import git_agentos.tdd

    for route, _ in ROUTES.values():
        assert getattr(git_agentos.tdd, route.__name__) is route
