"""The server that runs the tool step by step, one for the whole run; and the cases that it strikes at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.faults.server import FaultCase, Runner, prepare
from tests.support.repo import Repo


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


@pytest.fixture
def case(request: pytest.FixtureRequest, runner: Runner, repo: Repo) -> FaultCase:
    """A scenario made ready; `every_checkpoint` and `every_change` say which."""
    return prepare(runner, repo, *request.param(runner, repo))
