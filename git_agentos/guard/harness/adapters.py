"""The harnesses: a table with one row each. A new harness is a new row.

A row says which events the harness sends and in which fields (`parse`), which of its tools run commands and which edit
files, how the hook replies (`deny`, `no_objection`), and where its settings are and what has to be in them. What is
done about an event is the same for all harnesses (`handler`).

A hook never replies `allow`: with that, a harness would skip the questions that it asks its user.

    Claude Code   exit code 2 blocks too. Any other failure of a hook lets the tool run, so the command in the settings
                  turns a failure to start into 2.
    Codex         as Claude Code, but `allow` and `ask` count as failures of the hook, after which the command runs.
                  `apply_patch` has its patch in `command`.
    Gemini CLI    only JSON may be on stdout. Its shell overrides git's configuration (`client_configuration`). It sends
                  `PreCompress` with the trigger `auto` before each request to the model, whether it compacts or not.
    Cursor        `failClosed` makes a hook that fails block.
    Copilot CLI   its events do not have a name: their fields tell them apart. It also sends the form of Claude Code,
                  which it shares with VS Code. Its shell overrides git's configuration too.
    opencode      has plugins instead of hooks. `opencode.js` is ours, and so is the form of what it sends and reads:
                  {"event": …, "tool": …, "args": {…}, "sessionID": …, "cwd": …}, {"decision": "deny", "reason": …}.
                  It throws an error where a tool must not run, or where our program fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from git_agentos.errors import UsageError
from git_agentos.guard.harness.events import (
    COMPACTION,
    MODEL_REQUEST,
    PROMPT,
    SESSION_END,
    SESSION_START,
    STOP,
    SUBAGENT_STOP,
    WORKTREE_CREATE,
    WORKTREE_REMOVE,
    Event,
    HookReply,
    InvalidEvent,
    Tools,
    required_text,
    text_of,
)
from git_agentos.guard.harness.row import AFTER_TOOL, BEFORE_TOOL, COMMAND, ELSEWHERE, FILE_EDITED, Fields, Harness

# -- Claude Code and Codex ---------------------------------------------------------------------------------------------

_CLAUDE_EVENTS = {
    "PreToolUse": BEFORE_TOOL,
    "PermissionRequest": BEFORE_TOOL,
    "PostToolUse": AFTER_TOOL,
    "UserPromptSubmit": PROMPT,
    "Stop": STOP,
    "SessionStart": SESSION_START,
    "SessionEnd": SESSION_END,
    "PreCompact": COMPACTION,
    "SubagentStop": SUBAGENT_STOP,
    "WorktreeCreate": WORKTREE_CREATE,
    "WorktreeRemove": WORKTREE_REMOVE,
}
_CLAUDE_MOMENTS = ("SessionStart", "SessionEnd", "PreCompact", "SubagentStop")


def _claude_deny(event: Event | None, reason: str) -> HookReply:
    name = event.name if event is not None else "PreToolUse"
    if name == "PermissionRequest":
        decision: dict[str, Any] = {"decision": {"behavior": "deny", "message": reason}}
    else:
        decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return _reply({"hookSpecificOutput": {"hookEventName": name, **decision}})


def _system_message(event: Event, message: str) -> HookReply:  # noqa: ARG001 (one form for all)
    return _reply({"systemMessage": message} if message else {})


def _message_on_stderr(event: Event, message: str) -> HookReply:  # noqa: ARG001 (one form for all)
    return HookReply(stderr=message)


def _claude_settings(matcher: str, *more: str) -> Callable[[str, str], dict[str, Any]]:
    """The settings in which the tools that `matcher` matches are recorded, and `more` events."""

    def settings(recording: str, blocking: str) -> dict[str, Any]:
        def hook(command: str) -> dict[str, Any]:
            return {"type": "command", "command": command, "timeout": 60}

        return {
            "hooks": {
                "PreToolUse": [{"matcher": "*", "hooks": [hook(blocking)]}],
                "PostToolUse": [{"matcher": matcher, "hooks": [hook(recording)]}],
                "UserPromptSubmit": [{"hooks": [hook(recording)]}],
                "Stop": [{"hooks": [hook(recording)]}],
                **{
                    event: [{"hooks": [hook((ELSEWHERE if event == "WorktreeRemove" else "") + recording)]}]
                    for event in more
                },
            }
        }

    return settings


CLAUDE_CODE = Harness(
    name="claude-code",
    project_settings=".claude/settings.local.json",
    user_settings=".claude/settings.json",
    note="restart running sessions, or enter '/hooks' in them",
    tools=Tools(
        shells=("Bash", "BashOutput", "Monitor"),
        editors=("Write", "Edit", "MultiEdit", "NotebookEdit", "Update"),
        readers=("Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoWrite", "Task", "Agent", "Skill",
                 "BashOutput", "KillShell", "KillBash", "ExitPlanMode", "AskUserQuestion", "ToolSearch",
                 "NotebookRead"),
    ),
    events=_CLAUDE_EVENTS,
    deny=_claude_deny,
    no_objection=_system_message,
    settings=_claude_settings(
        "Bash|Write|Edit|MultiEdit|NotebookEdit", *_CLAUDE_MOMENTS, "WorktreeCreate", "WorktreeRemove"
    ),
)  # fmt: skip

_CODEX_TOOLS = Tools(
    shells=("Bash", "shell", "exec_command", "local_shell", "unified_exec"),
    editors=("apply_patch", "Write", "Edit"),
    readers=("view_image", "update_plan", "web_search", "read_file", "list_dir", "grep_files"),
)

CODEX = Harness(
    name="codex",
    project_settings=".codex/hooks.json",
    user_settings=".codex/hooks.json",
    note="'/hooks' in codex lists it; codex reads it in every worktree that is integrated, and in the main checkout",
    tools=_CODEX_TOOLS,
    events=_CLAUDE_EVENTS,
    deny=_claude_deny,
    no_objection=_message_on_stderr,
    settings=_claude_settings("|".join((*_CODEX_TOOLS.shells, *_CODEX_TOOLS.editors)), *_CLAUDE_MOMENTS),
    reads_main_checkout=True,
)


# -- Gemini CLI --------------------------------------------------------------------------------------------------------


def _deny_decision(event: Event | None, reason: str) -> HookReply:  # noqa: ARG001 (one form for all)
    return _reply({"decision": "deny", "reason": reason})


_BEFORE_A_REQUEST = "PreCompress before a request"


def _gemini_event(body: Mapping[str, Any]) -> str:
    name = required_text(body, "hook_event_name")
    return _BEFORE_A_REQUEST if name == "PreCompress" and body.get("trigger") == "auto" else name


def _gemini_rewrite(event: Event, command: str) -> HookReply:
    field = event.input[0] if event.input is not None else "command"
    return _reply({"hookSpecificOutput": {"hookEventName": event.name, "tool_input": {field: command}}})


def _gemini_settings(recording: str, blocking: str) -> dict[str, Any]:
    def hook(command: str) -> dict[str, Any]:
        return {"name": "git-agentos", "type": "command", "command": command, "timeout": 60000}

    return {
        "hooks": {
            "BeforeTool": [{"matcher": ".*", "hooks": [hook(blocking)]}],
            "AfterTool": [{"matcher": "|".join((*_GEMINI_TOOLS.shells, *_GEMINI_TOOLS.editors)),
                           "hooks": [hook(recording)]}],
            "BeforeAgent": [{"hooks": [hook(recording)]}],
            "AfterAgent": [{"hooks": [hook(recording)]}],
            "SessionStart": [{"hooks": [hook(recording)]}],
            "SessionEnd": [{"hooks": [hook(recording)]}],
            "PreCompress": [{"hooks": [hook(recording)]}],
        }
    }  # fmt: skip


_GEMINI_TOOLS = Tools(
    shells=("run_shell_command",),
    editors=("write_file", "replace", "edit", "smart_edit"),
    readers=("read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search",
             "web_fetch", "google_web_search", "save_memory", "write_todos"),
)  # fmt: skip

GEMINI = Harness(
    name="gemini",
    project_settings=".gemini/settings.json",
    user_settings=".gemini/settings.json",
    note="'/hooks' in gemini lists it; gemini's shell switches the guard off inside git, and our hook switches it on"
    " again: `git agentos guard exec -- gemini` covers what gemini starts in another way",
    tools=_GEMINI_TOOLS,
    events={
        "BeforeTool": BEFORE_TOOL,
        "AfterTool": AFTER_TOOL,
        "BeforeAgent": PROMPT,
        "AfterAgent": STOP,
        "SessionStart": SESSION_START,
        "SessionEnd": SESSION_END,
        "PreCompress": COMPACTION,
        _BEFORE_A_REQUEST: MODEL_REQUEST,
    },
    deny=_deny_decision,
    no_objection=_system_message,
    name_event=_gemini_event,
    settings=_gemini_settings,
    override_variable="GEMINI_SESSION_ID",
    rewrite=_gemini_rewrite,
)


# -- Cursor ------------------------------------------------------------------------------------------------------------


def _cursor_event(body: Mapping[str, Any]) -> str:
    # The first versions of Cursor did not name the most important event.
    return text_of(body, "hook_event_name") or (
        "beforeShellExecution" if "command" in body else required_text(body, "hook_event_name")
    )


def _cursor_deny(event: Event | None, reason: str) -> HookReply:
    if event is not None and event.kind == PROMPT:
        return _reply({"continue": False, "user_message": reason})
    return _reply({"permission": "deny", "user_message": reason, "agent_message": reason})


def _cursor_no_objection(event: Event, message: str) -> HookReply:
    return _reply({"continue": True} if event.kind == PROMPT else {}, message)


def _cursor_settings(recording: str, blocking: str) -> dict[str, Any]:
    first = {"command": blocking, "timeout": 60, "failClosed": True}
    then = {"command": recording, "timeout": 60}
    return {
        "version": 1,
        "hooks": {
            "beforeShellExecution": [first],
            "beforeMCPExecution": [first],
            "preToolUse": [{**first, "matcher": "|".join(_CURSOR_TOOLS.editors)}],
            "afterFileEdit": [then],
            "beforeSubmitPrompt": [then],
            "stop": [then],
            "sessionStart": [then],
            "sessionEnd": [then],
            "preCompact": [then],
            "subagentStop": [then],
        },
    }


_CURSOR_TOOLS = Tools(
    shells=("Shell", "Bash", "run_terminal_cmd"),
    editors=("Write", "Edit", "StrReplace", "MultiEdit", "Delete", "TabWrite", "ApplyPatch", "EditNotebook",
             "edit_file", "search_replace", "delete_file", "write"),
    readers=("Read", "Grep", "Glob", "LS", "TabRead", "SemanticSearch", "WebSearch", "WebFetch", "Task", "TodoWrite"),
)  # fmt: skip

CURSOR = Harness(
    name="cursor",
    project_settings=".cursor/hooks.json",
    user_settings=".cursor/hooks.json",
    note="restart cursor",
    tools=_CURSOR_TOOLS,
    events={
        "beforeShellExecution": COMMAND,
        "beforeMCPExecution": BEFORE_TOOL,
        "preToolUse": BEFORE_TOOL,
        "afterFileEdit": FILE_EDITED,
        "beforeSubmitPrompt": PROMPT,
        "stop": STOP,
        "sessionStart": SESSION_START,
        "sessionEnd": SESSION_END,
        "preCompact": COMPACTION,
        "subagentStop": SUBAGENT_STOP,
    },
    deny=_cursor_deny,
    no_objection=_cursor_no_objection,
    fields=Fields(session=("conversation_id", "session_id")),
    name_event=_cursor_event,
    settings=_cursor_settings,
)


# -- Copilot CLI -------------------------------------------------------------------------------------------------------

_COPILOT_FIELDS = Fields(tool="toolName", input="toolArgs", session=("parentAgentId", "sessionId", "session_id"))
_COPILOT_OTHER = ("error", "notification_type")


def _copilot_event(body: Mapping[str, Any]) -> str:
    if text_of(body, "toolName") is not None:
        return "postToolUse" if "toolResult" in body else "preToolUse"
    if "toolArgs" not in body and "toolResult" not in body:
        if "parentAgentId" in body and "agentName" not in body:
            return "other"  # of a sub-agent, which has a session of its own: 'subagentStop' tells its parent of its end
        if "prompt" in body and "source" not in body:
            return "userPromptSubmitted"
        if "stopReason" in body:
            return "subagentStop" if "agentName" in body else "agentStop"
        if "reason" in body:
            return "sessionEnd"
        if "source" in body or "initialPrompt" in body:
            return "sessionStart"
        if "trigger" in body:
            return "preCompact"
        if any(field in body for field in _COPILOT_OTHER):
            return "other"
    raise InvalidEvent("it has no 'toolName'")


def _copilot_deny(event: Event | None, reason: str) -> HookReply:
    if event is not None and _CLAUDE_EVENTS.get(event.name) == BEFORE_TOOL:
        return _claude_deny(event, reason)
    return _reply({"permissionDecision": "deny", "permissionDecisionReason": reason})


def _copilot_rewrite(event: Event, command: str) -> HookReply:
    field, given = event.input if event.input is not None else ("command", {})
    return _reply({"modifiedArgs": {**given, field: command}})


def _copilot_settings(recording: str, blocking: str) -> dict[str, Any]:
    def hook(command: str) -> list[dict[str, Any]]:
        return [{"type": "command", "bash": command, "timeoutSec": 60}]

    return {
        "version": 1,
        "hooks": {
            "preToolUse": hook(blocking),
            "postToolUse": hook(recording),
            "userPromptSubmitted": hook(recording),
            "agentStop": hook(recording),
            "sessionStart": hook(recording),
            "sessionEnd": hook(recording),
            "preCompact": hook(recording),
            "subagentStop": hook(recording),
        },
    }


COPILOT = Harness(
    name="copilot",
    project_settings=".github/hooks/git-agentos.json",
    user_settings=".copilot/hooks/git-agentos.json",
    note="restart copilot; copilot's shell switches the guard off inside git, and our hook switches it on again:"
    " `git agentos guard exec -- copilot` covers what copilot starts in another way",
    tools=Tools(
        shells=("bash", "shell", "powershell", "local_shell"),
        editors=("edit", "create", "write", "apply_patch", "delete", "str_replace", "insert"),
        readers=("view", "read", "grep", "glob", "web_fetch", "report_intent", "task", "read_bash", "stop_bash",
                 "ask_user"),
        editor="str_replace_editor",
    ),
    events={
        "preToolUse": BEFORE_TOOL,
        "postToolUse": AFTER_TOOL,
        "userPromptSubmitted": PROMPT,
        "agentStop": STOP,
        "sessionStart": SESSION_START,
        "sessionEnd": SESSION_END,
        "preCompact": COMPACTION,
        "subagentStop": SUBAGENT_STOP,
    },
    deny=_copilot_deny,
    no_objection=_message_on_stderr,
    fields=_COPILOT_FIELDS,
    name_event=_copilot_event,
    settings=_copilot_settings,
    shared_form=CLAUDE_CODE,
    override_variable="COPILOT_CLI",
    rewrite=_copilot_rewrite,
)  # fmt: skip


# -- opencode ----------------------------------------------------------------------------------------------------------


def _opencode_event(body: Mapping[str, Any]) -> str:
    return text_of(body, "event") or ("tool.execute.before" if "tool" in body else required_text(body, "event"))


def _opencode_no_objection(event: Event, message: str) -> HookReply:  # noqa: ARG001 (one form for all)
    return _reply({}, message)


OPENCODE = Harness(
    name="opencode",
    project_settings=".opencode/plugins/git-agentos.js",
    user_settings=".config/opencode/plugins/git-agentos.js",
    note="restart opencode",
    tools=Tools(
        shells=("bash", "shell"),
        editors=("edit", "write", "multiedit", "patch", "apply_patch"),
        readers=("read", "grep", "glob", "list", "webfetch", "websearch", "todowrite", "todoread", "task", "skill",
                 "question", "lsp", "codesearch"),
    ),
    events={
        "tool.execute.before": BEFORE_TOOL,
        "tool.execute.after": AFTER_TOOL,
        "chat.message": PROMPT,
        "session.idle": STOP,
        "session.created": SESSION_START,
        "session.compacting": COMPACTION,
        "subagent.idle": SUBAGENT_STOP,
    },
    deny=_deny_decision,
    no_objection=_opencode_no_objection,
    fields=Fields("event", "tool", "args", ("sessionID",)),
    name_event=_opencode_event,
    plugin="opencode.js",
)  # fmt: skip


# In the order in which they are listed.
HARNESSES: Mapping[str, Harness] = {each.name: each for each in (CLAUDE_CODE, CODEX, GEMINI, CURSOR, COPILOT, OPENCODE)}


def get(name: str) -> Harness:
    """The harness of this name; UsageError where there is none."""
    if name not in HARNESSES:
        raise UsageError(f"'{name}' is not a supported harness", f"supported are {', '.join(HARNESSES)}")
    return HARNESSES[name]


def _reply(body: Mapping[str, Any], message: str = "") -> HookReply:
    return HookReply(json.dumps(body) + "\n", message)
