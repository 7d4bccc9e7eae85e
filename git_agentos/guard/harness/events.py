"""The events of harnesses in one form, and what a hook replies to them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from git_agentos.util.named_tuple import NamedTuple

# What an event is about.
SHELL, EDIT, TOOL_RAN, PROMPT, STOP = "shell", "edit", "tool-ran", "prompt", "stop"
SESSION_START, SESSION_END, COMPACTION, SUBAGENT_STOP = "session-start", "session-end", "compaction", "subagent-stop"
MODEL_REQUEST = "model-request"
WORKTREE_CREATE, WORKTREE_REMOVE, OTHER = "worktree-create", "worktree-remove", "other"
# What a checkpoint is created at, though it neither begins nor ends a turn.
MOMENTS = (SESSION_START, COMPACTION, SUBAGENT_STOP, MODEL_REQUEST)

_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
_COMMAND_FIELDS = ("command", "cmd", "script")
_FOLDER_FIELDS = ("directory", "dir_path", "workdir", "working_directory")
_PATH_FIELDS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "fileName")
_PATCH_FIELDS = ("patchText", "patch", "input", "command")
_LIST_FIELDS = ("edits", "files")


class InvalidEvent(Exception):
    """The input does not have the form that the harness sends; the text says why."""


class Event(NamedTuple):
    """One event. `kind` says what it is about:

    `shell`     a command is about to run: `text`, or `argv` where the harness starts it without a shell
    `edit`      files are about to be changed: `paths`, absolute
    `tool-ran`  a tool has run: one that changed `paths`, or a shell with `text`; other tools have neither
    `prompt`    the user has entered a prompt: `text`
    `stop`      the agent has finished its turn
    `session-start`, `session-end`  the session begins, or is over
    `compaction`  the conversation is about to be replaced by a summary
    `subagent-stop`  a sub-agent has finished
    `model-request`  the model is about to be asked
    `worktree-create`  the hook has to make the worktree that is called `text`, and to say where it is
    `worktree-remove`  the hook has to remove the worktree at `text`
    `other`     nothing that concerns the guard

    `name` is the harness's own name for the event, which some replies have to repeat. `given` is the tool's input as
    JSON. `input` is the field with a shell's command, and the shell's whole input. Of a session's event, `reason` is
    what the harness says of it (`resume`, `auto`, the type of a sub-agent), and `digest` tells it from others.
    """

    kind: str
    name: str
    cwd: str
    text: str = ""
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    tool: str = ""
    session: str | None = None
    given: str = ""
    input: tuple[str, dict[str, Any]] | None = None
    reason: str = ""
    digest: str = ""


class Tools(NamedTuple):
    """The tools of a harness by name: those that run a shell command, those that edit files, and those that do neither,
    whatever fields they have. The one called `editor` is `view` or `edit`, as its `command` says."""

    shells: Sequence[str]
    editors: Sequence[str]
    readers: Sequence[str] = ()
    editor: str = ""


class HookReply(NamedTuple):
    """What the hook prints, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0


# -- reading JSON ------------------------------------------------------------------------------------------------------


def parse_json(data: bytes) -> dict[str, Any]:
    """The JSON object that a harness sends."""
    try:
        body = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(f"it is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidEvent("it is not a JSON object")
    return body


def text_of(body: Mapping[str, Any], *fields: str) -> str | None:
    """The text in the first of `fields` that is there; InvalidEvent where it is not a text."""
    for field in fields:
        value = body.get(field)
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidEvent(f"'{field}' is not a text")
        return value
    return None


def required_text(body: Mapping[str, Any], field: str) -> str:
    """The text in `field`; InvalidEvent where there is none."""
    text = text_of(body, field)
    if text is None:
        raise InvalidEvent(f"it has no '{field}'")
    return text


def object_of(body: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The object in `field`, which may be JSON in a text; empty where there is none."""
    value = body.get(field)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidEvent(f"'{field}' is not JSON") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidEvent(f"'{field}' is not an object")
    return value


def working_directory(body: Mapping[str, Any], default: str) -> str:
    """The folder of an event, absolute; `default` where the event does not say."""
    folder = text_of(body, "cwd", "directory")
    if folder is None:
        roots = body.get("workspace_roots")
        folder = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else None
    if not folder:
        return default
    if "\0" in folder or not os.path.isabs(folder):
        raise InvalidEvent("'cwd' is not an absolute path")
    return os.path.normpath(folder)


# -- tools -------------------------------------------------------------------------------------------------------------


def before_tool(event: Event, given: Mapping[str, Any], tools: Tools) -> Event:
    """The event of a tool that is about to run with the input `given`; `event` is what is known of it without that.

    An unknown tool with a command counts as a shell: harnesses get new tools, and MCP servers have their own.
    """
    if tools.editor and event.tool == tools.editor:
        event = event._replace(tool="view" if text_of(given, "command") == "view" else "edit")
    tool = event.tool
    if tool in tools.editors:
        whole = json.dumps(given, sort_keys=True, ensure_ascii=False)
        return event._replace(kind=EDIT, paths=_edited_paths(tool, given, event.cwd), given=whole)
    is_shell = tool in tools.shells
    has_command = any(isinstance(given.get(field), str | list) for field in _COMMAND_FIELDS)
    if tool in tools.readers or not (is_shell or has_command):
        return event
    folder = _command_folder(given, strict=is_shell)
    cwd = os.path.normpath(os.path.join(event.cwd, folder)) if folder and "\0" not in folder else event.cwd
    for field in _COMMAND_FIELDS:
        value = given.get(field)
        if isinstance(value, str):
            return event._replace(kind=SHELL, cwd=cwd, text=value, input=(field, dict(given)))
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return event._replace(kind=SHELL, cwd=cwd, argv=tuple(value))
    if is_shell:
        raise InvalidEvent(f"the tool '{tool}' has no 'command'")
    return event


def after_tool(event: Event, given: Mapping[str, Any], tools: Tools) -> Event:
    """The event of a tool that has run; what is missing from its input is left out."""
    if event.tool in tools.shells:
        commands = (value for field in _COMMAND_FIELDS if isinstance(value := given.get(field), str))
        return event._replace(kind=TOOL_RAN, text=next(commands, event.tool))
    paths: tuple[str, ...] = ()
    if event.tool in tools.editors:
        try:
            paths = _edited_paths(event.tool, given, event.cwd)
        except InvalidEvent:
            pass
    return event._replace(kind=TOOL_RAN, paths=paths)


def _command_folder(given: Mapping[str, Any], *, strict: bool) -> str:
    """The folder in which a tool runs its command. These fields of other tools than shells may mean anything."""
    try:
        return text_of(given, *_FOLDER_FIELDS) or ""
    except InvalidEvent:
        if strict:
            raise
        return ""


def _edited_paths(tool: str, given: Mapping[str, Any], cwd: str) -> tuple[str, ...]:
    """The files in the input of a tool that edits, absolute."""
    paths = [value for field in _PATH_FIELDS if isinstance(value := given.get(field), str) and value]
    for field in _PATCH_FIELDS:
        value = given.get(field)
        if isinstance(value, str):
            paths += _PATCHED.findall(value)
    for field in _LIST_FIELDS:
        items = given.get(field)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, str):
                paths.append(item)
            elif isinstance(item, dict):
                paths += [item[inner] for inner in _PATH_FIELDS if isinstance(item.get(inner), str)]
    if not paths:
        raise InvalidEvent(f"the tool '{tool}' names no file")
    if any("\0" in path for path in paths):
        raise InvalidEvent("a file name contains NUL")
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(cwd, os.path.expanduser(path))) for path in paths))
