"""What harnesses tell of beside commands, edits and turns: sessions, compaction, sub-agents, their own worktrees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run_ok

BEGINNING, COMPACTION, SUBAGENT = (
    "at the beginning of a session", "before the conversation was compacted", "after a sub-agent",
)  # fmt: skip


def _named(event: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "hook_event_name": event, **more}


def _cursor(event: str, **more: Any) -> dict[str, Any]:
    return {"conversation_id": "s-1", "hook_event_name": event, **more}


def _opencode(event: str) -> dict[str, Any]:
    return {"event": event, "sessionID": "s-1"}


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
    ("gemini", _named("PreCompress", trigger="auto"), COMPACTION),
    ("cursor", _cursor("sessionStart", composer_mode="agent"), BEGINNING),
    ("cursor", _cursor("preCompact", trigger="auto"), COMPACTION),
    ("cursor", _cursor("subagentStop", status="completed"), SUBAGENT),
    ("copilot", _copilot(source="new", initialPrompt="x"), BEGINNING),
    ("copilot", _copilot(trigger="auto", customInstructions="", transcriptPath="/t"), COMPACTION),
    ("copilot", _copilot(stopReason="end_turn", agentName="task", transcriptPath="/t"), SUBAGENT),
    ("opencode", _opencode("session.created"), BEGINNING),
    ("opencode", _opencode("session.compacting"), COMPACTION),
    ("opencode", _opencode("subagent.idle"), SUBAGENT),
]


def ask(name: str, body: dict[str, Any], cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "git_agentos", "guard", "harness", name]
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
