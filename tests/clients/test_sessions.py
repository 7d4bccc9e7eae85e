"""Sessions, compaction, sub-agents and the worktrees of real clients, in a repository with `git agentos init`, and by
the plugin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients import client as clients
from tests.clients.client import Client, agentos
from tests.clients.model_server import Call, ModelServer, Say, Shell, Turn
from tests.clients.plugins import INSTALL, Place, make

pytestmark = [pytest.mark.slow, pytest.mark.clients]

_HELP = "Help with the script"
_DONE = "the helper is done"


def _call(tool: str, **arguments: Any) -> Call:
    return Call(tool, lambda _: arguments)


def _wait(results: Sequence[str]) -> dict[str, Any]:
    return {"targets": [json.loads(results[0])["agent_id"]], "timeout_ms": 120_000}


# How each client's model starts a sub-agent and waits for it, and how the sub-agent ends.
_SUBAGENT: dict[str, tuple[tuple[Turn, ...], Turn]] = {
    "claude-code": (
        (_call("Agent", subagent_type="general-purpose", description="help", prompt=_HELP),), Say(_DONE)
    ),
    "codex": (
        (_call("multi_agent_v1.spawn_agent", message=_HELP), Call("multi_agent_v1.wait_agent", _wait)), Say(_DONE)
    ),
    "gemini": (
        (_call("invoke_agent", agent_name="generalist", prompt=_HELP),), _call("complete_task", response=_DONE)
    ),
    "opencode": (
        (_call("task", subagent_type="general", description="help", prompt=_HELP),), Say(_DONE)
    ),
    "copilot": (
        (_call("task", agent_type="general-purpose", name="helper", description="help", prompt=_HELP, mode="sync"),),
        Say(_DONE),
    ),
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
    calls, end = _SUBAGENT[name]
    script = (*calls, Say("the script is over"))
    helper = (Shell("git reset --hard"), Shell("echo made >by-subagent.txt"), end)
    with ModelServer(script, helper, clients.PROMPT) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        integrate(place, "both")
        session = clients.run_prepared(place.client, made, place.home, place.root)
        asked = json.dumps(server.requests)
    assert session.code == 0, session
    assert "stopped 'git reset --hard'" in asked, server.tool_results()
    assert _DONE in asked
    assert (place.root / "tracked.txt").read_text() == "an hour of work\n"
    entries = listed(place, "log", "list", "--type", "turn")["entries"]
    assert [each["details"]["event"] for each in entries].count("began") == 1, entries
    made_by = [each for each in listed(place, "checkpoint", "list")["checkpoints"]
               if "by-subagent.txt" in each["untracked_files"]]  # fmt: skip
    assert made_by[-1]["meta"]["harness"] == name
    assert len({each["session_id"] for each in made_by if each["session_id"]}) == 1
    assert events(place).count("subagent-stop") == (0 if name == "gemini" else 1), "Gemini CLI does not tell of it"


def events(place: Place) -> list[str]:
    """What has become of sessions, oldest first; all are of one session."""
    found = listed(place, "log", "list", "--type", "session")["entries"][::-1]
    assert {each["details"]["harness"] for each in found} == {place.client.name}
    assert len({each["details"]["session_id"] for each in found}) == 1, found
    return [each["details"]["event"] for each in found]


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
    assert events(place) == ["began", *_ENDED.get(client.name, ["ended"])]


# opencode has no event at the end of a session.
_ENDED: dict[str, list[str]] = {"opencode": []}
# How large each client's conversation has to be until it is replaced by a summary.
_FULL = {"codex": 50_000, "copilot": 2_000_000, "opencode": 99_000}
# Those that do so when they are asked, in a second session that continues the first one.
_COMPACT = {"claude-code": ("/compact", "-c"), "gemini": ("/compress", "--resume", "latest")}


@pytest.mark.parametrize("client", clients.CLIENTS, ids=lambda client: client.name)
def test_compaction_is_recorded(client: Client, tmp_path: Path) -> None:
    place = make(tmp_path, client)
    script = (Shell("echo made >by-shell.txt"), Shell("echo more >>by-shell.txt"), Say("the script is over"))
    filled = _FULL.get(client.name, 10)
    with ModelServer(script, filled=filled, compacted=(Say("the script is over"),)) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        if client.name == "codex":
            settings = place.home / ".codex" / "config.toml"
            settings.write_text(f"model_auto_compact_token_limit = 20000\n{settings.read_text()}")
        integrate(place, "both")
        sessions = [clients.run_prepared(place.client, made, place.home, place.root)]
        if client.name in _COMPACT:
            command, *options = _COMPACT[client.name]
            argv = (*(command if word == clients.PROMPT else word for word in made.argv), *options)
            again = made._replace(argv=argv)
            sessions.append(clients.run_prepared(place.client, again, place.home, place.root))
    assert [each.code for each in sessions] == [0] * len(sessions), sessions
    found = events(place)
    assert "compaction" in found[1:], found
    if client.name in _COMPACT:
        assert found.count("compaction") == 1, found
    compacted = [each for each in listed(place, "log", "list", "--type", "session")["entries"]
                 if each["details"]["event"] == "compaction"]  # fmt: skip
    last = compacted[0]["checkpoint_id"]
    assert agentos(place.home, place.root, "checkpoint", "cat", f"{last}:by-shell.txt").startswith("made\n")
