"""The two gates: what makes them hold, and every way of cheating that they veto."""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.process import contained
from git_agentos.tdd.gate import frozen_files, gates
from git_agentos.tdd.gate.gates import Base, RedRecord, Verdict
from git_agentos.tdd.gate.pytest_run import Control
from git_agentos.tdd.gate.setup import PytestSetup
from tests.support.lean_python import minimal_venv
from tests.support.pytest_project import setup_of
from tests.support.repo import Repo
from tests.support.sandbox import needs_bubblewrap

STUB = "def total(prices):\n    raise NotImplementedError\n"
CODE = "def total(prices):\n    return sum(prices)\n"
OLD = "from shop.names import upper\n\ndef test_upper():\n    assert upper('a') == 'A'\n"
NEW = """\
import pytest

from shop.basket import total


@pytest.mark.parametrize("prices, wanted", [([], 0), ([1, 2], 3)])
def test_total(prices, wanted):
    assert total(prices) == wanted
"""
RED = ("tests/test_basket.py::test_total[prices0-0]", "tests/test_basket.py::test_total[prices1-3]")


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "GRACE", 0.3)


class Shop:
    """A small project, and what the gates say of it."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.init(folder / "a 'shop\" of $its")
        self.python = minimal_venv(folder / "venv")
        self.repo.config("agentos.tdd.python", str(self.python))
        self.repo.write("shop/__init__.py", "")
        self.repo.write("shop/names.py", "def upper(name):\n    return name.upper()\n")
        self.repo.write("tests/test_names.py", OLD)
        self.repo.write("tests/data.txt", "data\n")
        self.repo.write("pyproject.toml", "[project]\nname = 'shop'\n[tool.pytest.ini_options]\naddopts = '-ra'\n")
        self.base = self.repo.commit("base")
        self.record: RedRecord | None = None

    @property
    def context(self) -> OpenWorktree:
        return open_workspace(self.repo.path).context

    @cached_property
    def setup(self) -> PytestSetup:
        return setup_of(self.repo)

    def scaffold(self, test: str = NEW, stub: str = STUB) -> Shop:
        self.repo.write("tests/test_basket.py", test)
        self.repo.write("shop/basket.py", stub)
        return self

    def red(self, *tests: str) -> Verdict:
        verdict = gates.red(self.context, self.setup, tests, base=Base(self.base, None))
        self.record = verdict.record
        return verdict

    def green(self, *tests: str) -> Verdict:
        """As it is called after `red`."""
        if self.record is None:
            red = self.red()
            assert red.holds, red.feedback
        assert self.record is not None
        return gates.green(self.context, self.setup, tests, self.record)

    def ready(self) -> Shop:
        """As if the gate had just been red: the tests are there, and nothing of the code."""
        self.record = RedRecord(RED, gates.hash_inputs(self.scaffold().setup), _plugins(), (), None)
        return self

    def implemented(self) -> Shop:
        """Red, and then with its code."""
        self.ready().repo.write("shop/basket.py", CODE)
        return self


def record_of(verdict: Verdict) -> RedRecord:
    assert verdict.record is not None, verdict.feedback
    return verdict.record


@cache
def _plugins() -> tuple[str, ...]:
    """Those of a run in which nobody has done anything."""
    with TemporaryDirectory() as folder:
        return record_of(Shop(Path(folder)).scaffold().red()).plugins


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def vetoed(verdict: Verdict, *words: str) -> None:
    """It does not hold, and each veto has one of the words, in order."""
    assert not verdict.holds
    assert len(verdict.vetoes) == len(words), verdict.vetoes
    for veto, word in zip(verdict.vetoes, words, strict=True):
        assert word in veto
        assert veto in verdict.feedback


# -- as it should be ---------------------------------------------------------------------------------------------------


def test_red_and_then_green(shop: Shop) -> None:
    red = shop.scaffold().red()
    assert (red.holds, red.exit_code, red.vetoes, record_of(red).red, red.feedback) == (True, 1, (), RED, "")
    assert set(frozen_files.paths(record_of(red).frozen)) == {
        "pyproject.toml", "tests/data.txt", "tests/test_basket.py", "tests/test_names.py",
    }  # fmt: skip
    shop.repo.write("shop/basket.py", CODE)
    green = shop.green()
    assert (green.holds, green.exit_code, green.vetoes, record_of(green).red) == (True, 0, (), RED)
    assert green.canary is not None
    assert green.canary.exit_code == 1


def test_changed_interpreter_is_a_veto(shop: Shop, tmp_path: Path) -> None:
    shop.implemented()
    other = tmp_path / "other"
    other.symlink_to(shop.python)
    shop.setup = replace(shop.setup, interpreter=replace(shop.setup.interpreter, path=str(other)))
    vetoed(shop.green(), "the interpreter, its startup files")


def test_the_rest_of_pyproject_may_change(shop: Shop) -> None:
    shop.implemented().repo.append("pyproject.toml", "[project.scripts]\nshop = 'shop.basket:total'\n")
    assert shop.green().holds


def test_adding_to_a_test_file_and_a_conftest_with_fixtures_is_no_veto(shop: Shop) -> None:
    shop.scaffold().repo.append("tests/test_names.py", "\ndef test_more(one):\n    assert upper(one, 2) == 'A'\n")
    shop.repo.write(
        "tests/conftest.py",
        "import pytest\n\ndef pytest_configure(config):\n    config.addinivalue_line('markers', 'quick: quick')\n\n"
        "@pytest.fixture\ndef one():\n    return 'a'\n",
    )
    red = shop.red()
    assert red.holds, red.feedback
    assert set(record_of(red).red) == {*RED, "tests/test_names.py::test_more"}


def test_files_written_by_tests_are_not_compared(shop: Shop) -> None:
    shop.scaffold(NEW.replace("    assert", "    open('tests/out.txt', 'a').write('x')\n    assert"))
    assert shop.red().holds
    shop.repo.write("shop/basket.py", CODE)
    assert shop.green().holds
    shop.repo.write("tests/data.txt", "other data\n")
    vetoed(shop.green(), "tests/data.txt was changed since the tests were red")


# -- red -------------------------------------------------------------------------------------------------------------


def test_tests_that_pass_at_once(shop: Shop) -> None:
    verdict = shop.scaffold(stub=CODE).red()
    assert (verdict.holds, verdict.exit_code, verdict.record) == (False, 0, None)
    assert "prematurely" in verdict.feedback


def test_no_collected_test_is_not_red(shop: Shop) -> None:
    verdict = shop.red("shop")
    assert (verdict.holds, verdict.exit_code) == (False, 5)


def test_a_test_that_cannot_be_imported(shop: Shop) -> None:
    verdict = shop.scaffold(NEW.replace("import total", "import total, totally")).red()
    assert (verdict.holds, verdict.exit_code, verdict.collect_error) == (False, 2, True)
    assert "tests/test_basket.py: " in verdict.feedback
    assert "totally" in verdict.feedback


def test_pytest_ended_by_the_test_is_no_collection_error(shop: Shop) -> None:
    verdict = shop.scaffold("import pytest\n" + NEW.replace("    assert", "    pytest.exit('no', 2)\n    assert")).red()
    assert (verdict.holds, verdict.exit_code, verdict.collect_error) == (False, 2, False)


BROKEN = NEW.replace("\n\n@", "\n\n@pytest.fixture\ndef broken():\n    total(1)\n\n\n@").replace(
    "prices, wanted):", "prices, wanted, broken):"
)


@pytest.mark.parametrize(
    "test, words",
    [
        pytest.param(BROKEN, ["in a fixture", "in a fixture", "no new test failed"], id="a fixture fails"),
        pytest.param(
            NEW.replace("    assert", "    import os; os._exit(1)\n    assert"),
            ["before it reported its results"], id="it leaves",
        ),
        pytest.param(NEW.replace("total(prices) == wanted", "True"), ["always true"], id="assert True"),
        pytest.param(
            "from shop.basket import total\n\ndef test_total():\n    pass\n", ["an empty body"], id="an empty body"
        ),
        pytest.param("def test_total():\n    assert 1 == 2\n", ["can never pass"], id="a constant that is false"),
        pytest.param(
            NEW + "\n\ndef test_easy():\n    assert total\n", ["test_easy passes already"], id="one that passes"
        ),
    ],
)  # fmt: skip
def test_red_for_the_wrong_reason(shop: Shop, test: str, words: list[str]) -> None:
    vetoed(shop.scaffold(test).red(), *words)


@pytest.mark.parametrize("path", ["spec_basket.py", "htmlcov/test_basket.py", ".venv/tests/test_basket.py"])
def test_a_red_test_that_nothing_keeps_from_being_rewritten(shop: Shop, path: str) -> None:
    shop.repo.write(".venv/pyvenv.cfg", "")
    shop.repo.write("shop/basket.py", STUB)
    shop.repo.write(path, NEW)
    vetoed(shop.red(path), f"{path} has a test that fails, and is not frozen")


def test_a_red_doctest(shop: Shop) -> None:
    shop.repo.write("shop/basket.py", '"""\n>>> total([1])\n1\n"""\n' + STUB)
    shop.repo.write("pytest.ini", "[pytest]\naddopts = --doctest-modules\n")
    verdict = gates.red(shop.context, shop.setup, ["shop/basket.py"])
    vetoed(verdict, "shop/basket.py has a test that fails, and is not frozen")


def test_helpers_of_red_tests_are_frozen(shop: Shop) -> None:
    """Helpers outside of `tests`, and plugins that are loaded; not the code."""
    shop.repo.write("pytest.ini", "[pytest]\naddopts = -p plug.hooks\n")
    shop.repo.write("plug/hooks.py", "")
    shop.base = shop.repo.commit("a plugin")
    shop.scaffold(
        "import checks\n" + NEW.replace("assert total(prices) == wanted", "checks.same(total(prices), wanted)")
    )
    shop.repo.write("checks.py", "def same(one, other):\n    assert one == other\n")
    red = shop.red()
    assert red.holds, red.feedback
    assert {"checks.py", "plug/hooks.py"} <= set(record_of(red).frozen)
    assert "shop/basket.py" not in record_of(red).frozen
    shop.repo.write("shop/basket.py", "def total(prices):\n    return None\n")
    shop.repo.write("checks.py", "def same(one, other):\n    pass\n")
    shop.repo.write("plug/hooks.py", "def pytest_runtest_makereport(item, call): pass\n")
    vetoed(shop.green(), "checks.py was changed since the tests were red", "plug/hooks.py was changed")


def test_tests_that_come_to_pass_by_themselves(shop: Shop, tmp_path: Path) -> None:
    """A test that hangs on something else than the code is no proof of it."""
    flag = tmp_path / "flag"
    shop.scaffold(f"import os\n\ndef test_total():\n    assert os.path.exists({str(flag)!r})\n")
    assert shop.red().holds
    flag.touch()
    vetoed(shop.green(), "nothing was changed since the tests were red")


def test_an_existing_test_that_fails_is_not_red(shop: Shop) -> None:
    shop.repo.write("shop/names.py", "def upper(name):\n    return name\n")
    vetoed(shop.scaffold().red(), "tests/test_names.py::test_upper fails, and is not one of the new tests")


@pytest.mark.parametrize(
    "path, text, words",
    [
        ("tests/test_names.py", OLD.replace("'A'", "'B'"), ["test_names.py:3: the test test_upper was changed"]),
        ("tests/test_names.py", OLD.replace("test_upper", "test_lower"), ["the test test_upper was removed"]),
        ("tests/test_names.py", None, ["tests/test_names.py, which has tests, was removed"]),
        ("tests/test_names.py", "import pytest\npytestmark = pytest.mark.skip\n" + OLD, ["new use of `skip`"]),
        ("tests/test_names.py", OLD + "\ntest_upper = None\n", ["was changed"]),
        ("tests/test_names.py", OLD + "\ndel test_upper\n", ["was removed"]),
        ("conftest.py", "collect_ignore = ['tests/test_names.py']\n", ["new use of `collect_ignore`"]),
        ("conftest.py", "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n", ["pytest_sessionfinish"]),
        ("conftest.py", "import os\nos._exit(1)\n", ["it calls os._exit"]),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-k basket'\n", ["configuration was changed"]),
        ("pytest.ini", "", ["configuration was changed: pytest.ini"]),
        ("sitecustomize.py", "", ["would run before pytest starts"]),
        ("src/_pytest/__init__.py", "", ["would run before pytest starts"]),
    ],
)  # fmt: skip
def test_changes_of_existing_tests_are_vetoed_before_the_run(
    shop: Shop, path: str, text: str | None, words: list[str]
) -> None:
    shop.scaffold()
    if text is None:
        shop.repo.remove(path)
    else:
        shop.repo.write(path, text)
    verdict = shop.red()
    vetoed(verdict, *words)
    assert (verdict.exit_code, verdict.result) == (None, None)


def test_an_interpreter_that_was_changed_before_the_tests_were_red(shop: Shop) -> None:
    """A plugin that is installed while the tests are written would be taken for one that was there."""
    was = gates.hash_interpreter(shop.setup)
    shop.scaffold()
    into_the_environment(shop)
    verdict = gates.red(shop.context, shop.setup, (), base=Base(shop.base, was))
    vetoed(verdict, "the interpreter, its startup files, its plugins, or pytest itself were changed")
    assert verdict.result is None


def test_a_test_that_changes_itself_while_it_runs(shop: Shop) -> None:
    vetoed(
        shop.scaffold(NEW + "\n\ndef teardown_module():\n    open(__file__, 'a').write('# more\\n')\n").red(),
        "tests/test_basket.py was changed, while the tests ran",
    )


# -- green: one cheat each ---------------------------------------------------------------------------------------------


def write(path: str, text: str) -> Callable[[Shop], None]:
    return lambda shop: shop.repo.write(path, text)


def append(path: str, text: str) -> Callable[[Shop], None]:
    return lambda shop: shop.repo.append(path, text)


def link_instead(shop: Shop) -> None:
    shop.repo.write("shop/easy.py", "def test_total():\n    pass\n")
    shop.repo.link("tests/test_basket.py", "../shop/easy.py")


def into_the_environment(shop: Shop) -> None:
    """Outside of the worktree: a file that every Python of the environment runs."""
    (folder,) = shop.python.parents[1].glob("lib/python3*/site-packages")
    (folder / "easy.pth").write_text("import sys\n")


@pytest.mark.parametrize(
    "cheat, words",
    [
        pytest.param(write("tests/test_basket.py", "def test_total():\n    pass\n"), ["was changed"], id="edits tests"),
        pytest.param(lambda shop: shop.repo.remove("tests/test_basket.py"), ["was removed"], id="deletes the test"),
        pytest.param(link_instead, ["shop/easy.py is new", "was changed"], id="puts a link there"),
        pytest.param(
            write("tests/conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()\n"),
            ["tests/conftest.py is new"], id="skips them in a conftest",
        ),
        pytest.param(
            write("conftest.py", "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"),
            ["conftest.py is new"], id="forces exit 0 in a conftest",
        ),
        pytest.param(
            append("pyproject.toml", "testpaths = ['shop']\n"), ["pytest's part of pyproject.toml was changed"],
            id="configures them away",
        ),
        pytest.param(write("pytest.ini", "[pytest]\n"), ["pytest.ini is new"], id="a new configuration"),
        pytest.param(write("tests/data.txt", "other\n"), ["tests/data.txt was changed"], id="edits what tests read"),
        pytest.param(write("sitecustomize.py", "import os\n"), ["sitecustomize.py is new"], id="runs before all"),
        pytest.param(write("pytest.py", "raise SystemExit(0)\n"), ["pytest.py is new"], id="is pytest itself"),
        pytest.param(
            write("easy.egg-info/entry_points.txt", "[pytest11]\neasy = shop.easy\n"),
            ["pytest's part of easy.egg-info/entry_points.txt is new"], id="makes itself a plugin",
        ),
        pytest.param(into_the_environment, ["the interpreter, its startup files"], id="writes into the environment"),
    ],
)  # fmt: skip
def test_change_of_frozen_files_is_vetoed_before_the_run(
    shop: Shop, cheat: Callable[[Shop], None], words: list[str]
) -> None:
    cheat(shop.implemented())
    verdict = shop.green()
    vetoed(verdict, *words)
    assert (verdict.exit_code, verdict.result) == (None, None)


SKIPS = "import pytest\npytest.skip('not here', allow_module_level=True)\n"
LEAVES = "import os\nos._exit(0)\n"
LEAVES_LATER = "import os\n\ndef total(prices):\n    os._exit(0)\n"
FORGES = """\
import json, os
from pathlib import Path

