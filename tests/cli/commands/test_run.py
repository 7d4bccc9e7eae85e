"""`git agentos run` and `rollback` on real repositories: documents, exit codes, what is said, who may what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Answer, Cli
from tests.support.confirming import set_up_key
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.runs import IS_RIGHT, LEARNS
from tests.support.signals import with_default_handlers
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until

RIGHT = "echo right > answer.txt"
WRECK = "rm -rf ./* && echo junk > junk"


@pytest.fixture
def ask(cli: Cli, repo: Repo) -> Any:
    """`ask("run", "list")` is the document of `git agentos run list`, which follows the reference."""

    def call(*argv: str, code: int = 0, kind: str | None = None) -> Any:
        answer = cli("-C", str(repo.path), "--json", *argv)
        assert answer.code == code, answer
        found = check_document(answer.json)
        assert found == (kind or {"list": "run-list", "logs": "run-logs", "diff": "run-diff"}.get(argv[1], "run"))
        return answer.json

    return call


@pytest.fixture
def say(cli: Cli, repo: Repo) -> Any:
    """The same in words."""

    def call(*argv: str, terminal: bool = False) -> Answer:
        return cli("-C", str(repo.path), *argv, terminal=terminal)

    return call


@pytest.fixture
def key(repo: Repo, tmp_path: Path) -> None:
    """The orchestrator's key is in place."""
    set_up_key(repo, tmp_path)


def worktree(document: Any) -> Repo:
    return Repo(Path(document["context"]["worktree_path"]))


# -- documents and exit codes ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("key")
def test_from_start_to_accept(ask: Any, repo: Repo) -> None:
    done = ask(
        "run", "start", "--id", "T-1", "--task", "T", "--agent", LEARNS, "--validate", IS_RIGHT, "--max-attempts", "3",
        "--timeout", "5m", "--protected", "main, release/*",
    )  # fmt: skip
    assert (done["state"], done["task_id"], done["protected"]) == ("passed", "T", ["main", "master", "release/*"])
    assert [(each["kind"], each["attempt"], each["outcome"]) for each in done["steps"]] == [
        ("agent", 1, "ok"), ("validate", 1, "failed"), ("agent", 2, "ok"), ("validate", 2, "ok"),
    ]  # fmt: skip
    assert [each["outcome"] for each in done["attempts"]] == ["failed", "ok"]
    assert ask("run", "show", "T-1") == done
    assert [each["run_id"] for each in ask("run", "list")["runs"]] == ["T-1"]
    said = ask("run", "logs", "T-1")["logs"]
    assert [(each["n"], each["stderr"]) for each in said if each["kind"] == "validate"] == [
        (2, "the answer is wrong\n"), (4, ""),
    ]  # fmt: skip
    assert [each["n"] for each in ask("run", "logs", "T-1", "--step", "2")["logs"]] == [2]
    assert "+right" in ask("run", "diff", "T-1")["patch"]
    assert ask("run", "diff", "T-1", "--stat")["patch"] is None
    checked = ask("run", "verify", "T-1", kind="run-verify")
    assert (checked["ok"], checked["final_checkpoint"]) == (True, done["final_checkpoint"])

    accepted = ask("run", "accept", "T-1")
    assert (accepted["state"], accepted["accepted_into"]) == ("accepted", "main")
    assert accepted["merge_commit"] == repo.oid("main")
    assert repo.read("answer.txt") == b"right\n"
    assert ask("run", "accept", "T-1", code=1, kind="error")["error"]["kind"] == "run"


def test_failed_is_1_and_what_it_did_comes_back(ask: Any, cli: Cli, repo: Repo) -> None:
    done = ask(
        "run", "start", "--id", "T-1", "--agent", WRECK, "--validate", "false", "--on-failure", "rollback", code=1
    )
    assert (done["state"], done["rolled_back_to"], done["on_failure"]) == ("failed", "pre_run", "rollback")
    there = worktree(done)
    assert there.read("notes.txt") == repo.read("notes.txt")
    assert not (there.path / "junk").exists()
    assert check_document(cli("-C", str(there.path), "--json", "undo").json) == "undo"
    assert there.read("junk") == b"junk\n"
    assert not (there.path / "notes.txt").exists()
    planned = ask("rollback", "T-1", "--dry-run", kind="rollback")
    assert (planned["saved"], planned["dry_run"], planned["removed"]) == (None, True, ["junk"])
    assert there.read("junk") == b"junk\n"
    back = ask("rollback", "T-1", "--to", "pre_run", kind="rollback")
    assert (back["point"], back["head"], back["dry_run"]) == ("pre_run", repo.oid(), False)
    assert (there.path / "notes.txt").exists()
    assert not (there.path / "junk").exists()
    assert ask("run", "accept", "T-1", code=3, kind="error")["error"]["kind"] == "policy"
    for wrong, code in (("step:9", 1), ("beef", 1), ("step:x", 2), ("nonsense", 2)):
        assert ask("rollback", "T-1", "--to", wrong, code=code, kind="error")


