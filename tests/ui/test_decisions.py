"""A person at a terminal decides in the interface: no key is needed, and the terminal is the proof."""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import ApprovalRequest
from tests.support.own_terminal import Terminal
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.ui import five_agents
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_granting_at_a_terminal(repo: Repo) -> None:
    where = str(five_agents(repo)["dev-1"].path)
    argv = ("git", "merge", "other")
    digest = approvals.command_digest(argv)
    request = ApprovalRequest("merge", ("merge",), argv, digest, where, where, None, None, "dev-1", "because")
    id_ = approvals.file_request(approvals.open_store(str(repo.git_dir), os.environ), request).id
    terminal = Terminal(repo.path, "ui")
    try:
        terminal.wait_for(b"dev-5")
        terminal.type(b"5")
        terminal.wait_for(id_[:8].encode())
        terminal.type(b"g")
        terminal.wait_for(b"Allow this once")
        terminal.type(b"y")
        wait_until(lambda: terminal.read() and _state(repo, id_)[0] != "pending", "it is decided")
        assert _state(repo, id_) == ("granted", "terminal")
        terminal.type(b"q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def _state(repo: Repo, id_: str) -> tuple[str, str | None]:
    found = run_ok(repo.path, "approvals", "show", id_)
    return found["state"], found["decided_by"]
