"""What was found out about a git command -> a judgement: decided once, and what a checkpoint must hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation, SaveScope, stricter
from git_agentos.guard.identity import Identity
from git_agentos.guard.policy import effects, operations
from git_agentos.guard.policy.analysis import Analysis
from git_agentos.guard.policy.facts import Facts

_LOOK = "look"
# Those after which HEAD may be at another commit than before, beside one that is made on top of it.
_LEAVES_HEAD = frozenset(
    {each.name for each in operations.OPERATIONS.values() if each.effect in (effects.OWN_HISTORY, effects.UNKNOWN)}
    | {"switch", "stash-apply", "symbolic-ref", "branch-reset", "branch-force", "ref-rewrite", "branch-move", "agentos"}
) - {"commit", "commit-amend"}


def conclude(
    found: Sequence[Operation],
    inner: Sequence[Assessment],
    analysis: Analysis | None,
    identity: Identity,
    settings: GuardSettings,
    facts: Facts,
) -> Assessment:
    """The judgement of a git command that does all of `found`, and runs the commands judged in `inner`.

    `reading` is what its family noted, None where it has none; `facts` are of where it works.
    """
    real = [each for each in found if each.name != _LOOK]
    names = [name for each in inner for name in each.decision.operations if name != _LOOK]
    if identity.agent is None and not settings.everyone:
        return Assessment(Decision(ALLOW, list(dict.fromkeys([*(each.name for each in real), *names])) or [_LOOK]))
    recoverable = frozenset(each for each in real if _is_eased(each, analysis, settings))
    real = real or ([] if names else [Operation(_LOOK)])
    decision = _joined([operations.decide(real, settings, recoverable=recoverable), *(each.decision for each in inner)])
    all_eased = all(each in recoverable or operations.OPERATIONS[each.name].default == ALLOW for each in real)
    losing = [
        operations.OPERATIONS[name] for name in (*(each.name for each in real), *names) if name in operations.OPERATIONS
    ]
    losing = [each for each in losing if each.default != ALLOW]
    save = _save(analysis, inner, any(each.saves for each in losing), all_eased=all_eased)
    unsaved = analysis is not None and analysis.unsavable
    unsaved |= any(not each.fully_saved for each in inner if each.decision.decision != ALLOW)
    fully_saved = save is not None and not unsaved and all(each.fully_saved for each in losing)
    relies = decision.decision == ALLOW and (bool(recoverable) or any(each.relies_on_checkpoint for each in inner))
    if identity.agent is None:
        decision, relies = Decision(ALLOW, decision.operations), False
    root = facts.root if decision.decision != ALLOW or save else None
    return Assessment(decision, save, fully_saved, root, relies, tuple(found), _leaves_head(found, inner, analysis))


def _is_eased(operation: Operation, analysis: Analysis | None, settings: GuardSettings) -> bool:
    """Whether it is allowed because a checkpoint brings back all that it takes away from the agent's own worktree."""
    return (
        analysis is not None
        and not analysis.unsavable
        and operations.is_recoverable(operation, settings)
        and analysis.own.is_own_worktree
    )


def _save(analysis: Analysis | None, inner: Sequence[Assessment], wanted: bool, *, all_eased: bool) -> SaveScope | None:
    """What is to be saved before the command; `wanted` where its operations want it."""
    saved = analysis.save_scope if analysis is not None else None
    if saved is None and wanted:
        saved = SaveScope()
    elif saved is not None and not all_eased:
        # What an operation that is not understood that far may change is not known.
        saved = saved._replace(touches=None)
    saves = [each for each in (saved, *(each.save for each in inner)) if each is not None]
    return functools.reduce(SaveScope.joined, saves) if saves else None


def _joined(decisions: Sequence[Decision]) -> Decision:
    """The strictest of these, with the operations of all."""
    worst = decisions[0]
    for each in decisions[1:]:
        if stricter(each.decision, worst.decision) != worst.decision:
            worst = each
    names = (name for each in (worst, *decisions) for name in each.operations if name != _LOOK)
    return replace(worst, operations=list(dict.fromkeys(names)) or [_LOOK])


def _leaves_head(found: Sequence[Operation], inner: Sequence[Assessment], analysis: Analysis | None) -> bool:
    return (
        bool(inner)
        or (analysis is not None and analysis.moves_head)
        or any(each.name in _LEAVES_HEAD for each in found)
    )
