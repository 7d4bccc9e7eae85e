"""Parts that are mounted read-only: what changes nothing there works, all else is refused before anything changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import Cli
from tests.support.filesystems import ok, read_only, spelt
from tests.support.refusal import assert_is_error
from tests.support.repo import Repo
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import run

LOOKS = [
    ["status"],
    ["checkpoint", "list"],
    ["checkpoint", "show", "latest"],
    ["doctor"],
    ["worktree", "list"],
    ["run", "list"],
]
CHANGES = [
    ["checkpoint"], ["restore", "latest"], ["restore", "latest", "--no-branch"], ["restore", "latest", "readme.txt"],
    ["undo"], ["worktree", "create", "dev-1"], ["run", "start", "--id", "one", "--agent", "true"],
    ["guard", "enable"], ["log", "add", "action", "noted"],
]  # fmt: skip


@pytest.fixture
def saved(repo: Repo) -> str:
    """A checkpoint of other contents than those that are there."""
    repo.write("docs/guide.md", "then\n")
    repo.write("docs/untracked.md", "then\n")
    repo.mkdir("docs/empty")
    repo.write("readme.txt", "then\n")
    taken = run(repo.path, "--json", "checkpoint")
    assert taken.code == 0, str(taken)
    repo.write("docs/guide.md", "now\n")
    repo.remove("docs/untracked.md")
    repo.write("readme.txt", "now\n")
    return str(taken.json["id"])


def _refused(repo: Repo, *words: str) -> Mapping[str, str]:
    done = run(repo.path, "--json", *words)
    assert_is_error(done, 1)
    error: Mapping[str, str] = done.json["error"]
    return error


@pytest.mark.parametrize("part", ["worktree and git dir", "git dir"])
def test_a_git_dir(repo: Repo, saved: str, part: str) -> None:
    before = complete_state(repo.path)
    with read_only(repo.path if part != "git dir" else repo.path / ".git"):
        for words in LOOKS:
            done = run(repo.path, *words)
            assert done.code == 0, str(done)
        for words in CHANGES:
            assert "read-only file system" in _refused(repo, *words)["message"]
    assert not (repo.path / ".agentos").exists()
    after = complete_state(repo.path)
    assert_same(before, after, "refused commands changed something", permissions="all", refs=True)
    assert run(repo.path, "restore", saved).code == 0
    assert repo.read("docs/guide.md") == b"then\n"


def test_a_worktree(repo: Repo, saved: str, tmp_path: Path) -> None:
    """Its state can be saved, and agents work elsewhere."""
    repo.git("init", "-q", "--separate-git-dir", str(tmp_path / "elsewhere.git"))
    files = spelt(repo)
    with read_only(repo.path):
        assert run(repo.path, "checkpoint").code == 0
        before = complete_state(repo.path, strict=True)
        for words in (["restore", saved], ["restore", saved, "--dry-run"], ["restore", saved, "docs"]):
            error = _refused(repo, *words)
            assert error["kind"] == "storage"
            assert "'docs/guide.md' cannot be changed: it is on a read-only file system" in error["message"]
        assert_unchanged(before, complete_state(repo.path, strict=True), "a refused restore changed something")
        done = run(repo.path, "worktree", "create", "dev-1")
        assert done.code == 0, str(done)
        done = run(repo.path, "restore", "latest")  # there is nothing to write
        assert done.code == 0, str(done)
    assert spelt(repo) == files


def test_a_part_of_a_worktree(repo: Repo, saved: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other part can be restored by its paths."""
    monkeypatch.chdir(repo.path)
    with read_only(repo.path / "docs"):
        before = complete_state(repo.path, strict=True)
        for words in (["restore", saved], ["restore", saved, "--dry-run"], ["restore", saved, "docs/untracked.md"]):
            done = cli("--json", *words)
            assert done.code == 1
            error = done.json["error"]
            assert (error["kind"], "read-only" in error["message"]) == ("storage", True)
            assert error["hint"] == "make it writable, or leave it out; nothing was changed"
        assert_unchanged(before, complete_state(repo.path, strict=True), "a refused restore changed something")
        ok(cli("restore", saved, "readme.txt"))
        assert (repo.read("readme.txt"), repo.read("docs/guide.md")) == (b"then\n", b"now\n")
        ok(cli("undo"))
        ok(cli("checkpoint"))
        repo.write("src/app.py", "more\n")
        ok(cli("restore", "latest"))
    ok(cli("restore", saved))
    assert repo.read("docs/untracked.md") == b"then\n"


def test_a_part_of_worktrees_of_agents(repo: Repo, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge, a rollback and an archive that would change it are refused, and change nothing."""
    monkeypatch.chdir(repo.path)
    ok(cli("worktree", "create", "dev-1"))
    dev = Repo(repo.path.parent / "repo.worktrees/dev-1")
    dev.write("docs/guide.md", "work\n")
    dev.write("readme.txt", "work\n")
    dev.commit("work")
    before = complete_state(repo.path, strict=True)
    with read_only(repo.path / "docs"):
        done = cli("worktree", "merge", "dev-1")
        assert done.code == 1 and "read-only file system" in done.talk.lower(), done.talk
        assert_unchanged(before, complete_state(repo.path, strict=True), "a refused merge changed something")
    ok(cli("run", "start", "--id", "one", "--agent", "echo 1 >docs/guide.md", "--validate", "true"))
    worker = Repo(repo.path.parent / "repo.worktrees/run-one")
    with read_only(worker.path / "docs"):
        done = cli("rollback", "one")
        assert done.code == 1 and "'docs/guide.md' cannot be changed" in done.talk, done.talk
        done = cli("worktree", "archive", "run-one")
        assert done.code == 1 and "a file system is mounted inside" in done.talk, done.talk
    assert worker.read("docs/guide.md") == b"1\n"
    ok(cli("rollback", "one"))
    assert worker.read("docs/guide.md") != b"1\n"
    ok(cli("worktree", "merge", "dev-1"))
    assert repo.read("docs/guide.md") == b"work\n"
    assert not [name for name in os.listdir(repo.path / ".git") if name.endswith(".lock")]
