"""`--expected` and `--idempotency-key`: nothing newer is replaced unseen, and nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.checkpoint.restore import idempotency
from tests.support.command_line import Cli
from tests.support.repo import Repo
from tests.support.state import assert_same, assert_unchanged, complete_state

Ask = Callable[..., Any]


@pytest.fixture
def ask(cli: Cli, repo: Repo) -> Ask:
    """A command in the repository: its document, or its error's kind with `fails=True`."""

    def call(*words: str, fails: bool = False, to: Repo = repo) -> Any:
        done = cli("-C", str(to.path), "--json", *words)
        assert (done.code != 0) == fails, done
        return done.json["error"] if fails else done.json

    return call


@pytest.fixture
def saved(repo: Repo, ask: Ask) -> str:
    """A checkpoint of work, which is then changed."""
    repo.write("notes.txt", "as saved\n")
    repo.write("untracked.txt", "as saved\n")
    id_ = str(ask("checkpoint")["id"])
    repo.write("notes.txt", "later\n")
    return id_


def _index(repo: Repo) -> None:
    repo.git("add", "notes.txt")


def _head(repo: Repo) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "later")


def _branch(repo: Repo) -> None:
    repo.git("branch", "-q", "elsewhere")
    repo.git("symbolic-ref", "HEAD", "refs/heads/elsewhere")


CHANGES: dict[str, Callable[[Repo], object]] = {
    "file": lambda repo: repo.write("notes.txt", "later still\n"),
    "untracked": lambda repo: repo.write("new.txt", "new\n"),
    "removed": lambda repo: repo.remove("untracked.txt"),
    "mode": lambda repo: (repo.path / "notes.txt").chmod(0o755),
    "folder": lambda repo: repo.mkdir("empty"),
    "index": _index,
    "head": _head,
    "branch": _branch,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_that_has_changed_is_not_replaced(repo: Repo, ask: Ask, saved: str, change: str) -> None:
    planned = ask("restore", saved, "--dry-run")
    CHANGES[change](repo)
    before = complete_state(repo.path, strict=True)
    checkpoints = ask("checkpoint", "list")
    words = ("restore", saved, "--expected", planned["state"])
    for error in (ask(*words, fails=True), ask(*words, "--dry-run", fails=True)):
        assert error["kind"] == "changed"
        assert "nothing was changed" in error["hint"]
    assert_unchanged(before, complete_state(repo.path, strict=True), "a refused restore changed something")
    assert ask("checkpoint", "list") == checkpoints
    ask("restore", saved, "--expected", ask("restore", saved, "--dry-run")["state"])
    assert repo.read("notes.txt") == b"as saved\n"


def test_an_ignored_file_that_would_be_replaced_belongs_to_the_state(repo: Repo, ask: Ask, saved: str) -> None:
    repo.write(".git/info/exclude", "untracked.txt\n")
    repo.write("untracked.txt", "ignored now\n")
    planned = ask("restore", saved, "--dry-run")
    repo.write("untracked.txt", "changed since\n")
    assert ask("restore", saved, "--expected", planned["state"], fails=True)["kind"] == "changed"
    assert repo.read("untracked.txt") == b"changed since\n"


@pytest.mark.parametrize("words", [(), ("--no-branch",), ("--keep-new",), ("notes.txt",)], ids=str)
def test_the_state_of_a_dry_run_is_the_one_that_is_replaced(
    repo: Repo, ask: Ask, saved: str, words: tuple[str, ...]
) -> None:
    repo.write("new.txt", "new\n")
    options, paths = [each for each in words if each.startswith("-")], [each for each in words if each[0] != "-"]
    planned = ask("restore", *options, "--dry-run", saved, *paths)
    done = ask("restore", *options, "--expected", planned["state"], saved, *paths)
    assert done["state"] == planned["state"]
    assert {**done, "saved": None, "dry_run": True, "branch": None} == {**planned, "branch": None}


@pytest.mark.parametrize("is_saved", [False, True])
def test_repositories_inside(make_repo: Callable[[str], Repo], ask: Ask, is_saved: bool) -> None:
    """The same state before and after checkpoints of them exist; another one once a file in them has changed."""
    outer = make_repo("outer")
    inner = Repo.init(outer.path / "inner")
    inner.write("file", "1\n")
    first = ask("checkpoint", to=outer)["id"]
    inner.write("file", "2\n")
    if is_saved:
        ask("checkpoint", to=outer)
    planned = ask("restore", first, "--dry-run", to=outer)
    inner.write("file", "3\n")
    assert ask("restore", first, "--dry-run", to=outer)["state"] != planned["state"]
    assert ask("restore", first, "--expected", planned["state"], fails=True, to=outer)["kind"] == "changed"
    assert inner.read("file") == b"3\n"
    inner.write("file", "2\n")
    assert ask("restore", first, "--expected", planned["state"], to=outer)["state"] == planned["state"]
    assert inner.read("file") == b"1\n"


def test_undo(repo: Repo, ask: Ask, saved: str) -> None:
    before = complete_state(repo.path)
    ask("restore", saved)
    planned = ask("undo", "--dry-run")
    repo.write("new.txt", "new\n")
    assert ask("undo", "--expected", planned["state"], fails=True)["kind"] == "changed"
    assert repo.read("notes.txt") == b"as saved\n"
    repo.remove("new.txt")
    done = ask("undo", "--expected", planned["state"], "--idempotency-key", "k")
    assert ask("undo", "--expected", planned["state"], "--idempotency-key", "k") == done
    assert_same(before, complete_state(repo.path), "undo")
    assert ask("undo", "--idempotency-key", "k", fails=True)["kind"] == "usage"


def test_a_second_call_with_the_same_key_does_nothing(repo: Repo, ask: Ask, saved: str) -> None:
    """Also where `latest` would be another checkpoint by now, and after the worktree has changed."""
    words = ("restore", "@{0}", "--idempotency-key", "first try", "--expected")
    state = ask("restore", "@{0}", "--dry-run")["state"]
    done = ask(*words, state)
    assert done["checkpoint"] == saved
    repo.write("notes.txt", "work since\n")
    before = complete_state(repo.path, strict=True)
    assert ask(*words, state) == done
    assert_unchanged(before, complete_state(repo.path, strict=True), "a repeated call changed something")


@pytest.mark.parametrize("other", [("--no-branch",), ("--keep-new",), ("--all",), ("--expected", "0" * 40)], ids=str)
def test_a_key_belongs_to_one_call(repo: Repo, ask: Ask, saved: str, other: tuple[str, ...]) -> None:
    ask("restore", saved, "--idempotency-key", "k")
    before = complete_state(repo.path, strict=True)
    for words in (("restore", saved, *other), ("restore", saved, "notes.txt"), ("restore", "latest"), ("undo",)):
        assert ask(*words, "--idempotency-key", "k", fails=True)["kind"] == "usage"
    assert_unchanged(before, complete_state(repo.path, strict=True), "a refused call changed something")


def test_a_call_that_failed_can_be_repeated(repo: Repo, ask: Ask, saved: str) -> None:
    words = ("restore", saved, "--no-branch", "--idempotency-key", "k")
    (repo.path / ".git" / "index.lock").touch()
    assert ask(*words, fails=True)["kind"] == "locked"
    (repo.path / ".git" / "index.lock").unlink()
    assert ask(*words)["saved"] is not None
    assert repo.read("notes.txt") == b"as saved\n"


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "\x1b[31m"])
def test_what_is_no_key(ask: Ask, saved: str, key: str) -> None:
    assert ask("restore", saved, f"--idempotency-key={key}", fails=True)["kind"] == "usage"


