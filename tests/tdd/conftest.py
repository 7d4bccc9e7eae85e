"""Where the state of a test's workflows is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import postgres


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The worktree's own database; with the parameter `postgres` an empty one on the server, for every process."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield "sqlite"
        return
    with postgres.database() as url:
        monkeypatch.setenv("AGENTOS_WORKFLOW_DB", url)
        yield url
