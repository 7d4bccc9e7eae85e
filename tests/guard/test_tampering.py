"""The guard of an agent's worktree, tampered with: seen from wherever one looks, said, and set again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from git_agentos import log, open_workspace
from git_agentos.findings import Finding
from git_agentos.guard import tampering
from git_agentos.guard.diagnosis import checks, probe
from git_agentos.guard.harness import handler, integration
from git_agentos.guard.harness.handler import Caller
from git_agentos.guard.setup import activation, launcher, manifest, scripts
from tests.support.guard.guarded_worktree import guarded, location, sh
from tests.support.repo import Repo, git
from tests.support.tool import run

_ELSEWHERE = "[core]\n\tfsmonitor = false\n\thooksPath = /nowhere\n"


def hook(dev: Repo, name: str = "reference-transaction") -> Path:
    return Path(scripts.hooks_dir(location(dev).common_dir)) / name


def own_config(dev: Repo) -> Path:
    return Path(location(dev).git_dir) / "config.worktree"


def config(dev: Repo, *words: str) -> None:
    git(dev.path, "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "config", *words)


def append(dev: Repo, text: str) -> None:
    own_config(dev).write_text(own_config(dev).read_text() + text)


def include(dev: Repo, section: str) -> None:
    dev.scratch.mkdir(exist_ok=True)
    (dev.scratch / "included").write_text(_ELSEWHERE)
    append(dev, f"[{section}]\n\tpath = {dev.scratch / 'included'}\n")


def go_on_before(dev: Repo) -> None:
    """The line before the guard's section goes on in it."""
    own_config(dev).write_text("[x]\n\ty = z\\\n" + own_config(dev).read_text())


def remove_record(dev: Repo) -> None:
    os.unlink(manifest.path_of(location(dev).common_dir))


def both_and_record(dev: Repo) -> None:
    append(dev, _ELSEWHERE)
    remove_record(dev)


def change_record(dev: Repo) -> None:
    path = Path(manifest.path_of(location(dev).common_dir))
    path.write_text(path.read_text().replace("config.worktree", "config.nothing"))


TAMPERINGS: dict[str, Callable[[Repo], object]] = {
    "a hook overwritten": lambda dev: hook(dev).write_text("#!/bin/sh\nexit 0\n"),
    "a hook not executable": lambda dev: hook(dev).chmod(0o644),
    "a hook deleted": lambda dev: hook(dev).unlink(),
    "guard.sh edited": lambda dev: hook(dev, "guard.sh").write_text("exit 0\n"),
    "the shim edited": lambda dev: (hook(dev).parent.parent / "bin" / "git").write_text("#!/bin/sh\nexit 0\n"),
    "hooksPath": lambda dev: config(dev, "--worktree", "core.hooksPath", ".husky"),
    "fsmonitor": lambda dev: config(dev, "--worktree", "core.fsmonitor", "true"),
    "appended": lambda dev: append(dev, _ELSEWHERE),
    "included": lambda dev: include(dev, "include"),
    "included on a condition": lambda dev: include(dev, 'includeIf "gitdir:**/dev"'),
    "the line before goes on": go_on_before,
    "own configuration removed": lambda dev: own_config(dev).unlink(),
    "extension off": lambda dev: config(dev, "extensions.worktreeConfig", "false"),
    "extension unset": lambda dev: config(dev, "--unset-all", "extensions.worktreeConfig"),
    "record removed": remove_record,
    "record changed": change_record,
    "configuration and record": both_and_record,
    "record of scripts removed": lambda dev: os.unlink(scripts.digests_path(location(dev).common_dir)),
    "everything removed": lambda dev: shutil.rmtree(scripts.folder(location(dev).common_dir)),
}
# git starts the scripts, and they are what was placed.
_STILL_ACT = ("the shim edited", "record removed", "record changed", "record of scripts removed")
_SAYS_WHERE = ("hooksPath", "fsmonitor", "appended", "included", "own configuration removed")


def acting(dev: Repo, env: Mapping[str, str] | None = None) -> list[bool]:
    """Whether layers 1 and 2 act, by trying them."""
    return [each.acts for each in probe.try_hooks(location(dev), {**os.environ, **(env or {})})]


def problems(repo: Repo, *, fix: bool = False) -> list[Finding]:
    """What `doctor` finds of the guard from here, and has not mended."""
    found = checks.examine(location(repo), os.environ, fix=fix)
    return [each for each in found if each.code.startswith("guard-") and not each.fixed]


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_seen_and_mended_from_the_main_checkout(repo: Repo, name: str) -> None:
    dev = guarded(repo)
    TAMPERINGS[name](dev)
    assert all(acting(dev)) is (name in _STILL_ACT)
    found = problems(repo)
    assert {each.severity for each in found} == {"error"}
    assert name not in _SAYS_WHERE or all("'dev'" in each.message for each in found), found
    assert problems(repo, fix=True) == []
    assert problems(repo) == []
    assert acting(dev) == [True, True]


