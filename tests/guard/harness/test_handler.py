"""Harnesses' hooks: what each sends, in its own form, and what it is told.

The events are those of the harnesses' documentation. They go in as harnesses send them, and what comes out is read as
the harness would.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from git_agentos.guard.approval import approvals
from git_agentos.guard.harness import handler
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.harness.events import HookReply
from tests.support.agents import agent_worktree
from tests.support.confirming import set_up
from tests.support.repo import Repo
from tests.support.tool import run_ok

NAMES = list(HARNESSES)


class Form(NamedTuple):
    """How a harness says things."""

    shell: Callable[[str, str], dict[str, Any]]
    edit: Callable[[str, str], dict[str, Any]]
    done: Callable[[str, str], dict[str, Any]]
    prompt: Callable[[str, str], dict[str, Any]]
    stop: Callable[[str], dict[str, Any]]
    reason: Callable[[Any], str | None]


def _claude(event: str, cwd: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": cwd, "hook_event_name": event, **more}


def _cursor(event: str, cwd: str, **more: Any) -> dict[str, Any]:
    common = {"conversation_id": "s-1", "generation_id": "g", "workspace_roots": [cwd], "cursor_version": "2.0.77"}
    return {**common, "hook_event_name": event, **more}


def _copilot(cwd: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": "s-1", "timestamp": 1704614600000, "cwd": cwd, **more}


def _opencode(event: str, cwd: str, **more: Any) -> dict[str, Any]:
    return {"event": event, "sessionID": "s-1", "cwd": cwd, **more}


def _claude_reason(said: Any) -> str | None:
    told = said.get("hookSpecificOutput", {})
    assert told.get("permissionDecision") in (None, "deny")
    return told["permissionDecisionReason"] if told else None


def _patch(path: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch\n"


FORMS = {
    "claude-code": Form(
        lambda text, cwd: _claude("PreToolUse", cwd, tool_name="Bash", tool_input={"command": text}),
        lambda path, cwd: _claude("PreToolUse", cwd, tool_name="Write", tool_input={"file_path": path, "content": ""}),
        lambda path, cwd: _claude(
            "PostToolUse", cwd, tool_name="Edit", tool_input={"file_path": path}, tool_response={"success": True}
        ),
        lambda text, cwd: _claude("UserPromptSubmit", cwd, prompt=text),
        lambda cwd: _claude("Stop", cwd, stop_hook_active=False),
        _claude_reason,
    ),
    "codex": Form(
        lambda text, cwd: _claude("PreToolUse", cwd, turn_id="1", tool_name="Bash", tool_input={"command": text}),
        lambda path, cwd: _claude("PreToolUse", cwd, tool_name="apply_patch", tool_input={"command": _patch(path)}),
        lambda path, cwd: _claude(
            "PostToolUse", cwd, tool_name="apply_patch", tool_input={"command": _patch(path)}, tool_response="ok"
        ),
        lambda text, cwd: _claude("UserPromptSubmit", cwd, prompt=text),
        lambda cwd: _claude("Stop", cwd, last_assistant_message="done"),
        _claude_reason,
    ),
    "gemini": Form(
        lambda text, cwd: _claude("BeforeTool", cwd, tool_name="run_shell_command", tool_input={"command": text}),
        lambda path, cwd: _claude("BeforeTool", cwd, tool_name="replace", tool_input={"file_path": path}),
        lambda path, cwd: _claude(
            "AfterTool", cwd, tool_name="write_file", tool_input={"file_path": path}, tool_response={}
        ),
        lambda text, cwd: _claude("BeforeAgent", cwd, prompt=text),
        lambda cwd: _claude("AfterAgent", cwd, prompt="fix it\nplease", prompt_response="done"),
        lambda said: said["reason"] if said.get("decision") == "deny" else None,
    ),
    "cursor": Form(
        lambda text, cwd: {**_cursor("beforeShellExecution", cwd, command=text), "cwd": cwd},
        lambda path, cwd: _cursor("preToolUse", cwd, tool_name="Write", tool_input={"file_path": path}),
        lambda path, cwd: _cursor("afterFileEdit", cwd, file_path=path, edits=[{"old_string": "a", "new_string": "b"}]),
        lambda text, cwd: _cursor("beforeSubmitPrompt", cwd, prompt=text, attachments=[]),
        lambda cwd: _cursor("stop", cwd, status="completed", loop_count=0),
        lambda said: said["agent_message"] if said.get("permission") == "deny" else None,
    ),
    "copilot": Form(
        lambda text, cwd: _copilot(cwd, toolName="bash", toolArgs=json.dumps({"command": text, "description": "x"})),
        lambda path, cwd: _copilot(cwd, toolName="create", toolArgs={"path": path, "file_text": ""}),
        lambda path, cwd: _copilot(
            cwd, toolName="edit", toolArgs=json.dumps({"path": path}), toolResult={"resultType": "success"}
        ),
        lambda text, cwd: _copilot(cwd, prompt=text),
        lambda cwd: _copilot(cwd, transcriptPath="/t", stopReason="end_turn"),
        lambda said: said["permissionDecisionReason"] if said.get("permissionDecision") == "deny" else None,
    ),
    "opencode": Form(
        lambda text, cwd: _opencode("tool.execute.before", cwd, tool="bash", args={"command": text}),
        lambda path, cwd: _opencode("tool.execute.before", cwd, tool="write", args={"filePath": path}),
        lambda path, cwd: _opencode("tool.execute.after", cwd, tool="apply_patch", args={"patchText": _patch(path)}),
        lambda text, cwd: _opencode("chat.message", cwd, prompt=text),
        lambda cwd: _opencode("session.idle", cwd),
        lambda said: said["reason"] if said.get("decision") == "deny" else None,
    ),
}


@pytest.fixture
def worktree(repo: Repo) -> Repo:
    """An agent's worktree with work that is not committed, and a commit in main that it does not have."""
    made = agent_worktree(repo, "dev")
    repo.git("commit", "-q", "--allow-empty", "-m", "ahead")
    made.write("notes.txt", "changed\n")
    made.write("new.txt", "new\n")
    return made


