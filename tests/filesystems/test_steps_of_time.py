"""Times in steps of two seconds: what changes twice in one step looks the same, and is saved nevertheless."""

from __future__ import annotations

import os
import time

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import locate
from git_agentos.guard.enforcement import unchanged
from git_agentos.run import baseline
from git_agentos.util import file_times
from git_agentos.worktree import losses
from tests.support.command_line import Cli
from tests.support.filesystems import MakeRepo, ok
from tests.support.repo import Repo


@pytest.fixture
def repo(repo_on: MakeRepo) -> Repo:
    repo = repo_on("coarse")
    repo.write("tracked", "one\n")
    repo.commit("first")
    return repo


def _begin_a_step() -> None:
    """Wait until little of a step has passed."""
    while time.time() % 2 > 0.2:
        time.sleep(0.02)


def _look_the_same(repo: Repo, name: str, data: str) -> None:
    """Change a file, so that only its content shows it."""
    before = os.lstat(repo.at(name))
    repo.write(name, data)
    after = os.lstat(repo.at(name))
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_size) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_size,
    ), "the step was over"


@pytest.mark.parametrize("name", ["tracked", "untracked"])
def test_a_file_that_changes_in_the_step_of_the_index(repo: Repo, cli: Cli, name: str) -> None:
    _begin_a_step()
    repo.write(name, "two\n")
    repo.git("add", "tracked")
    first = cli("checkpoint", "--json").json["id"]
    _look_the_same(repo, name, "six\n")
    ok(cli("checkpoint"))
    repo.write(name, "wrecked\n")
    ok(cli("restore", "latest", "--no-branch"))
    assert repo.read(name) == b"six\n"
    ok(cli("restore", first, "--no-branch"))
    assert repo.read(name) == b"two\n"


def test_a_restored_file_that_changes_at_once(repo: Repo, cli: Cli) -> None:
    repo.write("tracked", "two\n")
    ok(cli("checkpoint"))
    repo.git("checkout", "-q", "--", "tracked")
    _begin_a_step()
    ok(cli("restore", "latest", "--no-branch"))
    repo.write("tracked", "six\n")
    assert repo.git("--no-optional-locks", "status", "--porcelain") == b" M tracked\n"
    ok(cli("checkpoint"))
    repo.git("checkout", "-q", "--", "tracked")
    ok(cli("restore", "latest", "--no-branch"))
    assert repo.read("tracked") == b"six\n"


def test_the_guard_saves_a_file_again(repo: Repo) -> None:
    """A state counts as saved only if it cannot have changed since, and look the same."""
    location = locate(str(repo.path))
    time.sleep(2.6)
    repo.write("steady", "one\n")
    time.sleep(2.6)
    assert unchanged.digest_of(location) != ""
    _begin_a_step()
    repo.write("steady", "two\n")
    time.sleep(0.1)
    assert unchanged.digest_of(location) == ""


def test_a_rollback_finds_what_changed_in_the_step_of_the_baseline(repo: Repo) -> None:
    _begin_a_step()
    repo.write("tracked", "two\n")
    repo.git("add", "tracked")
    inner = open_workspace(str(repo.path)).context
    baseline.record(inner)
    _look_the_same(repo, "tracked", "six\n")
    found = baseline.compare(inner.location, baseline.read(inner.location))
    assert found.touched is None or b"tracked" in found.touched


def test_a_removal_tells_earlier_changes_from_later_ones(repo: Repo) -> None:
    repo.write("untracked", "earlier\n")
    moment = file_times.moment_between_changes(str(repo.path))
    assert losses.changed_since(str(repo.path), moment) is None
    repo.write("untracked", "later\n")
    assert losses.changed_since(str(repo.path), moment) == "untracked"
