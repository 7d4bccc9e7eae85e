"""What is read from the raw command line: right where it is certain, nothing where it is not."""

from __future__ import annotations

import pytest

from git_agentos.cli.prescan import prescan as scan


@pytest.mark.parametrize(
    ("line", "directory"),
    [
        ("checkpoint", "."),
        ("checkpoint -m text", "."),
        ("checkpoint -mtext", "."),
        ("checkpoint --message=text --json", "."),
        ("checkpoint -m list", "."),
        ("checkpoint -m --help", "."),
        ("checkpoint -qm text", "."),
        ("checkpoint --trigger milestone --task t --meta a=b --meta c=d --run r --session s", "."),
        ("--json -q --as me checkpoint", "."),
        ("--as=me checkpoint --quiet", "."),
        ("-C a checkpoint", "a"),
        ("-Ca checkpoint -C b", "a/b"),
        ("-C a -C /b checkpoint -C c", "/b/c"),
    ],
)
def test_a_plain_creation_is_seen(line: str, directory: str) -> None:
    scanned = scan(line.split())
    assert (scanned.command, scanned.needs_scan, scanned.directory) == ("checkpoint", True, directory)


@pytest.mark.parametrize(
    "line",
    [
        "checkpoint list",
        "checkpoint -m text list",
        "checkpoint --help",
        "checkpoint -h",
        "checkpoint -qh",
        "checkpoint --bogus",
        "checkpoint -m",
        "checkpoint --json=1",
        "checkpoint --",
        "checkpoint -",
        "checkpoint -- list",
        "checkpoint --mess text",
        "--version checkpoint",
        "--message text checkpoint",
        "-m text checkpoint",
        "restore latest",
        "undo",
        "",
        "-C",
        "--",
    ],
)
def test_other_command_lines_start_no_scan(line: str) -> None:
    assert not scan(line.split()).needs_scan


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("restore x", "restore"),
        ("-C checkpoint undo", "undo"),
        ("--as a status -q", "status"),
        ("--bogus undo", "undo"),
    ],
)
def test_command_is_the_first_word_that_is_no_option(line: str, command: str | None) -> None:
    assert scan(line.split()).command == command


@pytest.mark.parametrize(
    ("line", "json"),
    [
        ("--json", True),
        ("--json --bogus", True),
        ("--bogus --json", True),
        ("restore --json", True),
        ("restore x y --no-branch --json", True),
        ("checkpoint diff x --json -- y", True),
        ("restore x -- --json", False),
        ("checkpoint -m --json", False),
        ("restore x", False),
    ],
)
def test_json_is_noticed_before_the_parser(line: str, json: bool) -> None:
    assert scan(line.split()).json is json


def test_several_directories_add_up_as_in_git() -> None:
    assert scan(["-C", "a", "-C", "", "-C", "b"]).directory == "a/b"
    nothing = scan([])
    assert (nothing.command, nothing.needs_scan, nothing.json, nothing.directory) == (None, False, False, ".")
