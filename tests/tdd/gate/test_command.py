"""`tdd gate`: the two gates alone, as a command and in process; what is kept between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import TddError, UsageError
from git_agentos.tdd.gate import command
from git_agentos.tdd.gate.command import GateOptions
from tests.support.pytest_project import pytest_project
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import Result, run

TEST = "from shop import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
KEYS = (
    "gate holds exit_code vetoes collect_error red frozen tests feedback output seconds command python worktree_path"
    " interrupted"
).split()


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    repo = pytest_project(tmp_path)
    repo.write("shop.py", "def total(prices):\n    raise NotImplementedError\n")
    repo.write("tests/test_old.py", "import shop\n\ndef test_old():\n    assert shop.total.__name__ == 'total'\n")
    repo.commit("base")
    repo.write("tests/test_total.py", TEST)
    return repo


def gate(repo: Repo, *words: str, code: int = 0) -> Result:
    done = run(repo.path, "tdd", "gate", *words)
    assert done.code == code, str(done)
    return done


def test_red_freezes_and_green_checks_what_red_froze(shop: Repo) -> None:
    before = complete_state(shop.path)
    red = gate(shop, "red", "--json", "--", "tests/test_total.py").json
    assert sorted(red) == sorted([*KEYS, "schema"])
    assert (red["schema"], red["gate"], red["holds"], red["exit_code"]) == ("agentos.tdd-gate.v1", "red", True, 1)
    assert red["red"] == ["tests/test_total.py::test_total"]
    assert sorted(red["frozen"]) == ["<python>", "tests/test_old.py", "tests/test_total.py"]
    assert complete_state(shop.path) == before
    assert gate(shop, "green", "--json", code=1).json["exit_code"] == 1
    shop.write("shop.py", "def total(prices):\n    return sum(prices)\n")
    said = gate(shop, "green")
    assert said.out.splitlines() == [
        b"green: 1 test that was red and all others pass",
        b"  tests/test_total.py::test_total",
    ]
    assert b"2 passed" in said.err
    shop.append("tests/test_total.py", "\n")
    vetoed = gate(shop, "green", code=1)
    assert b"not green: the tests were not run" in vetoed.out
    assert b"tests/test_total.py was changed" in vetoed.out


def test_paths_are_relative_to_where_one_stands(shop: Repo) -> None:
    done = run(shop.path / "tests", "tdd", "gate", "red", "-q", "--", "test_total.py::test_total")
    assert (done.code, done.out) == (0, b"tests/test_total.py::test_total\n"), str(done)


def test_red_gate_allows_only_named_tests_to_fail(shop: Repo) -> None:
    shop.write("tests/test_old.py", "import shop\n\ndef test_old():\n    assert shop.nothing\n")
    context = open_workspace(shop.path).context
    found = command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({}))
    assert (found.holds, found.red) == (True, ("tests/test_total.py::test_total",))
    found = command.red(
        context, str(shop.path), ["tests/test_old.py", "tests/test_total.py::test_none"], GateOptions({})
    )
    assert (found.holds, found.exit_code) == (False, 4)


def test_trivial_tests_are_not_red(shop: Repo) -> None:
    shop.write("tests/test_total.py", "def test_total():\n    assert 1 == 2\n")
    context = open_workspace(shop.path).context
    found = command.red(context, str(shop.path), ["tests"], GateOptions({}))
    assert (found.holds, found.exit_code) == (False, 1)
    assert found.vetoes == ("tests/test_total.py: the test test_total can never pass",)


def test_a_new_test_that_passes_is_not_red(shop: Repo) -> None:
    shop.append("tests/test_total.py", "\ndef test_easy():\n    assert True\n")
    context = open_workspace(shop.path).context
    found = command.red(context, str(shop.path), ["tests"], GateOptions({}))  # one that was there may pass
    assert (found.holds, found.exit_code) == (False, 1)
    (veto,) = found.vetoes
    assert veto.startswith("tests/test_total.py::test_easy passes already")


@pytest.mark.parametrize(
    "path, text",
    [("conftest.py", "def pytest_runtest_makereport(item, call): pass\n"), ("sitecustomize.py", "import os\n")],
)
def test_new_hooks_and_startup_files_are_vetoes(shop: Repo, path: str, text: str) -> None:
    shop.write(path, text)
    context = open_workspace(shop.path).context
    found = command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({}))
    assert (found.holds, found.exit_code, len(found.vetoes)) == (False, None, 1)


def test_a_record_that_was_edited_counts_for_nothing(shop: Repo) -> None:
    context = open_workspace(shop.path).context
    assert command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({})).holds
    kept = Path(context.location.state_dir) / "tdd-gate.json"
    body = json.loads(kept.read_text())
    shop.write("tests/test_total.py", "def test_total():\n    pass\n")
    edits: dict[str, object] = {"frozen": {}, "red": [], "tests": [], "mac": None}
    for field, value in edits.items():
        kept.write_text(json.dumps({**body, field: value}))
        with pytest.raises(TddError, match="is not as the red gate wrote it"):
            command.green(context, str(shop.path), [], GateOptions({}))


def test_named_tests_are_run_beside_those_that_were_red(shop: Repo) -> None:
    context = open_workspace(shop.path).context
    assert command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({})).holds
    shop.write("shop.py", "def total(prices):\n    return sum(prices)\n")
    found = command.green(context, str(shop.path), ["tests/test_old.py"], GateOptions({}))
    assert (found.holds, found.tests) == (True, ("tests/test_old.py", "tests/test_total.py::test_total"))


def test_conftests_and_plugins_of_tests_that_were_not_run_at_red(shop: Repo) -> None:
    shop.write("tests/more/conftest.py", "")
    shop.write("tests/fixtures.py", "")
    shop.write("tests/more/test_more.py", "import shop\n\ndef test_more():\n    assert shop.total\n")
    shop.write("conftest.py", "pytest_plugins = ['tests.fixtures']\n")
    context = open_workspace(shop.path).context
    assert command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({})).holds
    shop.write("shop.py", "def total(prices):\n    return sum(prices)\n")
    found = command.green(context, str(shop.path), [], GateOptions({}))
    assert found.holds, found.feedback


def test_a_red_gate_that_does_not_hold_leaves_the_one_before(shop: Repo) -> None:
    context = open_workspace(shop.path).context
    root = str(shop.path)
    assert command.red(context, root, ["tests/test_total.py"], GateOptions({})).holds
    shop.write("shop.py", "def total(prices):\n    return sum(prices)\n")
    assert not command.red(context, root, ["tests/test_total.py"], GateOptions({})).holds
    assert command.green(context, root, [], GateOptions({})).holds
    shop.write("tests/test_new.py", "def test_new(): pass\n")
    assert command.green(context, root, [], GateOptions({})).vetoes == (
        "tests/test_new.py is new since the tests were red",
    )


def test_green_gate_needs_a_valid_record(shop: Repo) -> None:
    context = open_workspace(shop.path).context
    with pytest.raises(TddError, match="no tests were red in this worktree"):
        command.green(context, str(shop.path), [], GateOptions({}))
    kept = Path(context.location.state_dir) / "tdd-gate.json"
    kept.parent.mkdir(exist_ok=True)
    for text in ("", "[]", "{}", '{"version": 2}', json.dumps({"version": 1, "red": 1, "frozen": []}), "[" * 100000):
        kept.write_text(text)
        with pytest.raises(TddError, match="cannot be read"):
            command.green(context, str(shop.path), [], GateOptions({}))


def test_malformed_arguments_are_usage_errors(shop: Repo, tmp_path: Path) -> None:
    gate(shop, "red", code=2)
    gate(shop, "red", "--test-timeout", "soon", "--", "tests", code=2)
    context = open_workspace(shop.path).context
    with pytest.raises(UsageError, match="not in the worktree"):
        command.red(context, str(shop.path), ["../other/test_a.py"], GateOptions({}))


def test_a_linked_worktree_has_a_record_of_its_own(shop: Repo, tmp_path: Path) -> None:
    context = open_workspace(shop.path).context
    assert command.red(context, str(shop.path), ["tests/test_total.py"], GateOptions({})).holds
    shop.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    with pytest.raises(TddError, match="no tests were red"):
        command.green(open_workspace(tmp_path / "other").context, str(tmp_path / "other"), [], GateOptions({}))
