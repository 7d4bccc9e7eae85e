"""What a harness tells and is told, in one form for all of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SHELL, EDIT, DONE, PROMPT, STOP, OTHER = "shell", "edit", "done", "prompt", "stop", "other"

_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
_SHELL_KEYS = ("command", "cmd", "script")
_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "fileName")


class Malformed(Exception):
    """The input is none that the harness sends; the text says why."""


class Event(NamedTuple):
    """One event. `kind` is what it is about:

    `shell`  a command is about to run: `text`, or `argv` where the harness starts it itself
    `edit`   files are about to be changed: `paths`, absolute
    `done`   a tool has run: one that has changed `paths`, or a shell with `text`; others have neither
    `prompt` the user has said something: `text`
    `stop`   the agent has finished its turn
    `other`  nothing that the guard looks at

    `name` is the harness's own name for the event, which some answers have to repeat; `given` is what the tool was
    given, as JSON; `input` the key under which a shell was given its command, and all that it was given.
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


class Answer(NamedTuple):
    """What goes to the harness: stdout, stderr, and the exit code."""

    out: str = ""
    said: str = ""
    code: int = 0


def document(data: bytes) -> dict[str, Any]:
    """The JSON object that a harness sends."""
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the input is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Malformed("the input is no JSON object")
    return found


def text_of(body: Mapping[str, Any], *keys: str) -> str | None:
    """The first of `keys` that is a text; Malformed where one is something else."""
    for key in keys:
        value = body.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Malformed(f"'{key}' is no text")
        return value
    return None


def required(body: Mapping[str, Any], *keys: str) -> str:
    found = text_of(body, *keys)
    if found is None:
        raise Malformed(f"it has no '{keys[0]}'")
    return found


def object_of(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object, or one that is written as text, as some harnesses do."""
    value = body.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"'{key}' is no JSON") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"'{key}' is no object")
    return value


def place(body: Mapping[str, Any], *, cwd: str) -> str:
    """Where it happens: what the harness says, else where the hook was started."""
    found = text_of(body, "cwd", "directory")
    if found is None:
        roots = body.get("workspace_roots")
        found = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else None
    if not found:
        return cwd
    if "\0" in found or not os.path.isabs(found):
        raise Malformed("'cwd' is no absolute path")
    return os.path.normpath(found)


def tool_event(
    name: str,
    tool: str,
    given: Mapping[str, Any],
    cwd: str,
    session: str | None,
    *,
    shells: Sequence[str],
    edits: Sequence[str],
    reads: Sequence[str] = (),
) -> Event:
    """The event of a tool that is about to run.

    One that is not known, and is given a command, is taken for a shell: harnesses get new tools, and MCP servers have
    their own.
    """
    if tool in reads:
        return Event(OTHER, name, cwd, tool=tool, session=session)
    if tool in edits:
        paths = paths_of(tool, given, cwd)
        whole = json.dumps(given, sort_keys=True, ensure_ascii=False)
        return Event(EDIT, name, cwd, paths=paths, tool=tool, session=session, given=whole)
    if tool not in shells and not any(isinstance(given.get(key), str | list) for key in _SHELL_KEYS):
        return Event(OTHER, name, cwd, tool=tool, session=session)  # nothing that is run: its other fields are its own
    where = _folder(given, strict=tool in shells)
    there = os.path.normpath(os.path.join(cwd, where)) if where and "\0" not in where else cwd
    for key in _SHELL_KEYS:
        value = given.get(key)
        if isinstance(value, str):
            return Event(SHELL, name, there, text=value, tool=tool, session=session, input=(key, dict(given)))
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return Event(SHELL, name, there, argv=tuple(value), tool=tool, session=session)
    if tool in shells:
        raise Malformed(f"the tool '{tool}' has no 'command'")
    return Event(OTHER, name, cwd, tool=tool, session=session)


def _folder(given: Mapping[str, Any], *, strict: bool) -> str:
    """Where a tool runs its command. A tool that is no shell may mean anything by these fields."""
    try:
        return text_of(given, "directory", "dir_path", "workdir", "working_directory") or ""
    except Malformed:
        if strict:
            raise
        return ""


def done_event(
    name: str,
    tool: str,
    given: Mapping[str, Any],
    cwd: str,
    session: str | None,
    *,
    shells: Sequence[str],
    edits: Sequence[str],
) -> Event:
    """The event of a tool that has run: what has happened cannot be malformed."""
    if tool in shells:
        text = next((value for key in _SHELL_KEYS if isinstance(value := given.get(key), str)), tool)
        return Event(DONE, name, cwd, text=text, tool=tool, session=session)
    return Event(DONE, name, cwd, paths=edited(tool, given, cwd, edits), tool=tool, session=session)


def paths_of(tool: str, given: Mapping[str, Any], cwd: str) -> tuple[str, ...]:
    """The files that an editing tool is given, absolute."""
    found: list[str] = []
    for key in _PATH_KEYS:
        value = given.get(key)
        if isinstance(value, str) and value:
            found.append(value)
    for key in ("patchText", "patch", "input", "command"):
        value = given.get(key)
        if isinstance(value, str):
            found += _PATCHED.findall(value)
    for key in ("edits", "files"):
        for each in given.get(key) or () if isinstance(given.get(key), list) else ():
            if isinstance(each, str):
                found.append(each)
            elif isinstance(each, dict):
                found += [each[inner] for inner in _PATH_KEYS if isinstance(each.get(inner), str)]
    if not found:
        raise Malformed(f"the tool '{tool}' names no file")
    if any("\0" in path for path in found):
        raise Malformed("a file's name has a NUL in it")
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(cwd, os.path.expanduser(path))) for path in found))


def edited(tool: str, given: Mapping[str, Any], cwd: str, edits: Sequence[str]) -> tuple[str, ...]:
    """The files that a tool has changed, as far as that is told: what has happened cannot be malformed."""
    if tool not in edits:
        return ()
    try:
        return paths_of(tool, given, cwd)
    except Malformed:
        return ()


def dumped(body: Mapping[str, Any]) -> str:
    return json.dumps(body) + "\n"
