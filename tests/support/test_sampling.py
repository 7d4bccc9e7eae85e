"""Samples of tables: `make test` is a part of `make test-all`, and `make soak` runs every case of each."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.env import PROJECT_ROOT

TOP = PROJECT_ROOT


def test_the_soak_runs_every_table_of_the_suite() -> None:
    """It names no folder, so a table that is added anywhere is run. Tests with real clients are `make test-clients`."""
    recipe = re.search(r"^soak:.*\n((?:\t.*\n)+)", (TOP / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    commands = [shlex.split(line) for line in recipe.group(1).splitlines() if "pytest" in line]
    selected = []
    for words in commands:
        assert "AGENTOS_TEST_EXHAUSTIVE=1" in words
        after = words[words.index("$(BIN)/pytest") + 1 :]
        selected.append(after[after.index("-m") + 1])
        assert after == ["-n", "auto", "--dist", "worksteal", "-m", selected[-1], "$(PYTEST_ARGS)"]
    assert selected == ["law", "not law and not clients"]


TABLE = """
import pytest

@pytest.mark.parametrize("n", range(40))
def test_table(n): pass

@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("n", range(40))
def test_sampled(n): pass

def test_single(): pass
"""


def _passed(folder: Path, *arguments: str, **environment: str) -> set[str]:
    """The cases that a run of the table above runs, with the project's own samples."""
    (folder / "test_it.py").write_text(TABLE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    sampled(one_in): a table\n")
    (folder / "conftest.py").write_text(
        "from pathlib import Path\nfrom tests.support import sampling\n"
        "sampling.PROJECT_ROOT = Path(__file__).parent\n"
        "sampling.QUICK_LIST = Path(__file__).with_name('quick.txt')\n"
        "def pytest_configure(config): sampling.configure(config)\n"
        "def pytest_collection_modifyitems(config, items): sampling.sample(config, items)\n"
    )
    (folder / "quick.txt").write_text("# a comment\n- test_it.py::test_single\n+ test_it.py::test_table[7]\n")
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "AGENTOS_TEST_SEED": "0", **environment}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"::(\S+) PASSED", done.stdout))


def test_quick_sample_is_part_of_all_and_follows_the_list(tmp_path: Path) -> None:
    everything = _passed(tmp_path)
    assert len(everything) == 40 + 4 + 1
    quick = _passed(tmp_path, AGENTOS_TEST_QUICK="1")
    assert quick < everything
    assert "test_single" not in quick
    assert "test_table[7]" in quick
    assert len(quick) == 4 + 1 + 4


def test_sample_moves_on_with_the_seed(tmp_path: Path) -> None:
    runs = [_passed(tmp_path, "-k", "sampled", AGENTOS_TEST_SEED=str(seed)) for seed in (0, 1, 9)]
    assert [len(each) for each in runs] == [4, 4, 4]
    assert len(set.union(*runs)) == 12


def test_named_test_runs_with_all_of_its_cases(tmp_path: Path) -> None:
    assert len(_passed(tmp_path, "test_it.py::test_sampled", AGENTOS_TEST_QUICK="1")) == 40
    assert len(_passed(tmp_path, "test_it.py", AGENTOS_TEST_QUICK="1")) == 40 + 4 + 1
    assert len(_passed(tmp_path, "-k", "table", AGENTOS_TEST_QUICK="1")) == 40


def test_named_file_is_sampled_where_the_size_of_the_sample_is_given(tmp_path: Path) -> None:
    sample = {"AGENTOS_TEST_QUICK": "1", "AGENTOS_TEST_QUICK_CASES": "2"}
    assert len(_passed(tmp_path, "test_it.py", **sample)) == 2 + 1 + 2


def test_exhaustive_run_leaves_nothing_out(tmp_path: Path) -> None:
    assert len(_passed(tmp_path, AGENTOS_TEST_EXHAUSTIVE="1")) == 40 + 40 + 1
