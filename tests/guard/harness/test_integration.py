"""Our hooks in a harness's settings: added to what is there, and taken out again to the byte."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import GuardError
from git_agentos.git.location import locate
from git_agentos.guard.diagnosis import checks
from git_agentos.guard.harness import adapters, integration
from git_agentos.guard.harness.adapters import HARNESSES
from tests.support.agents import agent_worktree
from tests.support.command_line import Cli
from tests.support.guard.shfmt import without_shfmt
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import run

NAMES = list(HARNESSES)
JSON_NAMES = [name for name in NAMES if name != "opencode"]


def path_of(name: str, root: Path) -> Path:
    return root / adapters.get(name).project_settings


def add(name: str, root: Path, home: Path) -> integration.Integration:
    return integration.add(name, str(root), {**os.environ, "XDG_CONFIG_HOME": str(home)})


def remove(name: str, root: Path, home: Path) -> integration.Integration:
    return integration.remove(name, str(root), {**os.environ, "XDG_CONFIG_HOME": str(home)})


def files(root: Path) -> dict[str, bytes]:
    return {str(each.relative_to(root)): each.read_bytes() for each in sorted(root.rglob("*")) if each.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_removal_leaves_no_settings_where_there_were_none(name: str, root: Path, tmp_path: Path) -> None:
    done = add(name, root, tmp_path / "home")
    assert (done.integrated, done.changed, done.path) == (True, True, str(path_of(name, root)))
    before = files(root)
    assert list(before) == [str(path_of(name, Path()))]
    assert f"guard harness {name}".encode() in path_of(name, root).read_bytes()
    again = add(name, root, tmp_path / "home")
    assert (again.integrated, again.changed) == (True, False)
    assert files(root) == before
    gone = remove(name, root, tmp_path / "home")
    assert (gone.integrated, gone.changed) == (False, True)
    assert list(root.iterdir()) == []
    assert not remove(name, root, tmp_path / "home").changed


OTHERS = b"""{
   "model": "x1",
   "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": []},
   "permissions": {"allow": ["Bash(ls:*)"], "odd":  "\\u00e9"}
}"""


@pytest.mark.parametrize("name", JSON_NAMES)
def test_existing_settings_come_back_to_the_byte(name: str, root: Path, tmp_path: Path) -> None:
    path = path_of(name, root)
    path.parent.mkdir(parents=True)
    path.write_bytes(OTHERS)
    path.chmod(0o600)
    add(name, root, tmp_path / "home")
    merged = json.loads(path.read_bytes())
    known = json.loads(OTHERS)
    assert {key: merged[key] for key in ("model", "permissions")} == {
        key: known[key] for key in ("model", "permissions")
    }
    assert merged["hooks"]["Stop"][0] == known["hooks"]["Stop"][0]
    assert path.stat().st_mode & 0o777 == 0o600
    remove(name, root, tmp_path / "home")
    assert path.read_bytes() == OTHERS
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", JSON_NAMES)
def test_removal_after_an_edit_takes_out_only_our_hooks(name: str, root: Path, tmp_path: Path) -> None:
    path = path_of(name, root)
    path.parent.mkdir(parents=True)
    path.write_bytes(OTHERS)
    add(name, root, tmp_path / "home")
    edited = json.loads(path.read_bytes())
    edited["added"] = True
    edited["hooks"].setdefault("Stop", []).append({"hooks": [{"type": "command", "command": "another"}]})
    path.write_text(json.dumps(edited))
    remove(name, root, tmp_path / "home")
    left = json.loads(path.read_bytes())
    assert "guard harness" not in path.read_text()
    assert left["added"] is True
    assert left["hooks"]["Stop"][0] == json.loads(OTHERS)["hooks"]["Stop"][0]
    assert left["hooks"]["Stop"][-1] == {"hooks": [{"type": "command", "command": "another"}]}


def test_an_older_entry_of_ours_is_renewed(root: Path, tmp_path: Path) -> None:
    path = path_of("claude-code", root)
    path.parent.mkdir(parents=True)
    old = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [
        {"type": "command", "command": "/old/git-agentos guard harness claude-code"},
        {"type": "command", "command": "other"},
    ]}]}}  # fmt: skip
    path.write_text(json.dumps(old))
    add("claude-code", root, tmp_path / "home")
    text = path.read_text()
    assert "/old/git-agentos" not in text
    assert json.loads(text)["hooks"]["PreToolUse"][0] == {
        "matcher": "*", "hooks": [{"type": "command", "command": "other"}],
    }  # fmt: skip


@pytest.mark.parametrize("name", JSON_NAMES)
@pytest.mark.parametrize("data", [b"{ // a comment\n}", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"\xff"])
def test_settings_that_are_not_understood_are_left_as_they_are(
    name: str, data: bytes, root: Path, tmp_path: Path
) -> None:
    path = path_of(name, root)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(GuardError) as caught:
        add(name, root, tmp_path / "home")
    assert "--print" in (caught.value.hint or "")
    assert path.read_bytes() == data


def test_foreign_plugin_is_left_alone(root: Path, tmp_path: Path) -> None:
    path = path_of("opencode", root)
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n")
    with pytest.raises(GuardError):
        add("opencode", root, tmp_path / "home")
    assert not remove("opencode", root, tmp_path / "home").changed
    assert path.read_text() == "export const Mine = 1\n"


def test_a_link_stays_one(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_bytes(OTHERS)
    path = path_of("claude-code", root)
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    add("claude-code", root, tmp_path / "home")
    assert path.is_symlink()
    assert b"guard harness" in target.read_bytes()
    remove("claude-code", root, tmp_path / "home")
    assert path.is_symlink()
    assert target.read_bytes() == OTHERS


@pytest.mark.parametrize("name", JSON_NAMES)
def test_the_command_that_is_written_runs_and_fails_closed(name: str, repo: Repo, tmp_path: Path) -> None:
    """As a harness would run it: through a shell, with the event on stdin."""
    made = agent_worktree(repo, "dev")
    add(name, made.path, tmp_path / "home")
    commands = {
        value
        for key, value in _strings(json.loads(path_of(name, made.path).read_bytes()))
        if key in ("command", "bash")
    }
    closed = {command for command in commands if "exit 2" in command}
    assert len(closed) == 1
    assert len(commands) == (3 if name == "claude-code" else 2)  # it removes worktrees by one that is run elsewhere
    for command in commands:
        done = subprocess.run(["sh", "-c", command], input=b"{", cwd=made.path, capture_output=True, check=False)
        assert done.returncode == 0
        assert b"deny" in done.stdout
    launcher = shlex.split(next(iter(closed)))[0]
    gone = next(iter(closed)).replace(launcher, "/nowhere/python", 1)
    done = subprocess.run(["sh", "-c", gone], input=b"{}", cwd=made.path, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"could not decide" in done.stderr


def _strings(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        own = [(key, each) for key, each in value.items() if isinstance(each, str)]
        return own + [found for each in value.values() for found in _strings(each)]
    return [found for each in value for found in _strings(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", NAMES)
def test_print_prints_what_has_to_be_there_and_writes_nothing(name: str, cli: Cli, repo: Repo) -> None:
    before = files(repo.path)
    answer = cli("-C", str(repo.path), "guard", "integrate", name, "--print")
    assert answer.code == 0
    assert answer.text == integration.settings_text(name)
    assert files(repo.path) == before
    if name != "opencode":
        assert json.loads(answer.text)["hooks"]
    document = cli("-C", str(repo.path), "guard", "integrate", name, "--print", "--json").json
    assert check_document(document) == "guard-integrate"
    assert (document["settings"], document["integrated"], document["changed"]) == (answer.text, False, False)
    assert files(repo.path) == before


def test_the_command(cli: Cli, repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = cli("-C", str(repo.path), "--json", "guard", "integrate", "claude-code").json
    assert check_document(done) == "guard-integrate"
    assert (done["integrated"], done["changed"]) == (True, True)
    told = cli("-C", str(repo.path), "guard", "integrate", "claude-code")
    assert "asks the guard already" in told.text
    assert cli("-C", str(repo.path), "guard", "integrate", "claude-code", "--remove").code == 0
    assert not (repo.path / ".claude").exists()
    user = cli("-C", str(repo.path), "--json", "guard", "integrate", "gemini", "--user").json
    assert user["path"] == str(tmp_path / "home" / ".gemini" / "settings.json")
    assert cli("-C", str(repo.path), "guard", "integrate", "vim").code == 2
    assert cli("-C", str(repo.path), "guard", "integrate", "codex", "--print", "--remove").code == 2


def test_an_agent_needs_approval(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    done = run(made.path, "guard", "integrate", "claude-code", "--remove")
    assert done.code == 3, done
    assert run(made.path, "guard", "integrate", "claude-code", "--print").code == 0


# -- guard check -------------------------------------------------------------------------------------------------------


def test_check_decides_and_does_nothing(cli: Cli, repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    made.write("notes.txt", "changed\n")
    repo.git("commit", "-q", "--allow-empty", "-m", "later")

    def ask(*words: str) -> tuple[int, dict[str, Any]]:
        answer = cli("-C", str(made.path), "--json", "guard", "check", *words)
        assert check_document(answer.json) == "decision"
        return answer.code, answer.json

    for words, decision, operation in (
        (("--", "git", "status"), "allow", "look"),
        (("--", "git", "reset", "--hard"), "forbid", "reset-hard"),
        (("--", "git", "checkout", "--", "notes.txt"), "allow", "checkout-dirty"),
        (("--", "git", "checkout", "--", "."), "forbid", "checkout-dirty"),
        (("--", "git", "merge", "main"), "approve", "merge"),
        (("--", "rm", "-rf", ".git"), "forbid", "git-dir-write"),
        (("--", "bash", "-c", "git reset --hard"), "forbid", "reset-hard"),
        (("--", "push", "--force"), "forbid", "push-force"),
        (("--shell", "ls && git reset --hard"), "forbid", "reset-hard"),
        (("--shell", "$G"), "approve", "unresolved"),
    ):
        code, document = ask(*words)
        assert (document["decision"], document["operations"][:1]) == (decision, [operation]), words
        assert code == (0 if decision == "allow" else 3)
        assert document["checkpoint"] is None
        assert (document["reason"] is None) == (decision == "allow")
    assert ask("--shell", "echo git reset --hard") == (0, {
        "schema": "agentos.decision.v1", "decision": "allow", "operations": [], "rule": None, "reason": None,
        "instead": None, "checkpoint": None,
    })  # fmt: skip
    assert made.read("notes.txt") == b"changed\n"
    assert made.git("for-each-ref", "refs/agentos") == b""
    told = cli("-C", str(made.path), "guard", "check", "--", "git", "reset", "--hard")
    assert told.text.startswith("forbid: reset-hard\n")
    assert "instead: git stash" in told.text
    assert cli("-C", str(made.path), "-q", "guard", "check", "--", "git", "reset", "--hard").text == "forbid\n"


def test_check_judges_the_caller(cli: Cli, repo: Repo) -> None:
    words = ("guard", "check", "--", "git", "reset", "--hard")
    assert cli("-C", str(repo.path), *words).code == 0
    assert cli("-C", str(repo.path), "--as", "dev", *words).code == 3


def test_check_wants_one_of_both(cli: Cli, repo: Repo) -> None:
    assert cli("-C", str(repo.path), "guard", "check").code == 2
    assert cli("-C", str(repo.path), "guard", "check", "--shell", "ls", "--", "git").code == 2


@pytest.mark.parametrize("name", JSON_NAMES)
def test_settings_block_before_tools_and_record_after_them(name: str) -> None:
    """The event that blocks is asked for all tools (or for each that edits, and the shell has one of its own)."""
    hooks = json.loads(integration.settings_text(name))["hooks"]
    closed = {event for event, entries in hooks.items() if "exit 2" in json.dumps(entries)}
    assert (
        closed
        == {
            "claude-code": {"PreToolUse"},
            "codex": {"PreToolUse"},
            "gemini": {"BeforeTool"},
            "cursor": {"beforeShellExecution", "beforeMCPExecution", "preToolUse"},
            "copilot": {"preToolUse"},
        }[name]
    )
    claude = {"PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd", "PreCompact", "SubagentStop"}
    assert hooks.keys() - closed == {
        "claude-code": {*claude, "WorktreeCreate", "WorktreeRemove"},
        "codex": claude,
        "gemini": {"AfterTool", "BeforeAgent", "AfterAgent", "SessionStart", "SessionEnd", "PreCompress"},
        "cursor": {"afterFileEdit", "beforeSubmitPrompt", "stop", "sessionStart", "sessionEnd", "preCompact",
                   "subagentStop"},
        "copilot": {"postToolUse", "userPromptSubmitted", "agentStop", "sessionStart", "sessionEnd", "preCompact",
                    "subagentStop"},
    }[name]  # fmt: skip
    after = [entry["matcher"] for event, entries in hooks.items() for entry in entries if event[:4] in ("Post", "Afte")
             and "matcher" in entry]  # fmt: skip
    tools = {*HARNESSES[name].tools.editors, *HARNESSES[name].tools.shells}
    assert all(set(matcher.split("|")) <= tools for matcher in after)


def test_missing_shfmt_refuses_integration(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the harness would be denied."""
    without_shfmt(monkeypatch, tmp_path)
    with pytest.raises(GuardError, match="'shfmt' is not installed") as caught:
        add("claude-code", root, tmp_path / "home")
    assert "pip install 'shfmt-py" in (caught.value.hint or "")
    assert files(root) == {}


def test_doctor_says_that_shell_text_cannot_be_read(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "guard-shell" not in [found.code for found in checks.examine(locate(str(repo.path)), os.environ, fix=False)]
    without_shfmt(monkeypatch, tmp_path)
    (found,) = [
        each for each in checks.examine(locate(str(repo.path)), os.environ, fix=False) if each.code == "guard-shell"
    ]
    assert found.severity == "error"
    assert "pip install 'shfmt-py" in (found.hint or "")
