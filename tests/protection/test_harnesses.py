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


def _put(path: Path, body: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if isinstance(body, str) else json.dumps(body))


_ID = "git-agentos@git-agentos"


def has_plugin(name: str, home: Path, *, is_on: bool = True) -> None:
    """The files that show our plugin, as the harness itself writes them when it installs or switches off one."""
    plugins = PROJECT_ROOT / "plugins"
    if name == "claude-code":
        entry = {"scope": "user", "installPath": str(plugins / name), "version": "0.1.0"}
        _put(home / ".claude/plugins/installed_plugins.json", {"version": 2, "plugins": {_ID: [entry]}})
        _put(home / ".claude/settings.json", {"enabledPlugins": {_ID: is_on}})
    elif name == "codex":
        _put(home / ".codex/config.toml", f'[plugins."{_ID}"]\nenabled = {str(is_on).lower()}\n')
    elif name == "gemini":
        extensions = home / ".gemini" / "extensions"
        _put(extensions / "git-agentos/gemini-extension.json", {"name": "git-agentos"})
        rules = ["/nowhere/*", *([] if is_on else ["!/*"])]
        _put(extensions / "extension-enablement.json", {"git-agentos": {"overrides": rules}})
    elif name == "cursor":
        _put(home / ".cursor/plugins/local/git-agentos/.cursor-plugin/plugin.json", {"name": "git-agentos"})
    elif name == "copilot":
        _put(home / ".copilot/settings.json", {"enabledPlugins": {_ID: is_on}})
    elif name == "opencode":
        _put(home / ".config/opencode/opencode.json", {"plugin": [(plugins / name).as_uri()]})


