"""Operations in progress: each comes back, and can then be continued or aborted as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.operations import EDITOR_OFF, OPERATIONS, Operation, diverge, expect_stop
from tests.support.repo import Repo, filled, git_run
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import State, assert_same, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run_ok
from tests.support.wrecks import abort_operation, remove_everything, reset_and_clean

SCENARIOS = Scenarios()
_WRECKS = ("abort", "reset-and-clean", "work-elsewhere", "remove-everything", "swap-types", "rewrite-and-commit")

for _operation in OPERATIONS:
    SCENARIOS.all.append(Scenario(_operation.name, _operation.start, wrecks=_WRECKS))


@SCENARIOS.add(wrecks=_WRECKS)
def _merge_squash(repo: Repo) -> None:
    repo.git("merge", "-q", "--squash", "other")


@SCENARIOS.add(wrecks=_WRECKS)
def _conflict_without_an_operation(repo: Repo) -> None:
    """`stash apply` and `checkout -m` leave stages in the index and no file in the git dir."""
    repo.append("notes.txt", "stashed\n")
    repo.git("stash", "-q")
    repo.append("notes.txt", "in the way\n")
    repo.commit("in the way")
    repo.try_git("stash", "apply", "-q")


@SCENARIOS.add(wrecks=_WRECKS)
def _conflict_of_modes_and_links(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.link("readme.txt", "notes.txt")
    repo.chmod("notes.txt", 0o755)
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.append("readme.txt", "main\n")
    repo.append("notes.txt", "main\n")
    repo.commit("main")
    expect_stop(repo, "merge", "side")


@SCENARIOS.add(wrecks=_WRECKS)
def _merge_during_a_rebase(repo: Repo) -> None:
    """One operation inside another."""
    diverge(repo)
    repo.git("checkout", "-q", "topic")
    repo.git("rebase", "-i", "main~2", env={"GIT_SEQUENCE_EDITOR": "sed -i -e '1s/^pick/edit/'", "GIT_EDITOR": "true"})
    expect_stop(repo, "merge", "main")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_continues_to_the_same_end(operation: Operation, tmp_path: Path) -> None:
    """Finish the restored operation and an untouched twin: the same commits, index, files and branches."""
    repo, twin = _twins(tmp_path, operation)

    taken = COMMAND.checkpoint(repo.path)
    assert taken["operation"] == operation.reported
    abort_operation(repo)
    reset_and_clean(repo)
    remove_everything(repo)
    COMMAND.restore(repo.path, taken["id"])

    operation.finish(twin)
    operation.finish(repo)
    _assert_same_end(complete_state(twin.path), complete_state(repo.path))


@pytest.mark.parametrize(
    ("name", "abort"),
    [
        ("merge", ("merge", "--abort")),
        ("rebase", ("rebase", "--abort")),
        ("rebase-apply-backend", ("rebase", "--abort")),
        ("rebase-with-autostash", ("rebase", "--abort")),
        ("cherry-pick-sequence", ("cherry-pick", "--abort")),
        ("revert-sequence", ("revert", "--abort")),
        ("am", ("am", "--abort")),
        ("bisect", ("bisect", "reset")),
    ],
)
def test_aborts_to_the_same_end(name: str, abort: tuple[str, ...], tmp_path: Path) -> None:
    """`am --abort` goes to ORIG_HEAD, which a reset in between has moved."""
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    repo, twin = _twins(tmp_path, operation)
    if name == "bisect":  # a dirty file would stop `bisect reset`
        repo.git("checkout", "-q", "-f", "HEAD")
        twin.git("checkout", "-q", "-f", "HEAD")

    taken = IN_PROCESS.checkpoint(repo.path)
    reset_and_clean(repo)
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("reset", "-q", "--hard", "ORIG_HEAD")
    abort_operation(repo)
    IN_PROCESS.restore(repo.path, taken["id"])

    twin.git(*abort)
    repo.git(*abort)
    _assert_same_end(complete_state(twin.path), complete_state(repo.path))


@pytest.mark.parametrize("name", ["merge", "cherry-pick", "rebase-with-autostash", "am-three-way", "bisect"])
def test_survives_the_loss_of_every_other_ref(name: str, tmp_path: Path) -> None:
    """The branch that was being merged is deleted and gc has run: the timeline must hold what continuing needs."""
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    repo = filled(tmp_path / "repo")
    operation.start(repo)
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    abort_operation(repo)
    reset_and_clean(repo)
    repo.git("checkout", "-q", "--orphan", "fresh")
    repo.commit("fresh")
    for name_ in repo.text("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags").split():
        if name_ not in ("refs/heads/fresh", "refs/heads/topic") or name == "merge":
            repo.try_git("update-ref", "-d", name_)
    repo.git("commit", "-q", "--allow-empty", "-m", "fresh again")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore after gc", branch="any")
    operation.finish(repo)
    repo.git("fsck", "--no-dangling", "--no-progress")


def test_no_branch_brings_the_operation_back_on_the_same_commit(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "merge", "topic")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("merge", "--abort")
    IN_PROCESS.restore(repo.path, taken["id"], no_branch=True)
    assert_same(before, complete_state(repo.path), "restore --no-branch")


def test_no_branch_leaves_the_operation_out_on_another_commit(repo: Repo) -> None:
    """MERGE_HEAD beside another HEAD would make a merge that nobody started."""
    diverge(repo)
    expect_stop(repo, "merge", "topic")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("merge", "--abort")
    repo.git("checkout", "-q", "other")
    IN_PROCESS.restore(repo.path, taken["id"], no_branch=True)
    after = complete_state(repo.path)
    assert after.head.branch == "refs/heads/other"
    assert after.files == before.files
    assert "MERGE_HEAD" not in after.operation


def test_picking_what_is_there_already_is_done(repo: Repo) -> None:
    """An applied commit changes nothing: no conflict, and the picks after it come."""
    repo.git("checkout", "-q", "-b", "picked-from")
    repo.write("a.txt", "a\n")
    first = repo.commit("first")
    repo.write("b.txt", "b\n")
    second = repo.commit("second")
    repo.git("checkout", "-q", "main")
    repo.git("cherry-pick", first)
    for commits, picked in (([first], 0), ([first, second], 1)):
        done = run_ok(repo.path, "pick", *commits)
        assert (done["state"], len(done["picked"]), done["conflicts"]) == ("done", picked, []), done
    assert repo.read("b.txt") == b"b\n"
    assert repo.text("status", "--porcelain") == ""


def test_restoring_a_clean_state_ends_an_operation_and_undo_resumes_it(repo: Repo) -> None:
    diverge(repo)
    clean = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    expect_stop(repo, "merge", "topic")
    merging = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(clean, complete_state(repo.path), "restore", branch="any")
    IN_PROCESS.undo(repo.path)
    assert_same(merging, complete_state(repo.path), "undo")
    repo.write("src/lib/util.py", "resolved\n")
    repo.add("src/lib/util.py")
    assert git_run(repo.path, "merge", "--continue", env=EDITOR_OFF).returncode == 0


def _twins(folder: Path, operation: Operation) -> tuple[Repo, Repo]:
    """The same operation in two repositories, with the same commits, since dates are fixed."""
    repo, twin = filled(folder / "repo"), filled(folder / "twin")
    operation.start(repo)
    operation.start(twin)
    return repo, twin


def _assert_same_end(twin: State, restored: State) -> None:
    assert_same(twin, restored, "the restored operation went another way", branch="any")
    shared = twin.refs.keys() & restored.refs.keys()
    moved = {name: (twin.refs[name], restored.refs[name]) for name in shared if twin.refs[name] != restored.refs[name]}
    moved.pop("refs/heads/main", None)  # the restored merge is on its restore branch; main did not move
    assert not moved
