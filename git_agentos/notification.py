"""What `agentos.notify` is told: the user's command gets one JSON document on its standard input for each event.

The command is taken from the user's own files alone (system and global), so no repository and no agent can set one. It
runs in the background, below a process that ends it after 30 seconds (`process.delivery`). Whatever goes wrong here,
the caller goes on as if there were no command. Who calls it sees to it that an event is told once.
"""

from __future__ import annotations

import json
from typing import Any

from git_agentos import config
from git_agentos.errors import AgentosError
from git_agentos.git import own_configuration, process
from git_agentos.git.location import Location
from git_agentos.process import delivery
from git_agentos.redact import redact_value
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

SCHEMA = "agentos.notify.v1"
APPROVAL, RUN_ENDED, IDLE, CONFLICTS = "approval", "run-ended", "idle", "conflicts"
_LONGEST = 2000  # characters of a text: the document has to fit into a pipe


class Notification(NamedTuple):
    """One event: `id` is that of the request, the run or the worktree; `worktree` is a folder, `details` what the kind
    of event has beside."""

    event: str
    id: str
    message: str
    worktree: str | None = None
    agent_id: str | None = None
    details: dict[str, Any] | None = None


def command(location: Location) -> str | None:
    """The user's command; None if there is none, or it cannot be read."""
    try:
        return own_configuration.users_value(location, config.NOTIFY)
    except (AgentosError, OSError):
        return None


def send(location: Location, found: Notification) -> None:
    """Tell the user's command about an event of the repository at `location`. Nothing is waited for, or raised."""
    wanted = command(location)
    if wanted is None:
        return
    body = {
        "schema": SCHEMA,
        "event": found.event,
        "at": times.now_text(),
        "repository": location.common_dir,
        "worktree": found.worktree,
        "agent_id": found.agent_id,
        "id": found.id,
        "message": found.message[:_LONGEST],
        "details": found.details or {},
    }
    try:
        data = json.dumps(redact_value(body)[0]).encode("ascii") + b"\n"
        delivery.start(wanted, data, env=process.user_environment({}))
    except (OSError, ValueError):
        return
