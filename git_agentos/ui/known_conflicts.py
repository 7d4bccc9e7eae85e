"""Who conflicts with whom, for all views: looked for once, and again only when a commit or an agent is another one."""

from __future__ import annotations

import threading

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.worktree import agent_branch, conflicts
from git_agentos.worktree.conflicts import Conflicts


class KnownConflicts:
    """It may be used by several threads: one that asks while another one looks waits for what that finds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: object = None
        self._found: Conflicts | None = None

    def find(self, context: OpenWorktree) -> Conflicts:
        """The conflicts of all agents, as `worktree conflicts` has them; the same object as long as they are the same.
        It may take seconds: pairs are merged in memory."""
        with self._lock:
            agents, left_out = agent_branch.readable_agents(context)
            heads = ({each.id: each.commit for each in agents}, tuple(left_out))
            if self._found is None or heads != self._heads:
                self._found, self._heads = conflicts.conflicts(context), heads
            return self._found


def number_of_each(found: Conflicts) -> dict[str, int]:
    """With how many others each agent conflicts."""
    number = dict.fromkeys((each.id for each in found.agents), 0)
    for pair in found.pairs:
        for id_ in (pair.a, pair.b):
            number[id_] = number.get(id_, 0) + 1
    return number