def ask(name: str, body: object, cwd: Path, environment: Mapping[str, str] | None = None) -> HookReply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
    return handler.respond(name, data, handler.Caller(str(cwd), {**known, **(environment or {})}, os.getpid()))


def told(name: str, answer: HookReply) -> str | None:
    """Why it was denied; None where it was not. Whatever else the harness would see in it is checked too."""
    if answer.stdout == "":
        return None
    said = json.loads(answer.stdout)
    assert isinstance(said, dict)
    assert '"allow"' not in answer.stdout, "that would skip what the user is asked"
    return FORMS[name].reason(said)


def checkpoints(repo: Repo) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_forbidden_command_is_denied_and_the_state_saved(name: str, worktree: Repo) -> None:
    body = FORMS[name].shell("cd . && git reset --hard", str(worktree.path))
    reason = told(name, ask(name, body, worktree.path))
    assert reason is not None
    assert "stopped 'git reset --hard'" in reason
    assert "instead: git stash push -u" in reason
    (saved,) = checkpoints(worktree)
    assert saved["id"][:8] in reason
    assert (saved["trigger"], saved["created_by"]) == ("before_risky", "dev")
    assert saved["meta"] == {"command": "git reset --hard", "layer": "harness"}
    assert set(saved["untracked_files"]) == {"new.txt"}


@pytest.mark.parametrize("name", NAMES)
def test_a_harmless_command_is_passed_on_without_a_word(name: str, worktree: Repo) -> None:
    for text in ("git status", "echo git reset --hard", "ls; git commit -m 'git push -f'"):
        answer = ask(name, FORMS[name].shell(text, str(worktree.path)), worktree.path)
        assert told(name, answer) is None
        assert (answer.stdout.strip() in ("", "{}"), answer.stderr) == (True, "")
    assert checkpoints(worktree) == []


@pytest.mark.parametrize("name", NAMES)
def test_command_needing_approval_is_denied_with_its_request(name: str, worktree: Repo) -> None:
    reason = told(name, ask(name, FORMS[name].shell("git merge main", str(worktree.path)), worktree.path))
    assert reason is not None
    found = re.search(r"git agentos approvals grant (\w+)", reason)
    assert found is not None
    (waiting,) = run_ok(worktree.path, "approvals", "list")["approvals"]
    assert waiting["id"].startswith(found[1])
    assert (waiting["argv"], waiting["operation"], waiting["agent_id"]) == (["git", "merge", "main"], "merge", "dev")


