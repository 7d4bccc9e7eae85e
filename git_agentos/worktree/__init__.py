"""Agents' worktrees: how they are created, inspected, merged and removed.

record, journal        what is written down of a worktree, and of an operation that is going on in it
layout, setup          where worktrees are, and what makes them ready for work
creation               the commands that create a worktree; new_worktree does it, or takes one from the pool
revival                creating a worktree again from its last checkpoint
status                 the state of worktrees
agent_branch           what an agent has committed
agent_merge            merging that into a branch
fast_forward           moving a branch, with the worktree that has it checked out
local_changes          what no commit has and a merge would overwrite
conflicts              which agents' branches conflict
completion             the merge request
removal                archive and remove, which save everything first
repair                 back to a sound state after a kill, a move or a power cut
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
