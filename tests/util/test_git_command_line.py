"""git's own command line: which word is the subcommand."""

from __future__ import annotations

import pytest

from git_agentos.util import git_command_line

CASES = [
    ("git", None, ""),
    ("git status", "status", ""),
    ("git -C src status -s", "status", "-s"),
    ("git -c a.b=c merge x", "merge", "x"),
    ("git --git-dir .git merge x", "merge", "x"),
    ("git --git-dir=.git --work-tree . merge x", "merge", "x"),
    ("git --namespace n --attr-source HEAD --config-env a.b=V pull", "pull", ""),
    ("git --super-prefix p --shallow-file f merge x", "merge", "x"),
    ("git -p --no-pager --bare --exec-path=/x merge x", "merge", "x"),
    ("git --help merge", None, ""),
    ("git --exec-path merge", None, ""),
    ("/usr/lib/git-core/git-merge -x y", "merge", "-x y"),
    ("git -C", None, ""),
]


@pytest.mark.parametrize(("text", "command", "args"), CASES)
def test_the_subcommand_and_its_arguments(text: str, command: str | None, args: str) -> None:
    line = git_command_line.parse(text.split())
    assert (line.command, " ".join(line.args)) == (command, args)
    if command is not None:
        again = git_command_line.join(text.split(maxsplit=1)[0], line.options, line)
        assert git_command_line.parse(again) == line


def test_empty_command_line() -> None:
    assert git_command_line.parse([]) == git_command_line.CommandLine((), None, ())
