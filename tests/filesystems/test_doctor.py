"""`doctor` names the file systems of the worktree and of its git directory, and what does not work there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Cli
from tests.support.filesystems import MakeRepo, ok
from tests.support.repo import Repo

CASE = "names that differ only by case are one file: of two such paths, a restore writes one and names the other"
FORM = "the composed and the decomposed form of a character are the same name"
UTF8 = "names that are not UTF-8 are refused: a restore names such paths, and keeps their index entries"
LINKS = "no hard links: the locks of refs are folders"
SYMLINKS = "no symbolic links: git writes them as files (core.symlinks=false), and so does a restore"
MODES = "no executable bits: they are kept in the index and in checkpoints only (core.fileMode=false)"
TIMES = "times are kept in steps of 2 s: git and git-agentos read files again that changed just before"
OPEN = "a file that a program has open is not replaced: close it before a restore"
SYNC = "folders cannot be synced: after a power cut, the newest checkpoints may be missing"
SHARED = (
    "other machines may use it: locks that a killed git left are not removed,"
    " and a workflow database has no write-ahead log"
)


def places(repo: Repo, cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ok(cli("-C", str(repo.path), "--json", "doctor")).json["file_systems"]
    return found


@pytest.mark.parametrize(
    ("modes", "limits"),
    [
        ("apfs", [CASE, FORM, UTF8]),
        ("exfat", [CASE, LINKS, SYMLINKS, MODES, TIMES, SYNC]),
        ("share", [CASE, LINKS, SYMLINKS, MODES, OPEN, SYNC]),
    ],
)
def test_what_does_not_work(repo_on: MakeRepo, cli: Cli, modes: str, limits: list[str]) -> None:
    repo = repo_on(modes)
    left = sorted(each.name for each in repo.path.iterdir())
    (place,) = places(repo, cli)
    assert place["type"].startswith("fuse")
    assert (place["of"], place["path"]) == ("worktree and git directory", str(repo.path))
    assert place["limits"] == [*limits, SHARED]
    assert sorted(each.name for each in repo.path.iterdir()) == left


def test_the_git_directory_is_elsewhere(mounts: Callable[[str], Path], cli: Cli, tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.commit("first")
    linked = Repo(mounts("exfat") / tmp_path.name)
    repo.git("worktree", "add", "-q", str(linked.path))
    left = sorted(each.name for each in linked.path.iterdir())
    worktree, repository = places(linked, cli)
    assert (worktree["of"], worktree["path"]) == ("worktree", str(linked.path))
    assert worktree["limits"] == [CASE, LINKS, SYMLINKS, MODES, TIMES, SYNC, SHARED]
    assert repository["of"] == "git directory"
    assert (repository["path"], repository["limits"]) == (str(repo.path / ".git"), [])
    assert sorted(each.name for each in linked.path.iterdir()) == left


def test_in_words(repo_on: MakeRepo, cli: Cli) -> None:
    repo = repo_on("apfs")
    said = ok(cli("-C", str(repo.path), "doctor")).out.decode().splitlines()
    assert said[0] == "No problems found."
    assert said[1].startswith("Worktree and git directory: fuse")
    assert said[1].endswith(", with these limits:")
    assert said[2:] == [*(f"  {each}" for each in (CASE, FORM, UTF8, SHARED)), "Watch daemon: not running"]


def test_the_database_on_a_file_system_that_others_may_use(repo_on: MakeRepo, cli: Cli, repo: Repo) -> None:
    """A write-ahead log needs memory that all its processes share; one that is there is given up."""
    database = Path(".agentos/issue_workflow.db")
    ok(cli("-C", str(repo.path), "log", "add", "action", "here"))
    assert _journal(repo.path / database) == "wal"
    shared = repo_on("share")
    shared.commit("first")
    shared.write(str(database), (repo.path / database).read_bytes())
    assert _journal(shared.path / database) == "wal"
    ok(cli("-C", str(shared.path), "log", "add", "action", "there"))
    assert _journal(shared.path / database) == "delete"
    assert [each["summary"] for each in ok(cli("-C", str(shared.path), "--json", "log", "list")).json["entries"]] == [
        "there"
    ]


def _journal(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()
