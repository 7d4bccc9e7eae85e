"""Which harnesses are on a machine, and what `doctor` says of each."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.harness import presence
from git_agentos.guard.harness.adapters import HARNESSES
from tests.support.env import PROJECT_ROOT
from tests.support.fake_home import FakeHome
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import run, run_ok

PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "cursor": "cursor-agent",
            "copilot": "copilot", "opencode": "opencode"}  # fmt: skip
NEWEST = {"claude-code": "2.1.197", "codex": "0.169.0", "gemini": "0.61.0", "copilot": "1.0.102", "opencode": "1.18.33"}


def doctor(repo: Repo, home: FakeHome) -> dict[str, dict[str, Any]]:
    """What `doctor` says of each harness."""
    done = run(repo.path, "--json", "doctor", env=home.on_path)
    assert check_document(done.json) == "doctor"
    return {each["name"]: each for each in done.json["harnesses"]}


def state(repo: Repo, home: FakeHome, name: str) -> str:
    return str(doctor(repo, home)[name]["state"])


def test_found_by_a_folder_or_a_program(repo: Repo, fake_home: FakeHome) -> None:
    assert doctor(repo, fake_home) == {}
    fake_home.has("claude-code", "opencode")
    program = fake_home.install("codex", "0.169.0")
    found = doctor(repo, fake_home)
    assert [(each["name"], each["program"], each["version"], each["state"]) for each in found.values()] == [
        ("claude-code", None, None, "not-integrated"),
        ("codex", str(program), "0.169.0", "not-integrated"),
        ("opencode", None, None, "not-integrated"),
    ]
    assert run(repo.path, "doctor", env=fake_home.on_path).code == 0  # nothing is wrong


@pytest.mark.parametrize(
    ("name", "variable", "inner"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ""),
        ("codex", "CODEX_HOME", ""),
        ("gemini", "GEMINI_CLI_HOME", ".gemini"),
        ("copilot", "COPILOT_HOME", ""),
        ("opencode", "XDG_CONFIG_HOME", "opencode"),
    ],
)
def test_folders_that_variables_name(name: str, variable: str, inner: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "home"), "PATH": "", variable: str(tmp_path / "other")}
    assert presence.found(environment) == []
    folder = tmp_path / "other" / inner
    folder.mkdir(parents=True)
    assert [(each.name, os.path.normpath(each.folder or "")) for each in presence.found(environment)] == [
        (name, str(folder))
    ]


@pytest.mark.parametrize("name", list(HARNESSES))
def test_one_that_is_integrated(name: str, repo: Repo, fake_home: FakeHome) -> None:
    """In the newest version that was tried, and trusted; nothing is known of Cursor."""
    fake_home.has(name)
    fake_home.install(PROGRAMS[name], NEWEST.get(name, "1.0.0"))
    trust(name, repo, fake_home)
    assert state(repo, fake_home, name) == "not-integrated"
    run_ok(repo.path, "init", "--yes", env=fake_home.on_path)
    expected = "untried" if name == "cursor" else "integrated"
    assert state(repo, fake_home, name) == expected


def trust(name: str, repo: Repo, home: FakeHome) -> None:
    """What the harness's user has to trust."""
    if name == "codex":
        (home.path / ".codex" / "config.toml").write_text(f'[projects."{repo.path}"]\ntrust_level = "trusted"\n')
    elif name == "gemini":
        (home.path / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(repo.path): "TRUST_FOLDER"}))
    elif name == "copilot":
        (home.path / ".copilot" / "config.json").write_text(json.dumps({"trustedFolders": [str(repo.path)]}))


def test_one_that_does_not_trust_our_hooks(repo: Repo, fake_home: FakeHome) -> None:
    """Codex knows them by their hash: a hook that has changed is another one."""
    fake_home.has("codex")
    run_ok(repo.path, "init")
    assert state(repo, fake_home, "codex") == "not-trusted"
    assert "trusted folders" in doctor(repo, fake_home)["codex"]["detail"]
    trust("codex", repo, fake_home)
    assert "trust them with '/hooks' in codex" in doctor(repo, fake_home)["codex"]["detail"]
    assert state(repo, fake_home, "codex") == "not-trusted"
    run_ok(repo.path, "init", "--yes")
    assert state(repo, fake_home, "codex") == "integrated"
    hooks = repo.path / ".codex" / "hooks.json"
    hooks.write_text(hooks.read_text().replace('"timeout": 60', '"timeout": 61', 1))
    assert state(repo, fake_home, "codex") == "not-trusted"
    gemini = fake_home.path / ".gemini"
    gemini.mkdir()
    run_ok(repo.path, "init")
    assert state(repo, fake_home, "gemini") == "not-trusted"


def test_one_that_reads_no_hooks_where_it_cannot_ask(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("copilot")
    run_ok(repo.path, "init")
    found = doctor(repo, fake_home)["copilot"]
    assert found["state"] == "not-headless"
    assert "'copilot -p' needs --trust-folder" in found["detail"]
    done = run(repo.path, "doctor")
    assert b"copilot: integrated, but it reads no hooks where it cannot ask: copilot reads hooks only" in done.out


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.9.9", "untried"),
        ("2.0.0", "integrated"),
        ("2.1.197", "integrated"),
        ("2.9.0", "integrated"),
        ("3.0.0", "untried"),
        (None, "integrated"),
    ],
)
@pytest.mark.parametrize("package", [False, True])
def test_its_version(version: str | None, expected: str, package: bool, repo: Repo, fake_home: FakeHome) -> None:
    if package and version is None:
        return
    fake_home.install("claude", version, package=package)
    run_ok(repo.path, "init", env=fake_home.on_path)
    found = doctor(repo, fake_home)["claude-code"]
    assert (found["state"], found["version"]) == (expected, version)
    if expected == "untried":
        assert str(version) in found["detail"]


def test_one_that_has_asked_is_tried(repo: Repo, fake_home: FakeHome) -> None:
    """Whatever its version is: it has called our hook here."""
    fake_home.install("claude", "9.0.0")
    run_ok(repo.path, "init", env=fake_home.on_path)
    assert doctor(repo, fake_home)["claude-code"]["asked_at"] is None
    note = repo.git_dir / "agentos" / "harness" / "claude-code.asked"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"at": time.time(), "below_exec": False}))
    found = doctor(repo, fake_home)["claude-code"]
    assert found["state"] == "integrated"
    assert found["asked_at"] is not None


def test_hooks_that_are_switched_off_or_cannot_start(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    run_ok(repo.path, "init")
    settings = repo.path / ".claude" / "settings.local.json"
    body = json.loads(settings.read_text())
    settings.write_text(json.dumps({**body, "disableAllHooks": True}))
    assert state(repo, fake_home, "claude-code") == "disabled"
    text = json.dumps(body)
    program = text.split('"command": "')[1].split(" ")[0]
    settings.write_text(text.replace(program, "/nowhere/python"))
    assert state(repo, fake_home, "claude-code") == "broken"


def test_the_newest_versions_are_those_of_the_tests() -> None:
    text = (PROJECT_ROOT / "tests" / "clients" / "package.json").read_text()
    tried = json.loads(text)["dependencies"]
    from tests.clients.install import PACKAGES

    assert {name: presence.newest_tried(name) for name in PACKAGES} == {
        name: tried[package] for name, package in PACKAGES.items()
    }