@pytest.mark.usefixtures("key")
def test_run_rolled_back_by_mistake_can_be_accepted(ask: Any, cli: Cli, repo: Repo) -> None:
    done = ask(
        "run", "start", "--id", "T-1", "--agent", "echo more >> notes.txt", "--validate", "grep -q more notes.txt"
    )
    ask("rollback", "T-1", kind="rollback")
    refused = ask("run", "accept", "T-1", code=1, kind="error")["error"]
    assert "undo" in refused["hint"]
    assert cli("-C", str(worktree(done).path), "undo").code == 0
    before = repo.read("notes.txt")
    assert ask("run", "accept", "T-1")["state"] == "accepted"
    assert repo.read("notes.txt") == before + b"more\n"


def test_unknown_run_is_an_error(ask: Any) -> None:
    for words in ("show", "logs", "diff", "verify", "resume", "cancel"):
        error = ask("run", words, "nobody", code=1, kind="error")["error"]
        assert (error["kind"], "nobody" in error["message"]) == ("run", True), words
        assert error["hint"], words
    assert ask("rollback", "nobody", code=1, kind="error")["error"]["kind"] == "run"
    assert ask("rollback", code=1, kind="error")["error"]["kind"] == "run"
    assert ask("run", "list")["runs"] == []


@pytest.mark.usefixtures("key")
def test_an_id_is_used_once(ask: Any, cli: Cli, repo: Repo) -> None:
    words = ("run", "start", "--id", "T-1", "--agent", "echo more >> notes.txt", "--validate", "true")
    ask(*words)
    runs = repo.path / ".agentos" / "runs"
    for archived in (False, True):
        (runs / "T-1").rename(repo.path / ".agentos" / "aside")
        assert "already" in ask(*words, code=1, kind="error")["error"]["message"]
        assert not (runs / "T-1").exists()
        assert ask("run", "show", "T-1")["state"] == "passed"
        (repo.path / ".agentos" / "aside").rename(runs / "T-1")
        if not archived:
            assert cli("-C", str(repo.path), "worktree", "archive", "run-T-1").code == 0
    assert "--revive" in ask("run", "accept", "T-1", code=1, kind="error")["error"]["hint"]
    assert cli("-C", str(repo.path), "worktree", "create", "run-T-1", "--revive").code == 0
    assert ask("run", "accept", "T-1")["state"] == "accepted"


def test_an_agent_that_destroys_the_record(ask: Any, say: Any, repo: Repo) -> None:
    agent = f"echo x > x; rm -rf '{repo.path}/.agentos/runs/T-1'"
    done = ask("run", "start", "--id", "T-1", "--agent", agent, code=1)
    assert (done["state"], done["problems"]) == ("tampered", [])
    assert "was replaced" in done["reason"]
    assert ask("run", "show", "T-1")["state"] == "tampered"
    said = say("run", "show", "T-1")
    assert (said.code, "tampered: the folder" in said.text) == (0, True)
    assert "T-1  tampered" in say("run", "list").text
    assert "run T-1 was tampered with" in say("-C", done["context"]["worktree_path"], "log", "list").text
    assert "the run was tampered with" in say("run", "verify", "T-1").text
    said = say("run", "resume", "T-1")
    assert (said.code, "Run T-1 was tampered with: the folder" in said.text) == (1, True)
    assert ask("rollback", "T-1", kind="rollback")["run_id"] == "T-1"


def test_a_step_is_a_number(ask: Any) -> None:
    for wrong in ("x", "-1", "9" * 5000):
        assert ask("run", "logs", "T-1", f"--step={wrong}", code=2, kind="error")["error"]["kind"] == "usage"


