"""What harnesses tell of beside commands, edits and turns: sessions, compaction, sub-agents, their own worktrees."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run_ok

BEGINNING, COMPACTION, SUBAGENT = (
    "at the beginning of a session",
    "before the conversation was compacted",
    "after a sub-agent",
)
REQUEST = "before a request to the model"


def _named(event: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "hook_event_name": event, **more}


def _cursor(event: str, **more: Any) -> dict[str, Any]:
    return {"conversation_id": "s-1", "hook_event_name": event, **more}


def _opencode(event: str) -> dict[str, Any]:
    return {"event": event, "sessionID": "s-1"}


def _of_subagent(**more: Any) -> dict[str, Any]:
    """What Copilot CLI sends of a sub-agent."""
    return _copilot(agentId="a", agentType="task", parentAgentId="s-1", stop_hook_active=False, **more)


def _copilot(**more: Any) -> dict[str, Any]:
    return {"sessionId": "s-1", "timestamp": 1704614600000, **more}


_SUBAGENT = {"agent_id": "a", "agent_type": "general-purpose", "stop_hook_active": False}
MOMENTS = [
    ("claude-code", _named("SessionStart", source="startup"), BEGINNING),
    ("claude-code", _named("PreCompact", trigger="auto", custom_instructions=None), COMPACTION),
    ("claude-code", _named("SubagentStop", **_SUBAGENT), SUBAGENT),
    ("codex", _named("SessionStart", source="startup"), BEGINNING),
    ("codex", _named("PreCompact", trigger="auto"), COMPACTION),
    ("codex", _named("SubagentStop", **_SUBAGENT), SUBAGENT),
    ("gemini", _named("SessionStart", source="startup"), BEGINNING),
    ("gemini", _named("PreCompress", trigger="manual"), COMPACTION),
    ("gemini", _named("PreCompress", trigger="auto"), REQUEST),
    ("cursor", _cursor("sessionStart", composer_mode="agent"), BEGINNING),
    ("cursor", _cursor("preCompact", trigger="auto"), COMPACTION),
    ("cursor", _cursor("subagentStop", status="completed"), SUBAGENT),
    ("copilot", _copilot(source="new", initialPrompt="x"), BEGINNING),
    ("copilot", _copilot(trigger="auto", customInstructions="", transcriptPath="/t"), COMPACTION),
    ("copilot", _copilot(stopReason="end_turn", agentName="task", transcriptPath="/t"), SUBAGENT),
    ("copilot", _of_subagent(stopReason="end_turn", agentName="task", response="done", transcriptPath="/t"), SUBAGENT),
    ("opencode", _opencode("session.created"), BEGINNING),
    ("opencode", _opencode("session.compacting"), COMPACTION),
    ("opencode", _opencode("subagent.idle"), SUBAGENT),
]
ENDS = [
    ("claude-code", _named("SessionEnd", reason="other")),
    ("codex", _named("SessionEnd", reason="other")),
    ("gemini", _named("SessionEnd", reason="exit")),
    ("cursor", _cursor("sessionEnd", reason="completed")),
    ("copilot", _copilot(reason="complete")),
]
EVENTS = {BEGINNING: ("began",), COMPACTION: ("compaction",), SUBAGENT: ("subagent-stop",)}


def ask(name: str, body: dict[str, Any], cwd: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "git_agentos", "guard", "harness", name, *more]
    data = json.dumps({"cwd": str(cwd), **body})
    return subprocess.run(words, input=data, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "body", "description"), MOMENTS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_moment_is_a_checkpoint_if_anything_has_changed(
    name: str, body: dict[str, Any], description: str, repo: Repo
) -> None:
    worktree = agent_worktree(repo, "dev")
    for _ in range(2):
        worktree.write("notes.txt", "changed\n")
        assert (ask(name, body, worktree.path).stdout.strip() or "{}") == "{}"
    (made,) = run_ok(worktree.path, "checkpoint", "list")["checkpoints"]
    assert (made["description"], made["session_id"], made["trigger"]) == (description, "s-1", "periodic")
    assert made["meta"]["harness"] == name
    assert run_ok(worktree.path, "log", "list", "--type", "turn")["entries"] == []
    assert [(each["checkpoint_id"], each["agent_id"], each["details"]["event"]) for each in sessions(worktree)] == [
        (made["id"], "dev", event) for event in EVENTS.get(description, ())
    ]


def sessions(worktree: Repo) -> list[dict[str, Any]]:
    """The log's entries of sessions, oldest first."""
    found = run_ok(worktree.path, "log", "list", "--type", "session")["entries"]
    assert isinstance(found, list)
    return found[::-1]


