"""What was found out about a git command -> a judgement: decided once, and what a checkpoint must hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from git_agentos.guard.decision import ALLOW, Decision, Judgement, Operation, Save, worse
from git_agentos.guard.identity import Who
from git_agentos.guard.policy import effects, operations
from git_agentos.guard.policy.facts import Facts
from git_agentos.guard.policy.reading import Reading
from git_agentos.guard.settings import GuardSettings

_LOOK = "look"
# Those after which HEAD may be at another commit than before, beside one that is made on top of it.
_LEAVES_HEAD = frozenset(
    {each.name for each in operations.TABLE.values() if each.effect in (effects.OWN_HISTORY, effects.UNKNOWN)}
    | {"switch", "stash-apply", "symbolic-ref", "branch-reset", "branch-force", "ref-rewrite", "branch-move", "agentos"}
) - {"commit", "commit-amend"}


def conclude(
    found: Sequence[Operation],
    inner: Sequence[Judgement],
    reading: Reading | None,
    who: Who,
    settings: GuardSettings,
    facts: Facts,
) -> Judgement:
    """The judgement of a git command that does all of `found`, and runs the commands judged in `inner`.

    `reading` is what its family noted, None where it has none; `facts` are of where it works.
    """
    real = [each for each in found if each.name != _LOOK]
    names = [name for each in inner for name in each.decision.operations if name != _LOOK]
    if who.agent is None and not settings.everyone:
        return Judgement(Decision(ALLOW, list(dict.fromkeys([*(each.name for each in real), *names])) or [_LOOK]))
    eased = frozenset(each for each in real if _is_eased(each, reading, settings))
    real = real or ([] if names else [Operation(_LOOK)])
    decision = _joined([operations.decision(real, settings, eased=eased), *(each.decision for each in inner)])
    all_eased = all(each in eased or operations.TABLE[each.name].default == ALLOW for each in real)
    losing = [operations.TABLE[name] for name in (*(each.name for each in real), *names) if name in operations.TABLE]
    losing = [each for each in losing if each.default != ALLOW]
    save = _save(reading, inner, any(each.saves for each in losing), all_eased=all_eased)
    unsaved = reading is not None and reading.unsaved
    unsaved |= any(not each.savable for each in inner if each.decision.decision != ALLOW)
    savable = save is not None and not unsaved and all(each.savable for each in losing)
    relies = decision.decision == ALLOW and (bool(eased) or any(each.relies_on_save for each in inner))
    if who.agent is None:
        decision, relies = Decision(ALLOW, decision.operations), False
    root = facts.root if decision.decision != ALLOW or save else None
    return Judgement(decision, save, savable, root, relies, tuple(found), _leaves_head(found, inner, reading))


def _is_eased(operation: Operation, reading: Reading | None, settings: GuardSettings) -> bool:
    """Whether it is allowed because a checkpoint brings back all that it takes away from the agent's own worktree."""
    return (
        reading is not None
        and not reading.unsaved
        and operations.is_eased(operation, settings)
        and reading.own.worktree
    )


def _save(reading: Reading | None, inner: Sequence[Judgement], wanted: bool, *, all_eased: bool) -> Save | None:
    """What is to be saved before the command; `wanted` where its operations want it."""
    saved = reading.saved if reading is not None else None
    if saved is None and wanted:
        saved = Save()
    elif saved is not None and not all_eased:
        # What an operation that is not understood that far may change is not known.
        saved = saved._replace(touches=None)
    saves = [each for each in (saved, *(each.save for each in inner)) if each is not None]
    return functools.reduce(Save.joined, saves) if saves else None


def _joined(decisions: Sequence[Decision]) -> Decision:
    """The strictest of these, with the operations of all."""
    worst = decisions[0]
    for each in decisions[1:]:
        if worse(each.decision, worst.decision) != worst.decision:
            worst = each
    names = (name for each in (worst, *decisions) for name in each.operations if name != _LOOK)
    return replace(worst, operations=list(dict.fromkeys(names)) or [_LOOK])


def _leaves_head(found: Sequence[Operation], inner: Sequence[Judgement], reading: Reading | None) -> bool:
    return (
        bool(inner) or (reading is not None and reading.leaves_head) or any(each.name in _LEAVES_HEAD for each in found)
    )
