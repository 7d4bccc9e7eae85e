"""GitHub Copilot CLI: a file of its own in `.github/hooks`; `{"permissionDecision": "deny", …}` on stdout.

Its events do not say their name: they are told apart by what they have. The form that it shares with VS Code (snake
case, `hook_event_name`) is that of Claude Code, and is understood too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from git_agentos.guard.harness import claude_code, overrides
from git_agentos.guard.harness.events import (
    OTHER,
    PROMPT,
    STOP,
    Answer,
    Event,
    Malformed,
    done_event,
    dumped,
    object_of,
    place,
    required,
    text_of,
    tool_event,
)

# Its shell tool switches the guard off inside git: each command is prefixed (`overrides`). This variable tells that
# it is Copilot itself that asks.
OVERRIDES_GIT = "COPILOT_CLI"
PROJECT, USER = ".github/hooks/git-agentos.json", ".copilot/hooks/git-agentos.json"
NOTE = (
    "copilot takes it up when it is started again; copilot's shell switches the guard off inside git, and our hook"
    " switches it on again: `git agentos guard exec -- copilot` covers what copilot starts in another way"
)

_SHELLS = ("bash", "shell", "powershell", "local_shell")
_EDITS = ("edit", "create", "write", "apply_patch", "delete", "str_replace", "insert")
_READS = ("view", "read", "grep", "glob", "web_fetch", "report_intent", "task", "read_bash", "stop_bash", "ask_user")
_SNAKE = {"PreToolUse", "PermissionRequest"}


def read(body: Mapping[str, Any], cwd: str) -> Event:
    if isinstance(body.get("hook_event_name"), str) and "toolName" not in body:
        return claude_code.read(body, cwd)
    where = place(body, cwd=cwd)
    session = text_of(body, "sessionId", "session_id")
    tool = text_of(body, "toolName")
    if tool is not None:
        given = object_of(body, "toolArgs")
        if "toolResult" in body:
            done = done_event("postToolUse", tool, given, where, session, shells=_SHELLS, edits=_EDITS)
            return done._replace(text=overrides.original(done.text))
        if tool == "str_replace_editor":
            # One tool for looking and for editing.
            tool = "view" if text_of(given, "command") == "view" else "edit"
        return tool_event("preToolUse", tool, given, where, session, shells=_SHELLS, edits=_EDITS, reads=_READS)
    if "toolArgs" in body or "toolResult" in body:
        required(body, "toolName")
    if "prompt" in body and "source" not in body:
        return Event(PROMPT, "userPromptSubmitted", where, text=text_of(body, "prompt") or "", session=session)
    if "stopReason" in body:
        return Event(STOP, "agentStop", where, session=session)
    if any(key in body for key in ("source", "reason", "error", "initialPrompt", "notification_type", "trigger")):
        return Event(OTHER, "other", where, session=session)
    raise Malformed("it has no 'toolName'")


def deny(event: Event | None, reason: str) -> Answer:
    if event is not None and event.name in _SNAKE:
        return claude_code.deny(event, reason)
    return Answer(dumped({"permissionDecision": "deny", "permissionDecisionReason": reason}))


def pass_on(event: Event, said: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(said=said)


def rewrite(event: Event, command: str) -> Answer:
    """Have the tool run `command` instead of what it was given; what else it was given stays."""
    key, given = event.input if event.input is not None else ("command", {})
    return Answer(dumped({"modifiedArgs": {**given, key: command}}))


def settings(command: str, closed: str) -> dict[str, Any]:
    """What has to be in the settings; `closed` is the command that blocks where it cannot be started."""

    def one(what: str) -> list[dict[str, Any]]:
        return [{"type": "command", "bash": what, "timeoutSec": 60}]

    return {
        "version": 1,
        "hooks": {
            "preToolUse": one(closed),
            "postToolUse": one(command),
            "userPromptSubmitted": one(command),
            "agentStop": one(command),
        },
    }
