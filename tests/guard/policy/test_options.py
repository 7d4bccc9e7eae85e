"""Options are read as git reads them; what this git's commands have is in the table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy import options
from git_agentos.guard.policy.option_table import SPECS
from git_agentos.guard.policy.options import Options, parse, spec
from tests.support import git_version


def read(command: str, *args: str) -> Options:
    return parse(spec(command), args)


def given(command: str, *args: str) -> set[str]:
    return set(read(command, *args).given)


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        ("reset", "--hard", {"hard"}),
        ("reset", "--har", {"hard"}),
        ("reset", "--h", {"hard"}),
        ("push", "--force", {"force"}),
        ("push", "--force-w", {"force-with-lease"}),
        ("push", "--force-with-lease=a:b", {"force-with-lease"}),
        # Ambiguous: all that it may be, and not the most harmless of them.
        ("push", "--forc", {"force", "force-with-lease", "force-if-includes"}),
        ("push", "-f --no-force", set()),
        ("push", "--no-force -f", {"force"}),
        ("push", "--no-verify --verify", {"verify"}),
        ("push", "--no-ver", {"no-verify"}),
        ("clean", "-xfd", {"x", "force", "d"}),
        ("clean", "-fe pattern -x", {"force", "exclude", "x"}),
        ("clean", "-fepattern -x", {"force", "exclude", "x"}),
        ("clean", "-efx", {"exclude"}),
        ("clean", "--exclude -x", {"exclude"}),
        ("clean", "-- -f", set()),
        ("clean", "x -f", {"force"}),
        ("commit", "-am --amend", {"all", "message"}),
        ("commit", "-m --amend --amend", {"message", "amend"}),
        ("commit", "-uno --amend", {"untracked-files", "amend"}),
        ("commit", "-Sn", {"gpg-sign"}),
        ("fetch", "--tags", {"tags"}),
        ("fetch", "-n --tags", {"tags"}),
        ("fetch", "--tags --no-tags", {"no-tags"}),
        ("rebase", "-x git --onto a b", {"exec", "onto"}),
        ("tag", "-n5 -f", {"n", "force"}),
        ("switch", "-Cname", {"force-create"}),
        ("branch", "-Dr", {"D", "remotes"}),
    ],
)  # fmt: skip
def test_given(command: str, words: str, expected: set[str]) -> None:
    assert given(command, *words.split()) == expected


def test_operands_and_what_follows_the_dashes() -> None:
    found = read("checkout", "-q", "main", "--", "-f", "--", "x")
    assert found.operands == ("main", "-f", "--", "x")
    assert (found.words, found.paths) == (("main",), ("-f", "--", "x"))
    assert read("checkout", "main", "x").paths == ()
    assert read("checkout", "-").operands == ("-",)


def test_unknown_and_unresolved_words_are_told() -> None:
    assert read("reset", "--no-such", "-Z").unknown == ("--no-such", "-Z")
    assert read("reset", "-5").unknown == ()
    assert read("reset", UNKNOWN).unresolved
    assert read("reset", f"-{UNKNOWN}").unresolved
    assert read("reset", f"--{UNKNOWN}").unresolved
    assert not read("reset", "--", UNKNOWN).unresolved
    assert not read("reset", f"v{UNKNOWN}").unresolved
    assert not read("commit", "-m", UNKNOWN, f"--message={UNKNOWN}", f"-m{UNKNOWN}").unresolved


def test_help_is_seen_where_git_sees_it() -> None:
    assert read("reset", "--hard", "--help").help
    assert read("reset", "--hard", "-h").help
    assert not read("commit", "-m", "--help").help
    assert not read("reset", "--", "-h").help
    assert not read("reset", "--hard").help


def test_all_from_the_first_operand_on_are_operands_where_git_stops_there() -> None:
    found = parse(spec("config"), ["--global", "user.name", "--unset"], stop=True)
    assert set(found.given) == {"global"}
    assert found.operands == ("user.name", "--unset")


# -- against the git that is here --------------------------------------------------------------------------------------


def of_this_git(command: str, folder: Path) -> dict[str, str]:
    """Long and single-letter options of a command as `git COMMAND -h` shows them, each with how it takes a value."""
    done = subprocess.run(["git", *command.split(), "-h"], cwd=folder, capture_output=True, text=True, check=False)
    found = {}
    for line in (done.stdout + done.stderr).splitlines():
        match = re.match(
            r" {4}(?:-(\w)(?:, )?)?(?:--((?:\[no-\])?[\w-]+))?(\S*(?: <[^>]*>| \([^)]*\))?)(?: {2,}|$)", line
        )
        if match is None or not (match[1] or match[2]):
            continue
        tail = match[3].strip()
        if tail == "UM":
            continue  # -NUM
        kind = options.NONE if not tail else options.OPTIONAL if tail.startswith("[") else options.REQUIRED
        for name in (match[1], (match[2] or "").replace("[no-]", "")):
            if name:
                found[name] = kind
    return found


# Subcommands of commands that are older.
_SINCE = {"stash export": (2, 51), "refs migrate": (2, 46)}


@pytest.mark.parametrize("command", sorted(name for name in SPECS if _SINCE.get(name, (2, 38)) <= git_version.HERE))
def test_this_gits_options_are_in_the_table(command: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    known = spec(command)
    for name, kind in of_this_git(command, tmp_path).items():
        option = known.short.get(name) if len(name) == 1 else name
        assert option is not None and option in known.long, f"{command}: {name} is not in the table"
        # What takes no value here may take one in a later version, in the same word.
        assert known.long[option] in (kind, options.OPTIONAL if kind == options.NONE else kind), f"{command}: {name}"
