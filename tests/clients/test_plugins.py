"""The plugin packages in real clients: installed by the client, they guard, record, offer the tools and the skill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import client as clients
from tests.clients.client import agentos
from tests.clients.model_server import ModelServer, Say, Shell
from tests.clients.plugins import INSTALL, VALIDATE, Place, make

pytestmark = [pytest.mark.slow, pytest.mark.clients]


@pytest.fixture(params=clients.CLIENTS, ids=lambda client: client.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    made = make(tmp_path, request.param)
    agentos(made.home, made.root, "checkpoint", "-m", "before the session")
    (made.root / "tracked.txt").write_text("an hour of work\n")
    return made


def doctor(place: Place) -> dict[str, Any]:
    """What `doctor` says of the client."""
    found = json.loads(agentos(place.home, place.root, "--json", "doctor", codes=(0, 1)))["harnesses"]
    (state,) = (each for each in found if each["name"] == place.client.name)
    assert isinstance(state, dict)
    return state


def test_a_plugin_that_the_client_has_installed(place: Place) -> None:
    script = (Shell("echo made >by-shell.txt"), Shell("git reset --hard"), Say("the script is over"))
    with ModelServer(script) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        assert doctor(place)["state"] == "not-integrated"
        remove = INSTALL[place.client.name](place)
        assert doctor(place)["plugin"] is not None
        session = clients.run_prepared(place.client, made, place.home, place.root)
        results = server.tool_results()
        asked = json.dumps(server.requests)
    assert session.code == 0, session
    assert "stopped 'git reset --hard': discards all changes that are not committed" in results[1], results
    assert (place.root / "tracked.txt").read_text() == "an hour of work\n"
    entries = json.loads(agentos(place.home, place.root, "--json", "log", "list", "--type", "turn"))["entries"]
    assert [each["details"]["event"] for each in entries if each["type"] == "turn"].count("began") == 1
    assert "checkpoint_create" in asked, "the tools of the MCP server"
    assert "Save the state of your work before something risky" in asked, "the skill"
    assert (doctor(place)["state"], doctor(place)["path"]) == ("integrated", None)
    remove()
    assert (doctor(place)["state"], doctor(place)["plugin"]) == ("not-integrated", None)
    with ModelServer(script) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        clients.run_prepared(place.client, made, place.home, place.root)
        results = server.tool_results()
    assert "stopped" not in results[1]


@pytest.mark.parametrize(
    "place", [each for each in clients.CLIENTS if each.name in VALIDATE], ids=lambda client: client.name, indirect=True
)
def test_the_vendor_finds_nothing_wrong_with_the_package(place: Place) -> None:
    for words in VALIDATE[place.client.name]:
        place.call(*words)