@pytest.mark.parametrize("name", NAMES)
def test_edits_in_the_worktree_are_passed_on_and_others_need_approval(name: str, worktree: Repo, repo: Repo) -> None:
    def edit(path: object) -> str | None:
        return told(name, ask(name, FORMS[name].edit(str(path), str(worktree.path)), worktree.path))

    assert edit(worktree.path / "notes.txt") is None
    assert edit("notes.txt") is None
    assert edit("deep/down/new.txt") is None
    for path in (repo.path / "notes.txt", "/etc/passwd", "../elsewhere.txt", "~/.bashrc"):
        reason = edit(path)
        assert reason is not None, path
        assert "needs approval" in reason
        assert "file-outside" in reason
    os.symlink(repo.path, worktree.path / "way")
    assert "file-outside" in (edit("way/notes.txt") or "")
    os.symlink("/etc/passwd", worktree.path / "elsewhere")
    assert "file-outside" in (edit("elsewhere") or "")
    for path in (".git", ".git/config", repo.path / ".git" / "config", repo.path / ".git/worktrees/dev/HEAD"):
        assert "stopped" in (edit(path) or ""), path


@pytest.mark.parametrize("name", NAMES)
def test_edits_and_turns_become_checkpoints(name: str, worktree: Repo) -> None:
    where = str(worktree.path)
    form = FORMS[name]
    secret = "ghp_" + "a1B2" * 9
    assert told(name, ask(name, form.prompt(f"\n  fix it {secret}\nplease", where), worktree.path)) is None
    worktree.write("notes.txt", "edited\n")
    assert told(name, ask(name, form.done("notes.txt", where), worktree.path)) is None
    worktree.write("new.txt", "again\n")
    assert told(name, ask(name, form.stop(where), worktree.path)) is None
    stopped, edited, asked = checkpoints(worktree)
    assert [each["session_id"] for each in (stopped, edited, asked)] == ["s-1"] * 3
    assert [each["trigger"] for each in (stopped, edited, asked)] == ["task_complete", "periodic", "periodic"]
    assert [each["meta"]["event"] for each in (stopped, edited, asked)] == ["stop", "edit", "prompt"]
    assert {each["meta"]["harness"] for each in (stopped, edited, asked)} == {name}
    for each in (edited, asked):
        assert each["meta"]["prompt"].startswith("fix it ")
    assert stopped["meta"]["prompt"].startswith("fix it")
    assert secret not in json.dumps([stopped, edited, asked])
    assert edited["description"] == "after an edit of notes.txt"
    assert [each["created_by"] for each in (stopped, edited, asked)] == ["dev"] * 3


_RAN: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "claude-code": lambda text, cwd: _claude("PostToolUse", cwd, tool_name="Bash", tool_input={"command": text}),
    "codex": lambda text, cwd: _claude("PostToolUse", cwd, tool_name="Bash", tool_input={"command": text}),
    "gemini": lambda text, cwd: _claude(
        "AfterTool", cwd, tool_name="run_shell_command", tool_input={"command": text}, tool_response={}
    ),
    "copilot": lambda text, cwd: _copilot(
        cwd, toolName="bash", toolArgs={"command": text}, toolResult={"resultType": "success"}
    ),
    "opencode": lambda text, cwd: _opencode("tool.execute.after", cwd, tool="bash", args={"command": text}),
}


