"""What is around the work of each node: checkpoints and record before and after, and who is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import trees
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.node_run import Begun, Done, Site, Stopped
from git_agentos.tdd.routing import ROUTES
from git_agentos.tdd.state import N1, N3, ImplementationState

Update = dict[str, Any]
Node = Callable[[Site, ImplementationState], Update]


def do(site: Site, state: ImplementationState, node: str, work: Callable[[Begun], Done], command: str | None) -> Update:
    """Do a node's work between two checkpoints, and put it on record."""
    if site.stop():
        raise Stopped
    site.listener.node_begins(state, node)
    begun = sites.begin(site, state, node, command)
    try:
        done = work(begun)
    except OSError:
        site.evidence().check()  # where its folder is gone, that is why
        raise
    if site.stop():
        raise Stopped
    next_ = ROUTES[node][0]({**state, **done.update})
    told, tree = sites.end(begun, done, next_)
    if node in (N1, N3):
        done.update["changed_files"] = changed_since(begun.here, state["base_sha"], tree)
    site.listener.node_ended(_after(state, done.update), told)
    return {**done.update, "history": [told]}


def ended(
    site: Site,
    state: ImplementationState,
    node: str,
    update: Update,
    summary: str,
    began: float,
    **more: Any,
) -> Update:
    """Put a node on record that is no step."""
    next_ = ROUTES[node][0]({**state, **update})
    told = sites.plain(state, node, summary, next_, began, **more)
    site.listener.node_ended(_after(state, update), told)
    return {**update, "history": [told]}


def _after(state: ImplementationState, update: Update) -> ImplementationState:
    return {**state, **update}  # type: ignore[typeddict-item]  # the keys are those of the state


def changed_since(here: OpenWorktree, base: str, tree: str) -> list[str]:
    """The paths in which a tree of visible files differs from the base."""
    found = trees.diff(here.repository, here.repository.commit_tree(base), tree)
    return [os.fsdecode(path) for path in sorted(found)]


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def tell(site: Site, kind: str, **fields: Any) -> None:
    """An event, unless it is there: a node may be done again."""
    kept = site.evidence()
    if not any(each["event"] == kind for each in kept.events()):
        kept.event(kind, **fields)
