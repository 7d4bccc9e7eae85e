"""A harness that is integrated in a worktree: git ignores its settings, they come back, and what it needs is said."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import findings
from git_agentos.git.location import Location, locate
from git_agentos.guard.diagnosis import checks
from git_agentos.guard.exec import client_configuration
from git_agentos.guard.harness import handler, integration, recording, removed_settings, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES
from tests.support import daemon
from tests.support.guard.guarded_worktree import guarded
from tests.support.repo import Repo
from tests.support.tool import run

NAMES = list(HARNESSES)


def _codes(location: Location, environment: dict[str, str]) -> list[str]:
    found = checks.harnesses(location, environment)
    return [each.code for each in findings.report(found, fix=False)]


def exclude_of(repo: Repo) -> Path:
    return Path(repo.text("rev-parse", "--path-format=absolute", "--git-path", "info/exclude"))


def files_of(*tops: Path) -> dict[str, bytes]:
    found = [
        path
        for top in tops
        for path in sorted(top.rglob("*"))
        if path.is_file() and not {".git", ".agentos"} & {*path.parts}
    ]
    return {str(path): path.read_bytes() for path in found}


@pytest.fixture
def linked(repo: Repo) -> Repo:
    """A second worktree of the repository, with nothing of ours."""
    path = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", str(path))
    return Repo(path)


# -- where it is written -----------------------------------------------------------------------------------------------


def test_a_person_integrates_a_worktree_from_outside(repo: Repo) -> None:
    made = guarded(repo)
    before = files_of(repo.path, made.path)
    done = run(repo.path, "guard", "integrate", "claude-code", "dev")
    assert done.code == 0, done
    assert (made.path / ".claude" / "settings.local.json").exists()
    printed = run(repo.path, "--json", "guard", "integrate", "claude-code", "dev", "--print")
    assert json.loads(printed.out)["path"] == str(made.path / ".claude" / "settings.local.json")
    assert json.loads(printed.out)["integrated"]
    assert run(made.path, "guard", "integrate", "claude-code", "--remove").code == 3  # there, they count as the agent
    assert run(repo.path, "guard", "integrate", "claude-code", "dev", "--remove").code == 0
    assert files_of(repo.path, made.path) == before
    assert run(repo.path, "guard", "integrate", "claude-code", "nobody").code != 0
    assert run(repo.path, "guard", "integrate", "claude-code", "dev", "--user").code == 2


def test_codex_reads_the_root_checkout_and_every_worktree_with_a_folder(repo: Repo, linked: Repo) -> None:
    other = Repo(repo.path.parent / "other")
    repo.git("worktree", "add", "-q", str(other.path))
    before = files_of(repo.path, linked.path, other.path)
    in_main = repo.path / ".codex" / "hooks.json"
    for each in (linked, other):
        done = integration.add("codex", str(each.path), os.environ)
        assert done.path == str(in_main)
        assert in_main.exists()
        assert (each.path / ".codex").is_dir()
    assert settings_files.effective("codex", str(linked.path), "/nowhere") is not None
    integration.remove("codex", str(linked.path), os.environ)
    assert not (linked.path / ".codex").exists()
    assert in_main.exists()  # the other worktree still needs it
    integration.remove("codex", str(other.path), os.environ)
    assert files_of(repo.path, linked.path, other.path) == before
    assert not (repo.path / ".codex").exists()


# -- git ignores it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_git_neither_adds_nor_stashes_the_settings(name: str, repo: Repo, linked: Repo) -> None:
    integration.add(name, str(linked.path), os.environ)
    linked.write("new.txt", "work\n")
    assert linked.git("status", "--porcelain", "--untracked-files=all") == b"?? new.txt\n"
    assert repo.git("status", "--porcelain", "--untracked-files=all") == b""
    linked.git("stash", "push", "-q", "--include-untracked")
    assert settings_files.effective(name, str(linked.path), "/nowhere") is not None
    linked.git("stash", "pop", "-q")
    linked.git("add", "--all")
    assert linked.git("diff", "--cached", "--name-only") == b"new.txt\n"
    integration.remove(name, str(linked.path), os.environ)
    assert repo.git("status", "--porcelain", "--untracked-files=all") == b""


@pytest.mark.parametrize("before", [None, b"", b"*.log\n", b"no newline at the end"])
def test_info_exclude_comes_back_to_the_byte(before: bytes | None, repo: Repo, linked: Repo) -> None:
    path = exclude_of(repo)
    shutil.rmtree(path.parent, ignore_errors=True)
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    integration.add("gemini", str(repo.path), os.environ)
    integration.add("gemini", str(linked.path), os.environ)
    integration.add("copilot", str(linked.path), os.environ)
    integration.remove("gemini", str(linked.path), os.environ)
    assert b"/.gemini/settings.json\n" in path.read_bytes()
    integration.remove("gemini", str(repo.path), os.environ)
    assert b"gemini" not in path.read_bytes()
    integration.remove("copilot", str(linked.path), os.environ)
    assert (path.read_bytes() if path.exists() else None) == before


def test_foreign_lines_in_info_exclude_stay(repo: Repo) -> None:
    path = exclude_of(repo)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"*.log\n")
    integration.add("gemini", str(repo.path), os.environ)
    path.write_bytes(path.read_bytes() + b"*.tmp\n")
    integration.add("copilot", str(repo.path), os.environ)
    integration.remove("gemini", str(repo.path), os.environ)
    integration.remove("copilot", str(repo.path), os.environ)
    assert path.read_bytes() == b"*.log\n*.tmp\n"


# -- it comes back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
def test_settings_that_are_gone_are_written_again_by_the_next_command(name: str, repo: Repo, linked: Repo) -> None:
    daemon.start(linked.path)  # to start one is a command as well
    integration.add(name, str(linked.path), os.environ)
    wanted = files_of(repo.path, linked.path)
    linked.git("clean", "-fdxq")
    assert files_of(repo.path, linked.path) != wanted
    done = run(linked.path, "status")
    assert done.code == 0
    assert b"were missing from" in done.err
    assert files_of(repo.path, linked.path) == wanted
    assert b"were missing from" not in run(linked.path, "status").err
    integration.remove(name, str(linked.path), os.environ)
    assert b"were missing from" not in run(linked.path, "status").err


def test_a_new_worktree_in_the_same_place_was_not_integrated(repo: Repo, linked: Repo) -> None:
    integration.add("claude-code", str(linked.path), os.environ)
    repo.git("worktree", "remove", "--force", str(linked.path))
    repo.git("worktree", "add", "-q", "--force", "-B", "again", str(linked.path))
    entry = Path(linked.text("rev-parse", "--absolute-git-dir")) / "commondir"
    later = entry.stat().st_mtime + 10  # as it is where the two were not made within one tick of the clock
    os.utime(entry, (later, later))
    assert list(integration.missing(str(linked.path), os.environ)) == []


def test_settings_without_our_hooks_are_for_doctor(repo: Repo) -> None:
    integration.add("claude-code", str(repo.path), os.environ)
    path = repo.path / ".claude" / "settings.local.json"
    path.write_text("{}\n")
    location = locate(str(repo.path), use_environment=False)
    assert list(removed_settings.restore(str(repo.path), os.environ)) == []
    (found,) = findings.report(checks.harnesses(location, os.environ), fix=False)
    assert (found.code, found.severity, found.fixed) == ("harness-missing", "warning", False)
    (found,) = findings.report(checks.harnesses(location, os.environ), fix=True)
    assert found.fixed
    assert settings_files.has_hooks(str(path))
    assert list(findings.report(checks.harnesses(location, os.environ), fix=False)) == []


# -- what a harness needs to read it -----------------------------------------------------------------------------------


def _trust_codex(home: Path, path: str) -> None:
    """As codex records it: the folder, and the hash of each hook."""
    lines = [f'[projects."{Path(path).parent.parent}"]\ntrust_level = "trusted"\n']
    for event, groups in json.loads(Path(path).read_text())["hooks"].items():
        key = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("_")
        hook = groups[0]["hooks"][0]
        identity: dict[str, Any] = {"event_name": key, "hooks": [{**hook, "async": False}]}
        if "matcher" in groups[0]:
            identity["matcher"] = groups[0]["matcher"]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        lines.append(f'[hooks.state."{path}:{key}:0:0"]\ntrusted_hash = "sha256:{digest}"\n')
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("".join(lines))


def _trust_gemini(home: Path, path: str) -> None:
    (home / ".gemini").mkdir()
    folder = Path(path).parent.parent
    (home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(folder): "TRUST_FOLDER"}))


def _trust_copilot(home: Path, path: str) -> None:
    (home / ".copilot").mkdir()
    folders = json.dumps({"trustedFolders": [str(Path(path).parents[2])]})
    (home / ".copilot" / "config.json").write_text(f"// This file is managed automatically.\n{folders}\n")


@pytest.mark.parametrize(
    ("name", "trust", "said"),
    [("codex", _trust_codex, "hook-trust"), ("gemini", _trust_gemini, "trust"), ("copilot", _trust_copilot, "trust")],
)
def test_untrusted_settings_are_not_read(
    name: str, trust: Callable[[Path, str], None], said: str, repo: Repo, tmp_path: Path
) -> None:
    home = tmp_path / "person"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    done = integration.add(name, str(repo.path), environment)
    assert said in done.needs[-1]
    location = locate(str(repo.path), use_environment=False)
    assert "harness-unread" in _codes(location, environment)
    trust(home, done.path)
    assert integration.add(name, str(repo.path), environment).needs == []
    assert "harness-unread" not in _codes(location, environment)


def test_codex_trusts_the_text_of_a_hook(repo: Repo, tmp_path: Path) -> None:
    """The hash is the one that codex 0.169 answers `hooks/list` with."""
    path = tmp_path / "hooks.json"
    command = "guard harness codex"
    body = {
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": 60}]}]}
    }
    path.write_text(json.dumps(body))
    home = tmp_path / "person"
    home.mkdir()
    _trust_codex(home, str(path))
    environment = {"HOME": str(home)}
    assert requirements.unmet("codex", str(repo.path), str(path), environment) == []
    body["hooks"]["PreToolUse"][0]["matcher"] = "Bash"
    path.write_text(json.dumps(body))
    assert len(requirements.unmet("codex", str(repo.path), str(path), environment)) == 1


@pytest.mark.parametrize("where", [".claude/settings.json", ".claude/settings.local.json"])
def test_hooks_that_are_all_switched_off(where: str, repo: Repo) -> None:
    done = integration.add("claude-code", str(repo.path), os.environ)
    assert done.needs == []
    path = repo.path / where
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, "disableAllHooks": True}))
    (need,) = integration.add("claude-code", str(repo.path), os.environ).needs
    assert "'disableAllHooks'" in need


# -- clients that switch the guard off inside git ----------------------------------------------------------------------

_GEMINI = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "",
    "GIT_CONFIG_KEY_1": "core.hooksPath", "GIT_CONFIG_VALUE_1": "",
}  # fmt: skip
_COPILOT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false"}


def ask(name: str, body: dict[str, Any], cwd: Path, environment: dict[str, str]) -> Any:
    caller = handler.Caller(str(cwd), {**os.environ, **environment}, os.getpid())
    return json.loads(handler.respond(name, json.dumps(body).encode(), caller).stdout or "{}")


def event(name: str, command: str, cwd: Path) -> dict[str, Any]:
    if name == "copilot":
        return {
            "sessionId": "s-1",
            "cwd": str(cwd),
            "toolName": "bash",
            "toolArgs": {"command": command, "mode": "sync"},
        }
    given = {"command": command, "description": "x"}
    return {"session_id": "s-1", "cwd": str(cwd), "hook_event_name": "BeforeTool", "tool_name": "run_shell_command",
            "tool_input": given}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "own", "shell"),
    [("gemini", {"GEMINI_SESSION_ID": "s-1"}, _GEMINI), ("copilot", {"COPILOT_CLI": "1", **_COPILOT}, _COPILOT)],
)
def test_a_script_below_a_client_that_switches_the_guard_off_loses_nothing(
    name: str, own: dict[str, str], shell: dict[str, str], repo: Repo
) -> None:
    made = guarded(repo)
    made.write("notes.txt", "not saved anywhere\n")
    made.write("wreck.sh", "git reset --hard -q\n")
    ask(name, event(name, "ls", made.path), made.path, own)
    (before,) = json.loads(run(made.path, "checkpoint", "list", "--json").out)["checkpoints"]
    assert (before["description"], before["session_id"]) == ("before a command: ls", "s-1")
    made.write("notes.txt", "nor this\n")
    answer = ask(name, event(name, "sh wreck.sh", made.path), made.path, own)
    given = answer["modifiedArgs"] if name == "copilot" else answer["hookSpecificOutput"]["tool_input"]
    assert given.get("mode") == ("sync" if name == "copilot" else None)
    environment = {**os.environ, **shell}
    subprocess.run(["bash", "-c", given["command"]], cwd=made.path, env=environment, capture_output=True, check=False)
    assert made.read("notes.txt") == b"nor this\n"  # layer 1 has stopped it
    assert len(json.loads(run(made.path, "checkpoint", "list", "--json").out)["checkpoints"]) == 2
    # What the client has set is not the agent's: a commit is not refused for it.
    answer = ask(name, event(name, "git commit -qam x", made.path), made.path, {**own, **shell})
    assert "deny" not in json.dumps(answer)
    answer = ask(name, event(name, "git -c core.fsmonitor= reset --hard", made.path), made.path, {**own, **shell})
    assert "deny" in json.dumps(answer)
    assert recording.last_contact(name, made.text("rev-parse", "--absolute-git-dir")) is not None


def test_the_prefix_restores_what_the_client_was_started_with() -> None:
    show = "env | grep '^GIT_' | sort"
    started = {"GIT_CONFIG_GLOBAL": "/home/ada/git config", "GIT_EDITOR": "ed"}
    for hook, wanted in (
        (started, "GIT_CONFIG_GLOBAL=/home/ada/git config\nGIT_EDITOR=ed\n"),
        ({}, "GIT_EDITOR=:\n"),
        (_GEMINI, "GIT_EDITOR=:\n"),
    ):
        text = client_configuration.prefixed(show, hook)
        environment = {"PATH": os.environ["PATH"], **{k: v for k, v in hook.items() if k == "GIT_EDITOR"}, **_GEMINI}
        done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=True)
        pairs = [
            line for line in done.stdout.splitlines(keepends=True) if "_KEY_" not in line and "_VALUE_" not in line
        ]
        assert "".join(pairs) == wanted
        assert client_configuration.original(text) == show
    assert client_configuration.original("unset GIT_CONFIG_COUNT; ls") == "unset GIT_CONFIG_COUNT; ls"
