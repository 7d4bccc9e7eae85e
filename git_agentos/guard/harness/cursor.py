"""Cursor: hooks in `hooks.json`; `{"permission": "deny", …}` on stdout. `failClosed` makes a hook that fails block.

beforeShellExecution  command, cwd
preToolUse            tool_name, tool_input: asked for tools that edit
beforeMCPExecution    tool_name, tool_input
afterFileEdit         file_path
beforeSubmitPrompt    prompt
stop
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from git_agentos.guard.harness.events import (
    DONE,
    OTHER,
    PROMPT,
    SHELL,
    STOP,
    Answer,
    Event,
    dumped,
    edited,
    object_of,
    place,
    required,
    text_of,
    tool_event,
)

PROJECT, USER = ".cursor/hooks.json", ".cursor/hooks.json"
NOTE = "cursor takes it up when it is started again"

_SHELLS = ("Shell", "Bash", "run_terminal_cmd")
_EDITS = ("Write", "Edit", "StrReplace", "MultiEdit", "Delete", "TabWrite", "ApplyPatch", "EditNotebook", "edit_file",
          "search_replace", "delete_file", "write")  # fmt: skip
_READS = ("Read", "Grep", "Glob", "LS", "TabRead", "SemanticSearch", "WebSearch", "WebFetch", "Task", "TodoWrite")


def read(body: Mapping[str, Any], cwd: str) -> Event:
    # The first versions did not say the name of the one that matters.
    name = text_of(body, "hook_event_name") or ("beforeShellExecution" if "command" in body else "")
    name = name or required(body, "hook_event_name")
    where = place(body, cwd=cwd)
    session = text_of(body, "conversation_id", "session_id")
    if name == "beforeShellExecution":
        return Event(SHELL, name, where, text=required(body, "command"), tool="Shell", session=session)
    if name in ("preToolUse", "beforeMCPExecution"):
        tool = required(body, "tool_name")
        given = object_of(body, "tool_input")
        return tool_event(name, tool, given, where, session, shells=_SHELLS, edits=_EDITS, reads=_READS)
    if name == "afterFileEdit":
        return Event(DONE, name, where, paths=edited("Edit", body, where, ("Edit",)), tool="Edit", session=session)
    if name == "beforeSubmitPrompt":
        return Event(PROMPT, name, where, text=text_of(body, "prompt") or "", session=session)
    if name == "stop":
        return Event(STOP, name, where, session=session)
    return Event(OTHER, name, where, session=session)


def deny(event: Event | None, reason: str) -> Answer:
    if event is not None and event.kind == PROMPT:
        return Answer(dumped({"continue": False, "user_message": reason}))
    return Answer(dumped({"permission": "deny", "user_message": reason, "agent_message": reason}))


def pass_on(event: Event, said: str) -> Answer:
    if event.kind == PROMPT:
        return Answer(dumped({"continue": True}), said)
    return Answer(dumped({}), said)


def settings(command: str, closed: str) -> dict[str, Any]:
    """What has to be in the settings; `closed` is the command that blocks where it cannot be started."""
    first = {"command": closed, "timeout": 60, "failClosed": True}
    then = {"command": command, "timeout": 60}
    return {
        "version": 1,
        "hooks": {
            "beforeShellExecution": [first],
            "beforeMCPExecution": [first],
            "preToolUse": [{**first, "matcher": "|".join(_EDITS)}],
            "afterFileEdit": [then],
            "beforeSubmitPrompt": [then],
            "stop": [then],
        },
    }
