"""The first checkpoint of a new worktree: git does not read again what it has just written, and nothing is missed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import pointer_filter
from tests.support.repo import Repo
from tests.support.tool import run_ok

_FILTER = f"{sys.executable} {pointer_filter.__file__}"


def _plain(repo: Repo) -> None:
    repo.write("a/b/c.txt", "c\n")


def _line_ends(repo: Repo) -> None:
    repo.write(
        ".gitattributes", "*.dos text eol=crlf\n*.auto text=auto\n*.id ident\n*.wide working-tree-encoding=UTF-16\n"
    )
    repo.write("a.dos", "one\ntwo\n")
    repo.write("b.auto", "one\r\ntwo\r\n")
    repo.write("c.id", "$Id$\n")
    repo.write("d.wide", "wide\n".encode("utf-16"))


def _attributes_come_late(repo: Repo) -> None:
    """The commit has CRLF where the attributes say that it has none: what a checkout gives counts as unmodified."""
    repo.write("a.txt", "one\r\ntwo\r\n")
    repo.commit("before")
    repo.write(".gitattributes", "*.txt text\n")


def _filtered(repo: Repo) -> None:
    repo.config("filter.pointer.process", f"{_FILTER} {repo.scratch / 'store'} process")
    repo.config("filter.pointer.required", "true")
    repo.write(".gitattributes", "*.big filter=pointer\n")
    repo.write("file.big", os.urandom(5000))


def _odd_files(repo: Repo) -> None:
    repo.link("link", "readme.txt")
    repo.write("run.sh", "#!/bin/sh\n", mode=0o755)
    repo.write(os.fsdecode(b"caf\xc3\xa9 \xff"), "name\n")
    repo.write("empty", "")


def _set_up(repo: Repo) -> None:
    """The command edits a file to one of the same size, in the same second as the checkout, and makes others."""
    repo.write("config.ini", "debug=0\n")
    repo.config("agentos.setup", "echo debug=1 >config.ini; echo new >new.txt; mkdir empty; chmod +x readme.txt")


def _included(repo: Repo) -> None:
    repo.write(".gitignore", "*.env\n")
    repo.write(".worktreeinclude", "*.env\n")
    repo.write("local.env", "KEY=1\n")
    repo.write("only/here/local.env", "KEY=2\n")


def _submodule(repo: Repo) -> None:
    other = Repo.init(repo.scratch / "other")
    other.write("inner.txt", "inner\n")
    other.commit("inner")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.path), "module")


def _configured(key: str, value: str) -> Callable[[Repo], None]:
    def configure(repo: Repo) -> None:
        repo.config(key, value)
        repo.link("link", "readme.txt")

    configure.__name__ = key
    return configure


def git_commands(repo: Repo, trace: Path, *words: str) -> list[list[str]]:
    """The git commands that `git agentos worktree create` starts."""
    run_ok(repo.path, "worktree", "create", "dev", *words, env={"GIT_TRACE2_EVENT": str(trace)})
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    return [event["argv"] for event in events if event["event"] == "start"]


def of_kind(commands: list[list[str]], *kinds: str) -> list[str]:
    return [word for argv in commands for word in argv if word in kinds]


def assert_exact(there: Repo) -> None:
    """The first checkpoint has what a later one finds, when git looks at everything."""
    assert run_ok(there.path, "checkpoint", "--trigger", "periodic")["unchanged"] is True


def assert_exact_by_stat(there: Repo) -> None:
    """The same, and to git no entry of the index is as young as the index any more."""
    os.utime(there.git_dir / "index", (1 << 33, 1 << 33))
    assert run_ok(there.path, "checkpoint", "--trigger", "periodic")["unchanged"] is True


@pytest.mark.parametrize("prepare", [_plain, _line_ends, _filtered, _odd_files], ids=lambda each: each.__name__[1:])
def test_git_writes_once_and_reads_nothing_again(repo: Repo, tmp_path: Path, prepare: Callable[[Repo], None]) -> None:
    prepare(repo)
    repo.commit("prepared")
    commands = git_commands(repo, tmp_path / "trace")
    assert of_kind(commands, "status", "ls-files", "diff-index", "reset", "checkout") == []
    assert of_kind(commands, "read-tree") == ["read-tree"]
    there = Repo(repo.path.parent / "repo.worktrees/dev")
    assert there.git("status", "--porcelain") == b""
    assert_exact(there)
    assert_exact_by_stat(there)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (_set_up, ()),
        (_included, ()),
        (_submodule, ()),
        (_plain, ("--sparse", "a")),
        (_configured("core.fileMode", "false"), ()),
        (_configured("core.symlinks", "false"), ()),
        (_configured("core.ignoreStat", "true"), ()),
        (_configured("core.ignoreCase", "true"), ()),
    ],
    ids=lambda each: getattr(each, "__name__", "").lstrip("_") or "",
)
def test_git_looks_where_a_checkout_is_not_all(
    repo: Repo, tmp_path: Path, prepare: Callable[[Repo], None], words: tuple[str, ...]
) -> None:
    prepare(repo)
    repo.commit("prepared")
    commands = git_commands(repo, tmp_path / "trace", *words)
    assert "status" in of_kind(commands, "status")
    assert_exact(Repo(repo.path.parent / "repo.worktrees/dev"))


def test_checked_out_file_is_unmodified(repo: Repo) -> None:
    """Also where converting it back gives something else than the commit has: git says so, once the stat data are older
    than the index."""
    _attributes_come_late(repo)
    repo.git("add", ".gitattributes")
    repo.git("commit", "--quiet", "--message", "late")
    made = run_ok(repo.path, "worktree", "create", "dev")
    there = Repo(Path(made["path"]))
    shown = run_ok(there.path, "checkpoint", "show", made["last_checkpoint"]["id"])
    assert (shown["staged_changes"], shown["unstaged_changes"], shown["untracked_files"]) == ([], [], [])
    there.write("a.txt", "another\r\n")
    run_ok(there.path, "restore", made["last_checkpoint"]["id"], "--no-branch")
    assert there.read("a.txt") == b"one\r\ntwo\r\n"


def test_an_edit_in_the_second_of_the_checkout_is_seen(repo: Repo) -> None:
    made = run_ok(repo.path, "worktree", "create", "dev")
    there = Repo(Path(made["path"]))
    content = there.read("readme.txt")
    there.write("readme.txt", content.swapcase())
    assert there.git("status", "--porcelain") == b" M readme.txt\n"
    assert run_ok(there.path, "checkpoint", "--trigger", "periodic")["unchanged"] is False


def test_the_users_settings_for_a_checkout_hold(repo: Repo, tmp_path: Path) -> None:
    repo.config("checkout.workers", "2")
    repo.config("checkout.thresholdForParallelism", "1")
    repo.config("index.version", "4")
    for number in range(40):
        repo.write(f"many/{number}.txt", f"{number}\n" * 50)
    _filtered(repo)
    repo.commit("many")
    commands = git_commands(repo, tmp_path / "trace")
    assert of_kind(commands, "checkout--worker") == ["checkout--worker"] * 2
    there = Repo(repo.path.parent / "repo.worktrees/dev")
    assert (there.git_dir / "index").read_bytes()[4:8] == b"\0\0\0\4"
    assert there.git("status", "--porcelain") == b""
    assert there.read("file.big") == repo.read("file.big")
    assert_exact(there)
