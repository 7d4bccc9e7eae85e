"""Sessions of a harness: its events, given to our hook as the client gives them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from git_agentos.guard.harness import handler
from git_agentos.guard.harness.events import HookReply
from tests.support.repo import Repo


class ClaudeSession:
    """A session of Claude Code in a repository. `pid` is the hook's process."""

    def __init__(self, repo: Repo, id_: str | None = "s-1", *, pid: int | None = None) -> None:
        self.path: Path = repo.path
        self.id = id_
        self.pid = os.getpid() if pid is None else pid

    def prompt(self, text: str) -> None:
        self.send("UserPromptSubmit", prompt=text)

    def edited(self, path: str) -> None:
        self.send("PostToolUse", tool_name="Edit", tool_input={"file_path": path}, tool_response={"success": True})

    def ran(self, command: str) -> None:
        self.send("PostToolUse", tool_name="Bash", tool_input={"command": command}, tool_response={})

    def stop(self) -> None:
        self.send("Stop", stop_hook_active=False)

    def end(self) -> None:
        self.send("SessionEnd", reason="exit")

    def send(self, event: str, **more: Any) -> None:
        """Give the hook an event; it has nothing to object, and no warning."""
        reply = self.reply(event, **more)
        assert (reply.stdout.strip(), reply.stderr) == ("{}", ""), reply

    def reply(self, event: str, **more: Any) -> HookReply:
        """What the hook replies to an event."""
        body = {"cwd": str(self.path), "hook_event_name": event, **more}
        if self.id is not None:
            body["session_id"] = self.id
        known = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
        caller = handler.Caller(str(self.path), known, self.pid)
        return handler.respond("claude-code", json.dumps(body).encode(), caller)
