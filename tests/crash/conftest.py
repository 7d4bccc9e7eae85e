"""The server that runs the tool step by step, one for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.runner import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started