@pytest.mark.parametrize("name", list(HARNESSES))
def test_one_that_has_only_the_plugin(name: str, repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has(name)
    assert doctor(repo, fake_home)[name]["plugin"] is None
    has_plugin(name, fake_home.path)
    assert state(repo, fake_home, name) == "broken"
    assert "'git-agentos', which is not on PATH" in doctor(repo, fake_home)[name]["detail"]
    fake_home.install("git-agentos", "0.1.0")
    found = doctor(repo, fake_home)[name]
    assert found["state"] == ("untried" if name in ("codex", "cursor") else "integrated")
    assert (found["path"], Path(found["plugin"]).exists()) == (None, True)
    if name == "codex":
        assert "once they are trusted: '/hooks' in codex" in found["detail"]
    text = run(repo.path, "doctor", env=fake_home.on_path).out.decode()
    assert found["state"] != "integrated" or f"{name}: asks the guard here, by its plugin\n" in text
    note = repo.git_dir / "agentos" / "harness" / f"{name}.asked"
    _put(note, {"at": time.time(), "below_exec": False})
    assert state(repo, fake_home, name) == "integrated"


def test_what_copilot_leaves_of_a_plugin_that_was_removed(repo: Repo, fake_home: FakeHome) -> None:
    has_plugin("copilot", fake_home.path, is_on=False)
    found = doctor(repo, fake_home)["copilot"]
    assert (found["state"], found["plugin"]) == ("not-integrated", None)


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_a_plugin_that_is_switched_off(name: str, repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has(name)
    fake_home.install("git-agentos", "0.1.0")
    has_plugin(name, fake_home.path, is_on=False)
    assert state(repo, fake_home, name) == "disabled"


def test_where_a_plugin_is_switched_on(repo: Repo, fake_home: FakeHome) -> None:
    """Claude Code: the worktree's own settings count more. Gemini CLI: the last rule for a folder."""
    fake_home.install("git-agentos", "0.1.0")
    has_plugin("claude-code", fake_home.path)
    _put(repo.path / ".claude" / "settings.json", {"enabledPlugins": {_ID: False}})
    assert state(repo, fake_home, "claude-code") == "disabled"
    _put(repo.path / ".claude" / "settings.local.json", {"enabledPlugins": {_ID: True}})
    assert state(repo, fake_home, "claude-code") == "integrated"
    has_plugin("gemini", fake_home.path)
    rules = fake_home.path / ".gemini" / "extensions" / "extension-enablement.json"
    for overrides, expected in (
        (["!/*", f"{repo.path.parent}/*"], "integrated"),
        ([f"{repo.path}/", f"!{repo.path}/"], "disabled"),
        ([f"!{repo.path}x/*"], "integrated"),
    ):
        _put(rules, {"git-agentos": {"overrides": overrides}})
        assert state(repo, fake_home, "gemini") == expected


def test_files_of_another_form_show_no_plugin(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has(*HARNESSES)
    forms = ("[", "[1]", '{"plugins": 7, "enabledPlugins": [], "plugin": {}}', '{"plugins": {"git-agentos@x": 3}}')
    for text in forms:
        for path in (".claude/plugins/installed_plugins.json", ".codex/config.toml", ".copilot/settings.json",
                     ".config/opencode/opencode.json"):  # fmt: skip
            _put(fake_home.path / path, text)
        assert {each["plugin"] for each in doctor(repo, fake_home).values()} == {None}


def outdated(repo: Repo, home: FakeHome) -> list[dict[str, Any]]:
    found = run(repo.path, "--json", "doctor", env=home.on_path).json["findings"]
    return [each for each in found if each["code"] == "harness-outdated"]


def drop(path: Path, *events: str) -> None:
    """As an earlier version would have written it."""
    body = json.loads(path.read_text())
    for each in events:
        del body["hooks"][each]
    path.write_text(json.dumps(body, indent=2) + "\n")


@pytest.mark.parametrize(
    ("name", "settings", "events"),
    [
        ("claude-code", ".claude/settings.local.json", ("SessionEnd", "WorktreeRemove")),
        ("codex", ".codex/hooks.json", ("PreCompact",)),
        ("copilot", ".github/hooks/git-agentos.json", ("subagentStop",)),
    ],
)
def test_hooks_of_an_earlier_version(
    name: str, settings: str, events: tuple[str, ...], repo: Repo, fake_home: FakeHome
) -> None:
    fake_home.has(name)
    run_ok(repo.path, "init", "--yes", env=fake_home.on_path)
    assert outdated(repo, fake_home) == []
    path = repo.path / settings
    today = json.loads(path.read_text())
    drop(path, *events)
    (found,) = outdated(repo, fake_home)
    assert found["message"].startswith(
        f"our hooks in '{path}' are of another version of git-agentos: {', '.join(events)}"
    )
    assert found["hint"] == "git agentos init"
    run_ok(repo.path, "init", "--yes", env=fake_home.on_path)
    assert outdated(repo, fake_home) == []
    assert json.loads(path.read_text()) == today
    drop(path, *events)
    run(repo.path, "doctor", "--fix", env=fake_home.on_path)
    assert json.loads(path.read_text()) == today


def test_an_entry_of_somebody_else_is_not_ours(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    run_ok(repo.path, "init", env=fake_home.on_path)
    path = repo.path / ".claude" / "settings.local.json"
    body = json.loads(path.read_text())
    body["hooks"]["SessionEnd"] = [{"hooks": [{"type": "command", "command": "true"}]}]
    path.write_text(json.dumps(body))
    assert "SessionEnd would be written now" in outdated(repo, fake_home)[0]["message"]
    path.write_text(json.dumps({**body, "hooks": {**body["hooks"], "Stop": 7}}))
    assert "is not known" in outdated(repo, fake_home)[0]["message"]


def test_a_plugin_file_of_an_earlier_version(repo: Repo, fake_home: FakeHome) -> None:
    """Another command in it is another installation's, which is no difference."""
    fake_home.has("opencode")
    run_ok(repo.path, "init", env=fake_home.on_path)
    path = repo.path / ".opencode" / "plugins" / "git-agentos.js"
    today = path.read_text()
    path.write_text(today.replace('const COMMAND = "', 'const COMMAND = "/usr/bin/env '))
    assert outdated(repo, fake_home) == []
    path.write_text(today.replace("session.compacting", "session.compaction"))
    assert "git-agentos.js would be written now" in outdated(repo, fake_home)[0]["message"]
    run_ok(repo.path, "init", env=fake_home.on_path)
    assert path.read_text() == today


def test_hooks_of_an_earlier_version_in_the_users_settings(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    run_ok(repo.path, "guard", "integrate", "--user", "claude-code", env=fake_home.on_path)
    drop(fake_home.path / ".claude" / "settings.json", "SessionStart")
    (found,) = outdated(repo, fake_home)
    assert found["hint"] == "git agentos guard integrate --user claude-code"
    run_ok(repo.path, "guard", "integrate", "--user", "claude-code", env=fake_home.on_path)
    assert outdated(repo, fake_home) == []


def test_the_newest_versions_are_those_of_the_tests() -> None:
    text = (PROJECT_ROOT / "tests" / "clients" / "package.json").read_text()
    tried = json.loads(text)["dependencies"]
    from tests.clients.install import PACKAGES

    assert {name: presence.newest_tried(name) for name in PACKAGES} == {
        name: tried[package] for name, package in PACKAGES.items()
    }
