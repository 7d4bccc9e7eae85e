"""`repo.checkpoints`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from git_agentos.api import served
from git_agentos.api.conversion import convert
from git_agentos.api.results import ForgetResult, SavedCheckpoint, StorageResult
from git_agentos.errors import UsageError
from git_agentos.workspace import Workspace

if TYPE_CHECKING:
    from git_agentos.checkpoint.queries import Diff, FileContent


def check_host(host: str | None, worktree_id: str | None) -> None:
    """UsageError for a worktree of no host."""
    if worktree_id is not None and host is None:
        raise UsageError("'worktree_id' is for 'host'", "open_worktree() opens a worktree of this clone")


class Checkpoints:
    """The checkpoints of the worktree.

    A checkpoint is named by its id or at least 4 digits of it, by `latest`, or by `@{N}`, the N-th before the newest.
    With `host`, those are meant that were fetched from that host (`repo.remotes`): of its worktree with the id
    `worktree_id`, by default the id of this worktree.
    """

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace, self._agent = workspace, agent

    def create(
        self,
        description: str = "",
        *,
        trigger: str = "manual",
        task_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SavedCheckpoint:
        """Save the complete state of the worktree; nothing in it changes."""
        options = [f"--message={description}", f"--trigger={trigger}"]
        options += [f"--meta={key}={value}" for key, value in (metadata or {}).items()]
        options += [f"--task={task_id}"] if task_id is not None else []
        saved = None
        if not any("=" in key for key in metadata or {}):
            saved = served.checkpoint(self._workspace.context.location, self._agent, options)
        if saved is None:
            saved = self._workspace.checkpoint(description, trigger=trigger, task_id=task_id, meta=metadata)
        return convert(SavedCheckpoint, saved)

    def list(  # noqa: PLR0913 - the options of the command, documented
        self,
        *,
        limit: int | None = None,
        since: datetime | None = None,
        task_id: str | None = None,
        trigger: str | None = None,
        agent: str | None = None,
        all_worktrees: bool = False,
        host: str | None = None,
    ) -> tuple[SavedCheckpoint, ...]:
        """The checkpoints of this worktree, those that `agent` created, or those of all worktrees; newest first. With
        `host`, those of its worktrees."""
        found = self._workspace.checkpoints(
            limit=limit,
            since=None if since is None else since.astimezone().isoformat(),
            task_id=task_id,
            trigger=trigger,
            agent=agent,
            all_timelines=all_worktrees,
            host=host,
        )
        return tuple(convert(SavedCheckpoint, each) for each in found)

    def find(self, name: str, *, host: str | None = None, worktree_id: str | None = None) -> SavedCheckpoint:
        """The checkpoint with a name. CheckpointNotFound if there is none, or more than one."""
        check_host(host, worktree_id)
        return convert(SavedCheckpoint, self._workspace.find(name, agent=worktree_id, host=host))

    def search(
        self, text: str, *, limit: int | None = None, host: str | None = None, worktree_id: str | None = None
    ) -> tuple[SavedCheckpoint, ...]:
        """The checkpoints in whose description, task, metadata or changed paths `text` occurs, newest first."""
        check_host(host, worktree_id)
        found = self._workspace.search(text, limit=limit, agent=worktree_id, host=host)
        return tuple(convert(SavedCheckpoint, each) for each in found)

    def diff(
        self,
        older: str,
        newer: str | None = None,
        *,
        paths: Sequence[str] = (),
        host: str | None = None,
        worktree_id: str | None = None,
    ) -> Diff:
        """What changed from checkpoint `older` to `newer`, or to the worktree as it is now.

        `paths` are relative to the path that was opened.
        """
        check_host(host, worktree_id)
        return self._workspace.diff(older, newer, paths, agent=worktree_id, host=host)

    def read_file(
        self, checkpoint: str, path: str, *, host: str | None = None, worktree_id: str | None = None
    ) -> FileContent:
        """A file of a checkpoint, with the bytes that it had in the worktree; `path` is relative to the root."""
        if not path:
            raise UsageError("the path of the file is empty")
        check_host(host, worktree_id)
        return self._workspace.read_file(f"{checkpoint}:{path}", agent=worktree_id, host=host)

    def forget(  # noqa: PLR0913 - named options, documented
        self,
        names: Sequence[str] = (),
        *,
        keep: Mapping[str, str | int] | None = None,
        paths: Sequence[str] = (),
        secrets: Sequence[str] = (),
        agent: str | None = None,
        all_worktrees: bool = False,
        dry_run: bool = False,
    ) -> ForgetResult:
        """Forget the checkpoints that are named, or those that no rule in `keep` keeps, and free what they take. Or
        forget files that match `paths` (patterns of gitignore), and texts (`secrets`), in all of the repository.

        `keep` has numbers for `last`, `hourly`, `daily`, `weekly` and `monthly`, and a time such as `7d` for `within`.
        What is protected is forgotten only by its name. PolicyError in an agent's process, unless it is a dry run.
        """
        from git_agentos.retention import commands, secret_texts

        done = commands.forget(
            self._workspace.context,
            *names,
            keep=keep or {},
            path=tuple(paths),
            secret=secret_texts.given(secrets) if secrets else None,
            agent=agent,
            all_timelines=all_worktrees,
            dry_run=dry_run,
        )
        return convert(ForgetResult, done)

    def storage(self, *, agent: str | None = None, all_worktrees: bool = False) -> StorageResult:
        """What the checkpoints take on disk, what could be freed, and what else there is of git-agentos."""
        from git_agentos.retention import commands

        return convert(StorageResult, commands.measure(self._workspace.context, agent, all_timelines=all_worktrees))
