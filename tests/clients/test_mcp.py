"""Real clients use the MCP server: the model creates a checkpoint, destroys work by its shell, and restores it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients import client as clients
from tests.clients.client import available, git
from tests.clients.model_server import Call, ModelServer, Say, Shell

pytestmark = [pytest.mark.slow, pytest.mark.clients]

_SERVER = [sys.executable, "-P", "-m", "git_agentos", "mcp"]
_CLIENTS = {each.name: each for each in clients.CLIENTS}


def _documents(results: Sequence[str]) -> list[Any]:
    """The documents among what tools returned; a client may put words around them."""
    return [json.loads(each[each.index("{") : each.rindex("}") + 1]) for each in results if '"schema"' in each]


def _plan(results: Sequence[str]) -> dict[str, Any]:
    return {"id": next((each["id"] for each in _documents(results)), "none"), "no_branch": True}


def _restore(results: Sequence[str]) -> dict[str, Any]:
    state = next((each["state"] for each in _documents(results) if "state" in each), "none")
    return {**_plan(results), "dry_run": False, "expected": state, "idempotency_key": "first"}


def _claude_code(home: Path, root: Path) -> tuple[str, list[str]]:
    file = home / "mcp.json"
    settings = {"command": _SERVER[0], "args": _SERVER[1:], "type": "stdio"}
    file.write_text(json.dumps({"mcpServers": {"git-agentos": settings}}))
    return "mcp__git-agentos__", ["--mcp-config", str(file)]


def _opencode(home: Path, root: Path) -> tuple[str, list[str]]:
    settings = {"type": "local", "command": _SERVER, "enabled": True}
    (root / "opencode.json").write_text(json.dumps({"mcp": {"git-agentos": settings}}))
    return "git-agentos_", []


@pytest.mark.parametrize(("name", "add"), [("claude-code", _claude_code), ("opencode", _opencode)])
def test_a_client_restores_what_its_shell_destroyed(name: str, add: Any, tmp_path: Path) -> None:
    client = _CLIENTS[name]
    available(client)
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = A U Thor\nemail = author@example.com\n")
    git(home, root, "init", "-q")
    git(home, root, "commit", "-q", "--allow-empty", "-m", "first")
    prefix, options = add(home, root)
    (root / "work.txt").write_text("an hour of work\n")
    script = (
        # Claude Code does not wait for its servers before the first turn; the others have no such tool, and say so.
        Call("WaitForMcpServers", lambda _: {}),
        Call(f"{prefix}checkpoint_create", lambda _: {"message": "before the experiment"}),
        Shell("rm work.txt"),
        Call(f"{prefix}restore", _plan),
        Call(f"{prefix}restore", _restore),
        Say("the script is over"),
    )
    with ModelServer(script) as server:
        session = clients.run(client, server, home, root, after=options)
        results = server.tool_results()
    assert session.code == 0, (session, results)
    assert "the script is over" in session.out
    saved, planned, restored = _documents(results)
    assert saved["description"] == "before the experiment"
    assert planned["dry_run"] is True
    assert (restored["checkpoint"], restored["changed"]) == (saved["id"], ["work.txt"])
    assert (root / "work.txt").read_text() == "an hour of work\n"
