"""Samples of tables: `make soak` runs every case of each, wherever it is."""

from __future__ import annotations

import re
import shlex

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
