"""A `sync` that is killed at any step: the next one completes it, and nothing is lost, here or on the remote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import at_rest
from tests.support.age import Key, decrypt_with, encrypt_to
from tests.support.faults.remote_cases import Case, assert_sound_after
from tests.support.faults.server import Runner
from tests.support.remotes import clone, refs_on, sync
from tests.support.repo import Repo, git
from tests.support.tool import run_ok


def tips_are_whole(shared: Path) -> None:
    git(shared, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")


def save(repo: Repo, text: str) -> str:
    repo.write("notes.txt", text)
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


@pytest.mark.slow
def test_a_push(runner: Runner, repo: Repo, shared: Path) -> None:
    save(repo, "a")
    sync(repo)
    save(repo, "b")
    save(repo, "c")
    tip = repo.oid("refs/agentos/timelines/main")
    case = Case(repo, shared, "sync", "--all")
    for what in case.killed(runner):
        tips_are_whole(shared)
        runner.run_ok(repo.path, "sync", "--all")
        assert refs_on(shared) == {"desk/timelines/main": tip}, what
        assert repo.oid("refs/agentos/remotes/origin/desk/timelines/main") == tip, what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_a_new_generation(runner: Runner, repo: Repo, shared: Path) -> None:
    """At any moment the remote has all that is left of the timeline, in one of both generations."""
    save(repo, "a")
    kept = [save(repo, "b"), save(repo, "c")]
    sync(repo)
    tip = repo.oid("refs/agentos/timelines/main")
    made = repo.oid(f"{tip}~3")
    for commit, oid in zip((f"{tip}~1", tip), kept, strict=True):
        made = repo.text(
            "commit-tree", f"{commit}^{{tree}}", "-p", made, "-p", oid, "-m", "x\n\nAgentos-Worktree: main"
        )
    repo.git("update-ref", "refs/agentos/timelines/main", made)
    case = Case(repo, shared, "sync")
    for what in case.killed(runner):
        there = [
            git(shared, "rev-list", "--first-parent", "--min-parents=2", "--format=%P", "--no-commit-header", oid)
            for oid in refs_on(shared).values()
        ]
        assert any(all(oid.encode() in chain for oid in kept) for chain in there), what
        runner.run_ok(repo.path, "sync")
        assert refs_on(shared) == {"desk/timelines/main@2": made}, what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_a_fetch(runner: Runner, repo: Repo, shared: Path, tmp_path: Path) -> None:
    save(repo, "a")
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    sync(there)
    last = save(repo, "b")
    sync(repo)
    tip = repo.oid("refs/agentos/timelines/main")
    case = Case(there, shared, "sync")
    for what in case.killed(runner):
        runner.run_ok(there.path, "sync")
        assert there.oid("refs/agentos/remotes/origin/desk/timelines/main") == tip, what
        assert run_ok(there.path, "checkpoint", "show", "latest", "--host", "desk")["id"] == last, what
        assert_sound_after(runner, there, what)


@pytest.mark.slow
def test_a_revival(runner: Runner, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Killed while it is made, the worktree of another host is made once it is asked for again."""
    agent = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard")["path"]))
    agent.write("work", "done\n")
    run_ok(agent.path, "checkpoint")
    sync(repo, "--all")
    there = clone(tmp_path, shared, "lap")
    sync(there)
    case = Case(there, shared, "worktree", "create", "dev-1", "--revive", "--host", "desk", "--no-guard")
    made = there.path.with_name("lap.worktrees")
    for what in case.killed(runner):
        runner.run(there.path, "worktree", "repair")
        if not (made / "dev-1" / "work").exists():
            runner.run_ok(there.path, *case.argv)
        assert (made / "dev-1" / "work").read_text() == "done\n", what


@pytest.mark.slow
def test_an_encrypted_push(runner: Runner, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """The next one goes on, without a key: what was sent is known, whether it has arrived or not."""
    key = Key(tmp_path, "ada")
    encrypt_to(repo, key.recipient)
    save(repo, "a")
    sync(repo)
    save(repo, "b")
    saved = save(repo, "c")
    case = Case(repo, shared, "sync", "--all")
    there = clone(tmp_path, shared, "lap")
    decrypt_with(there, key.path)
    at_rest.copy(there.path, tmp_path / "lap.template")
    for what in case.killed(runner):
        tips_are_whole(shared)
        runner.run_ok(repo.path, "sync", "--all")
        assert list(refs_on(shared)) == ["desk/bundles/main"], what
        assert repo.oid("refs/agentos/remotes/origin/desk/timelines/main") == repo.oid("refs/agentos/timelines/main"), (
            what
        )
        at_rest.copy(tmp_path / "lap.template", there.path)
        runner.run_ok(there.path, "sync")
        assert there.oid("refs/agentos/remotes/origin/desk/timelines/main^2") == saved, what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_an_encrypted_fetch(runner: Runner, repo: Repo, shared: Path, tmp_path: Path) -> None:
    """Its ref leads to what was there before, or to all that is new."""
    key = Key(tmp_path, "ada")
    encrypt_to(repo, key.recipient)
    save(repo, "a")
    sync(repo)
    there = clone(tmp_path, shared, "lap")
    decrypt_with(there, key.path)
    sync(there)
    ref = "refs/agentos/remotes/origin/desk/timelines/main"
    before = there.oid(ref)
    save(repo, "b")
    last = save(repo, "c")
    sync(repo)
    tip = repo.oid("refs/agentos/timelines/main")
    case = Case(there, shared, "sync")
    for what in case.killed(runner):
        assert there.oid(ref) in (before, tip), what
        there.git("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
        runner.run_ok(there.path, "sync")
        assert there.oid(ref) == tip, what
        assert run_ok(there.path, "checkpoint", "show", "latest", "--host", "desk")["id"] == last, what
        assert_sound_after(runner, there, what)
        assert not list((there.git_dir / "agentos").glob("tmp/*")), what