@pytest.mark.parametrize(
    "name", ["appended", "included", "the line before goes on", "extension off", "everything removed"]
)
def test_enable_sets_it_again_and_disable_leaves_what_others_wrote(repo: Repo, name: str) -> None:
    dev = guarded(repo)
    TAMPERINGS[name](dev)
    activation.enable(location(dev))
    assert acting(dev) == [True, True]
    assert problems(repo) == []
    activation.disable(location(dev))
    assert probe.state(location(dev)) == "off"
    left = own_config(dev).read_text() if own_config(dev).exists() else ""
    # The folder that tests run in may have our name in its path.
    assert "git-agentos" not in left and "agentos/guard" not in left
    if name == "appended":
        assert left == _ELSEWHERE


@pytest.mark.parametrize("step", range(4))
def test_a_repair_that_is_killed_is_finished_by_the_next_command(
    repo: Repo, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = guarded(repo)
    append(dev, _ELSEWHERE)
    remove_record(dev)
    left = iter(range(step))

    def replace(*args: str | bytes) -> None:
        if next(left, None) is None:
            raise _Killed
        os_replace(*args)

    os_replace = os.replace
    with monkeypatch.context() as patch, contextlib.suppress(_Killed):
        patch.setattr(os, "replace", replace)
        problems(repo, fix=True)
    assert problems(repo, fix=True) == []
    assert acting(dev) == [True, True]
    activation.disable(location(dev))
    said = git(dev.path, "config", "--file", str(own_config(dev)), "--list")
    assert said == b"core.fsmonitor=false\ncore.hookspath=/nowhere\n"


class _Killed(BaseException):
    """The process ends here."""


# -- said, by whatever comes next --------------------------------------------------------------------------------------


def switch_off(dev: Repo) -> None:
    """Neither of the layers that git starts is asked any more."""
    config(dev, "--worktree", "core.fsmonitor", "true")
    config(dev, "--worktree", "core.hooksPath", ".husky")


def entries(dev: Repo) -> list[str]:
    """What the agent's log says of it."""
    found = log.entries(open_workspace(dev.path).context)
    return [str(each.details["found"]) for each in found if each.summary == "the guard was tampered with"]


def test_tampering_with_both_layers_is_said_by_every_command_and_logged_once(repo: Repo) -> None:
    dev = guarded(repo)
    switch_off(dev)
    for words in (
        ("checkpoint",),
        ("log", "list"),
        ("guard", "exec", "--", "true"),
        ("worktree", "list"),
    ):
        said = run(dev.path, *words).err
        assert b"the guard was tampered with" in said, words
        assert b"core.fsmonitor" in said, words
        assert b"core.hooksPath" in said, words
    (entry,) = entries(dev)
    assert "core.fsmonitor" in entry
    assert "core.hooksPath" in entry
    for where in (dev, repo):
        assert len(run(where.path, "--json", "status").json["guard_problems"]) == 2
        assert b"The guard was tampered with" in run(where.path, "status").out
    assert len(entries(dev)) == 1
    run(repo.path, "doctor", "--fix")
    assert b"tampered" not in run(dev.path, "checkpoint").err
    append(dev, _ELSEWHERE)
    assert b"tampered" in run(dev.path, "checkpoint").err
    assert len(entries(dev)) == 2


def test_tampering_is_said_by_the_layers_that_still_act(repo: Repo) -> None:
    dev = guarded(repo)
    switch_off(dev)
    below = run(dev.path, "guard", "exec", "--", "git", "commit", "-q", "--allow-empty", "-m", "x")
    assert below.code == 0
    assert below.err.count(b"the guard was tampered with") == 2  # by `guard exec`, and by its git
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git reset --hard"}}
    data = json.dumps({**event, "cwd": str(dev.path)}).encode()
    asked = handler.respond("claude-code", data, Caller(str(dev.path), os.environ, os.getpid()))
    assert "the guard was tampered with" in asked.stdout + asked.stderr
    assert len(entries(dev)) == 1


@pytest.mark.parametrize("setting", [("core.fsmonitor", "true"), ("core.hooksPath", ".husky")], ids=" ".join)
def test_one_layer_says_that_the_other_was_switched_off(repo: Repo, setting: tuple[str, str]) -> None:
    dev = guarded(repo)
    config(dev, "--worktree", *setting)
    dev.write("notes.txt", "more\n")
    done = sh(dev, "git commit -qam more")
    assert done.code == 0
    assert f"the guard of 'dev': '{setting[0]}'" in done.err
    assert len(entries(dev)) == 1


def test_guard_exec_restores_no_hook_silently(repo: Repo) -> None:
    dev = guarded(repo)
    placed = hook(dev).read_bytes()
    TAMPERINGS["a hook overwritten"](dev)
    said = run(dev.path, "guard", "exec", "--", "true").err
    assert f"'{hook(dev)}' is not what git-agentos placed there".encode() in said
    assert hook(dev).read_bytes() == placed
    (entry,) = entries(dev)
    assert str(hook(dev)) in entry


def test_unrepairable_tampering_is_reported(repo: Repo) -> None:
    """The environment has the last word in git's configuration."""
    dev = guarded(repo)
    pairs = {"core.fsmonitor": "false", "core.hooksPath": "/nowhere"}
    env = {"GIT_CONFIG_COUNT": "2"}
    for number, (key, value) in enumerate(pairs.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    assert acting(dev, env) == [False, False]
    enabled = run(dev.path, "--json", "guard", "enable", env=env).json
    reasons = {each["name"]: each["reason"] for each in enabled["layers"]}
    assert reasons["fsmonitor"] == "core.fsmonitor is 'false'"
    assert reasons["hook"] == "core.hooksPath is '/nowhere'"
    left = run(repo.path, "--json", "doctor", "--fix", env=env)
    assert left.code == 1
    assert "guard-layer" in [each["code"] for each in left.json["findings"] if not each["fixed"]]
    assert acting(dev) == [True, True]


def test_settings_that_do_not_matter_are_no_tampering(repo: Repo) -> None:
    """Neither the shared configuration nor the user's has a say here."""
    dev = guarded(repo)
    config(dev, "core.fsmonitor", "false")
    config(dev, "core.hooksPath", ".husky")
    config(dev, "--global", "core.hooksPath", "/nowhere")
    config(dev, "--worktree", "user.name", "Dev")
    try:
        assert acting(dev) == [True, True]
        assert problems(repo) == []
        assert tampering.in_worktree(location(dev)) == []
    finally:
        config(dev, "--global", "--unset", "core.hooksPath")


# -- trying changes nothing --------------------------------------------------------------------------------------------


def test_trying_changes_nothing_and_starts_few_processes(repo: Repo) -> None:
    dev = guarded(repo)
    dev.write("notes.txt", "not committed\n")
    checks.guard_status(location(dev), os.environ)  # what the hooks note of the configuration is there
    before = everything(repo), everything(dev)
    trace = repo.scratch / "trace"
    found = checks.guard_status(location(dev), {**os.environ, "GIT_TRACE2_EVENT": str(trace)})
    assert [each.acts for each in found.layers] == [True, True, False, False]
    assert (everything(repo), everything(dev)) == before
    assert trace.read_text().count('"event":"start"') <= 16
    assert log.entries(open_workspace(dev.path).context) == []


def everything(repo: Repo) -> dict[str, bytes]:
    """The files of a worktree and of its repository."""
    found = [path for path in repo.path.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): path.read_bytes() for path in found}


def test_a_worktree_without_an_index(repo: Repo) -> None:
    dev = guarded(repo)
    os.unlink(Path(location(dev).git_dir) / "index")
    assert acting(dev) == [True, True]


# -- harnesses ---------------------------------------------------------------------------------------------------------


def test_a_harness_whose_hook_cannot_be_started(repo: Repo) -> None:
    dev = guarded(repo)

    def acts() -> bool:
        return {each.name: each.acts for each in probe.try_layers(location(dev), os.environ)}["harness"]

    assert not acts()
    settings = Path(integration.add("claude-code", str(dev.path), os.environ).path)
    assert acts()
    settings.write_text(settings.read_text().replace(launcher.command().split("'")[1], "/gone/python"))
    assert not acts()
    integration.remove("claude-code", str(dev.path), os.environ)
    assert not acts()


# -- copies of the whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("cp", "-a"), ("cp", "-r")], ids=" ".join)
def test_a_repository_that_came_back_from_a_backup_is_guarded(repo: Repo, words: tuple[str, ...]) -> None:
    """At the same place, with other inodes, and with other times where they were not kept."""
    dev = guarded(repo)
    folders = [repo.path, dev.path]
    for number, path in enumerate(folders):
        backup = repo.scratch.parent / f"backup-{number}"
        subprocess.run([*words, path, backup], check=True)
        shutil.rmtree(path)
        subprocess.run([*words, backup, path], check=True)
    found = run(dev.path, "--json", "guard", "status").json
    assert found["enabled"] is True
    assert [each["acts"] for each in found["layers"]][:2] == [True, True]
    assert [each["code"] for each in found["findings"]] == []
    assert problems(repo) == []
    config(dev, "--worktree", "core.hooksPath", ".husky")
    assert problems(repo) != []
    assert problems(repo, fix=True) == []
    assert acting(dev) == [True, True]
    before = own_config(dev).exists()
    activation.disable(location(dev))
    assert (before, probe.state(location(dev))) == (True, "off")