def test_the_record_is_bounded(repo: Repo, ask: Ask, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST", 3)
    for number in range(5):
        ask("restore", saved, "--no-branch", "--idempotency-key", str(number))
    record = json.loads(repo.read(".git/agentos/idempotency.json"))
    assert [each["key"] for each in record["calls"]] == ["2", "3", "4"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 1, "calls": [{"key": "k"}]}', b"\xff", b"[" * 100_000])
def test_a_damaged_record_stops_only_calls_with_a_key(repo: Repo, ask: Ask, saved: str, content: bytes) -> None:
    ask("restore", saved, "--no-branch", "--idempotency-key", "k")
    record = repo.path / ".git" / "agentos" / "idempotency.json"
    record.write_bytes(content)
    ask("undo")
    before = complete_state(repo.path, strict=True)
    error = ask("restore", saved, "--no-branch", "--idempotency-key", "k", fails=True)
    assert error["kind"] == "repository"
    assert str(record) in error["hint"]
    assert_unchanged(before, complete_state(repo.path, strict=True), "a refused call changed something")


def test_options_that_do_not_fit(ask: Ask, saved: str, tmp_path: Path) -> None:
    for option in ("--expected", "--idempotency-key"):
        assert ask("restore", saved, "--worktree", "dev-1", option, "x", fails=True)["kind"] == "usage"
