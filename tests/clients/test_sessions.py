"""Sub-agents and the worktrees of real clients, in a repository with `git agentos init`, and by the plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import client as clients
from tests.clients.client import Client, agentos
from tests.clients.model_server import Call, ModelServer, Say, Shell, Turn
from tests.clients.plugins import INSTALL, Place, make

pytestmark = [pytest.mark.slow, pytest.mark.clients]

_HELP = "Help with the script"
# How each client's model starts a sub-agent.
_SUBAGENT = {
    "claude-code": ("Agent", {"subagent_type": "general-purpose", "description": "help", "prompt": _HELP}),
    "opencode": ("task", {"subagent_type": "general", "description": "help", "prompt": _HELP}),
    "copilot": ("task", {"agent_type": "general-purpose", "name": "helper", "description": "help", "prompt": _HELP,
                         "mode": "sync"}),
}  # fmt: skip


def integrate(place: Place, way: str) -> None:
    """By `init`, by the plugin, or by both."""
    if way != "plugin":
        agentos(place.home, place.root, "init", "--yes", "--harness", place.client.name)
    if way != "init":
        INSTALL[place.client.name](place)


def listed(place: Place, *words: str) -> Any:
    return json.loads(agentos(place.home, place.root, "--json", *words))


def of(name: str) -> Client:
    return next(each for each in clients.CLIENTS if each.name == name)


@pytest.mark.parametrize("name", _SUBAGENT)
def test_a_subagent_is_guarded_and_its_end_recorded(name: str, tmp_path: Path) -> None:
    place = make(tmp_path, of(name))
    (place.root / "tracked.txt").write_text("an hour of work\n")
    tool, arguments = _SUBAGENT[name]
    script: tuple[Turn, ...] = (Call(tool, lambda _: arguments), Say("the script is over"))
    helper = (Shell("git reset --hard"), Shell("echo made >by-subagent.txt"), Say("the helper is done"))
    with ModelServer(script, helper, clients.PROMPT) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        integrate(place, "both")
        session = clients.run_prepared(place.client, made, place.home, place.root)
        asked = json.dumps(server.requests)
    assert session.code == 0, session
    assert "stopped 'git reset --hard'" in asked, server.tool_results()
    assert "the helper is done" in asked
    assert (place.root / "tracked.txt").read_text() == "an hour of work\n"
    entries = listed(place, "log", "list", "--type", "turn")["entries"]
    assert [each["details"]["event"] for each in entries].count("began") == 1, entries
    made_by = [each for each in listed(place, "checkpoint", "list")["checkpoints"]
               if "by-subagent.txt" in each["untracked_files"]]  # fmt: skip
    assert made_by[-1]["meta"]["harness"] == name
    assert len({each["session_id"] for each in made_by if each["session_id"]}) == 1


@pytest.mark.parametrize("way", ["init", "plugin", "both"])
def test_a_worktree_of_claude_code_is_a_managed_one(way: str, tmp_path: Path) -> None:
    place = make(tmp_path, of("claude-code"))
    script = (
        Call("EnterWorktree", lambda _: {"name": "feature"}),
        Shell("echo made >by-shell.txt; pwd"),
        Call("ExitWorktree", lambda _: {"action": "remove", "discard_changes": True}),
        Say("the script is over"),
    )
    with ModelServer(script) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        integrate(place, way)
        session = clients.run_prepared(place.client, made, place.home, place.root)
        results = server.tool_results()
    assert session.code == 0, session
    assert "root.worktrees/feature" in results[1], results
    (found,) = listed(place, "worktree", "list")["worktrees"]
    assert (found["id"], found["state"], found["branch"]) == ("feature", "archived", "agent/feature"), results
    agentos(place.home, place.root, "worktree", "create", "feature", "--revive")
    path = Path(agentos(place.home, place.root, "worktree", "path", "feature").strip())
    assert (path / "by-shell.txt").read_text() == "made\n"


@pytest.mark.parametrize("client", clients.CLIENTS, ids=lambda client: client.name)
def test_a_session_is_recorded_from_its_beginning(client: Client, tmp_path: Path) -> None:
    """What was there before, and the turn; the client runs headless."""
    place = make(tmp_path, client)
    (place.root / "tracked.txt").write_text("an hour of work\n")
    with ModelServer((Shell("echo made >by-shell.txt"), Say("the script is over"))) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        integrate(place, "init")
        session = clients.run_prepared(place.client, made, place.home, place.root)
    assert session.code == 0, session
    first = listed(place, "checkpoint", "list")["checkpoints"][-1]
    assert agentos(place.home, place.root, "checkpoint", "cat", f"{first['id']}:tracked.txt") == "an hour of work\n"
    assert (first["description"], first["meta"]["harness"]) == ("at the beginning of a session", client.name)
    (turn,) = listed(place, "turns")["turns"]
    assert first["session_id"] == turn["session_id"] is not None
    assert (turn["changed"], turn["ended_by"]) == (["by-shell.txt"], "stop")
