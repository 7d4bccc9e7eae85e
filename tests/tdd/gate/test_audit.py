"""The audit: what is found in code that has to do with the tests that judge it, and lint; only what is new."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.tdd.gate import tamper
from git_agentos.tdd.gate.audit import Finding, _find_json_list, audit
from tests.support.env import PROJECT_ROOT
from tests.support.pytest_project import pytest_project, setup_of
from tests.support.repo import Repo


def said(source: str, path: str = "shop/basket.py") -> list[str]:
    return [message for _, message in tamper.scan(source.encode(), path)]


@pytest.mark.parametrize(
    "source, words",
    [
        ("import _pytest.runner", "_pytest"),
        ("from _pytest import runner", "_pytest"),
        ("import pytest\npytest.Item.runtest = print", "changes pytest.Item.runtest"),
        ("import unittest as u\nu.TestCase.assertEqual = print", "changes unittest.TestCase.assertEqual"),
        ("from unittest import TestCase\nTestCase.run = None", "changes unittest.TestCase.run"),
        ("import unittest\nsetattr(unittest.TestCase, 'run', print)", "changes unittest.TestCase"),
        ("import pytest\ndef f():\n    pytest.skip('no')", "pytest.skip"),
        ("from pytest import exit", "pytest.exit"),
        ("import os\ndef f():\n    os._exit(0)", "os._exit"),
        ("from os import _exit", "os._exit"),
        ("import os as o\no.abort()", "os.abort"),
        ("import atexit\natexit.register(print)", "when the process ends"),
        ("from atexit import register\n@register\ndef f(): pass", None),
        ("import sys\ndef f():\n    sys.settrace(print)", "sys.settrace"),
        ("import sys\nsys.exit(0)", "ends the process when it is imported"),
        ("raise SystemExit", "ends the process when it is imported"),
        ("class A:\n    exit(0)", "ends the process when it is imported"),
        ("import os\nif 'PYTEST_CURRENT_TEST' in os.environ: pass", "PYTEST_CURRENT_TEST"),
        ("import sys\nx = 'pytest' in sys.modules", "asks whether it is run by pytest"),
        ("import sys\nx = sys.modules.get('pytest')", "asks whether it is run by pytest"),
        ("import sys\nx = sys.modules['_pytest']", "out of sys.modules"),
        ("class A:\n    def __eq__(self, other):\n        '''Always.'''\n        return True", "equal to everything"),
        ("class A:\n    __eq__ = lambda *_: True", "equal to everything"),
        ("class A:\n    def __ne__(self, other): return False", "equal to everything"),
        ("import agentos_evidence", "what runs the tests"),
        ("import sys\nx = sys.modules['agentos_evidence']", "which runs the tests"),
        ("open('conftest.py', 'w').write('')", "conftest.py"),
        ("from pathlib import Path\nPath('tests/test_a.py').write_text('')", "test_a.py"),
        ("import os\nos.remove('tests/test_a.py')", "test_a.py"),
        ("import builtins\nbuiltins.AssertionError = ValueError", "what is built in (AssertionError)"),
        ("import builtins\nsetattr(builtins, 'isinstance', print)", "what is built in (isinstance)"),
    ],
)  # fmt: skip
def test_tampering_is_found(source: str, words: str | None) -> None:
    found = said(source)
    assert len(found) == (0 if words is None else 1), found
    assert words is None or words in found[0]


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nif __name__ == '__main__':\n    sys.exit(main())",
        "import sys\ndef main():\n    sys.exit(1)",
        "import os\ndef spawn():\n    if os.fork() == 0:\n        os._exit(1)",
        "class A:\n    def __eq__(self, other):\n        return isinstance(other, A)",
        "class A:\n    def __hash__(self): return True",
        "from unittest import mock",
        "import atexit\ndef f():\n    atexit.register(print)",
        "open('test_a.py').read()",
        "open('conftest.py', 'rb')",
        "open('data.json', 'w')",
        "import builtins\nbuiltins.print('x')\nbuiltins._ = str",
        "NAMES = ['pytest', 'unittest', 'conftest.py']",
        "import os\nos.environ.get('PATH')",
    ],
)
def test_ordinary_code_is_not_found(source: str) -> None:
    assert said(source) == []


def test_a_main_module_may_leave() -> None:
    assert said("import sys\nsys.exit(0)", "shop/__main__.py") == []


def test_own_code_with_findings() -> None:
    """Seven end their own process; one tells pytest where temporary folders go."""
    found = set()
    for folder, _, files in os.walk(PROJECT_ROOT / "git_agentos"):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                found |= {name for _ in tamper.scan(Path(path).read_bytes(), path)}
    assert found == {
        "entry.py",
        "launch.py",
        "page_process.py",
        "plugin.py",
        "pytest_run.py",
        "ray_keeper.py",
        "service.py",
        "supervisor.py",
    }


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"[]\n", []),
        (b'x.py:1: SyntaxWarning: "is" with a literal\n  c is "x"\n[["a.py", 1, "no"]]\n', [["a.py", 1, "no"]]),
        (b'[\n  {"code": "F401"}\n]\nwarning: this option is deprecated\n', [{"code": "F401"}]),
        (b"[W1] a warning\n[1, 2] another\n[]", []),
        (b"Traceback\n", None),
        (b"", None),
    ],
)
def test_json_list_is_found_beside_other_output(output: bytes, found: list[object] | None) -> None:
    assert _find_json_list(output) == found


# -- in a worktree -----------------------------------------------------------------------------------------------------

LEAVES = "import os\n\n\ndef f():\n    os._exit(0)\n"


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    repo = pytest_project(tmp_path)
    repo.write("shop/old.py", LEAVES)
    repo.commit("base")
    return repo


def audited(repo: Repo, *changed: str) -> list[Finding]:
    return list(audit(open_workspace(repo.path).context, setup_of(repo), repo.oid(), changed))


def test_clean_code_has_no_findings(shop: Repo) -> None:
    shop.write("shop/new.py", "def f():\n    return 1\n")
    shop.write("readme.txt", "(((")
    assert audited(shop, "shop/new.py", "readme.txt", "shop/gone.py") == []


def test_only_new_tampering_is_found(shop: Repo) -> None:
    shop.append("shop/old.py", "\n\ndef g():\n    return 1\n")
    assert audited(shop, "shop/old.py") == []
    shop.append("shop/old.py", "\n\ndef h():\n    os._exit(1)\n")
    (found,) = audited(shop, "shop/old.py")
    assert (found.kind, found.path, found.line) == ("tamper", "shop/old.py", 13)
    assert str(found).startswith("shop/old.py:13: calls os._exit")


def test_code_that_does_not_compile(shop: Repo) -> None:
    name = os.fsdecode(b"shop/b\xff d.py")
    shop.write(name, "def f(:\n")
    kinds = {(each.kind, each.path, each.line) for each in audited(shop, name)}
    assert kinds == {("lint", name, 1), ("tamper", name, 0)}


def test_tests_are_compiled_and_not_looked_at_for_tampering(shop: Repo) -> None:
    shop.write("tests/test_a.py", "import pytest\npytest.skip('x', allow_module_level=True)\n")
    assert audited(shop, "tests/test_a.py") == []


@pytest.mark.parametrize(
    "path, text",
    [
        ("sitecustomize.py", ""),
        ("unittest.py", ""),
        ("src/traceback.py", ""),
        ("pyproject.toml", "[project.entry-points.pytest11]\nx = 'x'\n"),
    ],
)
def test_files_that_come_before_others(shop: Repo, path: str, text: str) -> None:
    shop.write(path, text)
    assert [(each.kind, each.path) for each in audited(shop, path)] == [("tamper", path)]


def test_links_and_pipes_are_not_followed(shop: Repo, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(LEAVES)
    shop.link("shop/link.py", str(tmp_path / "outside.py"))
    os.mkfifo(shop.at("shop/pipe.py"))
    assert audited(shop, "shop/link.py", "shop/pipe.py") == []


def test_the_projects_own_linter_answers_for_itself(shop: Repo) -> None:
    shop.config("agentos.tdd.lint", "test -e shop/ok || { echo 'no shop/ok'; exit 3; }")
    (found,) = audited(shop)
    assert (found.kind, found.path) == ("lint", "")
    assert "(exit 3)" in found.message
    assert "no shop/ok" in found.message
    shop.write("shop/ok", "")
    assert audited(shop) == []


RUFF = Path(sys.executable).with_name("ruff")


@pytest.mark.skipif(not RUFF.exists(), reason="ruff is not installed beside this Python")
def test_ruff_where_the_project_configures_it(shop: Repo, tmp_path: Path) -> None:
    (tmp_path / "venv/bin/ruff").symlink_to(RUFF)
    shop.write("shop/a.py", "import os\nimport sys\n")
    shop.commit("with an unused import")
    shop.write("shop/a.py", "import sys\nimport os\nimport re\n\nprint(sys)\n")
    assert audited(shop, "shop/a.py") == []
    shop.write("ruff.toml", "[lint]\nselect = ['F']\n")
    (found,) = audited(shop, "shop/a.py")
    assert (found.kind, found.path, found.line) == ("lint", "shop/a.py", 3)
    assert found.message.startswith("F401")
    shop.write("ruff.toml", "[lint\n")
    (found,) = audited(shop, "shop/a.py")
    assert "ruff could not be run" in found.message


def test_syntax_warnings_are_no_findings(shop: Repo) -> None:
    shop.write("shop/new.py", 'def f(c):\n    return c is "x"\n')
    assert audited(shop, "shop/new.py") == []