@pytest.mark.usefixtures("key")
def test_a_conflict_is_4_and_nothing_was_changed(ask: Any, say: Any, repo: Repo) -> None:
    ask("run", "start", "--id", "T-1", "--agent", RIGHT, "--validate", "true")
    repo.write("answer.txt", "another\n")
    repo.commit("another")
    before = repo.oid()
    conflict = ask("run", "accept", "T-1", code=4, kind="merge")
    assert conflict["conflicts"][0]["files"] == ["answer.txt"]
    told = say("run", "accept", "T-1")
    assert told.code == 4
    assert told.text.startswith("Run T-1 is not accepted: its work conflicts with 'main'. Nothing was changed.\n")
    assert repo.oid() == before
    assert ask("run", "show", "T-1")["state"] == "passed"


def test_forged_evidence_is_seen(ask: Any, say: Any, repo: Repo) -> None:
    done = ask("run", "start", "--id", "T-1", "--agent", f"{RIGHT}; echo honest", "--validate", "true")
    (Path(done["evidence"]) / "steps/001-agent/stdout").write_text("forged\n")
    found = ask("run", "verify", "T-1", code=1, kind="run-verify")
    assert any("001-agent/stdout" in each for each in found["problems"])
    told = say("run", "verify", "T-1")
    assert told.code == 1
    assert "does not verify" in told.text


def test_a_file_and_options(ask: Any, repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'task = "A"\nid = "from-file"\nmax-attempts = 2\n'
        f"[[step]]\nkind = 'agent'\ncommand = '{RIGHT}'\n"
        "[[step]]\nkind = 'checkpoint'\nmessage = 'it is right'\n"
    )
    # relative to -C, as everything is
    done = ask("run", "start", "--file", "../run.toml", "--task", "B")
    assert (done["run_id"], done["task_id"], done["max_attempts"]) == ("from-file", "B", 2)
    assert [each["kind"] for each in done["steps"]] == ["agent", "checkpoint"]
    assert done["state"] == "passed"


# -- in words ----------------------------------------------------------------------------------------------------------


def test_output_without_a_terminal(say: Any) -> None:
    done = say("run", "start", "--id", "T-1", "--agent", f"{RIGHT}; echo hello; echo token=ghp_{'x1Y2' * 9}")
    assert done.code == 0
    told = done.talk.splitlines()
    assert told[0].startswith("run T-1: on branch 'agentos/run-T-1' from main (")
    assert told[1].startswith("[1] agent: echo right > answer.txt")
    assert told[2] == "  | hello"
    assert "ghp_" not in done.talk.split("\n", 2)[2]
    assert told[4].startswith("[1] agent: ok, 0:0")
    assert told[4].endswith(", 1 path changed")
    assert done.text.splitlines()[0] == "Run T-1 passed."
    assert "cannot be accepted" in done.text
    assert say("run", "logs", "T-1").text.splitlines()[:2] == [
        told[4].replace("[1] agent:", "== step 1: agent, attempt 1,"),
        "hello",
    ]
    assert say("run", "show", "T-1").text.splitlines()[0] == "Run:         T-1"
    assert say("run", "list").text.splitlines()[1].startswith("T-1  passed")
    assert say("run", "diff", "T-1").out.endswith(b"+right\n")


def test_quiet_is_the_id_alone(say: Any) -> None:
    done = say("run", "start", "--id", "T-1", "--agent", f"{RIGHT}; echo hello", "-q")
    assert (done.code, done.text, done.talk) == (0, "T-1\n", "")
    assert say("run", "list", "-q").text == "T-1\n"
    assert len(say("rollback", "T-1", "-q").text) == 9


# -- who may what ------------------------------------------------------------------------------------------------------


