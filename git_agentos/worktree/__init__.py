"""Agents' worktrees: how they are created, inspected, merged, removed and repaired.

record, journal    the record of a worktree; the journal of an operation on it, by which a killed one is recovered
layout             where worktrees are, and what is in the way of a new one
base               which commit a new one begins at; whether its commits are in the base later
status             the state of all worktrees
guarded            the guard of a worktree, by its id

base_fetch         fetching the base of a new worktree first, where that follows a branch of a remote
creation           the commands that create one; `new_worktree` does it, `creation_recovery` aborts it
link               large ignored folders in a new worktree (`agentos.link`); `file_copies`: copying files into one
user_command       the user's commands that are run in a worktree, `agentos.setup` and `agentos.teardown`
changes            uncommitted changes that a new one begins with
setup              what a checkout does not bring: copied files, submodules, the set-up command
ports              a block of ports for each worktree
pool               worktrees that are prepared in advance; `pool_filling` does that in the background
revival            creating one again in its last state
of_harness         those that an agent's program makes for itself, and removes

agent_branch       what an agent has committed
agent_merge        merging that into a branch; `conflicts`: which branches conflict
fast_forward       moving a branch, with the worktree that has it checked out; `local_changes`: what is in the way
                   `fast_forward_recovery`: aborting it, and finishing one that was killed
base_update        `worktree sync`: branches are brought up to a moved base; `replay` does it by rebasing
completion         `worktree complete`: the merge request

removal            archive and remove: `teardown`, `removal_checks`, then `final_checkpoint`, which saves `losses`, too
activity           whether something has happened in one
notices            telling `agentos.notify` that one is idle, or that branches conflict
cleanup            `worktree cleanup`: which worktrees are not needed any more
submodules, trash  what happens to submodules; where removed folders go; `discard` removes one that is saved elsewhere

repair             back to a sound state after a kill, a move or a power cut
entry_checks       the checks of one worktree; `pruned`: worktrees without an entry
index_repair       rebuilding an index; `damaged` moves damaged files away
"""

from __future__ import annotations

from types import ModuleType

# The documented names of modules that are called otherwise by now (docs/api.md).
_ALIASES = {
    "archive": "removal",
    "complete": "completion",
    "create": "creation",
    "merge": "agent_merge",
    "remove": "removal",
    "survey": "status",
}


def __getattr__(name: str) -> ModuleType:
    if name not in _ALIASES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"{__name__}.{_ALIASES[name]}")
