"""A harness that has our hook in its settings and from a plugin, too: an event is handled once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.approval import approvals
from git_agentos.guard.harness import handler, twins
from git_agentos.guard.harness.events import HookReply
from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run_ok


@pytest.fixture
def worktree(repo: Repo) -> Repo:
    made = agent_worktree(repo, "dev")
    repo.git("commit", "-q", "--allow-empty", "-m", "ahead")
    made.write("notes.txt", "changed\n")
    return made


def event(worktree: Repo, name: str, **more: Any) -> bytes:
    return json.dumps({"session_id": "s-1", "cwd": str(worktree.path), "hook_event_name": name, **more}).encode()


def shell(worktree: Repo, text: str, id_: str = "t-1") -> bytes:
    return event(worktree, "PreToolUse", tool_name="Bash", tool_input={"command": text}, tool_use_id=id_)


def ask(worktree: Repo, data: bytes, source: str) -> HookReply:
    known = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
    caller = handler.Caller(str(worktree.path), known, os.getpid(), source=source)
    return handler.respond("claude-code", data, caller)


def both(worktree: Repo, data: bytes, first: str = twins.SETTINGS) -> tuple[bool, bool]:
    """Whether the event was denied by the first hook, and by the second."""
    sources = (twins.SETTINGS, twins.PLUGIN)
    order = sources if first == twins.SETTINGS else sources[::-1]
    replies = [ask(worktree, data, source) for source in order]
    return "deny" in replies[0].stdout, "deny" in replies[1].stdout


@pytest.mark.parametrize("first", [twins.SETTINGS, twins.PLUGIN])
def test_one_of_the_two_decides(first: str, worktree: Repo) -> None:
    assert both(worktree, shell(worktree, "git reset --hard"), first) == (True, False)
    assert len(run_ok(worktree.path, "checkpoint", "list")["checkpoints"]) == 1


def test_each_alone_decides_every_time(worktree: Repo) -> None:
    data = shell(worktree, "git reset --hard")
    for source in (twins.SETTINGS, twins.SETTINGS):
        assert "deny" in ask(worktree, data, source).stdout
    for source in (twins.PLUGIN, twins.PLUGIN, twins.PLUGIN):  # two of these are the twins of the first two
        last = ask(worktree, data, source)
    assert "deny" in last.stdout


def test_the_same_event_again_is_decided_again(worktree: Repo) -> None:
    """Not every harness numbers its calls: two equal ones may look alike."""
    data = shell(worktree, "git reset --hard")
    for _ in range(2):
        assert both(worktree, data) == (True, False)


def test_a_grant_is_used_once_and_enough_for_both(worktree: Repo) -> None:
    merge = shell(worktree, "git merge main")
    assert both(worktree, merge) == (True, False)
    place = approvals.open_store(worktree.text("rev-parse", "--path-format=absolute", "--git-common-dir"), os.environ)
    (waiting,) = approvals.read_all(place)
    approvals.grant(place, waiting.id, by="test")
    assert both(worktree, shell(worktree, "git merge main", "t-2")) == (False, False)
    assert both(worktree, shell(worktree, "git merge main", "t-3")) == (True, False)


def test_a_command_that_the_first_hook_has_rewritten_is_the_same(worktree: Repo) -> None:
    """Copilot CLI calls one hook after the other, and gives the second one what the first one has made of it."""
    known = {**os.environ, "COPILOT_CLI": "1", "GIT_CONFIG_COUNT": "1"}
    known.pop("AGENTOS_AGENT_ID", None)
    body = {"sessionId": "s", "timestamp": 1, "cwd": str(worktree.path), "toolName": "bash",
            "toolArgs": {"command": "git status"}}  # fmt: skip
    caller = handler.Caller(str(worktree.path), known, os.getpid())
    first = handler.respond("copilot", json.dumps(body).encode(), caller)
    body["toolArgs"] = json.loads(first.stdout)["modifiedArgs"]
    assert body["toolArgs"] != {"command": "git status"}
    second = caller._replace(source=twins.PLUGIN)
    assert handler.respond("copilot", json.dumps(body).encode(), second).stdout == ""


def test_a_turn_is_recorded_once(worktree: Repo) -> None:
    both(worktree, event(worktree, "UserPromptSubmit", prompt="fix it"))
    worktree.write("notes.txt", "again\n")
    done = event(worktree, "PostToolUse", tool_name="Write", tool_input={"file_path": "notes.txt"}, tool_use_id="t")
    both(worktree, done)
    both(worktree, event(worktree, "Stop"))
    entries = run_ok(worktree.path, "log", "list", "--type", "turn")["entries"]
    assert sorted(each["details"]["event"] for each in entries) == ["began", "ended"]
    triggers = [each["meta"]["event"] for each in run_ok(worktree.path, "checkpoint", "list")["checkpoints"]]
    assert triggers == ["edit", "prompt"]


def test_a_note_that_an_agent_has_forged_is_ignored(worktree: Repo) -> None:
    import hashlib
    import time

    both(worktree, event(worktree, "Stop"))
    data = shell(worktree, "git reset --hard")
    git_dir = Path(worktree.text("rev-parse", "--absolute-git-dir"))
    path = git_dir / "agentos" / "harness" / "claude-code.events"
    document = json.loads(path.read_text())
    document["events"] = [[hashlib.sha256(data).hexdigest(), twins.PLUGIN, time.time()]]
    path.write_text(json.dumps(document))
    assert "deny" in ask(worktree, data, twins.SETTINGS).stdout


@pytest.mark.parametrize("content", ["", "{", "[]", '{"events": 3}', '{"events": [], "mac": null}'])
def test_a_damaged_note_is_ignored(content: str, worktree: Repo) -> None:
    both(worktree, event(worktree, "Stop"))
    git_dir = Path(worktree.text("rev-parse", "--absolute-git-dir"))
    (git_dir / "agentos" / "harness" / "claude-code.events").write_text(content)
    assert both(worktree, shell(worktree, "git reset --hard")) == (True, False)
