"""`repo.guard` and `repo.approvals`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.api.conversion import convert
from git_agentos.api.results import ApprovalStatus, GuardDecision
from git_agentos.util import times
from git_agentos.workspace import Workspace

if TYPE_CHECKING:
    from git_agentos.guard.approval.documents import Store


class Guard:
    """The guard's policy."""

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace = workspace
        self._agent = agent

    def check(self, command: Sequence[str]) -> GuardDecision:
        """Whether the agent may run a command; it is not run. A person's commands are always allowed."""
        from git_agentos.guard import identity
        from git_agentos.guard.assessment import assessor
        from git_agentos.guard.call import Call

        folder = self._workspace.root
        caller = identity.identify(os.environ, identity.find_git_dir(folder), os.getpid(), self._agent)
        found = assessor.assess_argv(Call(tuple(command), folder, os.environ), caller).decision
        return GuardDecision(found.decision, tuple(found.operations), found.rule, found.reason, found.instead)


class Approvals:
    """Approval requests of agents. Agents may list them, but not decide about them.

    A decision needs a terminal, or the key that `agentos.approvalKey` names (docs/guard.md); otherwise a PolicyError is
    raised. A request is named by its id, or the beginning of it.
    """

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._workspace = workspace
        self._agent = agent

    def list(self, *, all_states: bool = False) -> tuple[ApprovalStatus, ...]:
        """Pending requests and unused grants; with `all_states` also those that were denied, used or have expired."""
        from git_agentos.guard.approval import approvals

        found = approvals.read_all(self._store())
        if not all_states:
            found = approvals.open_only(found)
        return tuple(convert(ApprovalStatus, each) for each in found)

    def show(self, request: str) -> ApprovalStatus:
        """One request. GuardError if there is none with that id."""
        from git_agentos.guard.approval import approvals

        return convert(ApprovalStatus, approvals.find(self._store(), request))

    def grant(self, request: str) -> ApprovalStatus:
        """Allow a request's command once."""
        from git_agentos.guard.approval import approvals

        created = times.to_seconds(approvals.find(self._store(), request).created_at)
        by = self._require_operator("granting", since=created)
        return convert(ApprovalStatus, approvals.grant(self._store(create=True), request, by=by))

    def deny(self, request: str, *, note: str | None = None) -> ApprovalStatus:
        """Deny a request, or withdraw an unused grant; `note` is for the agent."""
        from git_agentos.guard.approval import approvals

        by = self._require_operator("denying")
        return convert(ApprovalStatus, approvals.deny(self._store(create=True), request, by=by, note=note))

    def _store(self, *, create: bool = False) -> Store:
        from git_agentos.guard import operator

        return operator.approval_store(self._workspace.context.location, create=create)

    def _require_operator(self, action: str, *, since: float | None = None) -> str:
        from git_agentos.guard import operator

        return operator.require_operator(self._workspace.context.location, self._agent, action, since=since)
