"""Clients in a repository in which `git agentos init` was called: what `doctor` says of them, and what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import client as clients
from tests.clients.client import Client, SetUp, agentos, available, git
from tests.clients.model_server import ModelServer, Say, Shell

pytestmark = [pytest.mark.slow, pytest.mark.clients]

# By these, a client would run hooks that nobody has trusted: here `init` has, or nobody.
_WITHOUT = ("--dangerously-bypass-hook-trust", "--trust-folder")
_SCRIPT = (Shell("git reset --hard"), Say("the script is over"))
_FOLDERS = {"claude-code": ".claude", "codex": ".codex", "gemini": ".gemini", "copilot": ".copilot",
            "opencode": ".config/opencode"}  # fmt: skip
# Where a client asks for trust, and no hook of ours is run before.
_UNTRUSTED = {"codex": "not-trusted", "copilot": "not-headless"}


class Place:
    """A repository with work that is not committed, and the home of a client."""

    def __init__(self, top: Path, client: Client) -> None:
        self.client, self.home, self.root = client, top / "home", top / "root"
        (self.home / _FOLDERS[client.name]).mkdir(parents=True)
        self.root.mkdir()
        (self.home / ".gitconfig").write_text(
            "[user]\nname = A U Thor\nemail = author@example.com\n[agentos]\nwatch = false\n"
        )
        git(self.home, self.root, "init", "-q")
        (self.root / "tracked.txt").write_text("as committed\n")
        git(self.home, self.root, "add", ".")
        git(self.home, self.root, "commit", "-q", "-m", "first")
        (self.root / "tracked.txt").write_text("an hour of work\n")

    def state(self) -> dict[str, Any]:
        """What `doctor` says of the client."""
        said = json.loads(agentos(self.home, self.root, "--json", "doctor", codes=(0, 1)))["harnesses"]
        (found,) = [each for each in said if each["name"] == self.client.name]
        return dict(found)

    def play(self, server: ModelServer, made: SetUp) -> str:
        """What the model is told about its `git reset --hard`."""
        session = clients.run_prepared(self.client, made, self.home, self.root, _WITHOUT)
        assert session.code == 0, session
        (told,) = server.tool_results()
        return told


@pytest.fixture(params=clients.CLIENTS, ids=lambda client: client.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    client: Client = request.param
    available(client)
    return Place(tmp_path, client)


def trust_folder(place: Place) -> None:
    """What a person answers when the client is started in a folder for the first time."""
    if place.client.name == "copilot":
        path = place.home / ".copilot" / "config.json"
        path.write_text(json.dumps({"trustedFolders": [str(place.root)]}))


def test_it_asks_the_guard(place: Place) -> None:
    with ModelServer(_SCRIPT) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        agentos(place.home, place.root, "init", "--yes")
        trust_folder(place)
        if place.client.name != "gemini":  # its folder is trusted by a variable
            assert place.state()["state"] == "integrated", place.state()
        assert place.state()["asked_at"] is None
        told = place.play(server, made)
    assert "stopped 'git reset --hard': discards all changes that are not committed" in told
    assert (place.root / "tracked.txt").read_text() == "an hour of work\n"
    assert place.state()["asked_at"] is not None


def test_it_does_not_where_doctor_says_so(place: Place) -> None:
    """Not trusted, or not where it cannot ask."""
    expected = _UNTRUSTED.get(place.client.name)
    if expected is None:
        pytest.skip("it asks for no trust, or does not start without")
    with ModelServer(_SCRIPT) as server:
        made = place.client.set_up(place.home, place.root, server.url)
        agentos(place.home, place.root, "init")
        assert place.state()["state"] == expected
        told = place.play(server, made)
    assert "stopped" not in told
    assert place.state()["asked_at"] is None
    # The git hooks do not need the client: the work is saved all the same.
    listed = json.loads(agentos(place.home, place.root, "--json", "checkpoint", "list"))["checkpoints"]
    assert "before_risky" in [each["trigger"] for each in listed] or place.client.name == "copilot"
