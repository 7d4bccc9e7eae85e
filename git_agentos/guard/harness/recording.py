"""What the hook records: checkpoints of what an agent does in a harness (after an edit or a command, before and after
each turn), and the last time that the harness called our hook in a worktree, which proves that it reads our settings.

    <git directory of the worktree>/agentos/harness/<name>.asked    {"at": seconds, "below_exec": true}

No decision depends on that file, so it is neither signed nor written durably.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location, locate
from git_agentos.guard import messages
from git_agentos.guard.ancestry import MARKER
from git_agentos.guard.configuration import settings as configuration
from git_agentos.guard.harness import events
from git_agentos.guard.harness.events import Event
from git_agentos.guard.identity import Identity
from git_agentos.redact import redact
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_MAX_LENGTH = 200  # characters of a prompt, a command or a session's id


def record(harness: str, event: Event, folder: str, who: Identity, environment: Mapping[str, str]) -> str:
    """Create a checkpoint of the worktree at `folder`, where the event may have changed it; the warnings to show."""
    if event.kind == events.TOOL_RAN and not event.paths and not event.text:
        return ""
    try:
        location = locate(folder, use_environment=False)
    except AgentosError:
        return ""  # no repository
    try:
        settings = configuration.read(location.root, environment)
        if not settings.auto_on("onTaskComplete"):
            return ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _create_checkpoint(harness, event, location, who, environment)
        return "\n".join(f"git-agentos: {messages.printable(str(each.message))}" for each in caught)
    except (AgentosError, OSError) as error:
        return f"git-agentos: warning: no checkpoint could be created: {messages.printable(str(error))}"


def _create_checkpoint(
    harness: str, event: Event, location: Location, who: Identity, environment: Mapping[str, str]
) -> None:
    from git_agentos.checkpoint.creation import create_checkpoint
    from git_agentos.guard.enforcement import saving

    prompt = _prompt(location, event)
    is_command = event.kind == events.SHELL or (event.kind == events.TOOL_RAN and not event.paths)
    is_edit = event.kind == events.TOOL_RAN and not is_command
    meta = {"harness": harness, "event": "shell" if is_command else "edit" if is_edit else event.kind}
    if prompt:
        meta["prompt"] = prompt
    if event.tool:
        meta["tool"] = event.tool
    if is_command:
        description = f"{'before' if event.kind == events.SHELL else 'after'} a command: {_first_line(event.text)}"
    elif is_edit:
        paths = ", ".join(os.path.relpath(path, location.root) for path in event.paths[:3])
        description = f"after an edit of {messages.printable(os.fsencode(paths).decode('utf-8', 'backslashreplace'))}"
    else:
        turn = f"{'before' if event.kind == events.PROMPT else 'after'} a turn"
        description = f"{turn}: {prompt}" if prompt else turn
    context = saving.context_at(location, who.agent, environment)
    metadata = context.metadata(
        trigger="task_complete" if event.kind == events.STOP else "periodic",
        description=description,
        session_id=messages.printable(event.session)[:_MAX_LENGTH] if event.session else None,
        meta=meta,
    )
    create_checkpoint(context, metadata)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return messages.printable(redact(line)[0])[:_MAX_LENGTH]


def _prompt(location: Location, event: Event) -> str:
    """The first line of the prompt that began this turn. It is stored, since later events of the turn do not have
    it."""
    prompt = _first_line(event.text) if event.kind in (events.PROMPT, events.STOP) else ""
    key = hashlib.sha256((event.session or "").encode("utf-8", "surrogatepass")).hexdigest()[:16]
    path = os.path.join(location.state_dir, "harness", f"{key}.json")
    if prompt:
        from git_agentos.util import directories

        with contextlib.suppress(AgentosError, OSError):  # the checkpoint matters more than its description
            directories.make_own(location.state_dir)
            directories.make_own(os.path.dirname(path))
            files.replace(path, json.dumps({"prompt": prompt}).encode("ascii"), mode=0o600, durable=False)
        return prompt
    try:
        stored = files.read_object(path, limit=1 << 16).get("prompt", "")
    except (OSError, ValueError):
        return ""
    return stored if isinstance(stored, str) else ""


# -- contact -----------------------------------------------------------------------------------------------------------


class Contact(NamedTuple):
    """A call of the hook: `at` is in seconds since the epoch, `below_exec` whether the harness ran below `guard
    exec`."""

    at: float
    below_exec: bool


def note_contact(name: str, git_dir: str | None, environment: Mapping[str, str]) -> None:
    """Note that harness `name` called the hook in the worktree with this git directory, if we have state there."""
    if git_dir is None or not os.path.isdir(os.path.join(git_dir, "agentos")):
        return
    path = _contact_path(name, git_dir)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        body = {"at": time.time(), "below_exec": MARKER in environment}
        files.replace(path, json.dumps(body).encode("ascii"), mode=0o600, durable=False)


def last_contact(name: str, git_dir: str) -> Contact | None:
    """The last call; None where there was none."""
    try:
        body = files.read_object(_contact_path(name, git_dir), limit=1 << 12)
        return Contact(float(body["at"]), body["below_exec"] is True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _contact_path(name: str, git_dir: str) -> str:
    return os.path.join(git_dir, "agentos", "harness", f"{name}.asked")
