"""The outcomes of the tests of a run, as `plugin` recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.redact import redact

PASSED, FAILED, ERROR, SKIPPED, XFAILED = "passed", "failed", "error", "skipped", "xfailed"

_MAX_MESSAGE = 500
# A test may be reported twice (it failed, and so did its fixture afterwards): the outcome that comes last here counts.
_PRECEDENCE = (PASSED, XFAILED, SKIPPED, ERROR, FAILED)


@dataclass(frozen=True)
class Case:
    """One test that was run, or one file that was not collected: pytest's node id, the outcome (`failed`: in its call;
    `error`: in a fixture or while collecting), and the first line of its message. `path` is relative to the worktree.
    """

    node_id: str
    path: str
    outcome: str
    message: str
    collecting: bool = False


def read_cases(recorded: Sequence[Any]) -> tuple[Case, ...] | None:
    """The cases that the plugin recorded, one for each node id; None if that is not what it writes."""
    cases: dict[str, Case] = {}
    try:
        for node_id, outcome, message, collecting in recorded:
            line = next((each.strip() for each in message.splitlines() if each.strip()), "")
            case = Case(node_id, node_id.partition("::")[0], outcome, redact(line)[0][:_MAX_MESSAGE], bool(collecting))
            earlier = cases.setdefault(node_id, case)
            if _PRECEDENCE.index(outcome) > _PRECEDENCE.index(earlier.outcome):
                cases[node_id] = case
    except (ValueError, TypeError, AttributeError):
        return None
    return tuple(cases.values())
