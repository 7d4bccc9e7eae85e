"""Where a file that a program has open is not replaced by a rename (SMB): restores and git's files."""

from __future__ import annotations

import threading
import time

import pytest

from git_agentos.util import files
from tests.support.command_line import Cli
from tests.support.filesystems import MakeRepo, ok, spelt
from tests.support.repo import Repo


@pytest.fixture(params=["busy", "share"])
def repo(request: pytest.FixtureRequest, repo_on: MakeRepo) -> Repo:
    repo = repo_on(request.param)
    repo.write("a.txt", "one\n")
    repo.write("b.txt", "one\n")
    repo.commit("first")
    return repo


def test_a_file_that_is_open_is_restored(repo: Repo, cli: Cli) -> None:
    """It is removed, as git does it, where it cannot be replaced."""
    repo.write("a.txt", "then\n")
    ok(cli("checkpoint"))
    repo.write("a.txt", "now\n")
    with open(repo.at("a.txt"), "rb"):
        ok(cli("restore", "latest", "--no-branch"))
        assert repo.read("a.txt") == b"then\n"
    ok(cli("undo"))
    assert repo.read("a.txt") == b"now\n"


def test_files_of_git_that_are_read_meanwhile(repo: Repo, cli: Cli) -> None:
    """Readers have the index, refs and our records open for a moment: that is waited for."""
    repo.write("a.txt", "then\n")
    repo.git("add", "a.txt")
    ok(cli("checkpoint"))
    stop = threading.Event()
    names = [".git/index", ".git/HEAD", ".git/refs/heads/main", ".git/refs/agentos/timelines/main"]

    def read() -> None:
        while not stop.is_set():
            for name in names:
                if repo.exists(name):
                    with open(repo.at(name), "rb"):
                        time.sleep(0.005)
                time.sleep(0.01)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(3):
            repo.write("a.txt", f"{number}\n")
            repo.write("b.txt", f"{number}\n")
            before = spelt(repo)
            ok(cli("checkpoint"))
            repo.write("b.txt", "wrecked\n")
            ok(cli("restore", "latest"))
            assert spelt(repo) == before
    finally:
        stop.set()
        reader.join()
    repo.git("fsck", "--strict")


def test_a_record_that_stays_open(repo: Repo) -> None:
    """It is not replaced, and keeps its content; nothing is left beside it."""
    repo.write("record", "old\n")
    with open(repo.at("record"), "rb"), pytest.raises(OSError, match="busy"):
        files.replace(str(repo.path / "record"), b"new\n")
    assert repo.read("record") == b"old\n"
    assert sorted(spelt(repo)) == ["a.txt", "b.txt", "record"]
    files.replace(str(repo.path / "record"), b"new\n")
    assert repo.read("record") == b"new\n"
