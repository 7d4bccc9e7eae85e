"""The bytes of files that were modified or untracked come back whatever converts them now, or did then.

Attributes may come from files that no checkpoint of the visible worktree has, and from configuration; both come, change
and go between a save and a restore.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.refusal import assert_is_error
from tests.support.repo import Repo
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import IN_PROCESS, run, run_ok

_LONG_AGO = 1_700_000_000
_ROT13 = "tr A-Za-z N-ZA-Mn-za-m"
_RULES = {
    "rot": "*.x filter=rot\n",
    "crlf": "*.x text eol=crlf\n",
    "ident": "*.x ident\n",
    "encoding": "*.x text working-tree-encoding=UTF-16LE\n",
    "macro": "[attr]turned filter=rot\n*.x turned\n",
}
_CONTENTS: dict[str, Callable[[str], bytes]] = {
    "crlf": lambda text: f"{text}\r\nagain\r\n".encode(),
    "ident": lambda text: f"$Id: {text}$ {text}\n".encode(),
    "encoding": lambda text: f"{text}\n".encode("utf-16-le"),
}


def _hide(repo: Repo, rule: str) -> None:
    (repo.git_dir / "info").mkdir(exist_ok=True)
    with open(repo.git_dir / "info" / "exclude", "a", encoding="ascii") as file:
        file.write(rule)


def _excluded(repo: Repo, rules: str) -> None:
    _hide(repo, ".gitattributes\n")
    repo.write(".gitattributes", rules)


def _by_an_ignoring_gitignore(repo: Repo, rules: str) -> None:
    repo.write(".gitignore", ".git*\n")
    repo.write(".gitattributes", rules)


def _by_the_users_rules(repo: Repo, rules: str) -> None:
    (repo.scratch / "ignore").write_text(".gitattributes\n", "ascii")
    repo.config("core.excludesFile", str(repo.scratch / "ignore"))
    repo.write(".gitattributes", rules)


def _below(repo: Repo, rules: str) -> None:
    _hide(repo, ".gitattributes\n")
    repo.write("box/.gitattributes", rules)


def _info(repo: Repo, rules: str) -> None:
    (repo.git_dir / "info").mkdir(exist_ok=True)
    (repo.git_dir / "info" / "attributes").write_text(rules, "ascii")


def _named_inside(repo: Repo, rules: str) -> None:
    _hide(repo, "rules/\n")
    repo.write("rules/attributes", rules)
    repo.config("core.attributesFile", str(repo.path / "rules" / "attributes"))


def _named_outside(repo: Repo, rules: str) -> None:
    (repo.scratch / "attributes").write_text(rules, "ascii")
    repo.config("core.attributesFile", str(repo.scratch / "attributes"))


def _visible(repo: Repo, rules: str) -> None:
    repo.write(".gitattributes", rules)


def _tracked(repo: Repo, rules: str) -> None:
    repo.write(".gitattributes", rules)
    repo.commit("rules")


_SOURCES = {
    "excluded": _excluded,
    "by an ignoring .gitignore": _by_an_ignoring_gitignore,
    "by the user's rules": _by_the_users_rules,
    "below": _below,
    "info": _info,
    "named inside": _named_inside,
    "named outside": _named_outside,
    "visible": _visible,
    "tracked": _tracked,
}


def _nothing(repo: Repo) -> None:
    pass


def _rules_go(repo: Repo) -> None:
    for name in (".gitattributes", "box/.gitattributes", "rules/attributes"):
        if repo.exists(name):
            repo.remove(name)
    for file in (repo.git_dir / "info" / "attributes", repo.scratch / "attributes"):
        file.unlink(missing_ok=True)


def _rules_change(repo: Repo) -> None:
    _rules_go(repo)
    _info(repo, "* -text -ident -filter -working-tree-encoding\n*.x text eol=crlf\n")


def _driver_goes(repo: Repo) -> None:
    repo.try_git("config", "--remove-section", "filter.rot")


def _driver_breaks(repo: Repo) -> None:
    repo.config("filter.rot.smudge", "false")
    repo.config("filter.rot.clean", "false")


def _autocrlf_comes(repo: Repo) -> None:
    repo.config("core.autocrlf", "true")
    repo.config("core.eol", "crlf")


_BETWEEN = {each.__name__: each for each in (_nothing, _rules_go, _rules_change, _driver_goes, _driver_breaks)}
_CASES = [
    *((source, "rot", between) for source in _SOURCES for between in ("_nothing", "_rules_go")),
    *(("excluded", kind, between) for kind in _RULES for between in ("_nothing", "_rules_change")),
    *((source, "rot", between) for source in ("tracked", "excluded") for between in ("_driver_goes", "_driver_breaks")),
    *(("tracked", kind, "_rules_change") for kind in _RULES),
]
# Between them, git has every reason to call the files of the wrecked state unmodified: it does not look into them.
_UNSEEN_CASES = [
    *((source, "rot", "_rules_go") for source in _SOURCES if source != "visible"),
    *(("excluded", kind, "_rules_change") for kind in _RULES),
    *((source, "rot", between) for source in ("tracked", "excluded") for between in ("_driver_goes", "_driver_breaks")),
]
_FILES = ("box/edited.x", "box/staged.x", "box/both.x", "box/new.x")


def _content(kind: str, text: str) -> bytes:
    make = _CONTENTS.get(kind)
    return make(text) if make is not None else f"{text}\n".encode()


def _build(repo: Repo, source: str, kind: str) -> None:
    repo.config("filter.rot.clean", _ROT13)
    repo.config("filter.rot.smudge", _ROT13)
    _SOURCES[source](repo, _RULES[kind])
    for name in ("kept", "edited", "both"):
        repo.write(f"box/{name}.x", _content(kind, "committed"))
        os.utime(repo.at(f"box/{name}.x"), (_LONG_AGO, _LONG_AGO))  # git need not look into it again
        repo.git("add", "-f", f"box/{name}.x")
    repo.git("commit", "-q", "-m", "converted")
    repo.write("box/edited.x", _content(kind, "edited"))
    repo.write("box/staged.x", _content(kind, "staged"))
    repo.write("box/both.x", _content(kind, "staged"))
    repo.git("add", "-f", "box/staged.x", "box/both.x")
    repo.write("box/both.x", _content(kind, "staged, then edited"))
    repo.write("box/new.x", _content(kind, "untracked"))


@pytest.mark.parametrize(
    ("source", "kind", "between", "seen"),
    [*((*case, True) for case in dict.fromkeys(_CASES)), *((*case, False) for case in _UNSEEN_CASES)],
)
def test_own_bytes_come_back(repo: Repo, source: str, kind: str, between: str, seen: bool) -> None:
    """`seen`: git looks into the files of the wrecked state; else their stat data tells it that they are unmodified."""
    _build(repo, source, kind)
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    repo.remove("box/new.x")
    repo.write("box/staged.x", "another\n")
    for name in ("box/edited.x", "box/both.x"):
        os.utime(repo.at(name), (_LONG_AGO, _LONG_AGO))
    if not seen:
        repo.git("update-index", "-q", "--refresh")
    wrecked = {name: repo.read(name) for name in _FILES if repo.exists(name)}
    _BETWEEN[between](repo)
    IN_PROCESS.restore(repo.path, taken["id"])
    after = complete_state(repo.path)
    if between == "_nothing":
        assert_same(before, after, "restore", branch="any")
    else:
        assert after.index == before.index
        assert {name: repo.read(name) for name in _FILES} == {name: before.files[name.encode()].data for name in _FILES}
    IN_PROCESS.undo(repo.path)
    assert {name: repo.read(name) for name in _FILES if repo.exists(name)} == wrecked


def test_line_ends_that_git_is_told_to_convert_since(repo: Repo) -> None:
    """core.autocrlf is in no checkpoint of the worktree; the files had their bytes before it was set."""
    repo.write("readme.txt", "edited\nhere\n")
    repo.write("new.txt", "one\ntwo\n")
    repo.write("staged.txt", "one\ntwo\n")
    repo.git("add", "staged.txt")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    _autocrlf_comes(repo)
    repo.remove("readme.txt", "new.txt", "staged.txt", "notes.txt")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
    repo.config("core.autocrlf", "false")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


@pytest.mark.parametrize("kind", ["crlf", "rot"])
def test_unmodified_files_come_by_the_rules_of_then(repo: Repo, kind: str) -> None:
    """Everything is removed, the attributes file that is ignored as well."""
    _build(repo, "excluded", kind)
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    for each in Path(repo.path).iterdir():
        if each.name != ".git":
            repo.remove(each.name)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


@pytest.mark.parametrize("between", [_driver_goes, _driver_breaks])
def test_a_file_whose_filter_is_gone_is_an_error_that_changes_nothing(
    repo: Repo, between: Callable[[Repo], None]
) -> None:
    """Of an unmodified file only the blob is known, and no filter makes its bytes of it any more."""
    _build(repo, "tracked", "rot")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("box/kept.x")
    between(repo)
    before = complete_state(repo.path, strict=True)
    failed = run(repo.path, "restore", taken["id"])
    assert_is_error(failed, 1)
    assert b"box/kept.x" in failed.err, str(failed)
    assert b"rot" in failed.err, str(failed)
    assert_unchanged(before, complete_state(repo.path, strict=True), "a restore that failed")
    repo.config("filter.rot.smudge", _ROT13)
    repo.config("filter.rot.clean", _ROT13)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("box/kept.x") == b"committed\n"


@pytest.mark.parametrize("change", ["untracked", "staged"])
def test_file_committed_since_has_its_bytes_of_the_checkpoint(repo: Repo, change: str) -> None:
    """LF then; now the same blob is checked out with CRLF, and git calls it unmodified."""
    repo.write("new.txt", "one\ntwo\n", 0o600)
    if change == "staged":
        repo.git("add", "new.txt")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("add", "new.txt")
    repo.git("commit", "-q", "-m", "new")
    repo.config("core.autocrlf", "true")
    repo.remove("new.txt")
    repo.git("checkout", "-q", "--", "new.txt")
    assert repo.read("new.txt") == b"one\r\ntwo\r\n"
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any", permissions="all")
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo", permissions="all")


@pytest.mark.parametrize("since", ["set", "unset", "filter gone"])
def test_a_worktree_that_is_revived_has_the_bytes_that_git_called_unmodified(repo: Repo, since: str) -> None:
    """They were checked out by other settings than the current ones, and there is no file with attributes."""
    if since == "unset":
        repo.config("core.autocrlf", "true")
    if since == "filter gone":
        repo.config("filter.rot.clean", _ROT13)
        repo.config("filter.rot.smudge", _ROT13)
        _info(repo, _RULES["rot"].replace("x", "txt"))
    made = Path(run_ok(repo.path, "worktree", "create", "dev-1")["path"])
    there = Repo(made)
    there.write("other.txt", "one\r\ntwo\r\n")
    os.utime(there.at("notes.txt"), (_LONG_AGO, _LONG_AGO))
    there.git("update-index", "-q", "--refresh")
    if since == "set":
        repo.config("core.autocrlf", "true")
    if since == "unset":
        repo.git("config", "--unset", "core.autocrlf")
    if since == "filter gone":
        _rules_go(repo)
    before = complete_state(made)
    assert since == "set" or before.files[b"notes.txt"].data != repo.read("notes.txt")
    run_ok(repo.path, "worktree", "archive", "dev-1")
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive")
    assert_same(before, complete_state(made), "revive", branch="any")
