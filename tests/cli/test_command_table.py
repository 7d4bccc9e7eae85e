"""The guard's table of commands against the commands that there are, and its reading of a line against the parser's."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from git_agentos.cli import authorization, command_tree, execution, invocation
from git_agentos.cli.command import Exit
from git_agentos.cli.output import Output
from git_agentos.cli.prescan import prescan
from git_agentos.guard.policy import command_table
from git_agentos.guard.policy.command_table import COMMON_FLAGS, COMMON_VALUED, Request
from git_agentos.guard.policy.operations import OPERATIONS

LEAVES = {
    each.path: each for each in command_tree.root().walk() if each.path and (not each.subcommands or each.runs_alone)
}


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert set(command_table.table()) == set(LEAVES)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_a_row_has_the_commands_options(path: tuple[str, ...]) -> None:
    row = command_table.table()[path]
    own = [each for each in LEAVES[path].options if not each.common]
    assert row.valued == {name for each in own if each.metavar is not None for name in each.names}
    assert row.flags == {name for each in own if each.metavar is None for name in each.names}
    assert set(row.variants) <= row.valued | row.flags
    assert {row.own, row.other, *row.variants.values()} <= set(OPERATIONS)


def test_common_options_are_those_of_the_parser() -> None:
    common_ = [each for each in LEAVES[("undo",)].options if each.common]
    assert {name for each in common_ if each.metavar is not None for name in each.names} == COMMON_VALUED
    assert {name for each in common_ if each.metavar is None for name in each.names} == COMMON_FLAGS


LINES = """
worktree merge dev-1
worktree merge dev-1 dev-2 --into main --squash
worktree merge --into --dry-run dev-1
worktree merge --into=--dry-run dev-1
worktree merge dev-1 -- --dry-run
worktree merge --dry-run dev-1
-C a worktree -C b merge -C c dev-1 --as x
-Ca worktree -qCb merge dev-1
--json -q worktree remove --delete-branch dev-2
worktree remove -- dev-2
worktree complete --push
worktree create x --no-guard
worktree create x --guard
worktree create --from --no-guard x
worktree create --task -h x
checkpoint -m list
checkpoint -mlist
checkpoint -qm doctor
checkpoint --message --help
checkpoint list -n 5 --agent x
restore latest a b -- --worktree
restore --worktree=x latest
restore --branch --worktree latest
undo --dry-run
doctor --fix
doctor --as --fix
pick --continue
pick a b
run start --agent "--no-guard" --validate x
run start --no-guard
run cancel r1
rollback --to --dry-run r1
rollback r1 --dry-run
tdd run --issue 1 --lld x -- -k y
tdd resume 1 --retry
tdd show 1 --html --x
log review dev --html=a.html
tdd gate red -- a b
guard exec -- git status
guard exec --wait git worktree remove --force x
guard exec -C x git -C y status
guard check -- git agentos worktree remove x
guard integrate codex --print
guard disable dev
log add decision --file --help x
approvals deny 1234 -m --help
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_a_line_is_read_as_the_parser_reads_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)
    seen: list[Request] = []

    def note(*call: Any) -> Any:
        seen.append(authorization.request(*call))
        raise Exit

    monkeypatch.setattr(authorization, "authorized", note)
    with pytest.raises(Exit):
        execution.execute(words, prescan(words), invocation.Invocation(Output.standard(json=False), None, words))
    read = command_table.parse(words)
    assert read is not None
    [typed] = seen
    shared = COMMON_VALUED | COMMON_FLAGS
    row = command_table.table()[typed.path]
    assert (read.path, read.folders, read.files) == (typed.path, typed.folders, typed.files)
    assert read.operands == typed.operands
    assert read.options & set(row.variants) == typed.options & set(row.variants)
    assert read.options - shared <= row.valued | row.flags


@pytest.mark.parametrize(
    "line", ["-h", "--version", "worktree remove dev-2 --help", "-qh worktree merge x", "--version worktree remove x"]
)
def test_help_is_no_command(line: str) -> None:
    assert command_table.parse(line.split()) is None
