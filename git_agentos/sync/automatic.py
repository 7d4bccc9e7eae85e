"""Pushing without a command, as `agentos.sync.auto` says: when a worktree is complete. What the watch daemon pushes by
itself is in `watch.pushing`."""

from __future__ import annotations

import warnings

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning
from git_agentos.git import own_configuration
from git_agentos.git.location import Location
from git_agentos.guard import authorize
from git_agentos.sync import commands

_OFF = "off"
_HINT = f"nothing is pushed by what is set there; if you trust it: git config {config.SYNC_AUTO} VALUE"


def mode(location: Location) -> str:
    """`agentos.sync.auto`, from the user's own configuration; ConfigurationError for a bad value."""
    value = own_configuration.value(location, config.SYNC_AUTO, _HINT)
    return config.sync_auto({} if value is None else {config.SYNC_AUTO.lower(): [value]})


def push_complete(context: OpenWorktree) -> None:
    """Push the timeline of a worktree that is complete. What goes wrong is a warning: the worktree is complete all the
    same. An agent has that done only where it may push anyway."""
    if config.SYNC_AUTO.lower() not in context.settings.values:
        return
    try:
        if mode(context.location) == _OFF:
            return
        if not authorize.may(context.location, "push"):
            raise AgentosError("agents push only with an approval; git agentos sync pushes it")
        done = commands.sync(context, push=True)
    except AgentosError as error:
        _warn(context, error.message)
        return
    for refused in done.refused:
        _warn(context, refused.reason)
    if done.held_back:
        _warn(context, "secrets were found in checkpoints (git agentos sync names them)", "not wholly pushed")


def _warn(context: OpenWorktree, reason: str, what: str = "not pushed") -> None:
    warnings.warn(AgentosWarning(f"the timeline of '{context.worktree_id}' was {what}: {reason}"), stacklevel=3)
