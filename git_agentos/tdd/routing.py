"""Which node is next: pure functions of the state, one for each node.

The exit code of pytest decides. A veto can refuse what it accepts, and never accepts what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from git_agentos.tdd.state import (
    ABORT,
    APPROVE,
    END,
    MAX_RETRIES,
    MAX_SCAFFOLD_RETRIES,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    RETRY,
    ExitCode,
)

State = Mapping[str, Any]


def route_n0_load_context(state: State) -> str:
    """N1, once there is a worktree."""
    return N6 if state.get("error_message") else N1


def route_n1_scaffold_tests(state: State) -> str:
    """N2, the red gate; N6 if the model gave nothing usable."""
    return N6 if state.get("error_message") else N2


def route_n2_fail_gate(state: State) -> str:
    """N3 if the tests failed for the right reason. N1 if they passed, if there are none, or if they are faulty, as long
    as there are retries. N6 for anything else."""
    if state.get("test_exit_code") == ExitCode.FAILED and not state.get("vetoes"):
        return N3
    wrong = (ExitCode.PASSED, ExitCode.BAD_USAGE, ExitCode.NOTHING_COLLECTED)
    retry = _can_be_retried(state, wrong, ExitCode.FAILED)
    return N1 if retry and state.get("scaffold_retry_count", 0) < MAX_SCAFFOLD_RETRIES else N6


def route_n3_implement(state: State) -> str:
    """N4, the green gate; N6 if the model gave nothing usable."""
    return N6 if state.get("error_message") else N4


def route_n4_pass_gate(state: State) -> str:
    """N5 if the tests passed without a veto. N3 if they failed, were vetoed, or the code cannot be imported, as long as
    there are retries. N6 for anything else."""
    if state.get("test_exit_code") == ExitCode.PASSED and not state.get("vetoes"):
        return N5
    retry = _can_be_retried(state, (ExitCode.FAILED,), ExitCode.PASSED)
    return N3 if retry and state.get("retry_count", 0) < MAX_RETRIES else N6


def _can_be_retried(state: State, wrong: tuple[int, ...], right: int) -> bool:
    """Whether another attempt may help: after a `wrong` exit code, the `right` one (or none) with a veto, or an error
    while collecting."""
    code = state.get("test_exit_code")
    return (
        code in wrong
        or (code in (right, None) and bool(state.get("vetoes")))
        or (code == ExitCode.INTERRUPTED and bool(state.get("collect_error")))
    )


def route_n5_audit(state: State) -> str:
    """N6; N3 with the findings, as long as there are retries."""
    return N3 if state.get("findings") and state.get("retry_count", 0) < MAX_RETRIES else N6


def route_n6_human_review(state: State) -> str:
    """As the person decided. Work that is not green is never merged. A retry of green work begins with the green gate:
    the person may have changed it, or merged what it conflicted with."""
    decision = state.get("human_decision")
    if decision == ABORT:
        return N8
    if decision == APPROVE and state.get("green"):
        return N7
    if decision == RETRY:
        return N4 if state.get("green") else N3 if state.get("red") else N1
    return N6


def route_n7_merge(state: State) -> str:
    """N8 if it was merged; N6 if not (conflicts, files in the way)."""
    return N8 if state.get("merge_commit") else N6


def route_n8_clean_up(state: State) -> str:  # noqa: ARG001 (as its siblings)
    """The end."""
    return END


# Each node with its route and the nodes that may be next: the graph is built and drawn from this.
ROUTES: Mapping[str, tuple[Callable[[State], str], tuple[str, ...]]] = {
    N0: (route_n0_load_context, (N1, N6)),
    N1: (route_n1_scaffold_tests, (N2, N6)),
    N2: (route_n2_fail_gate, (N3, N1, N6)),
    N3: (route_n3_implement, (N4, N6)),
    N4: (route_n4_pass_gate, (N5, N3, N6)),
    N5: (route_n5_audit, (N6, N3)),
    N6: (route_n6_human_review, (N7, N8, N6, N1, N3, N4)),
    N7: (route_n7_merge, (N8, N6)),
    N8: (route_n8_clean_up, (END,)),
}
