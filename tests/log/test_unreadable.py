"""Databases that cannot be read: what checkpoints carry is shown with a warning, and never as if that were all."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from git_agentos import log, memory, open_workspace
from git_agentos.errors import AgentosError
from tests.support.command_line import Cli
from tests.support.repo import Repo

Say = Callable[..., Any]


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """A worktree whose log has an entry in a checkpoint, and one in its database alone."""
    repo.git("worktree", "add", "-q", str(repo.scratch / "dev"))
    found = Repo(repo.scratch / "dev")
    workspace = open_workspace(found.path)
    log.add(workspace.context, "decision", "in a checkpoint")
    memory.artifact(workspace.context, type="code", path="a.txt", description="in a checkpoint")
    workspace.checkpoint()
    log.add(workspace.context, "error", "in the database alone")
    memory.artifact(workspace.context, type="code", path="b.txt", description="in the database alone")
    return found


@pytest.fixture
def say(cli: Cli) -> Say:
    def call(at: Repo, *words: str) -> Any:
        return cli("-C", str(at.path), *words)

    return call


def database(of: Repo) -> Path:
    return of.path / ".agentos/issue_workflow.db"


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9001")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))
    path.symlink_to("elsewhere.db")


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE agentos_worktrees RENAME TO something_else")


UNREADABLE: dict[str, Callable[[Path], None]] = {
    "newer": newer, "a folder": folder, "a link": link, "another tool's": foreign,
}  # fmt: skip


@pytest.mark.parametrize("spoil", UNREADABLE.values(), ids=UNREADABLE)
def test_no_answer_is_taken_for_all_there_is(say: Say, repo: Repo, dev: Repo, spoil: Callable[[Path], None]) -> None:
    path = database(dev)
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for at, everybody in ((dev, ()), (dev, ("--all",)), (repo, ("--all",)), (repo, ("--agent", "dev"))):
        for words, key, seen in (
            (("log", "list"), "entries", "in a checkpoint"),
            (("log", "search", "in a checkpoint"), "entries", "in a checkpoint"),
            (("memory", "list"), "items", "in a checkpoint"),
        ):
            done = say(at, *words, *everybody, "--json")
            body = json.loads(done.out)
            assert (done.code, body.get("complete")) == (0, False), (words, everybody, done)
            assert seen in json.dumps(body[key])
            assert "checkpoints alone" in done.err.decode()
        for filtered in (["log", "list", "--type", "error"], ["log", "search", "database alone"]):
            assert say(at, *filtered, *everybody).code == 1, (filtered, everybody)
        done = say(at, "log", "export", *everybody)
        assert (done.code, "in a checkpoint" in done.text, "checkpoints alone" in done.err.decode()) == (0, True, True)
    for words in (("log", "timeline", "dev"), ("log", "review", "dev")):
        assert json.loads(say(repo, *words, "--json").out)["complete"] is False
    listed = json.loads(say(repo, "worktree", "list", "--json").out)
    assert [each["last_log"] is not None for each in listed["worktrees"] if each["path"] == str(dev.path)] in (
        [True],
        [],
    )
    assert before is None or path.read_bytes() == before
    assert not [name for name in os.listdir(path.parent) if "damaged" in name]


def test_unreadable_database_without_a_checkpoint(say: Say, repo: Repo) -> None:
    log.add(open_workspace(repo.path).context, "action", "alone")
    newer(database(repo))
    for words in (("log", "list"), ("log", "list", "--all"), ("log", "export"), ("memory", "list")):
        done = say(repo, *words)
        assert (done.code, b"version 9001" in done.out + done.err) == (1, True), words
    assert say(repo, "log", "list", "-n", "0").code == 0


@pytest.mark.parametrize("spoil", UNREADABLE.values(), ids=UNREADABLE)
def test_doctor_says_so(say: Say, repo: Repo, dev: Repo, spoil: Callable[[Path], None]) -> None:
    assert say(repo, "doctor").code == 0
    spoil(database(dev))
    for words in (("doctor",), ("doctor", "--fix")):
        done = say(repo, *words, "--json")
        (found,) = [each for each in json.loads(done.out)["findings"] if each["code"] == "database"]
        assert (done.code, found["severity"], str(database(dev)) in found["message"]) == (1, "error", True)


def test_on_a_file_system_that_is_read_only(say: Say, small_disk: Path) -> None:
    """What is in the database is read there as well."""
    subprocess.run(["git", "init", "-q", str(small_disk / "repo")], check=True)
    repo = Repo(small_disk / "repo")
    workspace = open_workspace(repo.path)
    for n in range(2):
        log.add(workspace.context, "decision", f"entry {n}")
        memory.artifact(workspace.context, type="code", path=f"{n}.txt", description="x")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for words, key in ((("log", "list"), "entries"), (("memory", "list"), "items")):
        body = json.loads(say(repo, *words, "--json").out)
        assert (len(body[key]), body["complete"]) == (2, True), (words, body)
    assert say(repo, "log", "add", "action", "x").code == 1


def test_complete_where_it_is(say: Say, repo: Repo, dev: Repo) -> None:
    for at in (dev, repo):
        for words in (("log", "list", "--all"), ("memory", "list", "--all"), ("log", "list"), ("memory", "list")):
            assert json.loads(say(at, *words, "--json").out)["complete"] is True, words
    database(repo).unlink()
    assert json.loads(say(dev, "log", "list", "--all", "--json").out)["complete"] is True


def test_the_api_refuses_as_well(repo: Repo) -> None:
    context = open_workspace(repo.path).context
    log.add(context, "action", "alone")
    newer(database(repo))
    for ask in (lambda: log.entries(context), lambda: memory.items(context), lambda: next(log.follow(context))):
        with pytest.raises(AgentosError, match="version 9001"):
            ask()
    assert log.read(context).complete is False


def test_a_checkpoint_of_a_newer_format(say: Say, repo: Repo) -> None:
    """It is tried again each time: a newer version may have been installed."""
    workspace = open_workspace(repo.path)
    log.add(workspace.context, "action", "first")
    workspace.checkpoint()
    log.add(workspace.context, "action", "second")
    repo.write("a.txt", "changed\n")
    newest = workspace.checkpoint().id
    text = repo.git("cat-file", "commit", newest).replace(b"Agentos-Format: 1", b"Agentos-Format: 9")
    old = repo.git("cat-file", "commit", "refs/agentos/timelines/main")
    assert b"Agentos-Format: 9" in text
    link_ = old.replace(newest.encode(), _commit(repo, text).encode())
    repo.git("update-ref", "refs/agentos/timelines/main", _commit(repo, link_))
    database(repo).unlink()
    for _ in range(2):
        done = say(repo, "log", "list", "--json")
        body = json.loads(done.out)
        assert (done.code, body["complete"]) == (0, False)
        assert [each["summary"] for each in body["entries"] if each["type"] == "action"] == ["first"]


def _commit(repo: Repo, data: bytes) -> str:
    (repo.scratch / "object").write_bytes(data)
    return repo.git("hash-object", "-t", "commit", "--literally", "-w", str(repo.scratch / "object")).decode().strip()
