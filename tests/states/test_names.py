"""Names are bytes: whatever git accepts comes back, and is named in JSON as `os.fsdecode` gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.elsewhere import if_possible, needs_all
from tests.support.filesystems import distinct
from tests.support.refusal import assert_is_error
from tests.support.repo import Repo, filled
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import IN_PROCESS, Tool, run, run_ok

SCENARIOS = Scenarios()

NAMES: dict[str, bytes] = {
    "spaces": b" leading and trailing ",
    "newline": b"line one\nline two",
    "leading-dash": b"-rf",
    "double-dash": b"--",
    "quotes": b"\"double\" 'single' `back`",
    "backslash": b"back\\slash\\n",
    "tab-and-controls": b"tab\there\x01\x7f",
    "non-utf8": b"bad\xff\xfe",
    "nfc": "caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(),
    "nfd": "cafe\N{COMBINING ACUTE ACCENT}".encode(),
    "glob": b"*[a]?",
    "pathspec-magic": b":(top)x",
    "hash-and-bang": b"#!x",
    "tilde": b"~",
    "at-brace": b"@{0}",
    "long": b"n" * 255,
    "emoji": "\N{PARTY POPPER}".encode(),
    "dot-git-like": b".gitx",
    "looks-like-our-own": b"meta.json",
    "carriage-return": b"cr\r",
    "only-dots": b"...",
}


def _spread(repo: Repo, names: list[bytes]) -> None:
    """Each name tracked and changed, staged new, untracked, as a folder and as a link."""
    for name in names:
        repo.write(b"tracked/" + name, b"tracked " + name)
        repo.write(b"gone/" + name, b"gone " + name)
    repo.commit("names")
    for name in names:
        repo.write(b"tracked/" + name, b"changed " + name)
        repo.remove(b"gone/" + name)
        repo.write(b"staged/" + name, b"staged " + name)
        repo.git("--literal-pathspecs", "add", "--", b"staged/" + name)
        repo.write(b"staged/" + name, b"then changed " + name)
        repo.write(b"wanted/" + name, b"wanted " + name)
        repo.git("--literal-pathspecs", "add", "-N", "--", b"wanted/" + name)
        repo.write(b"box " + name[:240] + b"/" + name, b"untracked " + name)
        with if_possible():
            repo.link(b"links/" + name, name)
        repo.mkdir(b"empties/" + name)
        repo.write(name, b"at the root " + name)


@SCENARIOS.add()
def _all_of_them(repo: Repo) -> None:
    _spread(repo, distinct(NAMES.values()))


@SCENARIOS.add()
def _precomposed_and_decomposed_side_by_side(repo: Repo) -> None:
    repo.write(NAMES["nfc"], "nfc\n")
    repo.write(NAMES["nfd"], "nfd\n")
    repo.commit("both forms")
    repo.write(NAMES["nfc"], "nfc changed\n")
    repo.remove(NAMES["nfd"])


@SCENARIOS.add()
def _sorting_of_files_and_folders(repo: Repo) -> None:
    """A tree sorts `foo.c` < `foo/` < `foo0`; a wrong order makes a tree that git cannot search."""
    for name in ("foo.c", "foo/x", "foo0", "foo-", "foo-bar/x", "FOX", "foo.d/x"):
        repo.write(name, name)
    repo.commit("order")
    for name in ("foo.c", "foo/x", "foo0"):
        repo.write(name, "changed")
    repo.write("foo/y", "new")
    repo.write("foo:", "new")
    repo.remove("foo-")


@SCENARIOS.add()
def _deep_folders(repo: Repo) -> None:
    deep = "/".join(["d"] * 60)
    repo.write(f"{deep}/deep.txt", "deep\n")
    repo.commit("deep")
    repo.write(f"{deep}/deep.txt", "changed\n")
    repo.write(f"{deep}/untracked.txt", "untracked\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_one_name_through_the_command(repo: Repo, name: bytes) -> None:
    """Named in `untracked_files` and `changed`, restored alone by PATH."""
    with needs_all():
        repo.write(name, b"then")
    taken = run_ok(repo.path, "checkpoint")
    assert os.fsdecode(name) in taken["untracked_files"]
    repo.write(name, b"now")
    repo.append("readme.txt", "an edit that stays\n")
    done = run_ok(repo.path, "restore", taken["id"], "--", name)
    assert repo.read(name) == b"then"
    assert done["changed"] == [os.fsdecode(name)]
    assert b"an edit that stays" in repo.read("readme.txt")


def test_a_repository_below_an_odd_path(tmp_path: Path) -> None:
    """The worktree's own path has a space, quotes, a glob and bytes that are not UTF-8."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd \"'*\\\xff dir"))
    with needs_all():
        repo = filled(path)
    repo.write("readme.txt", "dirty\n")
    before = complete_state(repo.path)
    taken = run_ok(repo.path, "checkpoint")
    assert os.fsencode(taken["worktree_path"]) == os.fsencode(path)
    repo.git("reset", "-q", "--hard")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_a_repository_below_a_newline_works_or_is_refused(tmp_path: Path) -> None:
    """Git itself prints such a path in places where it cannot be told from two."""
    repo = filled(tmp_path / "line one\nline two")
    repo.write("readme.txt", "dirty\n")
    before = complete_state(repo.path, strict=True)
    done = run(repo.path, "checkpoint")
    assert_unchanged(before, complete_state(repo.path, strict=True), "the checkpoint changed something")
    if done.code == 0:
        repo.git("reset", "-q", "--hard")
        IN_PROCESS.restore(repo.path, "latest")
        assert_same(before, complete_state(repo.path), "restore", branch="any")
    else:
        assert_is_error(done, 1)
        assert b"newline" in done.err
