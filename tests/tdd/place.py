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
from git_agentos.tdd.gate import pytest_run, setup
from git_agentos.tdd.gate.setup import Ground
from tests.support.repo import Repo
from tests.tdd.lean import lean


def place(tmp_path: Path, *parts: str) -> Repo:
    """An empty repository whose path has whatever a path may have, with a lean Python for its tests."""
    repo = Repo.init(tmp_path.joinpath(*(parts or ("a 'place\" of $its",))))
    repo.config("agentos.tdd.python", str(lean(tmp_path / "venv")))
    return repo


def ground_of(repo: Repo, environment: Mapping[str, str] | None = None, **changes: Any) -> Ground:
    """Where the repository's tests run."""
    here = open_workspace(repo.path).context
    found = setup.of(here, os.environ if environment is None else environment, mark=uuid.uuid4().hex)
    return dataclasses.replace(found, **changes)


@functools.cache
def _asked(path: Path) -> Ground:
    """The interpreter is asked once: that takes as long as a run."""
    return ground_of(Repo(path))


def ran(repo: Repo, *tests: str, **options: Any) -> pytest_run.Tested:
    """What came of running them."""
    return pytest_run.run(_asked(repo.path), tests, **options)


def outcomes(found: pytest_run.Tested) -> dict[str, str]:
    """Each case's outcome, by its node id."""
    assert found.cases is not None, found.output
    return {case.node_id: case.outcome for case in found.cases}
