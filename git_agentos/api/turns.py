"""`repo.turns`."""

from __future__ import annotations

from git_agentos.api.conversion import convert
from git_agentos.api.results import RevertResult, Turn
from git_agentos.guard import authorize
from git_agentos.turns import listing, revert
from git_agentos.workspace import Workspace


class Turns:
    """The turns of agents: what each did from one prompt to the next."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def list(
        self, *, session: str | None = None, all_worktrees: bool = False, limit: int | None = None
    ) -> tuple[Turn, ...]:
        """The turns of this worktree, of a session in any worktree, or of all worktrees; newest first."""
        found = listing.list_turns(self._workspace.context, session, every=all_worktrees, limit=limit)
        return tuple(convert(Turn, each) for each in found.turns)

    def revert(self, turn: str, *, markers: bool = False, dry_run: bool = False) -> RevertResult:
        """Take back what a turn changed, and keep later edits. If these conflict with that, nothing is changed, or with
        `markers` the files have conflict markers."""
        done = _revert(self._workspace, turn, conflict=revert.MARKERS if markers else None, dry_run=dry_run)
        return convert(RevertResult, done)


@authorize.entry("revert")
def _revert(workspace: Workspace, turn: str, *, conflict: str | None, dry_run: bool = False) -> revert.Revert:
    return revert.revert(workspace.context, turn, conflict=conflict, dry_run=dry_run)
