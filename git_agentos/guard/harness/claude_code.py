"""Claude Code: hooks in `settings.json`, JSON on stdin, `hookSpecificOutput` on stdout.

    PreToolUse        tool_name, tool_input; denied by permissionDecision
    PostToolUse       the same, afterwards
    UserPromptSubmit  prompt
    Stop              the turn is over

Exit code 2 blocks too; every other failure of a hook lets the tool run, so the command in the settings turns a failure
to start into 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

PROJECT, USER = ".claude/settings.local.json", ".claude/settings.json"
NOTE = "started sessions take it up with '/hooks', or when they are started again"

SHELLS = ("Bash", "BashOutput", "Monitor")
EDITS = ("Write", "Edit", "MultiEdit", "NotebookEdit", "Update")
READS = ("Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoWrite", "Task", "Agent", "Skill", "BashOutput",
         "KillShell", "KillBash", "ExitPlanMode", "AskUserQuestion", "ToolSearch", "NotebookRead")  # fmt: skip


def read(body: Mapping[str, Any], cwd: str) -> Event:
    name = required(body, "hook_event_name")
    where = place(body, cwd=cwd)
    session = text_of(body, "session_id")
    if name in ("PreToolUse", "PermissionRequest"):
        tool = required(body, "tool_name")
        given = object_of(body, "tool_input")
        return tool_event(name, tool, given, where, session, shells=SHELLS, edits=EDITS, reads=READS)
    if name == "PostToolUse":
        tool = text_of(body, "tool_name") or ""
        return done_event(name, tool, object_of(body, "tool_input"), where, session, shells=SHELLS, edits=EDITS)
    if name == "UserPromptSubmit":
        return Event(PROMPT, name, where, text=text_of(body, "prompt") or "", session=session)
    if name == "Stop":
        return Event(STOP, name, where, session=session)
    return Event(OTHER, name, where, session=session)


def deny(event: Event | None, reason: str) -> Answer:
    name = event.name if event is not None else "PreToolUse"
    if name == "PermissionRequest":
        decided: dict[str, Any] = {"decision": {"behavior": "deny", "message": reason}}
    else:
        decided = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return Answer(dumped({"hookSpecificOutput": {"hookEventName": name, **decided}}))


def pass_on(event: Event, said: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(dumped({"systemMessage": said})) if said else Answer(dumped({}))


def settings(command: str, closed: str) -> dict[str, Any]:
    """What has to be in the settings; `closed` is the command that blocks where it cannot be started."""

    def one(what: str) -> dict[str, Any]:
        return {"type": "command", "command": what, "timeout": 60}

    return {
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [one(closed)]}],
            "PostToolUse": [{"matcher": "Bash|Write|Edit|MultiEdit|NotebookEdit", "hooks": [one(command)]}],
            "UserPromptSubmit": [{"hooks": [one(command)]}],
            "Stop": [{"hooks": [one(command)]}],
        }
    }
