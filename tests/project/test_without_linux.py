"""What only Linux has is not needed: a sample of the tests passes without each (tests/support/without_linux.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import without_linux

_ROOT = Path(__file__).parents[2]
_SAMPLE = [
    "tests/process/test_processes.py",
    "tests/process/test_contained.py",
    "tests/run/test_workspace.py::test_a_worktree_of_its_own",
    "tests/worktree/test_revival.py::test_files_differing_from_the_commit_come_back",
]
_RESTORES = ["tests/checkpoint/restore", "tests/states/test_types.py"]
# Where each look at the processes takes a mount namespace.
_FEW_RESTORES = [
    "tests/checkpoint/restore/test_ignore_rules.py::test_file_made_visible_by_restore_is_saved_and_comes_back",
    "tests/checkpoint/restore/test_ignore_rules.py::test_an_archive_has_the_empty_folders_that_a_rule_ignores",
]
# Without /proc nothing proves that a lock is stale, and it is kept.
_LEFT_OUT = "not lock"


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("feature", without_linux.FEATURES)
def test_sample_passes_without(feature: str, tmp_path: Path) -> None:
    if not without_linux.can_be_without(feature):
        pytest.skip("this needs a mount namespace, or x86-64")
    if feature == "proc" and shutil.which("lsof") is None:
        pytest.skip("lsof is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "AGENTOS_TEST_"))}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}", "-k", _LEFT_OUT]
    words = ["-m", "tests.support.without_linux", feature, "--", sys.executable, "-m", "pytest", *options]
    words += [*_SAMPLE, *(_FEW_RESTORES if feature == "proc" else _RESTORES)]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=_ROOT,
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
