"""A plain command line calls the same command with the same values, with typer or without it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from git_agentos.cli import command as commands
from git_agentos.cli import direct, execution
from git_agentos.cli.command import AGENT, COMMANDS, DIRECTORY, JSON, QUIET, Command, Group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.output import Output
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.prescan import prescan
from git_agentos.errors import UsageError


def leaves(path: tuple[str, ...], command: Command) -> dict[tuple[str, ...], Command]:
    """The commands that can be run, by their words."""
    found = {}
    if not isinstance(command, Group) or command.runs_alone:
        found[path] = command
    for name, below in command.subcommands.items() if isinstance(command, Group) else ():
        found |= leaves((*path, name), below)
    return found


LEAVES = {path: each for name in COMMANDS for path, each in leaves((name,), commands.load(name)).items()}
COMMON = (DIRECTORY, AGENT, JSON, QUIET)


class _Called(Exception):
    """A command was called: with all that its function would see."""


def call_by_typer(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """What typer makes of a line: the call, or that the line is an error."""
    invocation = Invocation(Output(None, None), None, words)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Command, "call", _note)
            execution.execute(words, prescan(words), invocation)
    except _Called as called:
        return called.args
    except UsageError:
        return "refused"
    raise AssertionError(f"neither called nor refused: {words}")


def call_directly(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """What the direct way makes of a line; None if it leaves it to typer."""
    found = direct.find(prescan(words).line)
    if found is None:
        return None
    with monkeypatch.context() as patch, pytest.raises(_Called) as called:
        patch.setattr(Command, "call", _note)
        found.run(Invocation(Output(None, None), None, words))
    return called.value.args


def _note(command: Command, invocation: Invocation, path: Sequence[str], values: dict[str, Any]) -> None:
    if invocation.subcommand is not None:
        assert not any(values.values())  # a group before its subcommand has nothing to do
        return
    output = invocation.output
    arguments = {
        name: None if value in ((), [], None) else list(value) if isinstance(value, list | tuple) else value
        for name, value in values.items()
    }
    common = (invocation.directories, invocation.agent, output.json, output.quiet, invocation.after_dashes)
    raise _Called(command, tuple(path), arguments, common)


def spellings(option: Option) -> st.SearchStrategy[list[str]]:
    """An option as it can be typed, with a value that may look like an option itself."""
    names = st.sampled_from((*option.names, *option.opposites))
    if option.metavar is None:
        return names.map(lambda name: [name])
    values = st.sampled_from(["x", "a=b", "-x", "--json", "--", "-", "list", "a b", "=", "", "\udcff"])
    return st.tuples(names, values, st.booleans()).map(
        lambda each: list(each[:2]) if not each[2] else [each[0] + ("=" if each[0].startswith("--") else "") + each[1]]
    )


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Command lines, most of them right, with options and operands in any order."""
    path = draw(st.sampled_from(sorted(LEAVES)))
    parameters = LEAVES[path].signature.parameters
    own = [each.declaration for each in parameters if isinstance(each.declaration, Option)]
    words: list[str] = []
    common = st.lists(st.sampled_from(COMMON).flatmap(spellings), max_size=2)
    for word in path:
        words += [part for option in draw(common) for part in option]
        words.append(word)
    takes = sum(isinstance(each.declaration, Argument) for each in parameters)
    operand = st.sampled_from(["latest", "a", "", "-", "list", "show", "\udcff"])
    operands = draw(st.lists(operand.map(lambda each: [each]), min_size=takes, max_size=takes + 1))
    options = draw(st.lists(st.sampled_from([*own, *COMMON]).flatmap(spellings), max_size=4))
    dashes: list[list[str]] = draw(st.sampled_from([[], [], [], [["--"]], [["-qx"]], [["--bogus"]], [["-m"]]]))
    for part in draw(st.permutations([*operands, *options, *dashes])):
        words += part
    return words


@settings(deadline=None)
@example(["checkpoint", "diff", "latest", "--agent", "--"])
@given(lines())
def test_direct_call_is_the_one_of_typer(words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        directly = call_directly(words, monkeypatch)
        if directly is not None:
            assert directly == call_by_typer(words, monkeypatch)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_option_of_a_command_is_bound_directly(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = LEAVES[path].signature.parameters
    required: list[str] = []
    for parameter in parameters:
        if parameter.is_required:
            declared = parameter.declaration
            required += [declared.names[-1], "x"] if isinstance(declared, Option) else ["x"]
    assert call_directly([*path, *required], monkeypatch) == call_by_typer([*path, *required], monkeypatch)
    for each in (one.declaration for one in parameters if isinstance(one.declaration, Option)):
        for name in (*each.names, *each.opposites):
            words = [*path, *required, *([name] if each.metavar is None else [name, "value", name, "another"])]
            found = call_directly(words, monkeypatch)
            assert found is not None and found == call_by_typer(words, monkeypatch), words


PLAIN = """
checkpoint
checkpoint -m text
checkpoint -qmtext --meta a=b --meta c=d
-C a checkpoint -C b --as me
checkpoint list -n 20
checkpoint list --max-count=20 --agent x --since '2 hours ago'
restore latest a b
restore latest -- -a b
undo --dry-run
status --json
log add decision 'a summary' --file a --file b
guard check -- git push --force
worktree create x --no-guard
run start --guard --no-cleanup
"""


@pytest.mark.parametrize("line", PLAIN.strip().splitlines())
def test_usual_lines_need_no_typer(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)
    found = call_directly(words, monkeypatch)
    assert found is not None and found == call_by_typer(words, monkeypatch)


LEFT = """
--version
checkpoint -h
checkpoint list --help
checkpoint --bogus
checkpoint -m
checkpoint bogus
checkpoint -- list
-- checkpoint
checkpoint -m text list
worktree
worktree -- list
restore
undo a
guard exec git status
guard exec -- git status
checkpoint diff latest -- a
checkpoint list -q=1
bogus
"""


@pytest.mark.parametrize("line", ["", *LEFT.strip().splitlines()])
def test_other_lines_are_left_to_typer(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call_directly(shlex.split(line), monkeypatch) is None
