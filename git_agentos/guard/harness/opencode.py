"""OpenCode: a plugin, which starts us for each event and throws what we say where a tool must not run.

The plugin is ours, so the form of what it sends and is told is ours too:

    {"event": "tool.execute.before", "tool": …, "args": {…}, "sessionID": …, "cwd": …}   also tool.execute.after
    {"event": "chat.message", "prompt": …, …} and {"event": "session.idle", …}
    {"decision": "deny", "reason": …}, or {}

It does not go on where we cannot be started, or say nothing that it understands.
"""

from __future__ import annotations

import json
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

PROJECT, USER = ".opencode/plugins/git-agentos.js", ".config/opencode/plugins/git-agentos.js"
NOTE = "opencode takes it up when it is started again"

_SHELLS = ("bash", "shell")
_EDITS = ("edit", "write", "multiedit", "patch", "apply_patch")
_READS = ("read", "grep", "glob", "list", "webfetch", "websearch", "todowrite", "todoread", "task", "skill", "question",
          "lsp", "codesearch")  # fmt: skip

_PLUGIN = """\
// git-agentos: written by 'git agentos guard integrate opencode'; '--remove' takes it away.
import { spawnSync } from "node:child_process"

const COMMAND = @COMMAND@

const ask = (body) => {
  const done = spawnSync("/bin/sh", ["-c", COMMAND], { input: JSON.stringify(body), encoding: "utf8", cwd: body.cwd })
  if (done.status !== 0) throw new Error("git-agentos could not be asked: " + (done.stderr || done.error))
  return JSON.parse(done.stdout || "{}")
}

const tell = (body) => {
  try {
    ask(body)
  } catch {
    // What is only recorded stops nothing.
  }
}

export const GitAgentos = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const said = ask({
      event: "tool.execute.before", tool: input.tool, args: output.args, sessionID: input.sessionID, cwd: directory,
    })
    if (said.decision === "deny") throw new Error(said.reason)
  },
  "tool.execute.after": async (input) => {
    if (!["bash", "edit", "write", "multiedit", "patch", "apply_patch"].includes(input.tool)) return
    tell({
      event: "tool.execute.after", tool: input.tool, args: input.args, sessionID: input.sessionID, cwd: directory,
    })
  },
  "chat.message": async (input, output) => {
    const prompt = (output.parts || []).map((part) => part.text || "").join("\\n")
    tell({ event: "chat.message", prompt, sessionID: input.sessionID, cwd: directory })
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    tell({ event: "session.idle", sessionID: event.properties.sessionID, cwd: directory })
  },
})
"""


def read(body: Mapping[str, Any], cwd: str) -> Event:
    if isinstance(body.get("input"), dict):
        # What the plugin itself is given, as it is.
        after = object_of(body, "output")
        body = {**after, **body["input"], **{key: body[key] for key in ("event", "cwd", "directory") if key in body}}
    name = text_of(body, "event") or ("tool.execute.before" if "tool" in body else required(body, "event"))
    where = place(body, cwd=cwd)
    session = text_of(body, "sessionID")
    if name == "tool.execute.before":
        tool = required(body, "tool")
        given = object_of(body, "args")
        return tool_event(name, tool, given, where, session, shells=_SHELLS, edits=_EDITS, reads=_READS)
    if name == "tool.execute.after":
        tool = text_of(body, "tool") or ""
        return done_event(name, tool, object_of(body, "args"), where, session, shells=_SHELLS, edits=_EDITS)
    if name == "chat.message":
        return Event(PROMPT, name, where, text=text_of(body, "prompt") or "", session=session)
    if name == "session.idle":
        return Event(STOP, name, where, session=session)
    return Event(OTHER, name, where, session=session)


def deny(event: Event | None, reason: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(dumped({"decision": "deny", "reason": reason}))


def pass_on(event: Event, said: str) -> Answer:  # noqa: ARG001 (one form for all)
    return Answer(dumped({}), said)


def plugin(command: str) -> str:
    """The plugin's text."""
    return _PLUGIN.replace("@COMMAND@", json.dumps(command))
