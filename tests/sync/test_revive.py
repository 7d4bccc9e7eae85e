"""An agent's worktree goes on on another machine: as it was, with its log and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.dirty import make_dirty
from tests.support.operations import OPERATIONS
from tests.support.refusal import assert_refused
from tests.support.remotes import clone, refs_on, sync
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok


@pytest.fixture
def agent(repo: Repo, shared: Path) -> Repo:
    """The worktree of an agent, `dev-1`, in `repo`."""
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard", "--task", "T-1")["path"]))
    made.write(".gitignore", "*.ignored\n")
    return made


def revive(there: Repo, *words: str) -> Repo:
    sync(there)
    return Repo(Path(run_ok(there.path, "worktree", "create", "dev-1", "--revive", "--host", "desk", *words)["path"]))


def log_of(where: Repo) -> list[tuple[str, str]]:
    rows = run_ok(where.path, "log", "list")["entries"]
    return [(each["id"], each["summary"]) for each in rows]


def records(where: Repo) -> dict[str, Any]:
    found = run_ok(where.path, "worktree", "show", "dev-1")
    return {key: found[key] for key in ("task", "base_sha", "branch")}


def test_a_worktree_in_which_an_agent_works(repo: Repo, agent: Repo, shared: Path, tmp_path: Path) -> None:
    make_dirty(agent)
    agent.mkdir("empty")
    run_ok(agent.path, "log", "add", "decision", "use sqlite")
    run_ok(agent.path, "memory", "artifact", "--type", "plan", "--path", "plan.md", "--description", "the plan")
    before = complete_state(agent.path)
    last = run_ok(agent.path, "checkpoint", "-m", "to go on with")["id"]
    sync(repo, "--all")

    there = clone(tmp_path, shared, "lap")
    made = revive(there)
    assert_same(before, complete_state(made.path), "the revived worktree")
    assert records(made) == records(agent)
    known = dict(log_of(agent))
    assert known.items() <= dict(log_of(made)).items()
    assert "use sqlite" in known.values()
    memory = run_ok(agent.path, "memory", "list")["items"]
    assert [each["id"] for each in run_ok(made.path, "memory", "list")["items"]] == [each["id"] for each in memory]

    # What came with it is in its own checkpoints from now on.
    made.write("more", "work\n")
    run_ok(made.path, "checkpoint", "-m", "on the other machine")
    (made.path / ".agentos").rename(tmp_path / "lost")
    assert known.items() <= dict(log_of(made)).items()

    # Both go on: neither loses anything.
    agent.write("other", "work\n")
    run_ok(agent.path, "checkpoint", "-m", "here")
    sync(there, "--all")
    sync(repo, "--all")
    assert sorted(refs_on(shared)) == ["desk/timelines/dev-1", "lap/timelines/dev-1"]
    assert last in [each["id"] for each in run_ok(agent.path, "checkpoint", "list")["checkpoints"]]
    ours = run_ok(repo.path, "checkpoint", "list", "--host", "lap", "--agent", "dev-1")["checkpoints"]
    assert ours[0]["description"] == "on the other machine"


@pytest.mark.parametrize("operation", OPERATIONS[:4], ids=lambda each: each.name)
def test_an_operation_goes_on(operation: Any, repo: Repo, shared: Path, tmp_path: Path) -> None:
    agent = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard")["path"]))
    repo.git("checkout", "-q", "--detach")  # the operation is begun on `main`
    operation.start(agent)
    before = complete_state(agent.path)
    run_ok(agent.path, "checkpoint")
    sync(repo, "--all")
    made = revive(clone(tmp_path, shared, "lap"))
    assert_same(before, complete_state(made.path), "the revived worktree", branch="any")
    operation.finish(made)


def test_a_nested_repository_with_changes(agent: Repo, repo: Repo, shared: Path, tmp_path: Path) -> None:
    inner = Repo.init(agent.path / "inner")
    inner.write("file", "one\n")
    inner.commit("one")
    inner.write("file", "changed\n")
    inner.write("untracked", "new\n")
    before = complete_state(agent.path)
    run_ok(agent.path, "checkpoint")
    sync(repo, "--all")
    made = revive(clone(tmp_path, shared, "lap"))
    assert_same(before, complete_state(made.path), "the revived worktree")


def test_one_that_was_archived(agent: Repo, repo: Repo, shared: Path, tmp_path: Path) -> None:
    make_dirty(agent)
    run_ok(agent.path, "log", "add", "decision", "archived decision")
    before = complete_state(agent.path)
    run_ok(repo.path, "worktree", "archive", "dev-1")
    sync(repo, "--all")
    made = revive(clone(tmp_path, shared, "lap"))
    assert_same(before, complete_state(made.path), "the revived worktree")
    assert "archived decision" in dict(log_of(made)).values()


def test_the_state_after_a_restore(agent: Repo, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """The newest checkpoint is then the one before the restore; what was restored is what comes."""
    agent.write("work", "one\n")
    first = run_ok(agent.path, "checkpoint")["id"]
    agent.write("work", "two\n")
    run_ok(agent.path, "restore", first, "--no-branch")
    before = complete_state(agent.path)
    sync(repo, "--all")
    made = revive(clone(tmp_path, shared, "lap"))
    assert_same(before, complete_state(made.path), "the revived worktree")


def test_what_it_needs_was_not_pushed(agent: Repo, repo: Repo, shared: Path, tmp_path: Path) -> None:
    agent.write("work", "one\n")
    first = run_ok(agent.path, "checkpoint")["id"]
    agent.write("work", "two\n")
    run_ok(agent.path, "restore", first, "--no-branch")
    sync(repo, "--all", "--last", "1")
    there = clone(tmp_path, shared, "lap")
    sync(there)
    words = ("worktree", "create", "dev-1", "--revive", "--host", "desk")
    assert_refused(there.path, *words, mentions="which its host has not pushed", keeps=there.path)


def test_words_that_do_not_fit(agent: Repo, repo: Repo, shared: Path, tmp_path: Path) -> None:
    run_ok(agent.path, "checkpoint")
    sync(repo, "--all")
    there = clone(tmp_path, shared, "lap")
    assert_refused(there.path, "worktree", "create", "x", "--host", "desk", code=2, mentions="--host is for --revive")
    words = ("worktree", "create", "dev-1", "--revive", "--host")
    assert_refused(there.path, *words, "desk", mentions="no timeline of a host 'desk' was fetched")
    sync(there)
    assert_refused(
        there.path, "worktree", "create", "dev-2", "--revive", "--host", "desk", mentions="no timeline 'dev-2'"
    )
    assert_refused(there.path, *words, "", mentions="no timeline of a host ''")
    run_ok(there.path, *words, "de")
    assert_refused(there.path, *words, "desk", mentions="there is a worktree 'dev-1' already")


def test_restored_into_a_worktree_of_its_own(repo: Repo, shared: Path, tmp_path: Path) -> None:
    make_dirty(repo)
    before = complete_state(repo.path)
    run_ok(repo.path, "checkpoint")
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    made = run_ok(there.path, "restore", "latest", "--worktree", "look", "--host", "desk")
    assert_same(before, complete_state(made["worktree_path"]), "the new worktree", branch="ignore")
    assert run(there.path, "worktree", "show", "look").code == 0
