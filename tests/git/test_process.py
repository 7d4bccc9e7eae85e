"""What the error of a failed git command says; which versions of git are refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from git_agentos.git import process
from tests.support.repo import Repo
from tests.support.tool import run


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"warning: LF will be replaced by CRLF\nfatal: cannot open 'x'\n", "git add failed: cannot open 'x'"),
        (b"hint: try\nerror: bad thing\nfatal: died\n", "git add failed: died"),
        (b"error: bad thing\nhint: do this\n", "git add failed: bad thing"),
        (b"warning: only this\n", "git add failed: warning: only this"),
        (b"", "git add failed: exit code 3"),
    ],
)
def test_a_failure_says_what_git_died_of(said: bytes, message: str) -> None:
    error = process.failure(["--git-dir", ".git", "add"], 3, said)
    assert (error.message, error.status, error.stderr) == (message, 3, said.decode().strip())


@pytest.mark.parametrize(
    ("version", "fine"),
    [("2.37.9", False), ("2.38.0", True), ("2.100.1.windows.1", True), ("3.0", True), ("1.9", False)],
)
def test_a_git_that_is_too_old(version: str, fine: bool, repo: Repo, tmp_path: Path) -> None:
    """Nothing is written with a git whose answers we do not know; `doctor` says the same."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = shutil.which("git")
    (folder / "git").write_text(
        f"""#!/bin/sh
for word; do
    [ "$word" = version ] && echo "git version {version}" && exit
done
exec {git} "$@"
"""
    )
    (folder / "git").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    before = repo.git("for-each-ref")
    repo.write("new", "new\n")
    done = run(repo.path, "checkpoint", env=env)
    assert (done.code == 0) is fine
    if not fine:
        assert f"git version {version} is too old" in done.err.decode()
        assert "install git 2.38 or later" in done.err.decode()
        assert repo.git("for-each-ref") == before
    findings = run(repo.path, "--json", "doctor", env=env).json["findings"]
    assert ("old-git" in [each["code"] for each in findings]) is not fine
