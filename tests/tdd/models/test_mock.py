"""The mock: what it does without a script, what a script may have it do, and which model a name means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from git_agentos import config
from git_agentos.errors import TddError, UsageError
from git_agentos.tdd import MockLLM
from git_agentos.tdd.models.command import Command
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD
from git_agentos.tdd.models.selection import choose
from tests.support import model_requests
from tests.support.model_requests import ModelWorktree
from tests.support.repo import Repo


@pytest.fixture
def site(repo: Repo) -> ModelWorktree:
    return model_requests.model_worktree(repo)


def code_of(site: ModelWorktree, *names: str) -> int:
    """pytest's exit code for files of the worktree."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(site.root), *names]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(words, cwd=site.root, env=environment, capture_output=True).returncode


def names(issue: str) -> set[str]:
    return {f"mock_{issue}/__init__.py", f"mock_{issue}/adding.py", f"tests/test_mock_{issue}.py"}


# -- without a script --------------------------------------------------------------------------------------------------


def test_the_happy_path(site: ModelWorktree) -> None:
    before = site.files()
    mock = MockLLM()
    first = mock.work(site.asked(SCAFFOLD))
    assert (first.error, first.tokens_in, first.interrupted) == (None, None, False)
    assert site.files() - before == names("87")
    assert code_of(site, "tests/test_mock_87.py") == 1
    assert mock.work(site.asked(IMPLEMENT)).error is None
    assert site.files() - before == names("87")
    assert code_of(site, "tests/test_mock_87.py") == 0
    assert site.kept("prompt.txt") == model_requests.PROMPT
    assert site.kept("stdout") == "the mock writes mock_87/adding.py\n"


def test_every_call_does_the_same_again(site: ModelWorktree) -> None:
    before = site.files()
    for node in (SCAFFOLD, SCAFFOLD, IMPLEMENT, IMPLEMENT):
        assert MockLLM().work(site.asked(node, attempt=1)).error is None
    assert site.files() - before == names("87")


def test_the_same_issue_once_more_gets_a_package_of_its_own(site: ModelWorktree) -> None:
    for node in (SCAFFOLD, IMPLEMENT, SCAFFOLD):
        MockLLM().work(site.asked(node))
    assert names("87") | names("87_2") <= site.files()
    assert code_of(site, "tests/test_mock_87_2.py") == 1
    MockLLM().work(site.asked(IMPLEMENT))
    assert code_of(site, "tests/test_mock_87.py", "tests/test_mock_87_2.py") == 0


@pytest.mark.parametrize("issue", ["PROJ-12", "a/../b", "é", "ñ", "--", "x" * 300, "with space"])
def test_any_issue_id_will_do(site: ModelWorktree, issue: str) -> None:
    before = site.files()
    assert MockLLM().work(site.asked(SCAFFOLD, issue=issue)).error is None
    made = site.files() - before
    assert len(made) == 3
    assert all(path.split("/")[0] == "tests" or path.startswith("mock_") for path in made)


# -- with one ----------------------------------------------------------------------------------------------------------


def test_an_attempt_takes_the_entry_of_its_number_and_the_last_is_repeated(site: ModelWorktree) -> None:
    mock = MockLLM({"scaffold": [{"say": "one"}, {"say": "two", "tokens": [11, 7]}]})
    results = [(mock.work(site.asked(SCAFFOLD, attempt=n)), site.said()) for n in (0, 1, 2, 9, 0)]
    assert [said for _, said in results] == ["one\n", "two\n", "two\n", "two\n", "one\n"]
    assert [(each.tokens_in, each.tokens_out) for each, _ in results[:2]] == [(None, None), (11, 7)]
    mock.work(site.asked(IMPLEMENT))
    assert site.said().startswith("the mock writes")


def test_entry_does_all_of_its_keys(site: ModelWorktree) -> None:
    (site.root / "old.py").write_text("a = 1\nb = 2\n")
    (site.root / "gone.py").write_text("")
    entry = {
        "say": "working",
        "write": {"pkg/new.py": "x = 1\n", "empty.py": ""},
        "edit": [
            {"path": "old.py", "search": "a = 1", "replace": "a = 3\n"},
            {"path": "old.py", "search": "b = 2\n", "replace": ""},
        ],
        "delete": ["gone.py"],
        "answer": "[MARK] file answered.py\ny = 2\n[MARK] end\n",
        "run": 'cat old.py; echo "$AGENTOS_TDD_NODE $AGENTOS_ATTEMPT $AGENTOS_RUN_ID $AGENTOS_TASK_ID"; exit 3',
    }
    work = MockLLM({"implement": entry}).work(site.asked(IMPLEMENT, attempt=2))
    assert (work.error, work.exit_code, site.said()) == (None, 3, "working\na = 3\nimplement 3 r1 87\n")
    assert (site.root / "pkg/new.py").read_text() == "x = 1\n"
    assert (site.root / "empty.py").read_text() == ""
    assert (site.root / "old.py").read_text() == "a = 3\n"
    assert (site.root / "answered.py").read_text() == "y = 2\n"
    assert not (site.root / "gone.py").exists()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"unusable": "I would rather not"}, "I would rather not"),
        ({"fail": "rate-limit", "write": {"a.py": ""}}, "rate limit"),
        ({"answer": "no block here"}, "has no block"),
        ({"write": {"a.py": "", "../b.py": ""}}, "'../b.py' leads upwards"),
        ({"edit": [{"path": "nothing.py", "search": "a", "replace": "b"}], "write": {"a.py": ""}}, "does not exist"),
    ],
)
def test_unusable_entry_reports_why_and_writes_nothing(site: ModelWorktree, entry: dict[str, Any], said: str) -> None:
    before = site.files()
    work = MockLLM({"scaffold": entry}).work(site.asked(SCAFFOLD))
    assert work.error is not None
    assert said in work.error
    assert site.files() == before


