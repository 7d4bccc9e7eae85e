"""Codex: hooks in `hooks.json`, with events and answers as Claude Code has them, but for two things.

A hook may say `deny` or nothing: `allow` and `ask` count as its failure, and then the command runs. And files are
changed by `apply_patch`, whose patch is in `tool_input.command`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from git_agentos.guard.harness import claude_code
from git_agentos.guard.harness.events import (
    Answer,
    Event,
    done_event,
    object_of,
    place,
    required,
    text_of,
    tool_event,
)

IN_ROOT_CHECKOUT = True
PROJECT, USER = ".codex/hooks.json", ".codex/hooks.json"
NOTE = "'/hooks' in codex lists it; codex reads it in every worktree that is integrated, and in the main checkout"

_SHELLS = ("Bash", "shell", "exec_command", "local_shell", "unified_exec")
_EDITS = ("apply_patch", "Write", "Edit")
_READS = ("view_image", "update_plan", "web_search", "read_file", "list_dir", "grep_files")

deny = claude_code.deny


def read(body: Mapping[str, Any], cwd: str) -> Event:
    name = required(body, "hook_event_name")
    if name not in ("PreToolUse", "PermissionRequest", "PostToolUse"):
        return claude_code.read(body, cwd)
    where = place(body, cwd=cwd)
    session = text_of(body, "session_id")
    tool = required(body, "tool_name")
    given = object_of(body, "tool_input")
    if name == "PostToolUse":
        return done_event(name, tool, given, where, session, shells=_SHELLS, edits=_EDITS)
    return tool_event(name, tool, given, where, session, shells=_SHELLS, edits=_EDITS, reads=_READS)


def settings(command: str, closed: str) -> dict[str, Any]:
    """What has to be in the settings; `closed` is the command that blocks where it cannot be started."""
    made = claude_code.settings(command, closed)
    made["hooks"]["PostToolUse"][0]["matcher"] = "|".join((*_SHELLS, *_EDITS))
    return made


def pass_on(event: Event, said: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(said=said)