def total(prices):
    names = ("tests/test_basket.py::test_total[%s]" % each for each in ("prices0-0", "prices1-3"))
    cases = [[each, "passed", "", False] for each in names]
    path = Path(os.environ["PYTEST_DEBUG_TEMPROOT"], "0.json")
    path.write_text(json.dumps({"token": "0" * 64, "cases": cases}))
    print("===== 3 passed in 0.01s =====", flush=True)
    os._exit(0)
"""
FORCES = """\
import gc

def total(prices):
    for each in gc.get_objects():
        if type(each).__name__ == "Session" and hasattr(each, "testsfailed"):
            type(each).testsfailed = property(lambda self: 0, lambda self, value: None)
    raise ValueError
"""
PATCHES = """\
import _pytest.runner
import _pytest.reports

_real = _pytest.reports.TestReport.from_item_and_call.__func__

def _kind(cls, item, call):
    call.excinfo = None
    return _real(cls, item, call)

_pytest.reports.TestReport.from_item_and_call = classmethod(_kind)

def total(prices):
    raise ValueError
"""
PLUGS = """\
import gc

class Easy:
    def pytest_sessionfinish(self, session):
        session.exitstatus = 0

def total(prices):
    for each in gc.get_objects():
        if type(each).__name__ == "PytestPluginManager" and not each.has_plugin("easy"):
            each.register(Easy(), "easy")
    raise ValueError
