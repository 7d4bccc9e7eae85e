"""Tasks that have passed are merged, in the order of least conflict, all in memory first; never twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.errors import FleetError, RunError, UsageError, WorktreeError
from git_agentos.fleet import acceptance, clones, collection, ending, names
from git_agentos.fleet.acceptance import FleetAcceptance, SkippedTask, TaskConflict
from git_agentos.fleet.records import PASSED
from git_agentos.run import accept as runs
from git_agentos.run import evidence_store, query
from tests.support import fleet_results, remotes, tool
from tests.support.fleet_results import Site, samples, task, write
from tests.support.repo import Repo
from tests.support.runs import context_of


@pytest.fixture
def site(tmp_path: Path, repo: Repo) -> Site:
    return fleet_results.make(tmp_path, repo)


def accept(site: Site, *tasks: str, **options: object) -> FleetAcceptance:
    return acceptance.accept(site.context, "f", tasks, **options)  # type: ignore[arg-type]


def state(site: Site) -> tuple[str, str]:
    return site.repo.text("for-each-ref", "refs/heads", "refs/agentos/runs"), site.repo.text("status", "--porcelain")


def ids(made: FleetAcceptance) -> list[str]:
    return [each.task for each in made.merged]


@pytest.fixture
def three(site: Site) -> Site:
    """`x` and `y` conflict with `z`, and not with each other; `n` has failed, and `w` waits."""
    site.submit(
        task("z", "; ".join((write("x", "z"), write("y", "z")))),
        task("x", write("x", "x")),
        task("y", write("y", "y")),
        task("n", validate=["false"]),
        task("w"),
    )
    site.work("z", "x", "y", "n")
    return site


def test_what_conflicts_least_comes_first(three: Site) -> None:
    before = state(three)
    would = accept(three, dry_run=True)
    assert (ids(would), would.order, would.dry_run, would.exit_code) == (["x", "y"], ("x", "y", "z"), True, 4)
    assert {each.merge_commit for each in would.merged} == {None} and would.merge_commit is None
    assert state(three) == before

    made = accept(three)

    assert made == replace(would, merged=made.merged, merge_commit=made.merge_commit, dry_run=False)
    assert made.conflicts == (TaskConflict("z", ("x", "y")),)
    assert made.merge_commit == three.repo.text("rev-parse", "main") == made.merged[-1].merge_commit
    assert three.repo.text("log", "--format=%p", "-1", made.merged[0].merge_commit or "").split() == [
        three.repo.text("rev-parse", "--short", each) for each in (made.before, made.merged[0].commit)
    ]
    assert [(three.repo.path / name).read_text() for name in ("x", "y")] == ["x\n", "y\n"]
    assert three.repo.text("status", "--porcelain") == ""
    message = three.repo.text("log", "-1", "--format=%B", made.merged[0].merge_commit or "")
    assert "Agentos-Agent: run-f-x" in message and "Agentos-Task: f/x" in message and "Agentos-Checkpoint: " in message


def test_the_second_time_nothing_is_merged(three: Site) -> None:
    first = accept(three)
    after = state(three)
    again = accept(three)
    assert (ids(again), again.merge_commit, again.before) == ([], None, first.merge_commit)
    assert again.conflicts == (TaskConflict("z", ("x", "y")),)
    assert accept(three, "x").exit_code == 0
    assert state(three) == after


def test_all_or_nothing(three: Site) -> None:
    before = three.repo.text("rev-parse", "main")
    for dry_run in (True, False):
        made = accept(three, all_or_nothing=True, dry_run=dry_run)
        assert (ids(made), made.conflicts, made.exit_code) == ([], (TaskConflict("z", ("x", "y")),), 4)
        assert three.repo.text("rev-parse", "main") == before
    made = accept(three, "x", "y", all_or_nothing=True)
    assert (ids(made), made.exit_code) == (["x", "y"], 0)
    assert three.repo.text("rev-parse", "main") == made.merge_commit


def test_what_nothing_has_validated_is_refused(site: Site) -> None:
    """As by `run accept`: whether it is named or not, also where the agent has committed it."""
    site.submit(task("a", validate=()), task("b"), task("c.1", validate=(), sample_of="c"), task("w"))
    site.work("a", "b", "c.1")
    before = site.repo.text("rev-parse", "main")
    made = accept(site, all_or_nothing=True)
    assert (ids(made), site.repo.text("rev-parse", "main"), made.exit_code) == ([], before, 1)
    for wanted, merged in (((), ["b"]), (("a",), []), (("c",), [])):
        made = accept(site, *wanted)
        assert (ids(made), made.exit_code) == (merged, 1), made
        refused = {each.task: each.reason for each in made.refused}
        assert refused.keys() == ({"a", "c.1"} if not wanted else {"a"} if "a" in wanted else {"c.1"})
        for id_, reason in refused.items():
            assert reason.startswith(f"run 'f-{id_}' was not validated; ")
    assert accept(site).skipped == (
        SkippedTask("b", "'main' has its work"),
        SkippedTask("w", "it is waiting"),
    )
    with pytest.raises(RunError, match="run 'f-a' was not validated"):
        runs.accept(context_of(site.machine), "f-a")
    collection.collect(site.context, "f")
    site.repo.git("merge", "-q", "--no-edit", "fleet/f/a")  # it can be merged as it is
    made = accept(site, "a")
    assert (made.refused, made.skipped) == ((), (SkippedTask("a", "'main' has its work"),))


def test_why_nothing_is_merged(three: Site) -> None:
    accept(three)
    assert accept(three).skipped == (
        SkippedTask("x", "'main' has its work"), SkippedTask("y", "'main' has its work"),
        SkippedTask("n", "it is failed"), SkippedTask("w", "it is waiting"),
    )  # fmt: skip


def test_tasks_that_are_named(three: Site) -> None:
    three.repo.git("branch", "next")
    made = accept(three, "y", into="next")
    assert (ids(made), made.target) == (["y"], "next")
    assert three.repo.text("show", "next:y") == "y"
    for name, reason in {"n": "n is failed", "w": "w is waiting"}.items():
        with pytest.raises(FleetError, match=f"'{name}' has not passed: {reason}"):
            accept(three, name)
    with pytest.raises(FleetError, match="there is no task 'q' in fleet 'f'"):
        accept(three, "q")
    with pytest.raises(WorktreeError, match="there is no branch 'nowhere'"):
        accept(three, into="nowhere")
    three.repo.git("checkout", "-q", "--detach")
    with pytest.raises(UsageError, match="HEAD is detached here"):
        accept(three)


def test_what_conflicts_with_the_branch_is_left_out(site: Site) -> None:
    site.submit(task("a", write("f", "a")), task("b"))
    site.work("a", "b")
    (site.repo.path / "f").write_text("mine\n")
    site.repo.git("add", "f")
    site.repo.git("commit", "-q", "-m", "mine")
    made = accept(site)
    assert (made.order, ids(made), made.conflicts) == (("a", "b"), ["b"], (TaskConflict("a", ("f",)),))
    assert (site.repo.path / "f").read_text() == "mine\n"


def test_local_changes_in_the_way_change_nothing(three: Site) -> None:
    (three.repo.path / "x").write_text("mine\n")
    before = three.repo.text("rev-parse", "main")
    with pytest.raises(WorktreeError):
        accept(three)
    assert three.repo.text("rev-parse", "main") == before
    assert (three.repo.path / "x").read_text() == "mine\n"


# -- samples ----------------------------------------------------------------------------------------------------------


def lines(path: str, number: int) -> str:
    return f"seq {number} >{path}; git add {path}; git commit -qm {number}"


def test_the_smallest_sample_that_passed(site: Site) -> None:
    agents = (lines("a", 5), f"{lines('a', 1)}; {lines('b', 1)}", lines("a", 2), lines("a", 3))
    site.submit(*samples("s", *agents), *samples("none", "false", "false"), task("other"))
    site.work("s.1", "s.2", "s.3", "s.4", "none.1", "other")
    made = accept(site)
    assert (ids(made), made.refused) == (["other", "s.3"], ())  # as few lines as s.2, and fewer files
    assert site.repo.text("show", "main:a") == "1\n2"
    # No second one of a task.
    assert ids(accept(site)) == []
    assert ids(accept(site, "s")) == []
    with pytest.raises(FleetError, match=r"'none' has not passed: none\.1 is failed, none\.2 is waiting"):
        accept(site, "none")


def test_the_sample_that_is_named(site: Site) -> None:
    site.submit(*samples("s", lines("a", 5), lines("a", 1)))
    site.work("s.1", "s.2")
    assert ids(accept(site, "s.1")) == ["s.1"]
    made = accept(site, "s")
    assert (made.order, made.exit_code) == ((), 0)  # one of them is there, if not the smallest
    made = accept(site, "s.2")
    assert made.conflicts == (TaskConflict("s.2", ("a",)),)


def test_a_sample_that_does_not_verify_is_named_and_the_next_one_taken(site: Site) -> None:
    site.submit(*samples("s", lines("a", 1), lines("a", 2), lines("a", 3)))
    _, result, evidence = site.run("s.1")
    site.settle(replace(result, held_back=("0123",), detail="'a' has a secret: 0123"), evidence)
    _, result, evidence = site.run("s.2")
    site.settle(replace(result, checkpoint=None, timeline=None), evidence)
    site.work("s.3")
    made = accept(site)
    assert ids(made) == ["s.3"]
    assert [(each.task, each.reason) for each in made.refused] == [
        ("s.1", "'a' has a secret: 0123"),
        ("s.2", "it has no timeline"),
    ]
    assert made.exit_code == 3


# -- results that are not used ----------------------------------------------------------------------------------------


def test_tampered_results_are_never_merged(site: Site) -> None:
    site.submit(task("a"), task("b"))
    _, result, evidence = site.run("a")
    site.settle(replace(result, commit=site.repo.text("rev-parse", "main")), evidence)
    site.work("b")
    made = accept(site, all_or_nothing=True)
    assert (ids(made), made.exit_code) == ([], 1)
    made = accept(site)
    assert (ids(made), made.exit_code) == (["b"], 1)
    [refused] = made.refused
    assert refused.task == "a" and "which is not what checkpoint" in refused.reason


def test_after_the_end_and_from_another_clone(site: Site, tmp_path: Path) -> None:
    site.submit(task("a", write("src/a.txt", "a")))
    site.work("a")
    ending.end(site.context, "f")
    other = remotes.clone(tmp_path, site.bare, "other")
    other.git("fetch", "-q", "origin", "main")
    other.git("checkout", "-q", "-B", "main", "FETCH_HEAD")
    [merged] = acceptance.accept(context_of(other), "f").merged
    assert merged.merge_commit == other.text("rev-parse", "main")
    assert query.show(context_of(other), "f-a").state == PASSED
    assert other.text("rev-parse", names.branch("f", "a")) == merged.commit


def test_what_a_worker_has_pushed(site: Site, tmp_path: Path) -> None:
    """Its agent commits nothing: the worker does."""
    site.submit(task("a", "echo a >from-a.txt", validate=["grep a from-a.txt"]))
    machine = {clones.FOLDER: str(tmp_path / "worker")}
    tool.run_ok(tmp_path, "fleet", "worker", "f", "a", "--remote", site.bare.as_uri(), env=machine)
    [merged] = accept(site).merged
    assert site.repo.text("status", "--porcelain") == ""
    assert evidence_store.verify(site.context, "f-a").problems == []
    assert site.repo.text("show", f"{merged.commit}:from-a.txt") == site.repo.text("show", "main:from-a.txt") == "a"
