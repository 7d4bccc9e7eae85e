"""`git agentos pick` where the guard is on: it is what an agent is told to do instead of `git cherry-pick`."""

from __future__ import annotations

from pathlib import Path

from git_agentos.git import user_hooks
from tests.support.guard.guarded_worktree import guarded, location, sh
from tests.support.repo import Repo
from tests.support.tool import run, run_ok


def test_a_pick_is_let_through_and_a_cherry_pick_is_not(repo: Repo) -> None:
    agent = guarded(repo, base="main~1")
    head = agent.oid()
    assert sh(agent, "git cherry-pick other").code != 0
    assert agent.oid() == head
    done = run_ok(agent.path, "pick", "other")
    assert (done["state"], done["picked"]) == ("done", [agent.oid()])
    assert agent.oid("HEAD~1") == head


def test_a_conflict_goes_on_and_back(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "topic", "main~1")
    repo.write("notes.txt", "topic\n")
    repo.commit("topic")
    repo.git("checkout", "-q", "main")
    agent = guarded(repo)
    agent.write("notes.txt", "agent\n")
    agent.commit("agent")
    head = agent.oid()
    assert run(agent.path, "pick", "topic").code == 4
    assert run(agent.path, "pick", "--abort").code == 0
    assert (agent.oid(), agent.git("status", "--porcelain")) == (head, b"")
    assert run(agent.path, "pick", "topic").code == 4
    agent.write("notes.txt", "both\n")
    agent.git("add", "notes.txt")
    assert run(agent.path, "pick", "--continue").code == 0
    assert agent.oid("HEAD~1") == head
    assert agent.read("notes.txt") == b"both\n"


def test_the_users_hooks_run_and_ours_do_not(repo: Repo) -> None:
    mine = Path(location(repo).common_dir, "hooks", "post-commit")
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("#!/bin/sh\necho ran >>../ran\n")
    mine.chmod(0o755)
    agent = guarded(repo, base="main~1")
    run_ok(agent.path, "pick", "other")
    assert (agent.path.parent / "ran").read_text() == "ran\n"


def test_users_hooks_behind_the_guard_are_found(repo: Repo) -> None:
    assert user_hooks.options(location(repo)) == []
    agent = guarded(repo)
    here = location(agent)
    own = f"{here.common_dir}/hooks"
    assert user_hooks.options(here) == ["-c", f"core.hooksPath={own}", "-c", "core.fsmonitor=false"]
    repo.git("config", "core.hooksPath", ".husky/_")
    repo.git("config", "core.fsmonitor", "watch me")
    repo.git("config", "core.fsmonitorHookVersion", "1")
    assert user_hooks.options(here) == [
        "-c", f"core.hooksPath={here.root}/.husky/_", "-c", "core.fsmonitor=watch me",
        "-c", "core.fsmonitorHookVersion=1",
    ]  # fmt: skip
    repo.git("config", "core.fsmonitor", "yes")
    assert user_hooks.options(here)[2:] == ["-c", "core.fsmonitor=true", "-c", "core.fsmonitorHookVersion=1"][:2]
