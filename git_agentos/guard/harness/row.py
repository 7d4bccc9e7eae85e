"""How to talk to one harness: what a row of the table in `adapters` says, and how an event is read by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from git_agentos.guard.exec import client_configuration
from git_agentos.guard.harness.events import (
    MOMENTS,
    OTHER,
    PROMPT,
    SESSION_END,
    SHELL,
    STOP,
    WORKTREE_CREATE,
    WORKTREE_REMOVE,
    Event,
    HookReply,
    Tools,
    after_tool,
    before_tool,
    object_of,
    required_text,
    text_of,
    working_directory,
)
from git_agentos.util.named_tuple import NamedTuple

# What the events of a harness are about, beside the kinds of `events`.
BEFORE_TOOL, AFTER_TOOL, COMMAND, FILE_EDITED = "before tool", "after tool", "command", "file edited"

# Before the command of a hook that removes the worktree in which it is started: no process may be in it then.
ELSEWHERE = "cd / && "


class Fields(NamedTuple):
    """The fields of an event that have its name, the tool, the tool's input, and the session (the first one counts)."""

    name: str = "hook_event_name"
    tool: str = "tool_name"
    input: str = "tool_input"
    session: Sequence[str] = ("session_id",)


_SNAKE_CASE = Fields()
_OF_SUBAGENT = "agent_id"
_REASONS = ("source", "reason", "trigger", "agent_type", "agentName")


class Harness(NamedTuple):
    """How to talk to one harness.

    `project_settings` and `user_settings` are the files with its hooks, below a worktree and below the home folder;
    `settings` makes what has to be in there of two commands, one that only records and one that blocks where it cannot
    be started. A harness without has a `plugin`, a file of this package.
    `note` says how the harness notices new settings. `events` are the events that concern the guard. `name_event` finds
    the name of an event that may lack it. `shared_form` is another harness whose form of events this one sends as well.
    `override_variable` is in the environment of a harness whose shell overrides git's configuration; `rewrite` replies
    with another command to run. With `reads_main_checkout`, the settings of the main checkout are read in all
    worktrees.
    """

    name: str
    project_settings: str
    user_settings: str
    note: str
    tools: Tools
    events: Mapping[str, str]
    deny: Callable[[Event | None, str], HookReply]
    no_objection: Callable[[Event, str], HookReply]
    fields: Fields = _SNAKE_CASE
    settings: Callable[[str, str], dict[str, Any]] | None = None
    plugin: str = ""
    name_event: Callable[[Mapping[str, Any]], str] | None = None
    shared_form: Harness | None = None
    override_variable: str = ""
    rewrite: Callable[[Event, str], HookReply] | None = None
    reads_main_checkout: bool = False

    def parse(self, body: Mapping[str, Any], cwd: str) -> Event:
        """The event that `body` describes; `cwd` is where the hook was started. InvalidEvent for another form."""
        if (
            self.shared_form is not None
            and self.fields.tool not in body
            and isinstance(body.get(self.shared_form.fields.name), str)
        ):
            return self.shared_form.parse(body, cwd)
        name = self.name_event(body) if self.name_event is not None else required_text(body, self.fields.name)
        session = text_of(body, *self.fields.session)
        event = Event(OTHER, name, working_directory(body, cwd), session=session)
        kind = self.events.get(name, OTHER)
        if kind in (BEFORE_TOOL, AFTER_TOOL):
            return self._tool_event(event, body, is_before=kind == BEFORE_TOOL)
        if kind == COMMAND:
            return event._replace(kind=SHELL, text=required_text(body, "command"), tool="Shell")
        if kind == FILE_EDITED:
            return after_tool(event._replace(tool="Edit"), body, self.tools)
        if kind in (PROMPT, STOP) and isinstance(body.get(_OF_SUBAGENT), str):
            return event  # what a sub-agent is asked belongs to the turn that has started it
        if kind in (PROMPT, STOP):
            return event._replace(kind=kind, text=text_of(body, "prompt") or "")
        if kind in (SESSION_END, *MOMENTS):
            return event._replace(kind=kind, reason=_reason(body), digest=_digest(body))
        if kind in (WORKTREE_CREATE, WORKTREE_REMOVE):
            field = "name" if kind == WORKTREE_CREATE else "worktree_path"
            return event._replace(kind=kind, text=required_text(body, field))
        return event

    def _tool_event(self, event: Event, body: Mapping[str, Any], *, is_before: bool) -> Event:
        if is_before:
            event = event._replace(tool=required_text(body, self.fields.tool))
            return before_tool(event, object_of(body, self.fields.input), self.tools)
        event = event._replace(tool=text_of(body, self.fields.tool) or "")
        event = after_tool(event, object_of(body, self.fields.input), self.tools)
        return event._replace(text=client_configuration.original(event.text)) if self.rewrite is not None else event


def _reason(body: Mapping[str, Any]) -> str:
    """What a harness says of a session's event: the first of these fields that is a text."""
    return next((value for field in _REASONS if isinstance(value := body.get(field), str)), "")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode("ascii")).hexdigest()