def test_commands_refused_to_agents(ask: Any, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ask("run", "start", "--id", "T-1", "--agent", RIGHT, "--validate", "true")
    ask("run", "start", "--id", "T-2", "--agent", RIGHT)
    monkeypatch.chdir(worktree(done).path)
    for words in (
        ("run", "start", "--agent", "true", "--no-guard"),
        ("run", "accept", "T-1"),
        ("run", "resume", "T-2"),
        ("run", "cancel", "T-2"),
        ("rollback", "T-2"),
    ):
        refused = ask("-C", str(repo.path), *words, code=3, kind="error")
        assert refused["error"]["kind"] == "policy", words
    # -C does not make another run one's own
    there = worktree(ask("run", "show", "T-2")).path
    assert ask("-C", str(there), "rollback", code=3, kind="error")["error"]["kind"] == "policy"
    # its own it may take back: that is saved
    assert ask("-C", str(worktree(done).path), "rollback", kind="rollback")["run_id"] == "T-1"


def test_accepting_takes_a_terminal_or_the_key(ask: Any, repo: Repo, tmp_path: Path) -> None:
    ask("run", "start", "--id", "T-1", "--agent", RIGHT, "--validate", "true")
    refused = run(repo.path, "--json", "run", "accept", "T-1")
    assert (refused.code, refused.json["error"]["kind"]) == (3, "policy")
    assert "agentos.approvalKey" in refused.json["error"]["hint"]


# -- interrupted -------------------------------------------------------------------------------------------------------


def started(repo: Repo, *words: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own."""
    argv = [sys.executable, "-m", "git_agentos", "--json", "run", *words]
    return subprocess.Popen(
        argv, cwd=repo.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: path.exists() or process.poll() is not None, f"{path} is there")
    assert process.poll() is None, process.communicate()


@pytest.mark.slow
def test_interrupted_run_exits_130_and_can_be_resumed(ask: Any, say: Any, repo: Repo, tmp_path: Path) -> None:
    agent = f"echo begun > {tmp_path}/begun; test -e {tmp_path}/go || exec sleep 1000; {RIGHT}"
    with with_default_handlers(signal.SIGINT):
        process = started(repo, "start", "--id", "T-1", "--agent", agent, "--validate", IS_RIGHT)
    wait_for(tmp_path / "begun", process)
    assert ask("run", "show", "T-1")["state"] == "running"
    for words in (("run", "resume", "T-1"), ("rollback", "T-1"), ("run", "start", "--id", "T-1", "--agent", "true")):
        assert ask(*words, code=1, kind="error")["error"]["kind"] in ("locked", "run")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    ended = json.loads(out)
    assert (check_document(ended), ended["state"], ended["process"]) == ("run", "interrupted", None)

    assert ask("status", kind="status")["interrupted_runs"] == ["T-1"]
    told = say("status")
    assert "Interrupted: 1 run: T-1" in told.text
    assert "git agentos run resume T-1" in told.talk
    found = say("doctor")
    assert (found.code, "run 'T-1' was interrupted [run-interrupted]" in found.text) == (1, True)
    assert "'git agentos run resume T-1'" in say("run", "list").talk

    (tmp_path / "go").touch()
    done = ask("run", "resume", "T-1")
    assert (done["state"], len(done["steps"])) == ("passed", 2)
    assert ask("status", kind="status")["interrupted_runs"] == []
    assert ask("run", "resume", "T-1", code=1, kind="error")["error"]["kind"] == "run"


@pytest.mark.slow
def test_a_run_at_work_is_cancelled_from_elsewhere(ask: Any, repo: Repo, tmp_path: Path) -> None:
    process = started(repo, "start", "--id", "T-1", "--agent", f"echo > {tmp_path}/begun; exec sleep 1000")
    wait_for(tmp_path / "begun", process)
    assert ask("run", "cancel", "T-1")["state"] == "cancelled"
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["state"]) == (1, "cancelled")
    assert ask("run", "show", "T-1")["state"] == "cancelled"
    assert os.path.isdir(ask("run", "show", "T-1")["context"]["worktree_path"])


def test_killed_run_after_rollback_does_not_wait(ask: Any, repo: Repo, tmp_path: Path) -> None:
    process = started(repo, "start", "--id", "T-1", "--agent", f"echo > {tmp_path}/begun; exec sleep 1000")
    wait_for(tmp_path / "begun", process)
    process.kill()
    process.communicate(timeout=60)
    assert ask("run", "show", "T-1")["state"] == "interrupted"
    assert ask("rollback", "T-1", kind="rollback")["point"] == "pre_run"
    assert ask("status", kind="status")["interrupted_runs"] == []
    assert run_ok(repo.path, "run", "cancel", "T-1")["state"] == "cancelled"
