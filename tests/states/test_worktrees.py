"""Linked worktrees: each its own timeline, and nothing ever crosses."""

from __future__ import annotations

from pathlib import Path

from tests.support.dirty import make_dirty
from tests.support.operations import diverge, expect_stop
from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, round_trip
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run, run_ok
from tests.support.wrecks import WRECKS

SCENARIOS = Scenarios()
_WRECKS = ("reset-and-clean", "remove-everything", "swap-types", "rewrite-and-commit", "abort")


@SCENARIOS.add(wrecks=_WRECKS)
def _dirty(repo: Repo) -> None:
    make_dirty(repo)


@SCENARIOS.add(wrecks=_WRECKS)
def _merging(repo: Repo) -> None:
    repo.write("readme.txt", "linked\n")
    repo.commit("linked")
    expect_stop(repo, "merge", "other")


@SCENARIOS.add(wrecks=_WRECKS)
def _bisecting(repo: Repo) -> None:
    for number in range(6):
        repo.write("counter.txt", f"{number}\n")
        repo.commit(f"count {number}")
    repo.git("bisect", "start", "HEAD", "HEAD~5")


@SCENARIOS.add(wrecks=_WRECKS)
def _rebasing(repo: Repo) -> None:
    repo.write("readme.txt", "linked\n")
    repo.commit("linked")
    expect_stop(repo, "rebase", "other")


@SCENARIOS.add(wrecks=_WRECKS)
def _detached_with_a_sparse_checkout_of_its_own(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    repo.git("sparse-checkout", "set", "--cone", "src/lib")
    repo.append("src/lib/util.py", "dirty\n")


def _link(repo: Repo, name: str) -> Repo:
    path = repo.path.parent / name
    repo.git("worktree", "add", "-q", "-b", f"agent/{name}", str(path))
    return Repo(path)


@SCENARIOS.cases(elsewhere=False)
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, repo: Repo) -> None:
    """The whole journey in a linked worktree leaves the main one alone."""
    repo.append("notes.txt", "dirty in the main worktree\n")
    linked = _link(repo, "dev-001")
    scenario.build(linked)
    before = complete_state(repo.path, strict=True)
    round_trip(linked, scenario, WRECKS[wreck], tool)
    after = complete_state(repo.path, strict=True)
    assert_same(before, after, "the main worktree changed", permissions="all")
    assert before.strict is not None
    assert after.strict is not None
    assert before.strict.mtimes == after.strict.mtimes


def test_worktree_has_its_own_timeline(repo: Repo) -> None:
    linked = _link(repo, "dev-001")
    repo.write("readme.txt", "main\n")
    linked.write("readme.txt", "linked\n")
    first = COMMAND.checkpoint(repo.path)
    second = COMMAND.checkpoint(linked.path)
    refs = repo.text("for-each-ref", "--format=%(refname)", "refs/agentos/timelines").split()
    assert sorted(refs) == ["refs/agentos/timelines/dev-001", "refs/agentos/timelines/main"]
    assert first["timeline"] != second["timeline"]
    assert first["worktree_path"] == str(repo.path)
    assert second["worktree_path"] == str(linked.path)
    for where, expected in ((repo, first), (linked, second)):
        assert [found["id"] for found in run_ok(where.path, "checkpoint", "list")["checkpoints"]] == [expected["id"]]
    everything = run_ok(repo.path, "checkpoint", "list", "--all")["checkpoints"]
    for timeline in {each["timeline"] for each in everything}:
        of_one = [each for each in everything if timeline in (each["timeline"], each["created_by"])]
        listed = run_ok(repo.path, "checkpoint", "list", "--all", "--agent", timeline)["checkpoints"]
        assert [each["id"] for each in listed] == [each["id"] for each in of_one]
    assert {found["id"] for found in everything} == {first["id"], second["id"]}


