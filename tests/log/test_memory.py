"""The working memory: artifacts and merges, carried and read as the log is."""

from __future__ import annotations

import json
import os

import pytest

from git_agentos import log, memory, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import CheckpointNotFound, UsageError
from tests.support.agents import agent_worktree
from tests.support.repo import Repo
from tests.support.tool import run, run_ok


def context_of(repo: Repo, who: str | None = None) -> OpenWorktree:
    return open_workspace(repo.path, agent=who).context


def test_an_artifact(repo: Repo) -> None:
    first = memory.artifact(context_of(repo), type="doc", path=os.fsdecode(b"bad\xff"), description="the plan")
    assert (first.commit, first.checkpoint_id, first.worktree) == (repo.oid(), None, "main")
    checkpoint = open_workspace(repo.path).checkpoint("c")
    second = memory.artifact(context_of(repo, "dev-1"), type="code", path="x.py", description="password=hunter2")
    assert (second.checkpoint_id, second.created_by) == (checkpoint.id, "dev-1")
    assert second.description == "password=[redacted]"
    assert memory.items(context_of(repo)) == [second, first]
    assert memory.items(context_of(repo), agent="dev-1") == [second]
    lines = repo.git("cat-file", "blob", f"{checkpoint.id}^4:memory.jsonl").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [first.id]
    with pytest.raises(UsageError):
        memory.artifact(context_of(repo), type="", path="x", description="d")


def test_before_the_first_commit(empty_repo: Repo) -> None:
    made = memory.artifact(context_of(empty_repo), type="t", path="p", description="d")
    assert (made.commit, made.checkpoint_id) == (None, None)


def test_a_merge_names_all_checkpoints_that_contributed(repo: Repo) -> None:
    made: dict[str, list[str]] = {}
    for name in ("one", "two"):
        place = agent_worktree(repo, name)
        made[name] = [open_workspace(place.path).checkpoint(f"{name} {n}").id for n in range(3)]
    item = memory.merge(context_of(repo), "main", ["one", "two"], "HEAD")
    assert (item.target, item.sources, item.commit) == ("main", ["one", "two"], repo.oid())
    assert {each.worktree: each.checkpoints for each in item.contributions} == made
    later = open_workspace(repo.path.parent / "repo.worktrees" / "one").checkpoint("later").id
    again = memory.merge(context_of(repo), "main", ["one"], repo.oid())
    assert [(each.worktree, each.checkpoints) for each in again.contributions] == [("one", [later])]
    elsewhere = memory.merge(context_of(repo), "release", ["one"], "HEAD")
    assert elsewhere.contributions[0].checkpoints == [*made["one"], later]
    with pytest.raises(CheckpointNotFound, match="'nobody'"):
        memory.merge(context_of(repo), "main", ["nobody"], "HEAD")
    with pytest.raises(UsageError):
        memory.merge(context_of(repo), "main", ["one"], "nonsense")


def test_memory_outlives_its_worktree(repo: Repo) -> None:
    place = agent_worktree(repo, "dev")
    first = memory.artifact(context_of(place), type="t", path="p", description="carried")
    open_workspace(place.path).checkpoint("c")
    memory.artifact(context_of(place), type="t", path="p", description="not saved by any checkpoint")
    place.remove(".agentos")
    assert log.rebuild(context_of(place)).items == 1
    assert memory.items(context_of(place)) == [first]
    repo.git("worktree", "remove", "--force", str(place.path))
    assert memory.items(context_of(repo)) == []
    assert memory.items(context_of(repo), every=True) == [first]
    assert memory.items(context_of(repo), agent="dev") == [first]
    with pytest.raises(CheckpointNotFound):
        memory.items(context_of(repo), agent="nobody")


def test_the_commands(repo: Repo) -> None:
    place = agent_worktree(repo, "dev")
    open_workspace(place.path).checkpoint("c")
    made = run_ok(repo.path, "memory", "artifact", "--type", "code", "--path", "src/app.py", "--description", "the app")
    assert (made["schema"], made["kind"], made["path"]) == ("agentos.memory-item.v1", "artifact", "src/app.py")
    merged = run_ok(repo.path, "memory", "merge", "--target", "main", "--source", "dev", "--commit", "HEAD")
    assert len(merged["contributions"][0]["checkpoints"]) == 1
    two = run_ok(repo.path, "memory", "merge", "--target", "other", "--source", "dev", "dev", "--commit", "HEAD")
    assert two["sources"] == ["dev"]
    listed = run_ok(repo.path, "memory", "list")
    assert listed["schema"] == "agentos.memory-list.v1"
    assert [item["id"] for item in listed["items"]] == [two["id"], merged["id"], made["id"]]
    assert run(repo.path, "memory", "artifact", "--type", "code").code == 2
    assert run(repo.path, "memory", "merge", "--target", "main").code == 2
    assert run(repo.path, "memory").code == 2
