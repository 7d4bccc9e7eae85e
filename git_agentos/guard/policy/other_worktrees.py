"""Other worktrees: whether a command changes one that is not the caller's own."""

from __future__ import annotations

from git_agentos.guard import ownership
from git_agentos.guard.policy.analysis import Analysis

# What changes a worktree: its files, its index, what it has checked out, or its own configuration. (Stash entries have
# their makers; branches and tags are everybody's.)
_OF_WORKTREE = frozenset(
    "add commit stash stash-apply stash-other switch revert apply reset-index checkout-paths remove move abort "
    "continue bisect submodule-update sparse-widen config-set merge rebase cherry-pick pull am commit-amend reset-soft "
    "reset-mixed reset-hard reset-merge reset-keep skip remove-force move-force clean clean-interactive clean-unforced "
    "checkout-merge checkout-conflict checkout-interactive checkout-force checkout-dirty switch-shared index-rewrite "
    "index-flags submodule-change submodule-force read-tree checkout-index sparse-checkout branch-reset symbolic-ref "
    "config-guard".split()
)


def is_changed(analysis: Analysis) -> bool:
    """Whether a command that was read changes another's worktree."""
    names = {operation.name for operation in analysis.operations} - {"look"}
    changes = not names.isdisjoint(_OF_WORKTREE) or (bool(names) and analysis.command in ("switch", "checkout"))
    caller = analysis.caller
    return (
        changes
        and caller is not None
        and caller.identity.agent is not None
        and any(ownership.is_others(caller, each) for each in analysis.facts.changed_worktrees)
    )
