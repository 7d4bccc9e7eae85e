"""What `doctor` says of workflows: those that were interrupted, and those whose state only git still has."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.checkpoint.doctor import Finding
from git_agentos.checkpoint.model import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.run import doctor
from git_agentos.tdd import query, state_copies
from git_agentos.tdd.state import STOPPED


def examine(context: OpenWorktree, environment: Mapping[str, str], *, fix: bool) -> list[Finding]:
    """The workflows that are not in the database any more (with `fix`, they are put there again), and those that were
    interrupted: which of resuming and aborting is to be done, is for people to decide."""
    lost = state_copies.lost(context)
    done = state_copies.bring_back(context, every=True) if fix and lost else []
    found = [doctor.state_missing(id_, fixed=id_ in done) for id_ in lost]
    # Listing workflows brings their state back, which only `fix` may do here.
    if doctor.open_(context) and (fix or not lost):
        found += _interrupted(context, environment)
    return found


def _interrupted(context: OpenWorktree, environment: Mapping[str, str]) -> list[Finding]:
    try:
        found = query.list_(context, environment)
    except AgentosError as error:
        return [doctor.unreadable_workflows(error)]
    stopped = [each for each in found if each.here and each.state == STOPPED]
    return [doctor.interrupted_workflow(each.id, each.node) for each in stopped]
