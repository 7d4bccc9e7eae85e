"""A git that is too old is refused, and nothing is written."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.git import version
from tests.support.repo import Repo
from tests.support.state import assert_unchanged, complete_state
from tests.support.tool import run, run_ok


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git version 2.38.0", (2, 38)),
        ("git version 2.55.0.windows.1", (2, 55)),
        ("git version 3.0.0-rc1", (3, 0)),
        ("git version 2.39.5 (Apple Git-154)", (2, 39)),
        ("git", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_what_git_says_is_read(text: str, found: tuple[int, int]) -> None:
    assert version.parse(text) == found


@pytest.mark.parametrize("text", ["git version 2.37.9", "git version 2.9.5", "git version 1.8", "nonsense", ""])
def test_an_older_one_is_too_old(text: str) -> None:
    with pytest.raises(RepositoryError) as raised:
        version.require(text)
    assert raised.value.message == f"{text or 'git'} is too old"
    assert raised.value.hint == "install git 2.38 or later"


@pytest.mark.parametrize("text", ["git version 2.38.0", "git version 2.100.1", "git version 3.0"])
def test_a_newer_one_is_not(text: str) -> None:
    version.require(text)


def _reporting(folder: Path, text: str) -> dict[str, str]:
    """The environment in which git says that it is of another version."""
    folder.mkdir()
    script = folder / "git"
    real = shlex.quote(shutil.which("git") or "")
    script.write_text(
        f'#!/bin/sh\nfor last; do :; done\n[ "$last" = version ] || exec {real} "$@"\necho {shlex.quote(text)}\n'
    )
    script.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    "words",
    [
        ["checkpoint"],
        ["restore", "latest"],
        ["undo"],
        ["worktree", "create", "dev"],
        ["guard", "enable"],
        ["hooks", "install"],
    ],
    ids=" ".join,
)
def test_no_command_works_with_an_older_git(repo: Repo, words: list[str]) -> None:
    first = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    repo.write("notes.txt", "changed\n")
    run_ok(repo.path, "restore", first)
    older = _reporting(repo.scratch / "older", "git version 2.37.9")
    before = complete_state(repo.path, strict=True), sorted(repo.path.parent.iterdir())
    done = run(repo.path, "--json", *words, env=older)
    assert done.code == 1, str(done)
    assert done.json["error"] == {
        "kind": "repository",
        "message": "git version 2.37.9 is too old",
        "hint": "install git 2.38 or later",
    }
    assert_unchanged(before[0], complete_state(repo.path, strict=True), " ".join(words))
    assert sorted(repo.path.parent.iterdir()) == before[1]


def test_doctor_names_what_a_git_cannot_do(repo: Repo) -> None:
    repo.git("config", "hook.lint.event", "pre-commit")
    repo.git("config", "hook.lint.command", "true")
    for text, code in (
        ("git version 2.37.9", ["old-git"]),
        ("git version 2.53.0", []),
        ("git version 2.54.1", ["configured-hooks"]),
        ("git version 2.55.0", []),
    ):
        folder = repo.scratch / text.replace(" ", "-")
        found = run(repo.path, "--json", "doctor", env=_reporting(folder, text)).json["findings"]
        assert [each["code"] for each in found] == code, text
    assert (
        "hooks that are configured (lint)"
        in run(repo.path, "doctor", env=_reporting(repo.scratch / "last", "git version 2.54.1")).out.decode()
    )