@pytest.mark.parametrize("name", list(_RAN))
def test_changes_of_a_shell_become_a_checkpoint(name: str, worktree: Repo) -> None:
    where = str(worktree.path)
    ask(name, FORMS[name].prompt("fix it", where), worktree.path)
    assert told(name, ask(name, _RAN[name]("ls", where), worktree.path)) is None
    assert len(checkpoints(worktree)) == 1  # nothing has changed since the prompt
    worktree.write("by-shell.txt", "made\n")
    secret = "ghp_" + "a1B2" * 9
    assert told(name, ask(name, _RAN[name](f"echo made >by-shell.txt # {secret}", where), worktree.path)) is None
    made, _ = checkpoints(worktree)
    assert made["untracked_files"] == ["by-shell.txt", "new.txt"]
    assert made["description"].startswith("after a command: echo made >by-shell.txt")
    assert secret not in json.dumps(made)
    assert (made["session_id"], made["trigger"], made["created_by"]) == ("s-1", "periodic", "dev")
    assert {key: made["meta"][key] for key in ("harness", "event", "prompt")} == {
        "harness": name, "event": "shell", "prompt": "fix it",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_recording_can_be_switched_off(name: str, worktree: Repo) -> None:
    worktree.git("config", "agentos.auto.onTaskComplete", "false")
    for body in (FORMS[name].prompt("x", str(worktree.path)), FORMS[name].stop(str(worktree.path))):
        assert told(name, ask(name, body, worktree.path)) is None
    assert checkpoints(worktree) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"git reset --hard"',
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b'{"hook_event_name": 3, "event": 3, "toolName": 3}',
        b'{"hook_event_name": "PreToolUse", "cwd": 7, "tool_name": "Bash", "toolName": "bash", "event": "x"}',
    ],
)
def test_malformed_input_is_denied_with_a_reason(name: str, data: bytes, worktree: Repo) -> None:
    reason = told(name, ask(name, data, worktree.path))
    assert reason is not None
    assert "unexpected input from" in reason
    assert name in reason


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_call_without_its_parts_is_denied(name: str, worktree: Repo) -> None:
    where = str(worktree.path)
    for body in (FORMS[name].shell("ls", where), FORMS[name].edit("x", where)):
        for broken in _broken(body):
            if broken.get("hook_event_name", broken.get("event", "")) == "beforeShellExecution" and "command" in broken:
                continue
            assert told(name, ask(name, broken, worktree.path)) is not None, broken


