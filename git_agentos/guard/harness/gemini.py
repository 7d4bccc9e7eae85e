"""Gemini CLI: hooks in `settings.json`; `{"decision": "deny", "reason": …}` on stdout, and nothing but JSON there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from git_agentos.guard.harness import overrides
from git_agentos.guard.harness.events import (
    OTHER,
    PROMPT,
    STOP,
    Answer,
    Event,
    done_event,
    dumped,
    object_of,
    place,
    required,
    text_of,
    tool_event,
)

# Its shell tool switches the guard off inside git: each command is prefixed (`overrides`). This variable tells that
# it is Gemini itself that asks.
OVERRIDES_GIT = "GEMINI_SESSION_ID"
PROJECT, USER = ".gemini/settings.json", ".gemini/settings.json"
NOTE = (
    "'/hooks' in gemini lists it; gemini's shell switches the guard off inside git, and our hook switches it on again:"
    " `git agentos guard exec -- gemini` covers what gemini starts in another way"
)

_SHELLS = ("run_shell_command",)
_EDITS = ("write_file", "replace", "edit", "smart_edit")
_READS = ("read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search", "web_fetch",
          "google_web_search", "save_memory", "write_todos")  # fmt: skip


def read(body: Mapping[str, Any], cwd: str) -> Event:
    name = required(body, "hook_event_name")
    where = place(body, cwd=cwd)
    session = text_of(body, "session_id")
    if name == "BeforeTool":
        tool = required(body, "tool_name")
        given = object_of(body, "tool_input")
        return tool_event(name, tool, given, where, session, shells=_SHELLS, edits=_EDITS, reads=_READS)
    if name == "AfterTool":
        tool = text_of(body, "tool_name") or ""
        done = done_event(name, tool, object_of(body, "tool_input"), where, session, shells=_SHELLS, edits=_EDITS)
        return done._replace(text=overrides.original(done.text))
    if name == "BeforeAgent":
        return Event(PROMPT, name, where, text=text_of(body, "prompt") or "", session=session)
    if name == "AfterAgent":
        return Event(STOP, name, where, text=text_of(body, "prompt") or "", session=session)
    return Event(OTHER, name, where, session=session)


def deny(event: Event | None, reason: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(dumped({"decision": "deny", "reason": reason}))


def pass_on(event: Event, said: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(dumped({"systemMessage": said} if said else {}))


def rewrite(event: Event, command: str) -> Answer:
    """Have the tool run `command` instead of what it was given; what else it was given stays."""
    key = event.input[0] if event.input is not None else "command"
    return Answer(dumped({"hookSpecificOutput": {"hookEventName": event.name, "tool_input": {key: command}}}))


def settings(command: str, closed: str) -> dict[str, Any]:
    """What has to be in the settings; `closed` is the command that blocks where it cannot be started."""

    def one(what: str) -> dict[str, Any]:
        return {"name": "git-agentos", "type": "command", "command": what, "timeout": 60000}

    return {
        "hooks": {
            "BeforeTool": [{"matcher": ".*", "hooks": [one(closed)]}],
            "AfterTool": [{"matcher": "|".join((*_SHELLS, *_EDITS)), "hooks": [one(command)]}],
            "BeforeAgent": [{"hooks": [one(command)]}],
            "AfterAgent": [{"hooks": [one(command)]}],
        }
    }
