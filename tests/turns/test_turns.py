"""Turns: what hooks record of them, and what `git agentos turns` shows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

from git_agentos import log, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointNotFound, UsageError
from git_agentos.turns import listing
from git_agentos.turns.listing import Turn
from tests.support.agents import agent_worktree
from tests.support.command_line import Cli
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.sessions import ClaudeSession
from tests.support.tool import run_ok


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def turns_of(repo: Repo, session: str | None = None, **options: Any) -> list[Turn]:
    """Newest first."""
    return listing.list_turns(context_of(repo), session, **options).turns


def checkpoints(repo: Repo) -> list[dict[str, Any]]:
    """Newest first."""
    found: list[dict[str, Any]] = run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    return found


# -- what is recorded --------------------------------------------------------------------------------------------------


def test_a_turn_from_prompt_to_stop(repo: Repo) -> None:
    session = ClaudeSession(repo)
    repo.write("of-the-user.txt", "before\n")
    session.prompt("make it\nbetter")
    repo.write("new.txt", "1\n")
    session.edited("new.txt")
    repo.write(b"odd\xff.txt", "2\n")
    repo.remove("notes.txt")
    session.ran("rm notes.txt")
    session.stop()
    (turn,) = turns_of(repo)
    stopped, _, asked = checkpoints(repo)
    assert turn == Turn(
        id=turn.id,
        session_id="s-1",
        agent_id="claude-code",
        prompt="make it\nbetter",
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        before=asked["id"],
        after=stopped["id"],
        changed=["new.txt", "notes.txt", os.fsdecode(b"odd\xff.txt")],
        worktree="main",
        harness="claude-code",
        ended_by="stop",
    )
    assert turn.ended_at is not None
    assert turn.started_at <= turn.ended_at
    assert [each["meta"]["turn"] for each in checkpoints(repo)] == [turn.id] * 3


def test_a_turn_in_which_nothing_changes_is_recorded_with_one_checkpoint(repo: Repo) -> None:
    session = ClaudeSession(repo)
    for text in ("what is this?", "and that?"):
        session.prompt(text)
        session.ran("ls")
        session.stop()
    second, first = turns_of(repo)
    assert [first.prompt, second.prompt] == ["what is this?", "and that?"]
    assert [first.changed, second.changed] == [[], []]
    newest, oldest = checkpoints(repo)
    assert (first.before, first.after) == (oldest["id"], oldest["id"])
    assert (second.before, second.after) == (newest["id"], newest["id"])


def test_the_next_prompt_ends_a_turn_that_was_interrupted(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("first")
    repo.write("a.txt", "a\n")
    session.prompt("second")
    second, first = turns_of(repo)
    assert (first.ended_by, first.changed, first.after) == ("prompt", ["a.txt"], second.before)
    assert (second.ended_at, second.after, second.changed) == (None, None, [])


def test_the_end_of_the_session_ends_its_turn(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("first")
    repo.write("a.txt", "a\n")
    session.end()
    (turn,) = turns_of(repo)
    assert (turn.ended_by, turn.changed) == ("session-end", ["a.txt"])
    session.end()
    assert turns_of(repo) == [turn]
    assert len(checkpoints(repo)) == 2


def test_a_running_turn_shows_what_it_has_changed_so_far(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("go")
    (turn,) = turns_of(repo)
    assert (turn.ended_at, turn.before, turn.changed) == (None, checkpoints(repo)[0]["id"], [])
    repo.write("a.txt", "a\n")
    session.edited("a.txt")
    (turn,) = turns_of(repo)
    assert (turn.ended_at, turn.after, turn.changed) == (None, None, ["a.txt"])


def test_a_client_that_goes_on_after_its_stop(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("go")
    session.stop()
    session.stop()  # as a second hook reports it
    (first,) = turns_of(repo)
    repo.write("late.txt", "a\n")
    session.edited("late.txt")
    session.stop()
    (turn,) = turns_of(repo)
    assert (turn.id, turn.changed, turn.after) == (first.id, ["late.txt"], checkpoints(repo)[0]["id"])
    assert len([each for each in log.entries(context_of(repo)) if each.type == "turn"]) == 3


def test_two_hooks_that_report_one_prompt_begin_one_turn(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("go")
    session.prompt("go")
    (turn,) = turns_of(repo)
    session.edited("notes.txt")
    repo.write("a.txt", "a\n")
    session.edited("a.txt")
    session.prompt("go")
    assert [each.prompt for each in turns_of(repo)] == ["go", "go"]
    assert turns_of(repo)[1].id == turn.id


def test_sessions_in_one_worktree_have_turns_of_their_own(repo: Repo) -> None:
    one, other, nameless = (ClaudeSession(repo, id_) for id_ in ("s-one", "s-other", None))
    one.prompt("one")
    other.prompt("other")
    nameless.prompt("nameless")
    repo.write("a.txt", "a\n")
    one.edited("a.txt")
    one.stop()
    other.stop()
    nameless.stop()
    assert [(each.session_id, each.prompt) for each in turns_of(repo)] == [
        (None, "nameless"), ("s-other", "other"), ("s-one", "one"),
    ]  # fmt: skip
    assert [each.prompt for each in turns_of(repo, "s-ot")] == ["other"]
    with pytest.raises(CheckpointNotFound, match="there is no session 's-three'"):
        turns_of(repo, "s-three")
    with pytest.raises(CheckpointNotFound, match="there is no session 's-'"):
        turns_of(repo, "s-")


def test_secrets_are_removed_and_long_prompts_cut(repo: Repo) -> None:
    secret = "ghp_" + "a1B2" * 9
    session = ClaudeSession(repo)
    session.prompt(f"use {secret}\n" + "x" * 5000)
    (turn,) = turns_of(repo)
    assert turn.prompt.startswith("use [redacted]\nxxx")
    assert len(turn.prompt) == 4000
    (entry,) = log.entries(context_of(repo), kinds=["turn"])
    assert (entry.redacted, entry.summary) == (1, "use [redacted]")
    assert secret not in json.dumps(run_ok(repo.path, "log", "list"))


def test_turns_are_recorded_without_checkpoints_where_these_are_switched_off(repo: Repo) -> None:
    repo.config("agentos.auto.onTaskComplete", "false")
    session = ClaudeSession(repo)
    session.prompt("go")
    repo.write("a.txt", "a\n")
    session.stop()
    (turn,) = turns_of(repo)
    assert (turn.before, turn.after, turn.changed, turn.ended_by) == (None, None, [], "stop")
    assert checkpoints(repo) == []


def test_a_log_that_cannot_be_written_costs_no_checkpoint(repo: Repo) -> None:
    repo.mkdir(".agentos/issue_workflow.db")
    session = ClaudeSession(repo)
    reply = session.reply("UserPromptSubmit", prompt="go")
    assert "the turn was not recorded" in reply.stdout
    assert [each["meta"]["event"] for each in checkpoints(repo)] == ["prompt"]


# -- clients that are killed -------------------------------------------------------------------------------------------


def test_the_turn_of_a_killed_client_has_no_end_and_is_over(repo: Repo) -> None:
    """The next turn in the worktree finds out that the client is gone."""
    # A process below the client stands for the hook.
    program = "import subprocess; subprocess.run(['sleep', '600'])"
    client = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        killed = ClaudeSession(repo, "killed", pid=_child_of(client.pid))
        killed.prompt("of the killed one")
        repo.write("killed.txt", "a\n")
        killed.edited("killed.txt")
        alive = ClaudeSession(repo, "alive")
        alive.prompt("while it is there")
        assert turns_of(repo, "killed")[0].ended_by is None
    finally:
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()
    alive.prompt("afterwards")
    (turn,) = turns_of(repo, "killed")
    assert (turn.ended_at, turn.ended_by, turn.changed) == (None, "lost", ["killed.txt"])
    assert turn.after == next(each["id"] for each in checkpoints(repo) if each["meta"].get("turn") == turn.id)
    assert [each.prompt for each in turns_of(repo, "alive")] == ["afterwards", "while it is there"]


def _child_of(pid: int) -> int:
    from git_agentos.process import table
    from tests.support.waiting import wait_until

    wait_until(lambda: table.children(pid) != [], "the client has started a process")
    return table.children(pid)[0]


# -- how long they are kept --------------------------------------------------------------------------------------------


def test_turns_outlive_their_checkpoints_their_database_and_their_worktree(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    session = ClaudeSession(made)
    for n in range(3):
        session.prompt(f"prompt {n}")
        made.write("a.txt", f"{n}\n")
        session.stop()
    session.prompt("the last")
    known = turns_of(made)
    ids = [each["id"] for each in checkpoints(made)]
    run_ok(made.path, "checkpoint", "-m", "keep")
    run_ok(repo.path, "forget", *ids, "--agent", "dev")
    assert [each["description"] for each in checkpoints(made)] == ["keep"]
    shutil.rmtree(made.path / ".agentos")
    found = turns_of(made)
    assert found == [known[0]._replace(changed=[]), *known[1:]]
    assert [each.changed for each in found] == [[], ["a.txt"], ["a.txt"], ["a.txt"]]
    repo.git("worktree", "remove", "--force", str(made.path))
    assert turns_of(repo) == []
    assert [each.id for each in turns_of(repo, every=True)] == [each.id for each in known]
    assert [each.id for each in turns_of(repo, "s-1")] == [each.id for each in known]


def test_log_retention_keeps_turns(repo: Repo) -> None:
    session = ClaudeSession(repo)
    session.prompt("old")
    session.stop()
    run_ok(repo.path, "checkpoint", "-m", "carries it")
    repo.config("agentos.logRetention", "0.00001d")
    log.add(context_of(repo), "action", "now")
    run_ok(repo.path, "checkpoint", "-m", "carries that")
    assert [each.prompt for each in turns_of(repo)] == ["old"]
    shutil.rmtree(repo.path / ".agentos")
    assert [each.prompt for each in turns_of(repo)] == ["old"]


def test_nobody_else_writes_entries_of_turns(repo: Repo) -> None:
    with pytest.raises(UsageError, match="'turn' is not a type of log entry that can be written"):
        log.add(context_of(repo), "turn", "forged", details={"turn": "x", "event": "began"})
    assert turns_of(repo) == []


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command(repo: Repo, cli: Cli) -> None:
    here = ("-C", str(repo.path))
    assert cli(*here, "turns").talk == "no turns\n"
    session = ClaudeSession(repo)
    session.prompt("\n make\x1b[31m it ")
    for n in range(12):
        repo.write(f"f{n:02}.txt", "a\n")
    session.stop()
    session.prompt("go on")
    done = cli(*here, "--json", "turns").json
    assert check_document(done) == "turns"
    second, first = (each["id"] for each in done["turns"])
    text = cli(*here, "turns").text
    assert text.splitlines()[1] == "  go on"
    assert ", not ended" in text.splitlines()[0]
    assert "\x1b" not in text
    assert "    f09.txt\n    and 2 more paths\n" in text
    assert cli(*here, "-q", "turns").text == f"{second}\n{first}\n"
    assert cli(*here, "-q", "turns", "-n", "1").text == f"{second}\n"
    assert cli(*here, "-q", "turns", "s-1").text == f"{second}\n{first}\n"
    assert cli(*here, "turns", "nobody").code == 1
    assert cli(*here, "log", "add", "turn", "x").code == 2
    assert [each["type"] for each in cli(*here, "--json", "log", "list", "--type", "turn").json["entries"]] == [
        "turn"
    ] * 3
