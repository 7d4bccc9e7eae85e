"""Usage errors: one line in git's style, the usage line, exit 2; a document under --json."""

from __future__ import annotations

import pytest

from git_agentos.cli import command_tree
from tests.support.command_line import Cli
from tests.support.repo import Repo

WRONG = [
    ([], "no command given"),
    (["frobnicate"], "no such command 'frobnicate'"),
    (["--bogus"], "no such option: --bogus"),
    (["undo", "--bogus"], "no such option: --bogus"),
    (["undo", "extra"], "got unexpected extra argument(s) (extra)"),
    (["undo", "--json=1"], "option '--json' does not take a value"),
    (["restore"], "missing argument 'ID'"),
    (["restore", "latest", "--branch"], "option '--branch' requires an argument"),
    (["restore", "latest", "--branch", "a", "--no-branch"], "--branch and --no-branch cannot be used together"),
    (["checkpoint", "frobnicate"], "no such command 'frobnicate'"),
    (["checkpoint", "-m"], "option '-m' requires an argument"),
    (["checkpoint", "--meta", "novalue"], "--meta takes KEY=VALUE, not 'novalue'"),
    (["checkpoint", "-m", "text", "list"], "options for a new checkpoint before 'list'"),
    (["checkpoint", "list", "-n", "many"], "-n takes a number, not 'many'"),
    (["checkpoint", "list", "-n", "-1"], "-n takes a number, not '-1'"),
    (["log", "list", "-n", "9" * 20], f"-n takes a number of at most nine digits, not '{'9' * 20}'"),
    (["run", "logs", "r", "--step", "9" * 10], f"--step takes a number of at most nine digits, not '{'9' * 10}'"),
    (["checkpoint", "search"], "missing argument 'TEXT'"),
    (["checkpoint", "cat"], "missing argument 'ID:PATH'"),
    (["pick"], "name the commits to pick, or give one of --continue and --abort"),
    (["pick", "HEAD", "--abort"], "name the commits to pick, or give one of --continue and --abort"),
    (["run", "frobnicate"], "no such command 'frobnicate'"),
    (["run", "show"], "missing argument 'RUN'"),
    (
        ["run", "start", "--agent", "x", "--max-attempts", "many"],
        "--max-attempts takes a number from 1 to 1000, not 'many'",
    ),
    (["run", "start", "--agent", "x", "--on-failure", "weep"], "--on-failure takes 'rollback' or 'keep', not 'weep'"),
    (["run", "start", "--file", "run.toml", "--agent", "x"], "--file and --agent cannot be used together"),
    (["run", "logs", "r", "--step", "last"], "--step takes a number, not 'last'"),
    (["rollback", "a", "b"], "got unexpected extra argument(s) (b)"),
    (["completion", "tcsh"], "no completion for 'tcsh'"),
]


@pytest.mark.parametrize(("argv", "message"), WRONG, ids=lambda value: " ".join(value) or "-" if value != [] else "-")
def test_usage_errors(cli: Cli, repo: Repo, argv: list[str], message: str) -> None:
    answer = cli("-C", str(repo.path), *argv)
    lines = answer.talk.splitlines()
    assert (answer.code, answer.out) == (2, b"")
    assert lines[0] == f"error: {message}"
    assert all(line.startswith(("usage: git agentos", "hint: ")) for line in lines[1:])


@pytest.mark.parametrize(("argv", "message"), WRONG, ids=lambda value: " ".join(value) or "-" if value != [] else "-")
def test_usage_errors_as_json(cli: Cli, repo: Repo, argv: list[str], message: str) -> None:
    answer = cli("--json", "-C", str(repo.path), *argv)
    assert answer.code == 2
    assert answer.json["schema"] == "agentos.error.v1"
    assert (answer.json["error"]["kind"], answer.json["error"]["message"]) == ("usage", message)


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        (["restore"], "usage: git agentos restore [options] ID [PATH...]"),
        (["checkpoint", "diff"], "usage: git agentos checkpoint diff [options] ID [ID2] [-- PATH...]"),
        (["checkpoint", "-m"], "usage: git agentos checkpoint [options] [COMMAND ...]"),
        (["--bogus"], "usage: git agentos [options] COMMAND ..."),
    ],
)
def test_the_usage_line_is_of_the_command_at_hand(cli: Cli, argv: list[str], usage: str) -> None:
    assert usage in cli(*argv).talk.splitlines()


