"""The command lines that docs/tdd.md has for headless agents, as they stand there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import client as clients
from tests.clients.client import Client, available, git
from tests.clients.model_server import ModelServer, Say, Write
from tests.support.env import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.clients]

_DOCUMENT = (PROJECT_ROOT / "docs" / "tdd.md").read_text()
_LINES = re.findall(r"--agent 'command:(.*)'$", _DOCUMENT, re.MULTILINE)
_CLIENTS = [each for each in clients.CLIENTS if each.name != "copilot"]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder beside the clients: codex's sandbox has its own rules for the temporary folder."""
    folder = clients.PROGRAMS.parents[1]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.mark.parametrize("client", _CLIENTS, ids=lambda client: client.name)
def test_the_line_for_a_headless_agent_runs(client: Client, scratch: Path) -> None:
    available(client)
    (text,) = [line for line in _LINES if re.search(rf"(^| ){client.program} ", line)]
    home, root = scratch / "home", scratch / "root"
    home.mkdir()
    root.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = A U Thor\nemail = author@example.com\n")
    git(home, root, "init", "-q")
    git(home, root, "commit", "-q", "--allow-empty", "-m", "first")
    with ModelServer((Write(str(root / "made.txt"), "as asked\n"), Say("the script is over"))) as server:
        session = clients.run_text(client, server, home, root, text)
    assert session.code == 0, session
    assert "the script is over" in session.out
    assert (root / "made.txt").exists(), server.tool_results()
    assert (root / "made.txt").read_text() == "as asked\n"
