"""What `doctor` says of workflows: those that were interrupted, and wait to be resumed or aborted."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.doctor import Finding
from git_agentos.errors import AgentosError
from git_agentos.run import doctor
from git_agentos.tdd import looking
from git_agentos.tdd.state import STOPPED


def examine(context: Context, environment: Mapping[str, str]) -> list[Finding]:
    """What is to be done about workflows; which of it, is for people to decide."""
    try:
        found = looking.list_(context, environment)
    except AgentosError as error:
        return [doctor.unreadable_workflows(error)]
    stopped = [each for each in found if each.here and each.state == STOPPED]
    return [doctor.interrupted_workflow(each.id, each.node) for each in stopped]