@pytest.mark.parametrize("group", ["worktree", "watch"])
def test_a_group_without_a_command_leads_to_the_list(cli: Cli, group: str) -> None:
    answer = cli(group)
    assert (answer.code, answer.talk.splitlines()) == (
        2,
        [
            "error: missing command",
            f"usage: git agentos {group} [options] COMMAND ...",
            f"hint: 'git agentos {group} -h' lists the commands",
        ],
    )


def test_a_misspelt_word_gets_a_guess(cli: Cli) -> None:
    assert "hint: did you mean 'restore', 'report', 'storage'?" in cli("restor").talk.splitlines()
    assert "hint: did you mean --branch, --no-branch?" in cli("restore", "x", "--no-brnch").talk.splitlines()


def test_hostile_words_do_not_reach_the_terminal(cli: Cli) -> None:
    for argv in (["\x1b[31m"], ["--\x1b[31m"], ["undo", "\x1b[31m\udcff"], ["checkpoint", "--meta", "\x1b]0;x\x07"]):
        answer = cli(*argv)
        assert answer.code == 2
        assert answer.talk.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", list(command_tree.root().walk()), ids=lambda each: "-".join(each.path) or "root")
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(cli: Cli, command: command_tree.Command, flag: str) -> None:
    answer = cli(*command.path, flag)
    assert (answer.code, answer.err) == (0, b"")
    assert answer.text == command_tree.help_text(command)
    assert answer.text.splitlines()[0] == command_tree.usage(command)
    assert command.summary in answer.text
    assert max(map(len, answer.text.splitlines())) <= 80
    for option in command.options:
        assert option.help
        assert all(name in answer.text for name in option.names)
    for below in command.subcommands:
        assert below.summary
        assert (f"  {below.path[-1]} " in answer.text) is not below.hidden


def test_summaries_fit_their_line() -> None:
    for command in command_tree.root().subcommands:
        assert len(command.summary) <= 56


def test_help_needs_no_repository_and_no_other_argument(cli: Cli) -> None:
    assert cli("restore", "--help").code == 0
    assert cli("-C", "/nonexistent", "checkpoint", "list", "-h").code == 0


NUMBERS = [
    ["checkpoint", "list", "-n"], ["checkpoint", "search", "x", "-n"], ["log", "list", "-n"],
    ["log", "search", "x", "-n"], ["log", "timeline", "-n"], ["run", "logs", "r", "--step"],
    ["run", "start", "--agent", "x", "--max-attempts"], ["run", "start", "--agent", "x", "--timeout"],
    ["tdd", "gate", "green", "--test-timeout"], ["tdd", "run", "--issue", "1", "--lld", "x", "--test-timeout"],
]  # fmt: skip


@pytest.mark.parametrize("argv", NUMBERS, ids=" ".join)
def test_invalid_numbers(cli: Cli, repo: Repo, argv: list[str]) -> None:
    for text in ("9" * 20, "9" * 400, "9" * 5000, "-1", "1e9", "nan", "1_0", "0x10", "\N{ARABIC-INDIC DIGIT THREE}"):
        answer = cli("-C", str(repo.path), *argv, text)
        assert (answer.code, answer.out) == (2, b""), (text[:20], answer)
        assert answer.talk.startswith("error: ")


def test_invalid_ordinals(cli: Cli, repo: Repo) -> None:
    for text in ("9" * 20, "9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}", "-1"):
        for argv in (["checkpoint", "show"], ["restore"]):
            assert cli("-C", str(repo.path), *argv, f"@{{{text}}}").code == 2


def test_the_hint_lists_the_commands(cli: Cli) -> None:
    """`git agentos --help` is git's: it opens the manual page."""
    assert "'git agentos -h' lists the commands" in cli().talk
