"""The end of an assessment: what was read of a git command -> one decision, and what a checkpoint must hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from git_agentos.guard.assessment.git_command import LOOK, GitCommandReader
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation, SaveScope, strictest
from git_agentos.guard.policy import effects, operations
from git_agentos.guard.policy.analysis import Analysis
from git_agentos.guard.policy.operations import OPERATIONS

# After these HEAD may be at another commit than before. A commit that is made on top of it does not count.
_MOVES_HEAD = frozenset(
    {each.name for each in OPERATIONS.values() if each.effect in (effects.OWN_HISTORY, effects.UNKNOWN)}
    | {"switch", "stash-apply", "symbolic-ref", "branch-reset", "branch-force", "ref-rewrite", "branch-move", "agentos"}
) - {"commit", "commit-amend"}


def conclude(reader: GitCommandReader, inner: Sequence[Assessment]) -> Assessment:
    """The assessment of the command that `reader` has read, and of the commands that it runs."""
    analysis = reader.analysis
    if reader.only_reads and not (analysis is not None and analysis.needs_checkpoint):
        known = reader.known_settings
        if known is None or LOOK.name not in known.policy:
            return Assessment(Decision(ALLOW, [LOOK.name]))
    settings = reader.settings
    changing = [each for each in reader.operations if each.name != LOOK.name]
    inner_names = [name for each in inner for name in each.decision.operations if name != LOOK.name]
    names = [*(each.name for each in changing), *inner_names]
    is_person = reader.identity.agent is None
    if is_person and not settings.everyone:
        return Assessment(Decision(ALLOW, list(dict.fromkeys(names)) or [LOOK.name]))
    recoverable = frozenset(each for each in changing if _is_recoverable(each, analysis, settings))
    decided = changing or ([] if inner_names else [LOOK])
    own_decision = operations.decide(decided, settings, recoverable=recoverable)
    decision = _without_look(strictest([own_decision, *(each.decision for each in inner)]))
    losing = [OPERATIONS[name] for name in names if name in OPERATIONS and OPERATIONS[name].default != ALLOW]
    is_limited = all(each in recoverable or OPERATIONS[each.name].default == ALLOW for each in changing)
    save = _save_scope(analysis, inner, any(each.saves for each in losing), is_limited=is_limited)
    is_unsavable = (analysis is not None and analysis.unsavable) or any(
        not each.fully_saved for each in inner if each.decision.decision != ALLOW
    )
    fully_saved = save is not None and not is_unsavable and all(each.fully_saved for each in losing)
    relies = decision.decision == ALLOW and (bool(recoverable) or any(each.relies_on_checkpoint for each in inner))
    if is_person:
        decision, relies = Decision(ALLOW, decision.operations), False
    root = reader.facts.root if decision.decision != ALLOW or save else None
    moves_head = (
        bool(inner)
        or (analysis is not None and analysis.moves_head)
        or any(each.name in _MOVES_HEAD for each in reader.operations)
    )
    return Assessment(decision, save, fully_saved, root, relies, tuple(reader.operations), moves_head)


def _is_recoverable(operation: Operation, analysis: Analysis | None, settings: GuardSettings) -> bool:
    """Whether a checkpoint can restore all that the operation takes away from the agent's own worktree."""
    return (
        analysis is not None
        and not analysis.unsavable
        and operations.is_recoverable(operation, settings)
        and analysis.own.is_own_worktree
    )


def _save_scope(
    analysis: Analysis | None, inner: Sequence[Assessment], wanted: bool, *, is_limited: bool
) -> SaveScope | None:
    """What must be saved before the command. `wanted`: the operations want a checkpoint. `is_limited`: all of them are
    understood well enough to know which files they change."""
    own = analysis.save_scope if analysis is not None else None
    if own is None and wanted:
        own = SaveScope()
    elif own is not None and not is_limited:
        own = own._replace(touches=None)
    scopes = [each for each in (own, *(each.save for each in inner)) if each is not None]
    return functools.reduce(SaveScope.joined, scopes) if scopes else None


def _without_look(decision: Decision) -> Decision:
    """The same decision; that a command also reads something is said only where it does nothing else."""
    names = [name for name in decision.operations if name != LOOK.name]
    return replace(decision, operations=names or [LOOK.name])
