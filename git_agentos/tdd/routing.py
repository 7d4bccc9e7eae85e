"""Where the graph goes next: pure functions of the state, one for each node that has a choice.

The exit code of pytest decides. A veto can only take a yes back: an exit code that says no is never overruled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from git_agentos.tdd.state import (
    ABORT,
    APPROVE,
    BAD_USAGE,
    END,
    FAILED,
    INTERRUPTED,
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
    NOTHING_COLLECTED,
    PASSED,
    RETRY,
)

State = Mapping[str, Any]


def route_n0_load_context(state: State) -> str:
    """To the tests, once there is a worktree."""
    return N6 if state.get("error_message") else N1


def route_n1_scaffold_tests(state: State) -> str:
    """To the red gate; to a person where the model gave nothing that could be used."""
    return N6 if state.get("error_message") else N2


def route_n2_fail_gate(state: State) -> str:
    """Failed, and for the right reason: on to the code. Passed, nothing to run, or a faulty scaffold: once more, as
    long as there are retries. Anything else is for a person."""
    code = state.get("test_exit_code")
    vetoed = bool(state.get("vetoes"))
    if code == FAILED and not vetoed:
        return N3
    faulty = _can_be_mended(state, (PASSED, BAD_USAGE, NOTHING_COLLECTED), FAILED)
    return N1 if faulty and state.get("scaffold_retry_count", 0) < MAX_SCAFFOLD_RETRIES else N6


def route_n3_implement(state: State) -> str:
    """To the green gate; to a person where the model gave nothing that could be used."""
    return N6 if state.get("error_message") else N4


def route_n4_pass_gate(state: State) -> str:
    """Passed, and for the right reason: on to the audit. Failed, vetoed, or code that cannot be imported: once more, as
    long as there are retries. Anything else is for a person."""
    code = state.get("test_exit_code")
    vetoed = bool(state.get("vetoes"))
    if code == PASSED and not vetoed:
        return N5
    again = _can_be_mended(state, (FAILED,), PASSED)
    return N3 if again and state.get("retry_count", 0) < MAX_RETRIES else N6


def _can_be_mended(state: State, wrong: tuple[int, ...], right: int) -> bool:
    """Whether another try may help: a `wrong` exit code, the `right` one (or none) with a veto, or what cannot be
    imported."""
    code = state.get("test_exit_code")
    return (
        code in wrong
        or (code in (right, None) and bool(state.get("vetoes")))
        or (code == INTERRUPTED and bool(state.get("collect_error")))
    )


def route_n5_audit(state: State) -> str:
    """To a person; back to the code with what was found, as long as there are retries."""
    found = bool(state.get("findings"))
    return N3 if found and state.get("retry_count", 0) < MAX_RETRIES else N6


def route_n6_human_review(state: State) -> str:
    """As the person said. Work that is not green is never merged, whatever was said; another round of work that is
    begins with testing it again (the person may have changed it, or merged what it conflicted with)."""
    said = state.get("human_decision")
    if said == ABORT:
        return N8
    if said == APPROVE and state.get("green"):
        return N7
    if said == RETRY:
        return N4 if state.get("green") else N3 if state.get("red") else N1
    return N6


def route_n7_merge(state: State) -> str:
    """Merged: clean up. Otherwise (conflicts, a target that is in the way) back to the person."""
    return N8 if state.get("merge_commit") else N6


def route_n8_clean_up(state: State) -> str:  # noqa: ARG001 (as its siblings)
    """The end."""
    return END


# Each node, how it is left, and where it may go: the graph is drawn and built from this.
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
