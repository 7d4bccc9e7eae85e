"""`fleet submit`, and what is done with its results, killed at any step: once the same command is given again, each
task has one result, it is merged once, and nothing else is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from git_agentos.fleet import names
from git_agentos.fleet.records import Result
from tests.support import fleet_results, fleets
from tests.support.confirming import set_up
from tests.support.faults.remote_cases import Case, assert_sound_after
from tests.support.faults.server import Runner
from tests.support.fleet_engine import NOW, put_live, put_result
from tests.support.fleet_results import task
from tests.support.fleets import Site
from tests.support.repo import Repo, git
from tests.support.sampling import EXHAUSTIVE, budget, evenly

_BUDGET = 8  # steps of each command


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    return fleets.make(repo, tmp_path)


@pytest.fixture
def results(repo: Repo, tmp_path: Path) -> fleet_results.Site:
    """A fleet of which two tasks have passed."""
    made = fleet_results.make(tmp_path, repo)
    made.submit(task("a"), task("b"))
    made.work("a", "b")
    return made


def refs_of(shared: Path, fleet: str) -> list[str]:
    """The refs of a fleet on the remote, without the prefix."""
    top = f"{names.PREFIX}{fleet}/"
    return [each.removeprefix(top) for each in git(shared, "for-each-ref", "--format=%(refname)", top).decode().split()]


@pytest.mark.slow
def test_submit(runner: Runner, site: Site) -> None:
    """By the engine local, whose workers end with it, wherever they are. The remote notes each change of a ref."""
    git(site.shared, "config", "core.logAllRefUpdates", "always")
    machine = site.machine("one")
    path = site.folder / "tasks.jsonl"
    steps = [{"kind": "agent", "command": "echo x >f"}, {"kind": "validate", "command": "grep -q x f"}]
    path.write_text("".join(json.dumps({"id": id_, "steps": steps}) + "\n" for id_ in "ab"))

    def words(fleet: str) -> tuple[str, ...]:
        return ("fleet", "submit", str(path), "--name", fleet, "--max-parallel", "2")

    repo = site.repo
    total = len(runner.run_ok(repo.path, *words("whole"), env=machine.variables).steps)
    for step in evenly(list(range(1, total + 1)), total if EXHAUSTIVE else budget(_BUDGET)):
        fleet = f"f{step}"
        mode = "kill-group" if step % 2 else "kill"
        done = runner.run(repo.path, *words(fleet), step=step, mode=mode, env=machine.variables)
        if done.code == 0 and len(done.steps) < step:  # it has asked the remote less often than before
            continue
        what = f"killed before step {step} of {total}: {done.steps[-1]}"
        assert done.code == -9, f"{what}\n{done}"
        again = runner.run(repo.path, *words(fleet), env=machine.variables)
        assert again.code == 0, f"{what}\n{again}"
        assert refs_of(site.shared, fleet) == ["results/a", "results/b", "tasks"], what
        for id_ in "ab":
            ref = names.result_ref(fleet, id_)
            assert git(site.shared, "show", f"{ref}^1:f") == b"x\n", what
            assert len(git(site.shared, "reflog", "show", ref).splitlines()) == 1, what
        assert machine.left() == {}, what
        assert len(machine.pool()) <= 2, what
        assert list(repo.git_dir.rglob("*.lock")) == [], what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_cancel(runner: Runner, site: Site) -> None:
    site.submit(*({"id": id_, "agent": "true"} for id_ in "abcd"))
    put_result(site.remote, "f", Result("a", "passed", 1, "ok", "machine", NOW, NOW))
    put_result(site.remote, "f", Result("b", "lost", 1))
    put_live(site.remote, "f", "c")
    passed = site.refs()["results/a"]
    case = Case(site.repo, site.shared, "fleet", "cancel", "f")
    for what in case.killed(runner, _BUDGET):
        done = runner.run_ok(site.repo.path, "--json", *case.argv)
        assert json.loads(done.out)["counts"] == {
            "waiting": 0, "running": 0, "passed": 1, "failed": 0, "lost": 0, "cancelled": 3,
        }, what  # fmt: skip
        assert refs_of(site.shared, "f") == [*(f"results/{id_}" for id_ in "abcd"), "tasks"], what
        assert site.refs()["results/a"] == passed, what
        assert_sound_after(runner, site.repo, what)


@pytest.mark.slow
def test_collect(runner: Runner, results: fleet_results.Site) -> None:
    repo = results.repo
    case = Case(repo, results.bare, "--json", "fleet", "collect", "f")
    whole = runner.run_ok(repo.path, *case.argv).out
    refs = repo.text("for-each-ref")
    for what in case.killed(runner, _BUDGET):
        assert runner.run_ok(repo.path, *case.argv).out == whole, what
        assert repo.text("for-each-ref") == refs, what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_accept(runner: Runner, results: fleet_results.Site, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("any text")
    repo = results.repo
    set_up(repo, "agentos.approvalKey", str(key))
    case = Case(repo, results.bare, "fleet", "accept", "f")
    for what in case.killed(runner, _BUDGET):
        again = runner.run(repo.path, *case.argv)
        if again.code != 0:  # the merge was in the middle of the files
            assert "git agentos" in again.err, f"{what}\n{again}"
            runner.run_ok(repo.path, "worktree", "repair")
            runner.run_ok(repo.path, "recover")
            again = runner.run(repo.path, *case.argv)
        assert again.code == 0, f"{what}\n{again}"
        tasks = repo.text("log", "--merges", "--format=%(trailers:key=Agentos-Task,valueonly)", "main").split()
        assert sorted(tasks) == ["f/a", "f/b"], what
        assert (repo.read("a.txt"), repo.read("b.txt")) == (b"a\n", b"b\n"), what
        # The folder of the workflow database hides itself with the last step of its making.
        assert repo.text("status", "--porcelain") in ("", "?? .agentos/"), what
        assert_sound_after(runner, repo, what)


@pytest.mark.slow
def test_end(runner: Runner, results: fleet_results.Site) -> None:
    repo = results.repo
    case = Case(repo, results.bare, "--json", "fleet", "end", "f")
    whole = json.loads(runner.run_ok(repo.path, *case.argv).out)
    for what in case.killed(runner, _BUDGET):
        assert json.loads(runner.run_ok(repo.path, *case.argv).out) == whole, what
        assert refs_of(results.bare, "f") == ["end"], what
        there = git(repo.path, "for-each-ref", "--format=%(refname)", names.FETCHED).decode().split()
        assert there == [f"{names.FETCHED}origin/f/end"], what
        assert_sound_after(runner, repo, what)
