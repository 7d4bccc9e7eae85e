"""`repo.remotes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from git_agentos.api.conversion import convert
from git_agentos.api.results import SyncResult, SyncStatus
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace


class SyncObserver(Protocol):
    """Is called with the progress of a transfer."""

    def begins(self, what: str, /) -> None:
        """A part begins: asking the remote, searching, pushing, fetching."""

    def output(self, line: str, /) -> None:
        """git has written a line of its progress."""


class Remotes:
    """The git remotes by which checkpoints come to other clones of the repository, and theirs here.

    A remote is named as git names it; by default it is `agentos.sync.remote`, `origin`, or the only one.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def sync(  # noqa: PLR0913 - the options of the command, documented
        self,
        remote: str | None = None,
        *,
        push: bool = True,
        fetch: bool = True,
        worktree_id: str | None = None,
        all_worktrees: bool = False,
        last: int | None = None,
        allow: Sequence[str] = (),
        dry_run: bool = False,
        observer: SyncObserver | None = None,
    ) -> SyncResult:
        """Push the checkpoints of this worktree, of the one with the id `worktree_id`, or of all worktrees; fetch those
        of other hosts (with `worktree_id`, only of worktrees with that id).

        `last` limits a push to the newest ones. `allow` are fingerprints of findings that are no secrets. What was held
        back or refused is in the result, and is no error.
        """
        if not push and not fetch:
            raise UsageError(
                "'push' and 'fetch' cannot both be false", "remotes.status() compares and transfers nothing"
            )
        if worktree_id is not None and all_worktrees:
            raise UsageError("'worktree_id' cannot be combined with 'all_worktrees'")
        if last is not None and last < 1:
            raise UsageError("'last' is a number from 1 on")
        if isinstance(allow, str):
            raise UsageError("'allow' is a sequence of fingerprints")
        from git_agentos.sync import commands

        done = commands.sync(
            self._workspace.context,
            remote,
            push=not fetch,
            fetch=not push,
            agent=worktree_id,
            all_timelines=all_worktrees,
            last=last,
            allow=allow,
            dry_run=dry_run,
            observer=observer,
        )
        return convert(SyncResult, done)

    def status(self, remote: str | None = None) -> SyncStatus:
        """Compare the checkpoints here with those on a remote, which is asked; nothing is transferred."""
        from git_agentos.sync import commands

        return convert(SyncStatus, commands.status(self._workspace.context, remote))
