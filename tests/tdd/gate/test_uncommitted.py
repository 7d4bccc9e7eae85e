"""Code that git ignores: tests that pass by it pass by something that is neither reviewed nor merged."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from git_agentos import open_workspace
from git_agentos.tdd.gate.gates import Candidate, find_uncommitted
from git_agentos.tdd.gate.setup import prepare
from tests.support.repo import Repo
from tests.support.tdd_project import GOOD_SCAFFOLD, project, script, start

IGNORED = {"run": "printf 'def double(n):\\n    return 2 * n\\n' >calc/more.py; echo calc/more.py >>.gitignore"}
IGNORED_TESTS = {**GOOD_SCAFFOLD, "run": "echo tests/test_more.py >>.gitignore"}


def uncommitted(
    repo: Repo, candidate: Candidate, modules: Sequence[str], until: float, main: Path | None = None
) -> Sequence[str]:
    context = open_workspace(repo.path).context
    setup = replace(prepare(context, os.environ, mark="mark"), main_root=str(main) if main else None)
    return find_uncommitted(context.repository, setup, candidate, modules, until)


def test_ignored_code_cannot_make_the_gate_green(repo: Repo, tmp_path: Path) -> None:
    project(repo)
    workflow = start(repo, script(tmp_path, implement=[IGNORED]))
    gate = next(each for each in workflow.history if each["node"] == "N4_pass_gate")
    assert gate["exit_code"] == 0
    assert any("calc/more.py was imported, but would not be committed" in each for each in gate["vetoes"])
    assert not workflow.tests_passed


def test_tests_that_git_ignores_are_not_red(repo: Repo, tmp_path: Path) -> None:
    project(repo)
    workflow = start(repo, script(tmp_path, scaffold=[IGNORED_TESTS, {"unusable": "enough"}]))
    gate = next(each for each in workflow.history if each["node"] == "N2_fail_gate")
    assert gate["exit_code"] == 1
    assert any("tests/test_more.py was imported, but would not be committed" in each for each in gate["vetoes"])


def test_only_new_modules_are_uncommitted(repo: Repo, tmp_path: Path) -> None:
    repo.write("seen.py", "")
    repo.commit("one")
    tree = repo.text("rev-parse", "HEAD^{tree}")
    for name in ("made.py", "generated.py"):
        repo.write(name, "")
    ctime = os.lstat(repo.path / "made.py").st_ctime
    work, later = Candidate(tree, ctime), time.time() + 60
    modules = ["generated.py", "gone.py", "made.py", "seen.py"]

    def told(main: Path | None = None, *, since: float = ctime, until: float = later) -> list[str]:
        found = uncommitted(repo, replace(work, since=since), modules, until, main)
        return [each.partition(" ")[0] for each in found]

    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "generated.py").touch()
    assert told() == ["generated.py", "made.py"]
    assert told(tmp_path / "main") == ["made.py"]  # that one has it, ignored as well
    assert told(since=later) == []  # was there before
    assert told(until=ctime) == []  # the tests made it


def test_module_that_a_filter_changes_is_reported(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitattributes", "lost.py filter=lost\nkept.py filter=kept\nends.py text eol=crlf\n")
    repo.config("filter.lost.clean", "tr a b")
    repo.config("filter.kept.clean", "tr a b")
    repo.config("filter.kept.smudge", "tr b a")
    for name in ("lost.py", "kept.py", "ends.py"):
        repo.write(name, "a = 1\r\n" if name == "ends.py" else "a = 1\n")
    repo.commit("one")
    tree = repo.text("rev-parse", "HEAD^{tree}")
    said = uncommitted(repo, Candidate(tree, 0.0), ["ends.py", "kept.py", "lost.py"], 0.0)
    assert said == ["lost.py differs from what would be committed: a filter of git's, or the tests, changed it"]
