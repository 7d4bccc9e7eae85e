"""`repo.log`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from git_agentos import log
from git_agentos.api.conversion import convert
from git_agentos.api.results import LogEntry
from git_agentos.workspace import Workspace


class Log:
    """The agents' log: their actions, decisions and errors. It outlives their worktrees."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def add(
        self,
        kind: str,
        summary: str,
        *,
        details: Mapping[str, Any] | None = None,
        files: Sequence[str] = (),
        commit: str | None = None,
        task_id: str | None = None,
    ) -> LogEntry:
        """Write an entry; `kind` is `action`, `decision`, `error` …. Secrets are removed from it first."""
        entry = log.add(
            self._workspace.context, kind, summary, details=details, files=files, commit=commit, task_id=task_id
        )
        return convert(LogEntry, entry)

    def list(
        self,
        *,
        agent: str | None = None,
        all_agents: bool = False,
        kinds: Sequence[str] | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        text: str | None = None,
    ) -> tuple[LogEntry, ...]:
        """The entries of this worktree, of `agent`, or of all agents; newest first."""
        found = log.entries(
            self._workspace.context, agent=agent, every=all_agents, kinds=kinds, since=since, limit=limit, text=text
        )
        return tuple(convert(LogEntry, each) for each in found)