def test_latest_never_crosses(repo: Repo) -> None:
    """Restoring `latest` from worktree B gave it A's state in two peers."""
    linked = _link(repo, "dev-001")
    linked.write("readme.txt", "linked\n")
    mine = IN_PROCESS.checkpoint(linked.path)
    repo.write("readme.txt", "main\n")
    IN_PROCESS.checkpoint(repo.path)
    linked.write("readme.txt", "wrecked\n")
    done = IN_PROCESS.restore(linked.path, "latest")
    assert done["checkpoint"] == mine["id"]
    assert linked.read("readme.txt") == b"linked\n"
    assert repo.read("readme.txt") == b"main\n"


def test_latest_without_checkpoints_here_is_an_error(repo: Repo) -> None:
    linked = _link(repo, "dev-001")
    repo.write("readme.txt", "main\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    before = complete_state(linked.path, strict=True)
    for spec in ("latest", "@{0}", taken["id"], taken["id"][:8]):
        done = run(linked.path, "restore", spec)
        assert done.code == 1, str(done)
        assert_unchanged(before, complete_state(linked.path, strict=True), f"restore {spec} changed something")


def test_a_foreign_id_needs_to_be_asked_for(repo: Repo) -> None:
    """`--all` or `--agent` widens what an id may name."""
    linked = _link(repo, "dev-001")
    repo.write("readme.txt", "main\n")
    repo.write("untracked.txt", "main's\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    before = complete_state(repo.path)
    wrecked = complete_state(linked.path)
    assert run(linked.path, "restore", "--all", taken["id"]).code == 0
    assert_same(before, complete_state(linked.path), "restore of another worktree's state", branch="any")
    assert_same(before, complete_state(repo.path), "the other worktree")
    COMMAND.undo(linked.path)
    assert_same(wrecked, complete_state(linked.path), "undo")
    assert run(linked.path, "restore", "--agent", "main", taken["id"][:10]).code == 0


def test_undo_never_hits_another_agents_work(repo: Repo) -> None:
    """jj PR 10123."""
    one, two = _link(repo, "one"), _link(repo, "two")
    one.write("readme.txt", "one\n")
    taken = IN_PROCESS.checkpoint(one.path)
    one.write("readme.txt", "wrecked\n")
    IN_PROCESS.restore(one.path, taken["id"])
    two.write("readme.txt", "two\n")
    IN_PROCESS.checkpoint(two.path)
    before_one, before_two = complete_state(one.path, strict=True), complete_state(two.path, strict=True)
    for where in (two, repo):
        done = run(where.path, "undo")
        assert done.code == 1, str(done)
    assert_unchanged(before_one, complete_state(one.path, strict=True), "another worktree's undo changed something")
    assert_unchanged(before_two, complete_state(two.path, strict=True), "undo of nothing changed something")


def test_a_restore_elsewhere_does_not_take_a_branch_that_is_checked_out(repo: Repo) -> None:
    """Undo wants `main` back, which another worktree has checked out meanwhile: refused, or detached, never shared."""
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.append("readme.txt", "dirty\n")
    IN_PROCESS.restore(repo.path, taken["id"])
    other = repo.path.parent / "taker"
    repo.git("worktree", "add", "-q", str(other), "main")
    before = complete_state(repo.path, strict=True)
    done = run(repo.path, "undo")
    if done.code == 0:
        heads = [complete_state(where).head.branch for where in (repo.path, other)]
        assert heads[0] != heads[1]
    else:
        assert done.code == 1, str(done)
        assert b"main" in done.err
        assert_unchanged(before, complete_state(repo.path, strict=True), "a refused undo changed something")


def test_a_worktree_with_an_odd_name(repo: Repo) -> None:
    """Git names a worktree after its folder; ours must make a valid refname of it, another for each."""
    timelines = set()
    for name in ("with space", "dot..dot", "tilde~x", "ünï", "x.lock", "a[b]"):
        path = repo.path.parent / "odd" / name
        repo.git("worktree", "add", "-q", "--detach", str(path))
        linked = Repo(path)
        linked.write("readme.txt", f"in {name}\n")
        taken = IN_PROCESS.checkpoint(path)
        timelines.add(taken["timeline"])
        linked.write("readme.txt", "wrecked\n")
        IN_PROCESS.restore(path, "latest")
        assert linked.read("readme.txt") == f"in {name}\n".encode()
    assert len(timelines) == 6


def test_a_worktree_called_main(repo: Repo) -> None:
    """The main worktree's timeline is `main`; a linked one of that name must not share it."""
    path = repo.path.parent / "elsewhere" / "main"
    repo.git("worktree", "add", "-q", "--detach", str(path))
    linked = Repo(path)
    repo.write("readme.txt", "the main worktree\n")
    linked.write("readme.txt", "the linked worktree\n")
    first, second = IN_PROCESS.checkpoint(repo.path), IN_PROCESS.checkpoint(path)
    assert first["timeline"] != second["timeline"]
    assert IN_PROCESS.restore(repo.path, "latest", dry_run=True)["checkpoint"] == first["id"]
    assert IN_PROCESS.restore(path, "latest", dry_run=True)["checkpoint"] == second["id"]


def test_a_moved_worktree_keeps_its_timeline(repo: Repo, tmp_path: Path) -> None:
    linked = _link(repo, "dev-001")
    linked.write("readme.txt", "then\n")
    before = complete_state(linked.path)
    taken = IN_PROCESS.checkpoint(linked.path)
    moved = tmp_path / "moved"
    repo.git("worktree", "move", str(linked.path), str(moved))
    Repo(moved).write("readme.txt", "wrecked\n")
    assert IN_PROCESS.restore(moved, "latest")["checkpoint"] == taken["id"]
    assert_same(before, complete_state(moved), "restore", branch="any")


def test_undo_in_a_worktree_of_a_bare_repository_goes_back_to_its_branch(repo: Repo, tmp_path: Path) -> None:
    """The HEAD of the bare repository names the branch too, and has nothing checked out."""
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    Repo(bare).git("worktree", "add", "-q", str(tmp_path / "wt"), "main")
    inside = Repo(tmp_path / "wt")
    taken = IN_PROCESS.checkpoint(inside.path)
    inside.append("readme.txt", "dirty\n")
    IN_PROCESS.restore(inside.path, taken["id"])
    assert IN_PROCESS.undo(inside.path)["branch"] == "main"
    assert inside.text("symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_worktree_of_a_bare_repository(repo: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    Repo(bare).git("worktree", "add", "-q", str(tmp_path / "wt"), "main")
    linked = Repo(tmp_path / "wt")
    linked.write("readme.txt", "then\n")
    before = complete_state(linked.path)
    taken = COMMAND.checkpoint(linked.path)
    linked.git("reset", "-q", "--hard")
    COMMAND.restore(linked.path, taken["id"])
    assert_same(before, complete_state(linked.path), "restore", branch="any")


def test_operations_in_two_worktrees_stay_apart(repo: Repo) -> None:
    diverge(repo)
    linked = _link(repo, "dev-001")
    expect_stop(repo, "merge", "topic")
    expect_stop(linked, "cherry-pick", "topic~2")
    before_main, before_linked = complete_state(repo.path), complete_state(linked.path)
    one, two = IN_PROCESS.checkpoint(repo.path), IN_PROCESS.checkpoint(linked.path)
    repo.git("merge", "--abort")
    linked.git("cherry-pick", "--abort")
    IN_PROCESS.restore(linked.path, two["id"])
    assert "MERGE_HEAD" not in complete_state(repo.path).operation
    IN_PROCESS.restore(repo.path, one["id"])
    assert_same(before_main, complete_state(repo.path), "main", branch="any")
    assert_same(before_linked, complete_state(linked.path), "linked", branch="any")
