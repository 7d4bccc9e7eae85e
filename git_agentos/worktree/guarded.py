"""The guard of one of the repository's worktrees, by its id."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import WorktreeError
from git_agentos.git import version
from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.guard.diagnosis import checks
from git_agentos.guard.diagnosis.checks import GuardStatus
from git_agentos.guard.setup import activation
from git_agentos.watch import automatic


@authorize.entry("guard", "enable")
def switch_on(context: OpenWorktree, id_: str | None, environment: Mapping[str, str]) -> GuardStatus:
    """Enable the guard in the worktree `id_`, or in that of `context`; its status then."""
    location = find(context, id_)
    version.require(version.read(location.root))
    activation.enable(location)
    automatic.start_for(location, context.settings.values, environment)
    return checks.guard_status(location, environment)


@authorize.entry("guard", "disable")
def switch_off(context: OpenWorktree, id_: str | None, environment: Mapping[str, str]) -> GuardStatus:
    """Disable the guard in a worktree; its status then."""
    location = find(context, id_)
    activation.disable(location)
    return checks.guard_status(location, environment)


def status(context: OpenWorktree, id_: str | None, environment: Mapping[str, str]) -> GuardStatus:
    """How a worktree is guarded, found out by trying."""
    return checks.guard_status(find(context, id_), environment)


def find(context: OpenWorktree, id_: str | None) -> Location:
    """The worktree with this id, an agent's or not; WorktreeError where there is none, or its folder is missing."""
    if id_ is None:
        return context.location
    for each in context.all_worktrees():
        if timeline.worktree_id(each) == id_:
            return each
    raise WorktreeError(f"there is no worktree '{id_}'", "git agentos worktree list shows them")
