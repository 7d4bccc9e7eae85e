"""Pushing without a command, as `agentos.sync.auto` says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from git_agentos.git.location import locate
from git_agentos.watch.pushing import Pushing
from tests.support.remotes import refs_on
from tests.support.repo import Repo
from tests.support.tool import Result, run, run_ok


@pytest.fixture
def agent(repo: Repo, shared: Path) -> Repo:
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard")["path"]))
    made.write("work", "done\n")
    return made


def complete(where: Repo) -> Result:
    done = run(where.path, "worktree", "complete", "dev-1")
    assert done.code == 0, str(done)
    return done


def test_off_is_the_default(repo: Repo, agent: Repo, shared: Path) -> None:
    assert b"the timeline of" not in complete(repo).err
    assert refs_on(shared) == {}


@pytest.mark.parametrize("value", ["complete", "periodic"])
def test_a_worktree_that_is_complete(value: str, repo: Repo, agent: Repo, shared: Path) -> None:
    repo.config("agentos.sync.auto", value)
    assert b"the timeline of" not in complete(repo).err
    assert refs_on(shared) == {"desk/timelines/dev-1": repo.oid("refs/agentos/timelines/dev-1")}


def test_what_goes_wrong_is_a_warning(repo: Repo, agent: Repo, shared: Path) -> None:
    repo.config("agentos.sync.auto", "complete")
    shared.rename(shared.with_name("gone"))
    assert b"the timeline of 'dev-1' was not pushed" in complete(repo).err
    repo.config("agentos.sync.auto", "sometimes")
    assert b"bad value 'sometimes'" in complete(repo).err


def test_an_agent_has_it_done_only_where_it_may_push(repo: Repo, agent: Repo, shared: Path) -> None:
    repo.config("agentos.sync.auto", "complete")
    assert b"agents push only with an approval" in complete(agent).err
    assert refs_on(shared) == {}
    assert run_ok(repo.path, "approvals", "list")["approvals"] == []


def test_no_worktree_and_no_command_line_switches_it_on(repo: Repo, agent: Repo, shared: Path) -> None:
    """What an agent can set is not what the user wants."""
    agent.git("config", "extensions.worktreeConfig", "true")
    agent.git("config", "--worktree", "agentos.sync.auto", "complete")
    assert b"which is not your own configuration" in complete(repo).err
    agent.git("config", "--worktree", "--unset", "agentos.sync.auto")
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "agentos.sync.auto", "GIT_CONFIG_VALUE_0": "complete"}
    done = run(repo.path, "worktree", "complete", "dev-1", env=given)
    assert b"which is not your own configuration" in done.err
    assert refs_on(shared) == {}


class Direct:
    """Does at once what the daemon lets a child do."""

    def __init__(self) -> None:
        self.count = 0

    def start(self, argv: Sequence[str], failed: Callable[[str], None]) -> bool:
        self.count += 1
        done = subprocess.run([sys.executable, "-m", "git_agentos", *argv], capture_output=True, check=False)
        if done.returncode != 0:
            failed(done.stderr.decode())
        return True


def test_from_time_to_time(repo: Repo, shared: Path) -> None:
    """If a timeline has moved, and again if it failed."""
    repo.config("agentos.sync.auto", "periodic")
    run_ok(repo.path, "checkpoint", "-m", "first")
    said: list[str] = []
    service = Direct()
    pushing = Pushing(service, said.append, every=0.0)  # type: ignore[arg-type]  # what it uses of a service
    main = locate(str(repo.path))
    pushing.turn(main)
    pushing.turn(main)
    assert (service.count, said) == (1, [])
    assert list(refs_on(shared)) == ["desk/timelines/main"]
    repo.write("notes.txt", "changed\n")
    run_ok(repo.path, "checkpoint", "-m", "second")
    shared.rename(shared.with_name("gone"))
    pushing.turn(main)
    assert service.count == 2
    assert said[0].startswith("not all timelines were pushed: ")
    shared.with_name("gone").rename(shared)
    pushing.turn(main)
    assert refs_on(shared) == {"desk/timelines/main": repo.oid("refs/agentos/timelines/main")}


@pytest.mark.parametrize("value", ["off", "complete", "sometimes"])
def test_the_daemon_pushes_nothing_else(value: str, repo: Repo, shared: Path) -> None:
    repo.config("agentos.sync.auto", value)
    run_ok(repo.path, "checkpoint", "-m", "first")
    service = Direct()
    pushing = Pushing(service, lambda _: None, every=0.0)  # type: ignore[arg-type]  # what it uses of a service
    pushing.turn(locate(str(repo.path)))
    assert (service.count, refs_on(shared)) == (0, {})
