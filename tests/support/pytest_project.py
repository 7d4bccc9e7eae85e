"""Tests run for real: a project in a repository, a lean Python, and pytest in it."""

from __future__ import annotations

import dataclasses
import functools
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from git_agentos import open_workspace
from git_agentos.tdd.gate.pytest_run import Control, PytestResult, run_pytest
from git_agentos.tdd.gate.setup import PytestSetup, prepare
from tests.support.lean_python import minimal_venv
from tests.support.repo import Repo


def pytest_project(tmp_path: Path, *parts: str) -> Repo:
    """An empty repository whose path has whatever a path may have, with a lean Python for its tests."""
    repo = Repo.init(tmp_path.joinpath(*(parts or ("a 'place\" of $its",))))
    repo.config("agentos.tdd.python", str(minimal_venv(tmp_path / "venv")))
    return repo


def setup_of(
    repo: Repo, environment: Mapping[str, str] | None = None, *, sandbox: bool = False, **changes: Any
) -> PytestSetup:
    """How the repository's tests run."""
    context = open_workspace(repo.path).context
    base = os.environ if environment is None else environment
    return dataclasses.replace(prepare(context, base, sandbox=sandbox, mark=uuid.uuid4().hex), **changes)


@functools.cache
def _setup(path: Path) -> PytestSetup:
    """The interpreter is probed once: that takes as long as a run."""
    return setup_of(Repo(path))


def run_tests(repo: Repo, *tests: str, canary: bool = False, **control: Any) -> PytestResult:
    """The result of running them."""
    return run_pytest(_setup(repo.path), tests, canary=canary, control=Control(**control))


def outcomes(result: PytestResult) -> dict[str, str]:
    """Each case's outcome, by its node id."""
    assert result.cases is not None, result.output
    return {case.node_id: case.outcome for case in result.cases}
