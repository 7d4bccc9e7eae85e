"""Restores beside other restores and beside checkpoints, and checkpoints of files that never hold still."""

from __future__ import annotations

import time

import pytest

from tests.support.concurrent_processes import assert_restorable, assert_timeline, assert_whole, workers
from tests.support.concurrent_worker import consistent, is_consistent
from tests.support.repo import Repo, git, git_run
from tests.support.state import State, assert_same, complete_state
from tests.support.tool import IN_PROCESS

pytestmark = pytest.mark.slow


def _two_states(repo: Repo) -> dict[str, State]:
    """Two checkpoints that differ in HEAD, index, tracked and untracked files; id to state."""
    states = {}
    for name in ("main", "other"):
        repo.git("checkout", "-q", "-f", name)
        repo.git("clean", "-qffdx")
        for number in range(12):
            repo.write(f"tracked/{number}", f"staged on {name}\n")
        repo.git("add", "-A")
        for number in range(12):
            repo.write(f"tracked/{number}", f"unstaged on {name}\n")
            repo.write(f"untracked {name}/{number}", f"untracked on {name}\n")
        state = complete_state(repo.path)
        states[str(IN_PROCESS.checkpoint(repo.path)["id"])] = state
    return states


def test_checkpoints_while_another_process_restores(repo: Repo) -> None:
    """Each checkpoint holds one state or the other, never something between."""
    states = _two_states(repo)
    with workers() as people:
        people.add("restore", repo.path, 10, *states)
        for _ in range(3):
            people.add("checkpoint", repo.path, 10)
        people.begin()
        restores, *checkpoints = people.finish()
    assert [turn.error for turn in restores if turn.error] == []
    assert [turn.error for each in checkpoints for turn in each if turn.error] == []
    ids = [turn.id for each in checkpoints for turn in each if turn.id]
    assert len(ids) == 30
    assert_timeline(repo.path, "main", ids)
    assert_whole(repo.path)
    fingerprints = {_fingerprint(repo, oid) for oid in states}
    for oid in ids:
        assert _fingerprint(repo, oid) in fingerprints, f"{oid} was taken in the middle of a restore"


def _fingerprint(repo: Repo, oid: str) -> tuple[bytes, ...]:
    """HEAD's commit, and the trees of worktree, index and untracked files."""
    return tuple(
        git(repo.path, "rev-parse", f"{oid}^1", f"{oid}^{{tree}}", f"{oid}^2^{{tree}}", f"{oid}^3^{{tree}}").split()
    )


def test_two_restores_at_once(repo: Repo) -> None:
    """One after the other, or one of them refused: the end is the state of one that was reported as done."""
    states = _two_states(repo)
    with workers() as people:
        for oid in states:
            people.add("restore", repo.path, 5, oid)
        people.begin()
        turns = people.finish()
    done = {turn.id for each in turns for turn in each if turn.id}
    assert done
    for turn in (turn for each in turns for turn in each):
        assert turn.error is None or "git process is at work" in turn.error, turn.error
    now = complete_state(repo.path)
    ends = [state for oid, state in states.items() if oid in done and state.head.oid == now.head.oid]
    assert len(ends) == 1, now.head
    assert_same(ends[0], now, "the end is neither the one nor the other", branch="any")
    assert not (repo.git_dir / "agentos" / "journal.json").exists()
    assert_whole(repo.path)
    for oid, state in states.items():
        IN_PROCESS.restore(repo.path, oid)
        assert_same(state, complete_state(repo.path), "restored afterwards", branch="any")


@pytest.mark.parametrize(
    ("tracked", "size"),
    [(True, 1 << 20), (False, 1 << 20), (False, 6_000_000), (False, 10_000_000)],
    ids=["tracked", "untracked", "large", "streamed"],
)
def test_files_that_are_written_all_the_time_are_never_torn(repo: Repo, tracked: bool, size: int) -> None:
    """What a checkpoint holds is whole, or named in `skipped`. A write that is as long as the reading is the test."""
    names = [f"busy/{number}" for number in range(3)]
    for name in names:
        repo.write(name, consistent(0, size))
    if tracked:
        repo.git("add", "busy")
        repo.git("commit", "-q", "-m", "busy")
    with workers() as people:
        people.add("write", repo.path / "busy", size)
        people.begin()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            done = IN_PROCESS.checkpoint(repo.path)
            skipped = {item["path"] for item in done["skipped"]}
            for name in names:
                if name in skipped:
                    continue
                source = f"{done['id']}:{name}" if tracked else f"{done['id']}^3:{name}"
                data = git(repo.path, "cat-file", "blob", source)
                assert is_consistent(data), f"{name} is torn in {done['id']} and not named in `skipped`"
    assert_whole(repo.path)


def test_a_commit_waits_for_no_checkpoint(repo: Repo) -> None:
    """Checkpoints take no lock of git's: a commit beside them never fails."""
    with workers() as people:
        for _ in range(4):
            people.add("checkpoint", repo.path, 8)
        people.begin()
        for number in range(25):
            repo.write("busy.txt", f"{number}\n")
            done = git_run(repo.path, "add", "busy.txt")
            assert done.returncode == 0, done.stderr
            done = git_run(repo.path, "commit", "-q", "-m", f"{number}")
            assert done.returncode == 0, done.stderr
        turns = people.finish()
    assert [turn.error for each in turns for turn in each if turn.error] == []
    ids = [turn.id for each in turns for turn in each if turn.id]
    assert_timeline(repo.path, "main", ids)
    assert_whole(repo.path)
    assert_restorable(repo.path, ids[::11])
