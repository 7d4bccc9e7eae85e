"""`repo.worktrees`."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.api.conversion import convert
from git_agentos.api.results import (
    CleanupResult,
    ConflictReport,
    MergeResult,
    RemovalResult,
    WorktreeStatus,
    WorktreeSyncResult,
)
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace


class Worktrees:
    """The agents' worktrees of the repository."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def create(  # noqa: PLR0913 - the options of the command, documented
        self,
        worktree_id: str,
        *,
        from_ref: str | None = None,
        task_id: str | None = None,
        sparse: Sequence[str] = (),
        guard: bool = True,
        fetch: bool | None = None,
        with_changes: bool = False,
    ) -> WorktreeStatus:
        """Create a worktree on its branch `agent/<id>`, at `from_ref` or HEAD, with a first checkpoint.

        `sparse` are the folders to check out, all by default. `fetch`: whether the base is fetched first, if it follows
        a branch of a remote; None: if the last fetch is 15 minutes old. `with_changes` carries the uncommitted changes
        of this worktree along, which stay here, too. After an error, nothing is left behind.
        """
        from git_agentos.worktree import creation

        context = self._workspace.context
        made = creation.create(
            context,
            worktree_id,
            from_ref=from_ref,
            task=task_id,
            sparse=list(sparse),
            guard=guard,
            fetch=fetch,
            with_changes=with_changes,
        )
        return convert(WorktreeStatus, made)

    def revive(self, worktree_id: str, *, guard: bool = True, host: str | None = None) -> WorktreeStatus:
        """Create an archived or removed worktree again, as it was; with `host`, one of that host, in its last state
        that was fetched."""
        from git_agentos.worktree import creation

        made = creation.create(self._workspace.context, worktree_id, revive=True, guard=guard, host=host)
        return convert(WorktreeStatus, made)

    def list(self) -> tuple[WorktreeStatus, ...]:
        """All agents' worktrees, archived ones included."""
        from git_agentos.worktree import status

        found = status.list_worktrees(self._workspace.context).worktrees
        return tuple(convert(WorktreeStatus, each) for each in found)

    def show(self, worktree_id: str) -> WorktreeStatus:
        """One agent's worktree. WorktreeError if there is none with that id."""
        from git_agentos.worktree import status

        return convert(WorktreeStatus, status.show(self._workspace.context, worktree_id))

    def conflicts(self, worktree_ids: Sequence[str] = (), *, uncommitted: bool = False) -> ConflictReport:
        """Which branches of all agents, or of these, conflict; with `uncommitted`, which of their latest
        checkpoints."""
        from git_agentos.worktree import conflicts

        return convert(ConflictReport, conflicts.conflicts(self._workspace.context, worktree_ids, dirty=uncommitted))

    def merge(
        self, worktree_ids: Sequence[str], *, into: str | None = None, squash: bool = False, dry_run: bool = False
    ) -> MergeResult:
        """Merge the committed work of agents into a branch, by default HEAD's: all of them or none.

        With `conflicts` in the result, nothing was changed.
        """
        from git_agentos.worktree import agent_merge

        if isinstance(worktree_ids, str):
            raise UsageError("'worktree_ids' is a sequence of ids")
        done = agent_merge.merge(self._workspace.context, worktree_ids, into=into, squash=squash, dry_run=dry_run)
        return convert(MergeResult, done)

    def sync(
        self,
        worktree_ids: Sequence[str] = (),
        *,
        all_worktrees: bool = False,
        rebase: bool = False,
        dry_run: bool = False,
    ) -> WorktreeSyncResult:
        """Bring agents' branches up to their bases, by a merge or a rebase: those named, all, or this worktree's.

        A worktree with a conflict stays as it was. `undo` in a worktree undoes its sync.
        """
        from git_agentos.worktree import base_update

        if isinstance(worktree_ids, str):
            raise UsageError("'worktree_ids' is a sequence of ids")
        context = self._workspace.context
        done = base_update.sync(context, worktree_ids, all_=all_worktrees, rebase=rebase, dry_run=dry_run)
        return convert(WorktreeSyncResult, done)

    def cleanup(self, *, dry_run: bool = False) -> CleanupResult:
        """Archive the worktrees that are merged, complete or idle; branches that are in their base are deleted."""
        from git_agentos.worktree import cleanup

        return convert(CleanupResult, cleanup.cleanup(self._workspace.context, dry_run=dry_run))

    def archive(self, worktree_id: str, *, teardown: bool = True) -> RemovalResult:
        """Remove a worktree after a checkpoint of everything in it; its branch is kept, and `revive` restores it."""
        from git_agentos.worktree import removal

        return convert(RemovalResult, removal.archive(self._workspace.context, worktree_id, run_teardown=teardown))

    def remove(
        self, worktree_id: str, *, delete_branch: bool = False, discard_ignored: bool = False, teardown: bool = True
    ) -> RemovalResult:
        """Remove a worktree that is not needed any more, after a checkpoint of everything in it."""
        from git_agentos.worktree import removal

        done = removal.remove(
            self._workspace.context,
            worktree_id,
            delete_branch=delete_branch,
            discard_ignored=discard_ignored,
            run_teardown=teardown,
        )
        return convert(RemovalResult, done)
