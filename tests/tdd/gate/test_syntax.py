"""An AST look at tests: what is a test, which are new, what was done to those that were there, and which are none."""

from __future__ import annotations

import ast
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.tdd.gate import comparison, syntax
from tests.support.env import PROJECT_ROOT


def names(source: str, *patterns: str) -> list[str]:
    return sorted(syntax.functions(ast.parse(source), patterns))


def test_tests_are_named_as_pytest_names_them() -> None:
    source = """
def test_a(): pass
async def test_b(): pass
def helper(): pass
class TestX:
    def test_c(self): pass
    class TestY:
        def test_d(self): pass
if True:
    def test_e(): pass
try:
    pass
except ValueError:
    def test_f(): pass
test_g = test_a
def test_h(): pass
del test_h
def check_i(): pass
"""
    found = ["TestX.TestY.test_d", "TestX.test_c", "test_a", "test_b", "test_e", "test_f", "test_g"]
    assert names(source) == found
    assert names(source, "check_*") == sorted([*found, "check_i"])


@pytest.mark.parametrize(
    "node_id, path, name",
    [
        ("tests/test_a.py::test_b", "tests/test_a.py", "test_b"),
        ("tests/test_a.py::TestX::test_b[a::b[0]]", "tests/test_a.py", "TestX.test_b"),
        ("te::st/test_a.py::test_b[x]", "te::st/test_a.py", "test_b"),
    ],
)
def test_the_function_of_a_node_id(node_id: str, path: str, name: str) -> None:
    assert syntax.function_name(node_id, path) == name


def test_inherited_name_counts_as_present() -> None:
    tree = ast.parse("class TestX(Base):\n    pass\ntest_made = make()\ndef test_a(): pass\n")
    assert [syntax.has(tree, each) for each in ("TestX.test_b", "test_made", "test_a", "test_b", "TestY.test_b")] == [
        True, True, True, False, False,
    ]  # fmt: skip


BEFORE = """\
import pytest

@pytest.fixture
def one():
    return 1

class TestX:
    @pytest.mark.parametrize("n", [1, 2])
    def test_a(self, n, one):
        assert n >= one

def test_b(one):
    assert one == 1
"""


@pytest.mark.parametrize(
    "after, said",
    [
        (BEFORE + "\n\ndef test_c(one):\n    assert one\n", []),
        ("# a comment\nimport os\n" + BEFORE, []),
        (BEFORE.replace("one == 1", "one"), ["the test test_b was changed"]),
        (BEFORE.replace("[1, 2]", "[1]"), ["the test TestX.test_a was changed"]),
        (BEFORE.replace("class TestX", "@pytest.mark.slow\nclass TestX"), ["the test TestX.test_a was changed"]),
        (BEFORE.replace("class TestX", "class TestY"), ["the test TestX.test_a was removed"]),
        (BEFORE + "\ndef test_b(): pass\n", ["the test test_b was changed"]),
        (BEFORE.replace("    return 1", "    pytest.skip('later')\n    return 1"), ["new use of `skip`"]),
        (BEFORE + "\nTestX.__test__ = False\n", ["new use of `__test__`"]),
        (BEFORE + "(", ["cannot be read as Python any more"]),
        (None, ["was removed"]),
    ],
)
def test_changes_of_existing_tests_are_reported(after: str | None, said: list[str]) -> None:
    found = comparison.changed_tests("t.py", BEFORE.encode(), after.encode() if after is not None else None)
    assert len(found) == len(said), found
    for each, words in zip(found, said, strict=True):
        assert words in each


def test_a_file_without_tests_may_go() -> None:
    assert comparison.changed_tests("tests/helpers.py", b"def helper(): pass\n", None) == ()


