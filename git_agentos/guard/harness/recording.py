"""What the hook records: checkpoints of what an agent does in a harness (after an edit or a command, before and after
each turn), the turns themselves (`turns.record`), its sessions (`moments`), and the last time that the harness called
our hook in a worktree, which proves that it reads our settings. At the beginning of a turn, a watch daemon that is
wanted is started if it has ended, since what follows may change files in ways that no hook sees.

    <git directory of the worktree>/agentos/harness/<name>.asked    {"at": seconds, "below_exec": true}

No decision depends on that file, so it is neither signed nor written durably.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location, locate
from git_agentos.guard import messages
from git_agentos.guard.ancestry import MARKER
from git_agentos.guard.configuration import settings as configuration
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.harness import events
from git_agentos.guard.harness.events import Event
from git_agentos.redact import redact
from git_agentos.turns import sessions
from git_agentos.turns.sessions import OpenTurn, Session
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.turns.record import Begun


class Recorder(NamedTuple):
    """For whom is recorded: the agent, the hook's environment and its process."""

    agent: str | None
    environment: Mapping[str, str]
    pid: int


_MAX_LENGTH = 200  # characters of a prompt's first line, a command or a session's id
_MOMENTS = {
    events.SESSION_START: "at the beginning of a session",
    events.COMPACTION: "before the conversation was compacted",
    events.SUBAGENT_STOP: "after a sub-agent",
    events.MODEL_REQUEST: "before a request to the model",
}
_OF_A_TURN = (events.PROMPT, events.STOP, events.SESSION_END)
_OF_A_SESSION = (events.SESSION_START, events.COMPACTION, events.SUBAGENT_STOP, events.SESSION_END)


def record(harness: str, event: Event, folder: str, caller: Recorder) -> str:
    """Create a checkpoint of the worktree at `folder`, where the event may have changed it, and record the turn that it
    begins or ends, or what has become of the session; the warnings to show."""
    if event.kind == events.TOOL_RAN and not event.paths and not event.text:
        return ""
    try:
        location = locate(folder, use_environment=False)
    except AgentosError:
        return ""  # no repository
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _record(harness, event, location, caller)
        return "\n".join(f"git-agentos: {messages.printable(str(each.message))}" for each in caught)
    except (AgentosError, OSError) as error:
        return f"git-agentos: warning: not everything could be recorded: {messages.printable(str(error))}"


def _record(harness: str, event: Event, location: Location, caller: Recorder) -> None:
    recorded = messages.printable(event.session)[:_MAX_LENGTH] if event.session else None
    session = sessions.session(harness, event.session, recorded)
    running = sessions.read(location, session.key)
    if event.kind == events.SESSION_END and running is None:
        _record_moment(session, event, location, caller, None)
        return
    begun = None
    turn = running
    if event.kind == events.PROMPT:
        try:
            begun = _begin(session, event, location, caller)
        except (AgentosError, OSError) as error:  # the checkpoint matters more
            warnings.warn(f"warning: the turn was not recorded: {error}", stacklevel=1)
            sessions.remove(location, session.key)
        turn = begun.turn if begun is not None else None
    saved = None
    try:
        settings = configuration.read(location.root, caller.environment)
        if settings.auto_on("onTaskComplete"):
            saved = _create_checkpoint(session, event, location, caller, turn)
        if event.kind == events.PROMPT:
            _keep_daemon_running(location, settings, caller.environment)
    finally:
        if event.kind in _OF_A_TURN:
            _record_turn(session, event, location, caller, saved, begun)
        elif turn is not None and saved is not None:
            sessions.note_checkpoint(location, session.key, turn.turn, saved)
        if event.kind in _OF_A_SESSION:
            _record_moment(session, event, location, caller, saved)


def _record_moment(session: Session, event: Event, location: Location, caller: Recorder, saved: str | None) -> None:
    from git_agentos.guard.enforcement import saving
    from git_agentos.guard.harness import moments

    worktree = saving.context_at(location, caller.agent, caller.environment)
    moments.record(worktree, session, event, _first_line(event.reason), saved)


def _keep_daemon_running(location: Location, settings: GuardSettings, environment: Mapping[str, str]) -> None:
    from git_agentos.watch import automatic

    message = automatic.keep_running(location, settings.values, environment)
    if message is not None:
        warnings.warn(f"warning: {message}", stacklevel=1)


def _begin(session: Session, event: Event, location: Location, caller: Recorder) -> Begun:
    from git_agentos.guard.enforcement import saving
    from git_agentos.turns import record as turns

    turn = OpenTurn(
        "", _first_line(event.text), sessions.digest_of(event.text), None, client=sessions.client_of(caller.pid)
    )
    worktree = saving.context_at(location, caller.agent, caller.environment)
    return turns.begin(worktree, session, turn, event.text)


def _record_turn(
    session: Session,
    event: Event,
    location: Location,
    caller: Recorder,
    saved: str | None,
    begun: Begun | None,
) -> None:
    """Record what an event means for its turn, at the checkpoint `saved`."""
    from git_agentos.guard.enforcement import saving
    from git_agentos.turns import record as turns

    worktree = saving.context_at(location, caller.agent, caller.environment)
    if begun is not None:
        turns.set_before(worktree, session, begun, saved)
    elif event.kind != events.PROMPT:
        turns.end(worktree, session, saved, turns.STOP if event.kind == events.STOP else turns.SESSION_END)


def _create_checkpoint(
    session: Session, event: Event, location: Location, caller: Recorder, turn: OpenTurn | None
) -> str:
    """Create the checkpoint of an event, or find that nothing has changed; its id."""
    from git_agentos.checkpoint.creation import create_checkpoint
    from git_agentos.guard.enforcement import saving

    prompt = _first_line(event.text) if event.kind in (events.PROMPT, events.STOP) else ""
    prompt = prompt or (turn.subject if turn is not None else "")
    is_command = event.kind == events.SHELL or (event.kind == events.TOOL_RAN and not event.paths)
    is_edit = event.kind == events.TOOL_RAN and not is_command
    meta = {"harness": session.harness, "event": "shell" if is_command else "edit" if is_edit else event.kind}
    if turn is not None and event.kind != events.SESSION_END:
        meta["turn"] = turn.turn
    if prompt:
        meta["prompt"] = prompt
    if event.tool:
        meta["tool"] = event.tool
    if is_command:
        description = f"{'before' if event.kind == events.SHELL else 'after'} a command: {_first_line(event.text)}"
    elif is_edit:
        paths = ", ".join(os.path.relpath(path, location.root) for path in event.paths[:3])
        description = f"after an edit of {messages.printable(os.fsencode(paths).decode('utf-8', 'backslashreplace'))}"
    elif event.kind in _MOMENTS:
        description = _MOMENTS[event.kind]
    else:
        at = f"{'before' if event.kind == events.PROMPT else 'after'} a turn"
        description = f"{at}: {prompt}" if prompt else at
    context = saving.context_at(location, caller.agent, caller.environment)
    metadata = context.metadata(
        trigger="task_complete" if event.kind == events.STOP else "periodic",
        description=description,
        session_id=session.id,
        meta=meta,
    )
    return create_checkpoint(context, metadata).checkpoint.id


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return messages.printable(redact(line)[0])[:_MAX_LENGTH]


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
