"""Checkpoints are forgotten while many processes create some: none of theirs is lost, and nothing is broken."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.git import object_removal
from git_agentos.git.object_removal import Care, Removed
from git_agentos.git.repository import Repository
from git_agentos.retention import forgetting
from git_agentos.retention.forgetting import Request
from git_agentos.util.progress import SILENT
from tests.support.concurrent_processes import (
    assert_restorable,
    assert_timeline,
    assert_whole,
    git_retrying,
    in_background,
    workers,
)
from tests.support.forgotten import objects, take, timeline
from tests.support.repo import Repo
from tests.support.tool import run_ok

pytestmark = pytest.mark.slow


def test_32_processes_lose_none(repo: Repo) -> None:
    repo.write("untracked.txt", "untracked\n")
    repo.append("notes.txt", "unstaged\n")
    old = take(repo, 40)
    forgotten: list[str] = []

    def forget(number: int) -> None:
        words = old[2 * number : 2 * number + 2]
        if words:
            forgotten.extend(run_ok(repo.path, "forget", *words)["forgotten"])

    def add(number: int) -> None:
        repo.git("-C", str(repo.path), "hash-object", "-w", "--stdin", stdin=b"%d" % number)
        (repo.scratch / "added").mkdir(exist_ok=True)
        git_retrying(repo.path, "update-index", "--add", "--cacheinfo", f"100644,{repo.oid(':notes.txt')},x{number}")

    with workers() as people:
        for _ in range(32):
            people.add("checkpoint", repo.path, 2)
        people.begin()
        with in_background(forget, add) as failures:
            turns = people.finish()
    assert failures == []
    assert [turn.error for each in turns for turn in each if turn.error] == []
    ids = [turn.id for each in turns for turn in each if turn.id]
    assert len(ids) == 64
    assert forgotten, "nothing was forgotten meanwhile"
    assert set(timeline(repo)) == {*ids, *old} - set(forgotten)
    assert_timeline(repo.path, "main", ids)
    assert_whole(repo.path)
    run_ok(repo.path, "forget", "--keep-last", "99")  # deletes what an index that was being written has kept
    assert not set(forgotten) & objects(repo)
    assert_restorable(repo.path, ids[::13])


def test_objects_that_checkpoints_share_with_forgotten_ones(repo: Repo) -> None:
    """Contents come back that only a forgotten checkpoint had, while its objects are being deleted."""
    old = take(repo, 6)
    last = take(repo, 1, first=7)

    def forget(number: int) -> None:
        found = [each for each in timeline(repo) if each not in kept]
        if len(found) > 2:
            run_ok(repo.path, "forget", *found[:-2])

    kept: set[str] = set()
    with in_background(forget) as failures:
        for number in range(30):
            again = take(repo, 1, first=number % 6, trigger="manual" if number % 10 == 9 else "periodic")
            if number % 10 == 9:
                kept.update(again)
    assert failures == []
    assert len(kept) == 3
    assert kept <= set(timeline(repo))
    assert not {*old, *last} & set(timeline(repo))
    repo.git("fsck", "--strict", "--no-dangling", "--full")
    assert_restorable(repo.path, sorted(kept))


def test_a_checkpoint_waits_while_objects_are_deleted_that_it_needs(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found them in the store already; it writes them again before the timeline moves to it."""
    old = take(repo, 4)
    remove = object_removal.remove
    with ThreadPoolExecutor(1) as pool:
        taken = []

        def late(repository: Repository, oids: Collection[str], care: Care, progress: Any = SILENT) -> Removed:
            taken.append(pool.submit(take, repo, 1, first=1))  # the contents of the second
            time.sleep(2)
            assert not taken[0].done()
            assert timeline(repo) == old[2:]
            return remove(repository, oids, care, progress)

        monkeypatch.setattr(object_removal, "remove", late)
        forgetting.forget(open_workspace(repo.path).context, Request(["main"], old[:2]))
        (again,) = taken[0].result()
    assert timeline(repo) == [*old[2:], again]
    repo.git("fsck", "--strict", "--no-dangling", "--full")
    assert_restorable(repo.path, [again])
