"""The server as a process: its streams and its end, calls at once, whose agent it is, and what it may do."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from git_agentos.errors import McpError
from git_agentos.git import state_dir
from git_agentos.git.location import locate
from git_agentos.mcp import command
from tests.support.command_line import Cli
from tests.support.mcp_client import RawServer, connect
from tests.support.repo import Repo
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def raw(repo: Repo) -> Iterator[RawServer]:
    server = RawServer(repo.path)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    threads = found.parent.parent.glob("*/children")
    return [int(each) for path in threads for each in path.read_text().split()]


def _document(reply: Any) -> Any:
    """The document or the error in a reply, and that it is what the protocol says."""
    assert reply["jsonrpc"] == "2.0"
    return json.loads(reply["result"]["content"][0]["text"])


# -- streams -----------------------------------------------------------------------------------------------------------


def test_stdout_has_the_protocol_alone(raw: RawServer, repo: Repo) -> None:
    """Warnings are on stderr; what is no message, and what is far too long, does not end the server."""
    repo.config("agentos.maxFileSize", "nonsense")
    raw.write(b"this is no message\n")
    raw.write(b'{"jsonrpc": "2.0", "id": 7, "method": "no/such/method"}\n')
    raw.write(b"\xff\xfe\n")
    raw.write(b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": 1}}\n')
    assert _document(raw.call("checkpoint_create", {}))["kind"] == "configuration"
    repo.git("config", "--unset", "agentos.maxFileSize")
    repo.write(".git/agentos/journal.json", "damaged")
    too_long = _document(raw.call("checkpoint_create", {"message": "x" * 5_000_000}))
    assert too_long["kind"] == "usage"
    assert _document(raw.call("checkpoint_create", {}))["schema"] == "agentos.checkpoint.v1"
    out, err = raw.end()
    assert out == b""
    assert b"journal.json" in err
    assert raw.process.returncode == 0


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    """The server starts, and each call says so."""
    with connect(tmp_path) as client:
        assert client.call("status").error["kind"] == "repository"


def test_the_folder_of_the_option(repo: Repo, tmp_path: Path) -> None:
    with connect(tmp_path, words=("-C", str(repo.path), "mcp")) as client:
        assert client.call("status").document["worktree_path"] == str(repo.path)


def test_modules_in_the_repository_are_not_ours(repo: Repo) -> None:
    for name in ("git_agentos", "json", "mcp", "anyio"):
        repo.write(f"{name}/__init__.py", "raise SystemExit('loaded from the repository')\n")
    with connect(repo.path) as client:
        assert client.call("status").document["untracked"] == 4


def test_it_needs_no_network(repo: Repo) -> None:
    """It neither connects nor listens, nor looks a name up."""
    program = (
        "import sys\n"
        "def refuse(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.bind', 'socket.getaddrinfo', 'socket.gethostbyname'):\n"
        "        raise SystemExit(event)\n"
        "sys.addaudithook(refuse)\n"
        "sys.argv = ['git-agentos', 'mcp']\n"
        "from git_agentos.launch import main\n"
        "main()\n"
    )
    with connect(repo.path, argv=(sys.executable, "-P", "-c", program), words=()) as client:
        assert not client.call("checkpoint_create").is_error


def test_an_answer_that_is_too_long(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    monkeypatch.setattr(command, "_LONGEST", 100)
    with pytest.raises(McpError, match="longer than"):
        anyio.run(command.Commands(()).run, "status")


def test_where_the_sdk_is_missing(cli: Cli, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in ("mcp", "mcp_types") or name.startswith("git_agentos.mcp"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    answer = cli("-C", str(repo.path), "--json", "mcp", in_process=True)
    assert answer.code == 1
    assert answer.json["error"]["kind"] == "mcp"
    assert "pip install 'git-agentos[mcp]'" in answer.json["error"]["hint"]


# -- calls that wait, and the end --------------------------------------------------------------------------------------


def _plan(raw: RawServer, repo: Repo) -> dict[str, Any]:
    """A restore that can be done: its arguments."""
    repo.write("notes.txt", "as saved\n")
    made = _document(raw.call("checkpoint_create", {}))["id"]
    repo.write("notes.txt", "later\n")
    call = {"id": made, "no_branch": True}
    state = _document(raw.call("restore", call))["state"]
    return {**call, "dry_run": False, "expected": state, "idempotency_key": "k"}


def test_a_call_that_waits_keeps_no_other_waiting_and_can_be_cancelled(raw: RawServer, repo: Repo) -> None:
    call = _plan(raw, repo)
    before = complete_state(repo.path, strict=True)
    with state_dir.lock(locate(str(repo.path)), "worktree"):
        waiting = raw.begin("tools/call", {"name": "restore", "arguments": call})
        wait_until(lambda: _children(raw.process.pid), "the restore has begun")
        assert _document(raw.call("worktree_list", {}))["worktrees"] == []
        raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
        wait_until(lambda: not _children(raw.process.pid), "the restore has ended")
    assert_unchanged(before, complete_state(repo.path, strict=True), "a call that was cancelled changed something")
    assert _document(raw.call("restore", call))["changed"] == ["notes.txt"]


def test_a_restore_that_is_cancelled_takes_back_what_it_has_begun(raw: RawServer, repo: Repo, tmp_path: Path) -> None:
    """It is interrupted, not killed: not even a lock is left."""
    mark = tmp_path / "begun"
    repo.write(".git/info/attributes", "notes.txt filter=slow\n")
    repo.config("filter.slow.clean", "cat")
    repo.config("filter.slow.smudge", "cat")
    call = _plan(raw, repo)
    repo.config("filter.slow.smudge", f"cat; touch '{mark}'; while [ -e '{mark}' ]; do sleep 0.05; done")
    before = complete_state(repo.path, strict=True)
    waiting = raw.begin("tools/call", {"name": "restore", "arguments": call})
    wait_until(mark.exists, "the restore has begun")
    raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
    wait_until(lambda: not _children(raw.process.pid), "the restore has ended")
    mark.unlink()
    assert_unchanged(before, complete_state(repo.path, strict=True), "a call that was cancelled changed something")


def test_a_client_that_goes_away_ends_the_server(raw: RawServer, repo: Repo) -> None:
    """And what it was waiting for."""
    call = _plan(raw, repo)
    before = complete_state(repo.path, strict=True)
    with state_dir.lock(locate(str(repo.path)), "worktree"):
        raw.begin("tools/call", {"name": "restore", "arguments": call})
        wait_until(lambda: _children(raw.process.pid), "the restore has begun")
        children = _children(raw.process.pid)
        raw.end()
        assert raw.process.returncode == 0
        assert not any(os.path.exists(f"/proc/{each}") for each in children)
    assert_unchanged(
        before, complete_state(repo.path, strict=True), "a call of a client that is gone changed something"
    )


def test_a_restore_that_is_killed_is_that_of_a_command(raw: RawServer, repo: Repo, tmp_path: Path) -> None:
    """Killed while it prepares the files: the state before, and the next call does it."""
    mark = tmp_path / "begun"
    repo.write(".git/info/attributes", "notes.txt filter=slow\n")
    repo.config("filter.slow.clean", "cat")
    repo.config("filter.slow.smudge", "cat")
    call = _plan(raw, repo)
    repo.config("filter.slow.smudge", f"cat; touch '{mark}'; while [ -e '{mark}' ]; do sleep 0.05; done")
    before = complete_state(repo.path, strict=True)
    begun = raw.begin("tools/call", {"name": "restore", "arguments": call})
    wait_until(mark.exists, "the restore has begun")
    (child,) = _children(raw.process.pid)
    os.kill(child, signal.SIGKILL)
    mark.unlink()
    repo.config("filter.slow.smudge", "cat")
    while (reply := raw.read()).get("id") != begun:
        pass
    assert reply["result"]["isError"] is True
    assert _document(reply)["kind"] == "mcp"
    assert_same(before, complete_state(repo.path), "a restore that was killed changed something", refs=True)
    assert _document(raw.call("restore", call))["changed"] == ["notes.txt"]
    assert repo.read("notes.txt") == b"as saved\n"


def test_a_server_that_is_killed_leaves_the_restore_to_end(raw: RawServer, repo: Repo) -> None:
    call = _plan(raw, repo)
    with state_dir.lock(locate(str(repo.path)), "worktree"):
        raw.begin("tools/call", {"name": "restore", "arguments": call})
        wait_until(lambda: _children(raw.process.pid), "the restore has begun")
        raw.process.kill()
    wait_until(lambda: repo.read("notes.txt") == b"as saved\n", "the restore has ended")
    with connect(repo.path) as client:
        assert client.call("restore", **call).document["changed"] == ["notes.txt"]


def test_two_servers_at_once(repo: Repo) -> None:
    """Every checkpoint is on the timeline; of restores that expect the same state, one is done."""
    with connect(repo.path) as one, connect(repo.path) as two:
        begun = [each.begin("checkpoint_create", message=f"{n}") for n in range(5) for each in (one, two)]
        made = [each.result().document["id"] for each in begun]
        listed = one.call("checkpoint_list", limit=100).document["checkpoints"]
        assert sorted(each["id"] for each in listed) == sorted(made)
        repo.write("notes.txt", "later\n")
        call = {"id": made[0], "no_branch": True}
        state = one.call("restore", **call).document["state"]
        real = {**call, "dry_run": False, "expected": state}
        replies = [each.begin("restore", **real, idempotency_key=str(n)) for n, each in enumerate((one, two))]
        results = [each.result() for each in replies]
        assert sorted(each.is_error for each in results) == [False, True]
        assert next(each for each in results if each.is_error).error["kind"] == "changed"
        repo.write("notes.txt", "later\n")
        state = one.call("restore", **call).document["state"]
        real["expected"] = state
        same = [each.begin("restore", **real, idempotency_key="same") for each in (one, two)]
        documents = [each.result().document for each in same]
        assert documents[0] == documents[1]


# -- whose agent, and what it may do -----------------------------------------------------------------------------------


def test_the_agent_is_that_of_the_servers_process(repo: Repo) -> None:
    with connect(repo.path, env={"AGENTOS_AGENT_ID": "dev-7"}) as client:
        assert client.call("status").document["agent"] == "dev-7"
        assert client.call("checkpoint_create").document["created_by"] == "dev-7"
    with connect(repo.path, words=("--as", "dev-8", "mcp")) as client:
        assert client.call("log_add", type="action", summary="x").document["agent_id"] == "dev-8"


def test_policy_is_that_of_the_commands(repo: Repo, cli: Cli) -> None:
    """An agent may not restore in another agent's worktree: as by the command, a request is filed."""
    own, other = (Path(cli("-C", str(repo.path), "--json", "worktree", "create", each).json["path"]) for each in "ab")
    made = cli("-C", str(other), "--json", "checkpoint").json["id"]
    (other / "notes.txt").write_text("later\n")
    before = complete_state(other, strict=True)
    words = ("-C", str(other), "mcp")
    with connect(own, words=words) as client:
        assert client.call("guard_check", argv=["git", "reset", "--hard"]).document["decision"] != "allow"
        planned = client.call("restore", id=made).document
        call = {"id": made, "dry_run": False, "expected": planned["state"], "idempotency_key": "k"}
        error = client.call("restore", **call).error
        assert error["kind"] == "policy"
        (request,) = client.call("approvals_status").document["approvals"]
        assert (request["state"], request["agent_id"], request["operation"]) == ("pending", "a", "agentos-change")
        assert request["id"][:8] in error["hint"]
        assert client.call("status").document["pending_approvals"] == [request]
        assert client.call("undo").error["kind"] == "policy"
    assert_unchanged(before, complete_state(other, strict=True), "a call that was denied changed something")
