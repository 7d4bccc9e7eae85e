"""The plugin packages in the clients: how each is installed in a home of its own, and removed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.clients import client as clients
from tests.clients.client import Client, Session, available, git
from tests.support.env import PROJECT_ROOT

PLUGINS = PROJECT_ROOT / "plugins"


class Place(NamedTuple):
    """A client in a home of its own."""

    client: Client
    home: Path
    root: Path

    def call(self, *words: str) -> Session:
        """Run a command of the client, which has to succeed."""
        done = clients.call(self.client, self.home, self.root, *words)
        assert done.code == 0, (words, done)
        return done


def make(tmp_path: Path, client: Client) -> Place:
    """A client, with a home and a repository that has one commit."""
    available(client)
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = A U Thor\nemail = author@example.com\n[agentos]\nwatch = false\n")
    git(home, root, "init", "-q")
    (root / "tracked.txt").write_text("as committed\n")
    git(home, root, "add", ".")
    git(home, root, "commit", "-q", "-m", "first")
    return Place(client, home, root)


# What removes the plugin again.
Removal = Callable[[], object]
_LISTED = "git-agentos@git-agentos"


def _claude_code(place: Place) -> Removal:
    place.call("plugin", "marketplace", "add", str(PLUGINS))
    place.call("plugin", "install", _LISTED)
    return partial(place.call, "plugin", "uninstall", _LISTED)


def _codex(place: Place) -> Removal:
    place.call("plugin", "marketplace", "add", str(PLUGINS))
    place.call("plugin", "add", _LISTED)
    return partial(place.call, "plugin", "remove", _LISTED)


def _gemini(place: Place) -> Removal:
    place.call("extensions", "install", str(PLUGINS / "gemini"), "--consent", "--skip-settings")
    return partial(place.call, "extensions", "uninstall", "git-agentos")


def _copilot(place: Place) -> Removal:
    place.call("plugin", "marketplace", "add", str(PLUGINS))
    place.call("plugin", "install", _LISTED)
    return partial(place.call, "plugin", "uninstall", _LISTED)


def _opencode(place: Place) -> Removal:
    path = place.home / ".config" / "opencode" / "opencode.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "plugin": [(PLUGINS / "opencode").as_uri()]}))
    return partial(path.write_text, before)


INSTALL: dict[str, Callable[[Place], Removal]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
    "opencode": _opencode,
}

# The vendors' own checks of a package.
VALIDATE = {
    "claude-code": (("plugin", "validate", "--strict", str(PLUGINS / "claude-code")),
                    ("plugin", "validate", "--strict", str(PLUGINS / ".claude-plugin" / "marketplace.json"))),
    "gemini": (("extensions", "validate", str(PLUGINS / "gemini")),),
}  # fmt: skip