def _broken(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The event with what the tool is given missing, or of another type."""
    keys = [key for key in ("tool_input", "toolArgs", "args", "command") if key in body]
    made = []
    for key in keys:
        values: tuple[object, ...] = (None, 3, [], "x{", {})
        for value in values:
            if key == "command" and value == "x{":
                continue
            made.append({**body, key: value})
        made.append({other: inner for other, inner in body.items() if other != key})
    return made


def test_unknown_events_are_ignored(worktree: Repo) -> None:
    where = str(worktree.path)
    for name, body in (
        ("claude-code", _claude("SessionStart", where, source="startup")),
        ("claude-code", _claude("PreToolUse", where, tool_name="Read", tool_input={"file_path": "/etc/passwd"})),
        ("claude-code", _claude("PreToolUse", where, tool_name="Grep", tool_input={"pattern": "git reset --hard"})),
        ("codex", _claude("SessionStart", where, source="startup")),
        ("gemini", _claude("BeforeTool", where, tool_name="read_file", tool_input={"file_path": "/etc/passwd"})),
        ("cursor", _cursor("beforeReadFile", where, file_path="/etc/passwd", content="")),
        ("copilot", _copilot(where, source="new", initialPrompt="x")),
        ("copilot", _copilot(where, toolName="view", toolArgs='{"path": "/etc/passwd"}')),
        ("copilot", _copilot(where, toolName="str_replace_editor", toolArgs='{"command": "view", "path": "/etc/x"}')),
        ("opencode", _opencode("tool.execute.before", where, tool="read", args={"filePath": "/etc/passwd"})),
    ):
        assert told(name, ask(name, body, worktree.path)) is None, body


def test_a_tool_that_is_not_known_but_takes_a_command_is_a_shell(worktree: Repo) -> None:
    where = str(worktree.path)
    for given in ({"command": "git reset --hard"}, {"cmd": ["git", "reset", "--hard"]}, {"script": "rm -rf .git"}):
        body = _claude("PreToolUse", where, tool_name="mcp__shell__run", tool_input=given)
        assert "stopped" in (told("claude-code", ask("claude-code", body, worktree.path)) or "")
    body = _claude("PreToolUse", where, tool_name="mcp__db__query", tool_input={"sql": "select 1"})
    assert told("claude-code", ask("claude-code", body, worktree.path)) is None


def test_codex_is_denied_where_it_asks_for_permission_too(worktree: Repo) -> None:
    body = _claude("PermissionRequest", str(worktree.path), tool_name="Bash", tool_input={"command": "git clean -fd"})
    said = json.loads(ask("codex", body, worktree.path).stdout)["hookSpecificOutput"]
    assert said["hookEventName"] == "PermissionRequest"
    assert said["decision"]["behavior"] == "deny"


def test_a_command_runs_where_the_harness_says(worktree: Repo, repo: Repo) -> None:
    repo.write("notes.txt", "dirty\n")
    text = "git checkout -- notes.txt"
    worktree.git("checkout", "--", "notes.txt")
    body = _claude("BeforeTool", str(worktree.path), tool_name="run_shell_command", tool_input={"command": text})
    assert told("gemini", ask("gemini", body, worktree.path)) is None
    body["tool_input"]["dir_path"] = str(repo.path)
    assert told("gemini", ask("gemini", body, worktree.path)) is not None
    assert told("claude-code", ask("claude-code", FORMS["claude-code"].shell(text, str(repo.path)), repo.path))


def test_files_that_a_command_deletes_are_saved_first(worktree: Repo) -> None:
    body = FORMS["claude-code"].shell("rm -rf new.txt; rm notes.txt", str(worktree.path))
    assert told("claude-code", ask("claude-code", body, worktree.path)) is None
    (saved,) = checkpoints(worktree)
    assert (saved["trigger"], saved["untracked_files"]) == ("before_risky", ["new.txt"])
    set_up(worktree, "agentos.auto.beforeRisky", "false")
    worktree.write("new.txt", "another\n")
    assert told("claude-code", ask("claude-code", body, worktree.path)) is None
    assert len(checkpoints(worktree)) == 1


def test_in_mode_save_it_runs_and_says_how_to_come_back(worktree: Repo) -> None:
    set_up(worktree, "agentos.guard.mode", "save")
    answer = ask("claude-code", FORMS["claude-code"].shell("git reset --hard", str(worktree.path)), worktree.path)
    assert told("claude-code", answer) is None
    (saved,) = checkpoints(worktree)
    assert f"git agentos restore {saved['id'][:8]}" in json.loads(answer.stdout)["systemMessage"]


def test_of_several_commands_the_forbidden_one_is_told_and_no_request_is_filed(worktree: Repo) -> None:
    body = FORMS["claude-code"].shell("git merge main && git reset --hard", str(worktree.path))
    reason = told("claude-code", ask("claude-code", body, worktree.path)) or ""
    assert "git reset --hard" in reason
    assert run_ok(worktree.path, "approvals", "list")["approvals"] == []


def test_a_harness_without_an_identity_is_an_agent_all_the_same(repo: Repo) -> None:
    repo.write("notes.txt", "changed\n")
    body = FORMS["claude-code"].shell("git reset --hard", str(repo.path))
    assert "stopped" in (told("claude-code", ask("claude-code", body, repo.path)) or "")
    (saved,) = checkpoints(repo)
    assert saved["created_by"] == "claude-code"


def test_an_ill_formed_identity_is_an_agent(worktree: Repo) -> None:
    body = FORMS["claude-code"].shell("git clean -fd", str(worktree.path))
    reason = told("claude-code", ask("claude-code", body, worktree.path, {"AGENTOS_AGENT_ID": "../x"}))
    assert "stopped" in (reason or "")


def test_configuration_that_cannot_be_read_denies(worktree: Repo) -> None:
    worktree.git("config", "agentos.guard.mode", "lenient")
    reason = told(
        "claude-code", ask("claude-code", FORMS["claude-code"].shell("ls", str(worktree.path)), worktree.path)
    )
    assert "agentos.guard.mode" in (reason or "")
    stop = ask("claude-code", FORMS["claude-code"].stop(str(worktree.path)), worktree.path)
    assert told("claude-code", stop) is None


def test_the_settings_that_make_the_harness_ask_are_not_the_agents(worktree: Repo) -> None:
    from git_agentos.guard.harness import integration

    integration.add("claude-code", str(worktree.path), os.environ)
    path = worktree.path / ".claude" / "settings.local.json"
    reason = told(
        "claude-code", ask("claude-code", FORMS["claude-code"].edit(str(path), str(worktree.path)), worktree.path)
    )
    assert "guard-change" in (reason or "")


def test_outside_of_any_repository_there_is_nothing_to_guard(tmp_path: Path) -> None:
    form = FORMS["claude-code"]
    for body in (form.edit("x.txt", str(tmp_path)), form.shell("ls; rm x", str(tmp_path)), form.stop(str(tmp_path))):
        assert told("claude-code", ask("claude-code", body, tmp_path)) is None


def test_the_command_answers_on_stdout_alone(worktree: Repo) -> None:
    import sys

    command = [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"]
    body = json.dumps(FORMS["claude-code"].shell("git reset --hard", str(worktree.path))).encode()
    done = subprocess.run(command, input=body, cwd=worktree.path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert told("claude-code", HookReply(done.stdout.decode())) is not None
    broken = subprocess.run(command, input=b"{", cwd=worktree.path, capture_output=True, check=False)
    assert broken.returncode == 0
    assert told("claude-code", HookReply(broken.stdout.decode())) is not None
    assert b"denied" in broken.stderr
    unknown = subprocess.run(
        [*command[:-1], "nobody"], input=b"{}", cwd=worktree.path, capture_output=True, check=False
    )
    assert unknown.returncode == 2


def test_a_bug_of_ours_denies(worktree: Repo, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    """Most harnesses let a tool run whose hook fails."""
    from git_agentos.cli.entry import run

    def broken(name: str, data: bytes, caller: handler.Caller) -> HookReply:
        raise RuntimeError("oops")

    monkeypatch.setattr(handler, "respond", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(worktree.path.parent))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    assert run(["-C", str(worktree.path), "guard", "harness", "gemini"]) == 0
    out, err = capfdbinary.readouterr()
    reason = told("gemini", HookReply(out.decode()))
    assert "a bug" in (reason or "")
    kept = re.search(r"'(/[^']+)'", reason or "")
    assert kept is not None
    assert "oops" in Path(kept[1]).read_text()
    assert b"a bug" in err


# -- what a grant is for -----------------------------------------------------------------------------------------------


def _grant(worktree: Repo) -> None:
    common = worktree.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    place = approvals.open_store(common, os.environ)
    for each in approvals.read_all(place):
        if each.state == approvals.PENDING:
            approvals.grant(place, each.id, by="test")


def _shell(worktree: Repo, text: str, environment: Mapping[str, str] | None = None) -> str | None:
    body = FORMS["claude-code"].shell(text, str(worktree.path))
    return told("claude-code", ask("claude-code", body, worktree.path, environment))


@pytest.mark.parametrize(
    ("granted", "other"),
    [
        ('git merge "$A"', 'git merge "$B"'),
        ("git merge $(cat x)", "git merge $(cat y)"),
        ("git merge main", "cd . && git merge main"),
        ("git merge main", "GIT_EDITOR=./x git merge main"),
        ("git merge main", "export HOME=/tmp/x; git merge main"),
        ("git merge main", "git merge main; git merge main --no-ff"),
        ("git merge 'a", "git merge 'b"),
        ('echo "unclosed', 'git stash clear; git clean -fdx; echo "unclosed'),
        ('echo "unclosed', 'echo  "unclosed'),
        ("git merge 'a", 'sh -c "git merge \'a"'),
        ("x=$(cat cmd); git $x", "y=$(cat cmd); git $y"),
        ("x=$(cat cmd); git $x", "x=$(cat cmd); git stash clear; git $x"),
        ('eval "$CODE"', 'eval "$CODE" '),
        ("$G status", "$G reset --hard"),
        ("ls | sh", "ls -l | sh"),
        ('bash -c "$CODE"', 'bash -c "$OTHER"'),
        ("bash -c 'echo \"unclosed'", "bash -c 'git clean -fdx; echo \"unclosed'"),
        ("for x in $(cat list); do git $x; done", "for x in $(cat list); do git  $x; done"),
        ("git push origin main", "GIT_SSH_COMMAND=./x git push origin main"),
        ("git push origin main", "git -c url.x.insteadOf=y push origin main"),
    ],
)
def test_a_grant_is_for_the_whole_text(worktree: Repo, granted: str, other: str) -> None:
    assert _shell(worktree, granted) is not None
    _grant(worktree)
    assert _shell(worktree, other) is not None
    assert _shell(worktree, granted) is None
    assert _shell(worktree, granted) is not None, "it was used"


def test_undecidable_text_is_shown_and_explained(worktree: Repo) -> None:
    reason = _shell(worktree, 'git merge "$A"')
    assert reason is not None
    assert "write out what variables" in reason
    (waiting,) = run_ok(worktree.path, "approvals", "list")["approvals"]
    assert waiting["text"] == 'git merge "$A"'
    reason = _shell(worktree, "git merge 'x")
    assert reason is not None
    assert "rewrite it" in reason
    (waiting,) = [e for e in run_ok(worktree.path, "approvals", "list")["approvals"] if e["text"] == "git merge 'x"]
    assert waiting["argv"] == ["sh", "-c", "git merge 'x"]
    assert waiting["checkpoint"] is not None, "once it runs, it may do anything"


def test_no_grant_of_a_text_is_used_before_all_are_there(worktree: Repo) -> None:
    text = "git merge main; git push origin main"
    first = _shell(worktree, text)
    assert first is not None
    found = run_ok(worktree.path, "approvals", "list")["approvals"]
    assert len(found) == 2
    common = worktree.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    approvals.grant(approvals.open_store(common, os.environ), found[0]["id"], by="test")
    for _ in range(2):
        assert found[1]["id"] in (_shell(worktree, text) or "")
    assert len(run_ok(worktree.path, "approvals", "list")["approvals"]) == 2
    _grant(worktree)
    assert _shell(worktree, text) is None
    assert _shell(worktree, text) is not None


def test_a_grant_for_an_edit_is_for_what_it_writes(worktree: Repo, repo: Repo) -> None:
    def write(content: str) -> str | None:
        given = {"file_path": str(repo.path / "notes.txt"), "content": content}
        body = _claude("PreToolUse", str(worktree.path), tool_name="Write", tool_input=given)
        return told("claude-code", ask("claude-code", body, worktree.path))

    assert write("harmless") is not None
    _grant(worktree)
    assert write("something else") is not None
    assert write("harmless") is None


# -- what makes a harness ask ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json", ".claude/settings.local.json", "./.claude/../.claude/Settings.json",
        ".codex/hooks.json", ".codex/config.toml", ".gemini/settings.json", ".cursor/hooks.json",
        ".github/hooks/git-agentos.json", ".github/hooks/more.json", ".opencode/plugins/git-agentos.js",
        "opencode.json", "sub/.claude/settings.json", "alias.json",
    ],
)  # fmt: skip
def test_settings_that_make_a_harness_ask_are_not_an_agents_to_edit(worktree: Repo, path: str) -> None:
    (worktree.path / ".claude").mkdir()
    (worktree.path / "alias.json").symlink_to(".claude/settings.json")
    given = {"file_path": path, "content": '{"disableAllHooks": true}'}
    body = _claude("PreToolUse", str(worktree.path), tool_name="Write", tool_input=given)
    reason = told("claude-code", ask("claude-code", body, worktree.path))
    assert reason is not None
    assert "guard-change" in reason


def test_settings_that_make_a_harness_ask_are_not_a_shells_to_write(worktree: Repo) -> None:
    worktree.write(".claude/settings.json", "{}")
    for text in (
        "echo '{\"disableAllHooks\": true}' >.claude/settings.json", "rm -rf .claude", "rm .claude/settings.json",
        "mv .claude away", "cd .claude && rm settings.json", "sed -i s/a/b/ .cursor/hooks.json",
        "cp x .gemini/settings.json", "tee .codex/config.toml <x",
    ):  # fmt: skip
        assert "guard-change" in (_shell(worktree, text) or ""), text
    for text in ("cat .claude/settings.json", "echo x >.claude/notes.md", "rm -rf docs", "ls .claude >out.txt"):
        assert _shell(worktree, text) is None, text


def test_a_tool_that_runs_nothing_is_not_read_as_one_that_does(worktree: Repo) -> None:
    for given in (
        {"directory": ["a", "b"]}, {"workdir": 3}, {"dir_path": {}, "query": "x"}, {"directory": ["a"], "cmd": "ls"},
    ):  # fmt: skip
        body = _claude("PreToolUse", str(worktree.path), tool_name="mcp__files__list", tool_input=given)
        assert told("claude-code", ask("claude-code", body, worktree.path)) is None, given
    body = _claude("PreToolUse", str(worktree.path), tool_name="Bash", tool_input={"command": "ls", "workdir": 3})
    assert told("claude-code", ask("claude-code", body, worktree.path)) is not None