@pytest.mark.parametrize(
    "before, after, said",
    [
        (None, "import pytest\n@pytest.fixture(autouse=True)\ndef one(): yield 1\n", []),
        (None, "def pytest_addoption(parser): parser.addoption('--x')\n", []),
        (None, "def pytest_configure(config): config.addinivalue_line('markers', 'x')\n", []),
        (None, "def pytest_configure(config): config.option.x = 1\n", ["pytest_configure"]),
        (None, "def pytest_runtest_makereport(item, call): pass\n", ["pytest_runtest_makereport"]),
        (None, "import m\n@m.hookimpl(specname='pytest_sessionfinish')\ndef f(): pass\n", ["specname="]),
        (None, "pytest_sessionfinish = print\n", ["pytest_sessionfinish"]),
        (None, "pytest_plugins = ['mine']\n", ["pytest_plugins"]),
        (None, "import pytest\npytest.importorskip('x')\n", ["`importorskip`"]),
        (None, "import os\nos._exit(0)\n", ["os._exit"]),
        (None, "(", ["cannot be read"]),
        ("def pytest_sessionstart(): pass\n", "def pytest_sessionstart(): pass\nx = 1\n", []),
        ("def pytest_sessionstart(): pass\n", "def pytest_sessionstart(): 1\n", ["pytest_sessionstart"]),
    ],
)  # fmt: skip
def test_conftest_hooks_skips_and_exits_are_vetoes(before: str | None, after: str, said: list[str]) -> None:
    found = comparison.conftest_vetoes("conftest.py", before.encode() if before is not None else None, after.encode())
    assert len(found) == len(said), found
    for each, words in zip(found, said, strict=True):
        assert words in each


# -- tests that are none ---------------------------------------------------------------------------------------------


def why(source: str) -> list[str]:
    tree = ast.parse(source)
    return list(comparison.find_trivial_tests(tree, syntax.functions(tree)).values())


EMPTY, TRUE, NEVER = "has an empty body", "asserts nothing but what is always true", "can never pass"


@pytest.mark.parametrize(
    "body, reason",
    [
        ("pass", EMPTY),
        ("...", EMPTY),
        ("'''It is tested.'''\n    return None", EMPTY),
        ("assert True", TRUE),
        ("add(1, 2)\n    assert 1", TRUE),
        ("assert (add(1, 2) == 4, 'a tuple')", TRUE),
        ("assert add(1, 2) == 4 or True", TRUE),
        ("assert not False and 1 == 1", TRUE),
        ("assert False", NEVER),
        ("assert 1 == 2", NEVER),
        ("add(1, 2)\n    raise ValueError", NEVER),
        ("add(1, 2)\n    pytest.fail('not yet')", NEVER),
        ("x = 1", TRUE),
    ],
)
def test_trivial_tests(body: str, reason: str) -> None:
    head = "import math, random, pytest, pkg\nfrom pkg import add\ndef helper_of_nothing():\n    return 2\n"
    assert why(f"{head}def test_a():\n    {body}\n") == [reason]


@pytest.mark.parametrize(
    "body",
    [
        "assert add(1, 2) == 3",
        "x = 1\n    assert x == 2",
        "with pytest.raises(ValueError):\n        add()",
        "try:\n        add()\n    except ValueError:\n        return\n    assert False",
        "helper_of_nothing()",
    ],
)
def test_tests_that_are_not_trivial(body: str) -> None:
    """Whether one that asserts something leads to the code is not guessed: it has to fail, and then to pass."""
    assert why(f"import pytest\nfrom pkg import add\ndef test_a():\n    {body}\n") == []


def test_projects_own_tests_are_not_refused() -> None:
    refused = []
    for folder, _, files in os.walk(PROJECT_ROOT / "tests" / "store"):
        for name in files:
            if name.startswith("test_") and name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    tree = syntax.parse(file.read())
                assert tree is not None
                refused += list(comparison.find_trivial_tests(tree, syntax.functions(tree)).items())
    assert refused == []


@pytest.mark.law
@given(
    st.lists(st.sampled_from(["pass", "assert True", "x = 1", "1 + 1", "assert 1 == 1", "assert not 0"]), max_size=4),
    st.sampled_from(["def test_a():", "async def test_a():", "class TestX:\n  def test_a(self):"]),
)  # fmt: skip
def test_tests_made_of_nothing_are_trivial(body: list[str], head: str) -> None:
    lines = "".join(f"\n      {each}" for each in body or ["pass"])
    assert len(why(head + lines + "\n")) == 1