@pytest.mark.parametrize(
    ("name", "body", "event"),
    [
        *((name, body, event) for name, body, said in MOMENTS for event in EVENTS.get(said, ())),
        *((*each, "ended") for each in ENDS),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_sessions_event_is_in_the_log_although_nothing_has_changed(
    name: str, body: dict[str, Any], event: str, repo: Repo
) -> None:
    worktree = agent_worktree(repo, "dev")
    run_ok(worktree.path, "checkpoint")
    if event == "ended":
        ask(name, next(began for each, began, said in MOMENTS if (each, said) == (name, BEGINNING)), worktree.path)
    ask(name, body, worktree.path)
    *_, entry = sessions(worktree)
    said = {"event": event, "harness": name, "session_id": "s-1"}
    assert entry["details"] == said | ({"reason": entry["details"]["reason"]} if entry["details"].get("reason") else {})
    assert len(run_ok(worktree.path, "checkpoint", "list")["checkpoints"]) == 1


def test_what_a_harness_says_of_an_event_is_its_reason(repo: Repo) -> None:
    worktree = agent_worktree(repo, "dev")
    bodies = (
        _named("SessionStart", source="resume"),
        _named("PreCompact", trigger="auto"),
        _named("SubagentStop", **_SUBAGENT),
        _named("SessionEnd", reason="token=ghp_" + "a1B2" * 9 + "\x1b[31m\nmore"),
        _named("SessionStart", source=7),
    )
    for body in bodies:
        assert ask("claude-code", body, worktree.path).returncode == 0
    assert [each["summary"] for each in sessions(worktree)] == [
        "the session began (resume)",
        "the conversation is compacted (auto)",
        "a sub-agent stopped (general-purpose)",
        "the session ended (token=[redacted]\\x1b[31m)",
        "the session began",
    ]


def test_the_end_of_a_session_that_has_done_nothing_is_left_out(repo: Repo) -> None:
    """Claude Code ends one for `claude plugin list`. A turn is something."""
    worktree = agent_worktree(repo, "dev")
    for body in (_named("SessionEnd", reason="other"), _named("SessionStart", session_id="s-2", source="startup"),
                 _named("SessionEnd", reason="other"), _named("UserPromptSubmit", prompt="do it"),
                 _named("SessionEnd", reason="other")):  # fmt: skip
        ask("claude-code", body, worktree.path)
    assert [(each["details"]["session_id"], each["details"]["event"]) for each in sessions(worktree)] == [
        ("s-2", "began"), ("s-1", "ended"),
    ]  # fmt: skip


def test_a_stop_of_copilots_subagent_is_no_stop_of_the_session(repo: Repo) -> None:
    worktree = agent_worktree(repo, "dev")
    ask("copilot", _copilot(prompt="do it"), worktree.path)
    ask("copilot", _of_subagent(prompt="help", sessionId="s-9"), worktree.path)
    ask("copilot", _of_subagent(stopReason="end_turn", sessionId="s-9"), worktree.path)
    (turn,) = run_ok(worktree.path, "turns")["turns"]
    assert (turn["prompt"], turn["ended_at"]) == ("do it", None)


def test_an_event_that_comes_again_later_is_another_one(repo: Repo) -> None:
    """A repetition is the session's last event."""
    worktree = agent_worktree(repo, "dev")
    began, ended = _named("SessionStart", source="resume"), _named("SessionEnd", reason="other")
    compaction, other = _named("PreCompact", trigger="auto"), _named("PreCompact", trigger="auto", session_id="s-2")
    for body in (began, ended, began, compaction, other, compaction, other):
        ask("claude-code", body, worktree.path)
    assert [(each["details"]["event"], each["details"]["session_id"]) for each in sessions(worktree)] == [
        ("began", "s-1"), ("ended", "s-1"), ("began", "s-1"), ("compaction", "s-1"), ("compaction", "s-2"),
    ]  # fmt: skip


def test_an_event_is_another_one_after_a_minute(repo: Repo) -> None:
    worktree = agent_worktree(repo, "dev")
    body = _named("PreCompact", trigger="auto")
    ask("claude-code", body, worktree.path)
    path = worktree.git_dir / "agentos" / "harness" / "moments"
    ((key, (digest, seconds)),) = json.loads(path.read_text()).items()
    path.write_text(json.dumps({key: [digest, seconds - 61]}))
    ask("claude-code", body, worktree.path)
    path.write_text("damaged")
    ask("claude-code", body, worktree.path)
    assert len(sessions(worktree)) == 3


def test_two_hooks_at_once_write_one_entry(repo: Repo) -> None:
    worktree = agent_worktree(repo, "dev")
    words = [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"]
    body = json.dumps(_named("SessionStart", source="startup", cwd=str(worktree.path)))
    hooks = [subprocess.Popen(words, cwd=worktree.path, stdin=subprocess.PIPE, text=True) for _ in range(3)]
    for one in hooks:
        assert one.stdin is not None
        one.stdin.write(body)
        one.stdin.close()
    assert [one.wait() for one in hooks] == [0, 0, 0]
    assert len(sessions(worktree)) == 1


def test_the_next_checkpoint_carries_the_entries(repo: Repo) -> None:
    """They are no reason for one. The log is filled from it, and what forgets it keeps them."""
    worktree = agent_worktree(repo, "dev")
    worktree.write("notes.txt", "first\n")
    ask("claude-code", _named("SessionStart", source="startup"), worktree.path)
    run_ok(worktree.path, "checkpoint", "--trigger", "periodic")
    assert len(run_ok(worktree.path, "checkpoint", "list")["checkpoints"]) == 1
    worktree.write("notes.txt", "second\n")
    run_ok(worktree.path, "checkpoint", "--trigger", "periodic")
    worktree.write("notes.txt", "third\n")
    run_ok(worktree.path, "checkpoint", "--trigger", "periodic")
    before = sessions(worktree)
    carrying = run_ok(worktree.path, "checkpoint", "list")["checkpoints"][1]["id"]
    assert '"session"' in worktree.text("cat-file", "blob", f"{carrying}^4:log.jsonl")
    run_ok(repo.path, "forget", "--agent", "dev", carrying)
    shutil.rmtree(worktree.path / ".agentos")
    run_ok(worktree.path, "log", "rebuild")
    assert sessions(worktree) == before != []


def test_readers_of_the_log_take_an_entry_of_a_session_for_no_turn_and_no_change(repo: Repo) -> None:
    worktree = agent_worktree(repo, "dev")
    prompt = _named("UserPromptSubmit", prompt="add a line")
    tool = _named("PostToolUse", tool_name="Write", tool_input={"file_path": str(worktree.path / "notes.txt")})
    for body in (_named("SessionStart", source="startup"), prompt):
        ask("claude-code", body, worktree.path)
    worktree.write("notes.txt", "a line\n")
    ends = (_named("PreCompact", trigger="auto"), _named("Stop"), _named("SessionEnd", reason="other"))
    for body in (tool, *ends):
        ask("claude-code", body, worktree.path)
    (turn,) = run_ok(worktree.path, "turns")["turns"]
    assert (turn["changed"], turn["ended_by"]) == (["notes.txt"], "stop")
    (line,) = run_ok(worktree.path, "why", "notes.txt")["lines"]
    assert line["turn"] == turn["id"]
    shown = run_ok(worktree.path, "log", "timeline")["events"]
    assert [each["summary"] for each in reversed(shown) if each["type"] == "session"] == [
        "the session began (startup)", "the conversation is compacted (auto)", "the session ended (other)",
    ]  # fmt: skip
    review = run_ok(worktree.path, "log", "review")
    assert (review["errors"], review["decisions"]) == ([], [])
    text = subprocess.run(
        [sys.executable, "-m", "git_agentos", "log", "list"],
        cwd=worktree.path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "session" in text.stdout
    assert "the session ended (other)" in text.stdout
    saved = run_ok(worktree.path, "checkpoint")["id"]
    worktree.write("notes.txt", "another\n")
    run_ok(worktree.path, "restore", saved)
    ask("codex", _named("SessionStart", source="startup", session_id="s-3"), worktree.path)
    run_ok(worktree.path, "undo")


def test_the_prompt_of_a_subagent_is_no_turn(repo: Repo) -> None:
    """Codex sends it as one of the session, with the sub-agent's id."""
    worktree = agent_worktree(repo, "dev")
    ask("codex", _named("UserPromptSubmit", prompt="do it"), worktree.path)
    ask("codex", _named("UserPromptSubmit", prompt="help", agent_id="a", agent_type="default"), worktree.path)
    (turn,) = run_ok(worktree.path, "turns")["turns"]
    assert (turn["prompt"], turn["ended_at"]) == ("do it", None)


# -- worktrees of a harness --------------------------------------------------------------------------------------------


def create(name: str, cwd: Path) -> Path:
    done = ask("claude-code", _named("WorktreeCreate", name=name), cwd)
    assert done.returncode == 0, done
    assert done.stdout.count("\n") == 1
    return Path(done.stdout.rstrip("\n"))


def states(repo: Repo) -> dict[str, str]:
    return {each["id"]: each["state"] for each in run_ok(repo.path, "worktree", "list")["worktrees"]}


def test_a_worktree_of_a_harness_is_a_managed_one(repo: Repo) -> None:
    path = create("my feature/2", repo.path)
    assert path.is_dir()
    shown = run_ok(repo.path, "worktree", "show", "my-feature-2")
    assert (shown["path"], shown["branch"], shown["state"]) == (str(path), "agent/my-feature-2", "active")
    assert create("my feature/2", repo.path) == path
    assert states(repo) == {"my-feature-2": "active"}


def test_the_hooks_of_settings_and_plugin_name_the_same_folder(repo: Repo) -> None:
    """Also where an earlier event was noted, by which the second of two hooks finds the first."""
    run_ok(repo.path, "checkpoint")
    body = _named("WorktreeCreate", name="feature")
    first, second, third = (ask("claude-code", body, repo.path, *more) for more in ([], ["--plugin"], []))
    assert first.stdout == second.stdout == third.stdout == f"{repo.path}.worktrees/feature\n"


def test_two_hooks_at_once_name_a_folder_that_is_ready(repo: Repo) -> None:
    repo.config("agentos.setup", "sleep 1; touch ready")
    words = [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"]
    body = json.dumps(_named("WorktreeCreate", name="feature", cwd=str(repo.path)))
    hooks = []
    for more in ([], ["--plugin"], []):
        one = subprocess.Popen([*words, *more], cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert one.stdin is not None
        one.stdin.write(body)
        one.stdin.close()
        hooks.append(one)
    for one in reversed(hooks):
        assert one.stdout is not None
        with one.stdout:
            path = Path(one.stdout.read().removesuffix("\n"))
        assert (path / "ready").exists()
        assert one.wait() == 0
    assert states(repo) == {"feature": "active"}


def test_what_a_harness_removes_is_archived_and_comes_back_by_its_name(repo: Repo) -> None:
    path = create("feature", repo.path)
    (path / "untracked.txt").write_text("an hour of work\n")
    done = ask("claude-code", _named("WorktreeRemove", worktree_path=str(path)), repo.path)
    assert (done.returncode, done.stdout) == (0, "")
    assert not path.exists()
    assert states(repo) == {"feature": "archived"}
    assert (create("feature", repo.path) / "untracked.txt").read_text() == "an hour of work\n"
    assert states(repo) == {"feature": "active"}


def test_a_harness_removes_only_what_it_has_made(repo: Repo) -> None:
    run_ok(repo.path, "worktree", "create", "dev")
    path = run_ok(repo.path, "worktree", "path", "dev")["path"]
    done = ask("claude-code", _named("WorktreeRemove", worktree_path=path), repo.path)
    assert done.returncode == 1
    assert "has not made the worktree 'dev'" in done.stderr
    assert states(repo) == {"dev": "active"}


def test_a_worktree_that_is_not_ours_is_left_alone(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "plain"))
    done = ask("claude-code", _named("WorktreeRemove", worktree_path=str(tmp_path / "plain")), repo.path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "plain").is_dir()


def test_an_error_is_told_by_the_exit_code(repo: Repo) -> None:
    """The harness takes what is on stdout for the path."""
    for name in ("main", "..."):
        done = ask("claude-code", _named("WorktreeCreate", name=name), repo.path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("git-agentos: ")