"""
XFAILS = "import pytest\n\ndef total(prices):\n    pytest.xfail('later')\n"
EQUAL = "class Same:\n    __eq__ = lambda self, other: True\n\ndef total(prices):\n    return Same()\n"
PRINTS = "def total(prices):\n    print('===== 3 passed in 0.01s =====')\n    return 4\n"


@pytest.mark.parametrize(
    "code, code_is, words",
    [
        pytest.param(SKIPS, 0, ["did not run", "did not run", "skipped"], id="skips them by a module"),
        pytest.param(XFAILS, 0, ["is xfailed now", "is xfailed now"], id="has them fail as expected"),
        pytest.param(LEAVES, 0, ["before it reported its results"], id="os._exit(0) when imported"),
        pytest.param(LEAVES_LATER, 0, ["before it reported its results"], id="os._exit(0) when called"),
        pytest.param(FORGES, 0, ["before it reported its results"], id="forges report and summary"),
        pytest.param(PATCHES, 0, ["although an always-failing test was added"], id="patches pytest"),
        pytest.param(
            PLUGS, 0,
            ["is failed now", "is failed now", "the plugin 'easy' was not there"], id="registers a plugin",
        ),
        pytest.param(PRINTS, 1, [], id="prints a summary"),
    ],
)  # fmt: skip
def test_code_that_evades_its_tests_is_vetoed(shop: Shop, code: str, code_is: int, words: list[str]) -> None:
    shop.ready().repo.write("shop/basket.py", code)
    verdict = shop.green()
    assert verdict.exit_code == code_is
    vetoed(verdict, *words)


def test_the_number_of_failures_is_patched_away(shop: Shop) -> None:
    shop.ready().repo.write("shop/basket.py", FORCES)
    assert not shop.green().holds


def test_code_written_outside_of_the_worktree_is_not_tested(shop: Shop, tmp_path: Path) -> None:
    shop.scaffold()
    shop.repo.git("add", "-A")
    shop.repo.git("commit", "-q", "-m", "tests")
    other = tmp_path / "the other"
    shop.repo.git("worktree", "add", "-q", "-b", "other", str(other))
    (folder,) = shop.python.parents[1].glob("lib/python3*/site-packages")
    (folder / "shop.pth").write_text(f"{shop.repo.path}\n")  # as pip would install it editable
    elsewhere, context = setup_of(Repo(other)), open_workspace(other).context
    red = gates.red(context, elsewhere, (), base=Base(shop.base, None))
    assert red.holds, red.feedback
    shop.repo.write("shop/basket.py", CODE)
    verdict = gates.green(context, elsewhere, (), record_of(red))
    assert (verdict.holds, verdict.exit_code) == (False, 1)


def test_code_of_another_checkout_that_is_imported_all_the_same(shop: Shop, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shop.repo.git("worktree", "add", "-q", "-b", "other", str(other))
    shop.ready()
    shop.repo.write("shop/basket.py", f"import sys\nsys.path.insert(0, {str(other)!r})\nfrom sums import total\n")
    Repo(other).write("sums.py", CODE)
    vetoed(shop.green(), "sums.py was imported, which is not in this worktree")


def test_code_that_changes_the_tests_while_they_run(shop: Shop) -> None:
    easy = "from pathlib import Path\n\nPath('tests/test_names.py').write_text('')\n"
    shop.ready().repo.write("shop/basket.py", easy + CODE)
    vetoed(shop.green(), "tests/test_names.py was changed, while the tests ran")


@needs_bubblewrap
def test_writing_outside_of_the_worktree_in_a_sandbox(shop: Shop, home: Path, tmp_path: Path) -> None:
    was = shop.ready().record
    assert was is not None
    shop.repo.config("agentos.tdd.python", str(minimal_venv(tmp_path / "copied", copied=True)))
    setup = setup_of(shop.repo, sandbox=True)
    was = replace(was, frozen=gates.hash_inputs(setup))  # another interpreter
    shop.repo.write("shop/basket.py", f"open({str(home / 'outside')!r}, 'w').close()\n{CODE}")
    verdict = gates.green(shop.context, setup, (), was)
    assert (verdict.holds, verdict.exit_code, (home / "outside").exists()) == (False, 2, False)


def test_veto_for_another_test_broken_or_skipped(shop: Shop) -> None:
    shop.implemented().repo.write("shop/names.py", "def upper(name):\n    return name\n")
    verdict = shop.green()
    assert (verdict.holds, verdict.exit_code) == (False, 1)
    assert "tests/test_names.py::test_upper" in verdict.feedback
    shop.repo.write("shop/names.py", "import pytest\n\ndef upper(name):\n    pytest.skip('later')\n")
    vetoed(shop.green(), "tests/test_names.py::test_upper is skipped, and was not when the tests were red")


def test_tests_that_were_red_and_are_not_run(shop: Shop) -> None:
    vetoed(shop.implemented().green("tests/test_names.py"), "did not run", "did not run")


def test_a_timeout_and_a_signal_are_no_vetoes(shop: Shop) -> None:
    was = shop.ready().record
    assert was is not None
    shop.repo.write("shop/basket.py", "import time\n\ndef total(prices):\n    time.sleep(60)\n")
    verdict = gates.green(shop.context, setup_of(shop.repo, timeout=1.0), (), was)
    assert (verdict.holds, verdict.exit_code, verdict.vetoes) == (False, -1, ())
    shop.repo.write("shop/basket.py", "import os\n\ndef total(prices):\n    os.kill(os.getpid(), 9)\n")
    verdict = shop.green()
    assert (verdict.holds, verdict.exit_code, verdict.vetoes) == (False, 137, ())


def test_code_that_cannot_be_imported(shop: Shop) -> None:
    shop.implemented().repo.write("shop/basket.py", "import nothing_of_that_name\n")
    verdict = shop.green()
    assert (verdict.holds, verdict.exit_code, verdict.collect_error) == (False, 2, True)
    assert "nothing_of_that_name" in verdict.feedback


def test_an_interrupted_gate_says_so_and_has_no_veto(shop: Shop) -> None:
    shop.scaffold()
    verdict = gates.red(shop.context, shop.setup, (), base=Base(shop.base, None), control=Control(stop=lambda: True))
    assert verdict.result is not None
    assert (verdict.holds, verdict.vetoes, verdict.result.interrupted) == (False, (), True)


def test_a_compiled_test_in_the_cache_is_not_run_for_the_frozen_one(shop: Shop) -> None:
    """pytest would take `__pycache__` for the test, where time and size of the source are noted in it."""
    shop.ready()
    source = Path(os.fsdecode(shop.repo.at("tests/test_basket.py")))
    easy = compile("def test_total(): pass\n", str(source), "exec")
    about = source.stat()
    head = importlib.util.MAGIC_NUMBER + struct.pack("<LLL", 0, int(about.st_mtime) & 0xFFFFFFFF, about.st_size)
    tag = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}"
    shop.repo.write(f"tests/__pycache__/test_basket.{tag}.pyc", head + marshal.dumps(easy))
    verdict = shop.green()
    assert (verdict.holds, verdict.exit_code) == (False, 1)


def test_veto_never_accepts_a_failing_exit_code(shop: Shop) -> None:
    red = shop.scaffold().red()
    assert red.holds
    for exit_code in (1, 2, 3, 4, 5, -1, 137):
        tested = red.result
        assert tested is not None
        judged = gates._judge("green", replace(tested, exit_code=exit_code), [], 0)
        assert not judged.holds
