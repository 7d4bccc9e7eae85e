"""The canonical operations: what is decided about each unless configuration says otherwise, and the texts for messages.

The table (`operation_table`) is the one list of names: keys of `agentos.policy.<operation>`, rows of
docs/guard-operations.md (a test compares them), what the modules in `commands` may add, and the operations of other
programs (`assessment.shell_text`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, RANK, Decision, Operation
from git_agentos.guard.operation_table import ALLOWED, APPROVED, EFFECTS, FORBIDDEN
from git_agentos.guard.policy import effects


class OperationSpec(NamedTuple):
    """One operation. `covers` are commands that are one, `reason` says what it does to work, `instead` the safe
    command; `saves`: a checkpoint is created first, `fully_saved`: it holds all that could be lost; `effect` is what
    the operation changes (`policy.effects`)."""

    name: str
    default: str
    saves: bool
    fully_saved: bool
    covers: str
    reason: str
    instead: str
    effect: str


def _table() -> dict[str, OperationSpec]:
    found = {}
    effect_of = _effects()
    for default, text in ((ALLOW, ALLOWED), (APPROVE, APPROVED), (FORBID, FORBIDDEN)):
        for line in text.strip().splitlines():
            name, kind, covers, reason, instead = (part.strip() for part in f"{line} ".split(" | ", 4))
            found[name] = OperationSpec(
                name, default, kind != "n", kind == "y", covers, reason, instead, effect_of.get(name, effects.UNKNOWN)
            )
    return found


def _effects() -> dict[str, str]:
    rows = (line.split() for line in EFFECTS.strip().splitlines())
    return {name: effect for effect, *names in rows for name in names}


OPERATIONS = _table()


def rule_for(name: str, settings: GuardSettings | None, *, recoverable: bool = False) -> tuple[str, str]:
    """What is decided about one operation, and by what: its own name, or the configuration key that says so. A
    `recoverable` operation (`is_recoverable`) is allowed."""
    rule = settings.policy.get(name) if settings is not None else None
    if rule is not None:
        return rule.decision, rule.key
    return ALLOW if recoverable else OPERATIONS[name].default, name


def is_recoverable(operation: Operation, settings: GuardSettings) -> bool:
    """Whether an operation in an agent's own worktree is allowed because a checkpoint brings everything back."""
    known = OPERATIONS[operation.name]
    return (
        known.default != ALLOW
        and operation.name not in settings.policy
        and effects.is_recoverable(
            known.effect,
            fully_saved=known.fully_saved and settings.auto_on("beforeRisky"),
            own=operation.own,
            limited=operation.limited,
            preset=settings.preset,
        )
    )


def decide_by_name(names: Iterable[str], settings: GuardSettings | None) -> tuple[str, str | None]:
    """The strictest decision about operations, and what decides it; allowed without a rule if there are none."""
    return _strictest([rule_for(name, settings) for name in names])


def _strictest(found: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    worst = max(found, key=lambda each: RANK[each[0]], default=None)
    if worst is None:
        return ALLOW, None
    return worst[0], worst[1] if worst[0] != ALLOW or "." in worst[1] else None


def decide(
    operations: Sequence[Operation],
    settings: GuardSettings | None,
    *,
    reason: str | None = None,
    instead: str | None = None,
    recoverable: Container[Operation] = (),
) -> Decision:
    """What is decided about a command that does all of `operations`. The strictest of them gives the reason, unless one
    is given. Operations in `recoverable` are allowed unless configuration says otherwise."""

    def about(each: Operation) -> tuple[str, str]:
        return rule_for(each.name, settings, recoverable=each in recoverable)

    ordered = sorted(
        dict.fromkeys(operations),
        key=lambda each: (-RANK[about(each)[0]], -RANK[OPERATIONS[each.name].default]),
    )
    decided, rule = _strictest([about(each) for each in ordered])
    names = list(dict.fromkeys(each.name for each in ordered))
    if decided == ALLOW:
        return Decision(decided, names, rule)
    worst = OPERATIONS[ordered[0].name]
    subject = f" ({ordered[0].subject})" if ordered[0].subject else ""
    return Decision(decided, names, rule, reason or worst.reason + subject, instead or worst.instead or None)
