"""Where git's subcommand stands in a command line."""

from __future__ import annotations

import pytest

from git_agentos.git import process
from git_agentos.hooks import refs


@pytest.mark.parametrize(
    "words",
    [
        "merge x",
        "--git-dir .git merge x",
        "--git-dir=.git --work-tree . merge x",
        "--namespace n merge x",
        "--config-env user.name=NAME merge x",
        "--attr-source HEAD merge x",
        "-C . -c a.b=c --no-pager --exec-path=/x -P merge x",
        "-C merge -c status --super-prefix sub/ merge",
    ],
)
def test_the_subcommand_of_a_command_line(words: str) -> None:
    assert process.subcommand(words.split()) == "merge"
    assert process.subcommand([word.encode() for word in words.split()]) == "merge"
    assert refs.is_merge(("/usr/bin/git", *words.split()))


@pytest.mark.parametrize("words", ["", "--version", "-C", "-c a.b=c", "--git-dir .git"])
def test_a_command_line_without_one(words: str) -> None:
    assert process.subcommand(words.split()) == "command"


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
