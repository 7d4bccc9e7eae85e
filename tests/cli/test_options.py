"""The options that every command has: the same before and after the subcommand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.cli import command_tree
from git_agentos.launch import as_subcommand
from tests.support.command_line import Cli
from tests.support.repo import Repo

COMMON = {"-C", "--as", "--json", "-q", "--quiet", "-h", "--help"}


def test_every_command_has_all_of_them() -> None:
    for command in command_tree.root().walk():
        assert {name for option in command.options if option.common for name in option.names} == COMMON


@pytest.mark.parametrize(
    "argv",
    [
        ["--json", "-C", "{}", "checkpoint", "list"],
        ["checkpoint", "--json", "-C", "{}", "list"],
        ["checkpoint", "list", "--json", "-C", "{}"],
        ["-C", "{}", "checkpoint", "--json", "list"],
        ["--json", "checkpoint", "list", "-C{}"],
    ],
)
def test_before_and_after_the_subcommand(cli: Cli, repo: Repo, argv: list[str]) -> None:
    answer = cli(*(word.format(repo.path) for word in argv))
    assert answer.code == 0
    assert answer.json == {"schema": "agentos.checkpoint-list.v1", "checkpoints": []}


def test_directories_add_up(cli: Cli, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("deep/er/file", "x")
    answer = cli("-C", str(repo.path), "status", "-C", "deep", "-C", "er", "--json")
    assert answer.json["worktree_path"] == os.path.realpath(repo.path)
    monkeypatch.chdir(repo.path)
    assert cli("-C", "deep", "checkpoint", "-C", "er", "--json").code == 0
    assert cli("-C", "deep", "checkpoint", "-C", "missing").code == 1


def test_the_agent_that_acts(cli: Cli, repo: Repo) -> None:
    where = str(repo.path)
    assert cli("-C", where, "--as", "ada", "checkpoint", "--json").json["created_by"] == "ada"
    assert cli("-C", where, "checkpoint", "--as", "ada", "--json").json["created_by"] == "ada"
    assert cli("-C", where, "--as", "ada", "checkpoint", "--as", "bob", "--json").json["created_by"] == "bob"
    refused = cli("-C", where, "checkpoint", "--as", "../x", "--json")
    assert (refused.code, refused.json["error"]["kind"]) == (2, "usage")


def test_quiet_leaves_ids_alone(cli: Cli, repo: Repo) -> None:
    where = ["-C", str(repo.path), "-q"]
    repo.write("new.txt", "x")
    taken = cli(*where, "checkpoint")
    assert (len(taken.text), taken.err) == (9, b"")
    assert cli(*where, "checkpoint", "list").text == taken.text
    repo.write("new.txt", "y")
    back = cli(*where, "restore", taken.text.strip())
    assert (back.code, len(back.text), back.err) == (0, 9, b"")
    assert repo.read("new.txt") == b"x"


def test_an_executable_of_its_own_is_the_same_command() -> None:
    assert as_subcommand("restore", ["latest", "-q"]) == ["restore", "latest", "-q"]
    assert as_subcommand("checkpoint", []) == ["checkpoint"]
    assert as_subcommand("checkpoint", ["--version"]) == ["--version"]


def test_version(cli: Cli, tmp_path: Path) -> None:
    from git_agentos import __version__

    assert cli("--version").text == f"git-agentos version {__version__}\n"
    assert cli("--version", "--json").json == {"schema": "agentos.version.v1", "version": __version__}
