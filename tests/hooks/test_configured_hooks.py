"""Hooks that the configuration names (git 2.54), in a guarded worktree: git runs them as before, then ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.guard.diagnosis import probe
from tests.support.confirming import set_up
from tests.support.git_version import needs_git
from tests.support.guard.guarded_worktree import checkpoints, guarded, location, notes_of, sh, unguarded
from tests.support.repo import Repo

pytestmark = needs_git(2, 54)

# Not post-index-change: with core.fsmonitor, git writes the index more often.
_EVENTS = (
    "pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-merge pre-push reference-transaction"
).split()
_NOTES = """#!/bin/sh
{
	printf '%s' "$1"
	shift
	printf ' [%s]' "$@"
	printf ' in %s\\n' "$PWD"
	cat
} >>"$NOTES"
"""


@pytest.fixture
def notes(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For each event two hooks in the configuration and one in the folder note what they are given, in this file."""
    path = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(path))
    script = tmp_path / "note"
    script.write_text(_NOTES)
    script.chmod(0o755)
    for name in ("first", "second"):
        for event in _EVENTS:
            repo.git("config", f"hook.{name}-{event}.command", f"{script} {name}-{event}")
            repo.git("config", f"hook.{name}-{event}.event", event)
    for event in _EVENTS:
        own = repo.path / ".git" / "hooks" / event
        own.parent.mkdir(exist_ok=True)
        own.write_text(f'#!/bin/sh\nexec {script} folder-{event} "$@"\n')
        own.chmod(0o755)
    return path


def test_they_run_as_without_the_guard(repo: Repo, notes: Path) -> None:
    """In the same order, with the same words and the same stdin, and before the hooks in the folder."""
    for operation in ("merge", "push"):
        set_up(repo, f"agentos.policy.{operation}", "allow")
    given = []
    for each in (unguarded(repo), guarded(repo)):
        texts = (
            "echo more >>notes.txt && git add notes.txt && git commit -q -m one",
            "git checkout -q -b side HEAD~1 && echo side >side.txt && git add . && git commit -q -m side",
            "git checkout -q - && git merge -q -m merge side",
            "git push -q . HEAD:refs/heads/pushed",
        )
        given.append(notes_of(each, notes, texts))
        repo.git("-c", "core.hooksPath=/dev/null", "branch", "-q", "-D", "side", "pushed")
    assert given[0].splitlines() == given[1].splitlines()
    assert "reference-transaction [preparing]" in given[1]
    for event in _EVENTS:
        order = [line.split("-")[0] for line in given[1].splitlines() if line.partition(" ")[0].endswith(f"-{event}")]
        assert order and order == ["first", "second", "folder"] * (len(order) // 3), event


@pytest.mark.parametrize(
    ("event", "command"),
    [
        ("pre-commit", "exit 7"),
        ("commit-msg", "exit 1"),
        ("reference-transaction", 'test "$1" != prepared; exit'),
        ("reference-transaction", 'test "$1" != preparing; exit'),
    ],
)
def test_one_that_fails_stops_git_as_before(repo: Repo, event: str, command: str) -> None:
    made = {each.path.name: each for each in (unguarded(repo), guarded(repo))}
    repo.git("config", "hook.stop.event", event)
    repo.git("config", "hook.stop.command", f"f() {{ {command}; }}; f")
    found = {}
    for name, each in made.items():
        each.write("notes.txt", "more\n")
        sh(each, "git add notes.txt")
        done = sh(each, "git commit -q -m one")
        found[name] = (done.code, each.text("rev-parse", "HEAD"), each.text("status", "--porcelain"))
    assert found["plain"] == found["dev"]
    assert found["dev"][0] != 0 and found["dev"][1:] == (repo.text("rev-parse", "main"), "M  notes.txt")


def test_checkpoints_that_the_guard_creates_run_none(repo: Repo, notes: Path) -> None:
    set_up(repo, "agentos.policy.reset-hard", "allow")
    agent = guarded(repo)
    given = []
    for each in (unguarded(repo), agent):
        each.write("notes.txt", "not committed\n")
        notes.write_text("")
        assert sh(each, "git reset -q --hard HEAD~1").code == 0
        given.append(notes.read_text().replace(str(each.path), "").replace(each.path.name, "HERE"))
    assert {made.trigger for made in checkpoints(agent)} == {"before_risky"}
    assert given[0] == given[1] != ""


@needs_git(2, 55)
def test_switching_off_all_hooks_of_an_event_is_noticed(repo: Repo) -> None:
    agent = guarded(repo)
    assert probe.config_problems(location(agent), os.environ) == (None, None)
    repo.git("config", "hook.reference-transaction.enabled", "false")
    problem = "hook.reference-transaction.enabled is 'false'"
    assert probe.config_problems(location(agent), os.environ) == (None, problem)
    layers = {each.name: each for each in probe.try_layers(location(agent), os.environ)}
    assert not layers["hook"].acts