def test_secrets_are_not_kept(site: ModelWorktree) -> None:
    key = "of-no-known-form-1"
    mock = MockLLM({"scaffold": {"say": f"by {key}", "delete": [key]}}).within({"MY_API_KEY": key})
    work = mock.work(site.asked(prompt=f"by {key}"))
    assert (site.said(), work.error) == (
        "by [redacted]\n",
        "the mock's answer cannot be used: '[redacted]' does not exist, so it cannot be deleted",
    )
    assert site.kept("prompt.txt") == "by [redacted]"


def test_an_empty_entry_does_nothing(site: ModelWorktree) -> None:
    before = site.files()
    assert MockLLM({"scaffold": {}}).work(site.asked(SCAFFOLD)).error is None
    assert site.files() == before


def test_shell_text_can_be_interrupted(site: ModelWorktree) -> None:
    work = MockLLM({"scaffold": {"run": "sleep 1000"}}).work(site.asked(stop=lambda: True))
    assert work.interrupted


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], "the script"),
        ({"scafold": {}}, "the script"),
        ({"scaffold": []}, "scaffold"),
        ({"scaffold": ["text"]}, "scaffold[0]"),
        ({"scaffold": {"wrte": {}}}, "scaffold[0]"),
        ({"scaffold": [{}, {"write": []}]}, "scaffold[1].write"),
        ({"scaffold": {"write": {"a": 1}}}, "scaffold[0].write['a']"),
        ({"scaffold": {"edit": {}}}, "scaffold[0].edit"),
        ({"scaffold": {"edit": [{"path": "a", "search": "b"}]}}, "scaffold[0].edit[0].replace"),
        ({"scaffold": {"delete": "a"}}, "scaffold[0].delete"),
        ({"scaffold": {"run": 1}}, "scaffold[0].run"),
        ({"scaffold": {"fail": "on monday"}}, "scaffold[0].fail"),
        ({"scaffold": {"tokens": [1]}}, "scaffold[0].tokens"),
    ],
)
def test_malformed_script_is_refused(document: Any, named: str) -> None:
    with pytest.raises(TddError) as error:
        MockLLM(document)
    assert f"'{named}'" in str(error.value)


# -- which model a name means ------------------------------------------------------------------------------------------


def settings(**values: str) -> config.Settings:
    return config.settings({f"agentos.tdd.{key}": [value] for key, value in values.items()}, {})


def test_a_script_in_a_file_is_a_part_of_the_name(site: ModelWorktree, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"scaffold": [{"run": "echo $KEPT"}]}))
    named = choose("mock:script.json", settings(), {"KEPT": "yes", "PATH": "/usr/bin:/bin"}, str(tmp_path))
    assert named.name == f"mock:{tmp_path}/script.json"
    named.work(site.asked())
    assert site.said() == "yes\n"
    assert choose(named.name, settings(), {}, "/").name == named.name
    environment = {"AGENTOS_MOCK_SCRIPT": "script.json"}
    assert choose("mock", settings(), environment, str(tmp_path)).name == named.name


def test_default_agent() -> None:
    assert choose(None, settings(), {"AGENTOS_MOCK_LLM": "1"}).name == "mock"
    assert choose(None, settings(agent="command:claude -p"), {"AGENTOS_MOCK_LLM": "1"}).name == "mock"
    configured = choose(None, settings(agent="command:claude -p", agenttimeout="10m"), {})
    assert isinstance(configured, Command)
    assert configured.name == "command:claude -p"
    assert choose("mock", settings(agent="command:claude -p"), {}).name == "mock"


@pytest.mark.parametrize("name", [None, "", "mok", "command", "command:", "command:  ", "Mock", "claude -p", "model:"])
def test_unknown_model_name(name: str | None) -> None:
    with pytest.raises(UsageError) as error:
        choose(name, settings(), {})
    assert "command:'SHELL TEXT'" in (error.value.hint or "")


@pytest.mark.parametrize("contents", [None, "{", "[]", "\udcff"])
def test_a_script_that_cannot_be_read(tmp_path: Path, contents: str | None) -> None:
    if contents is not None:
        (tmp_path / "s").write_text(contents, errors="surrogateescape")
    with pytest.raises(TddError) as error:
        choose("mock:s", settings(), {}, str(tmp_path))
    assert f"{tmp_path}/s" in str(error.value)
