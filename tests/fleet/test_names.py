"""Names of fleets, and their refs."""

from __future__ import annotations

import itertools

import pytest

from git_agentos.errors import UsageError
from git_agentos.fleet import names
from git_agentos.fleet.names import FleetRef
from git_agentos.run import context


@pytest.mark.parametrize(
    ("ref", "parsed"),
    [
        ("refs/agentos/fleet/f/tasks", FleetRef("f", "tasks")),
        ("refs/agentos/fleet/f/end", FleetRef("f", "end")),
        ("refs/agentos/fleet/f/live/t.1", FleetRef("f", "live", "t.1")),
        ("refs/agentos/fleet/f/results/tasks", FleetRef("f", "results", "tasks")),
        ("refs/agentos/fleet/f", None),
        ("refs/agentos/fleet/f/live", None),
        ("refs/agentos/fleet/f/tasks/t", None),
        ("refs/agentos/fleet/f/other/t", None),
        ("refs/agentos/fleet/f/live/t/u", None),
        ("refs/agentos/fleet/f/live/a..b", None),
        ("refs/agentos/fleet/f.lock/tasks", None),
        (f"refs/agentos/fleet/{'f' * 61}/tasks", None),
        ("refs/heads/main", None),
    ],
)
def test_refs_of_the_remote(ref: str, parsed: FleetRef | None) -> None:
    assert names.parse(ref) == parsed
    if parsed is not None:
        assert parsed.on_remote == ref
        for remote in ("origin", "or/igin", "live", "f/live"):
            here = names.fetched_ref(remote, ref)
            assert here == parsed.fetched_from(remote)
            assert names.parse_fetched(here) == (remote, parsed)


def test_ids() -> None:
    assert names.check_fleet_id("a-1") == "a-1"
    for bad in ("", "a/b", "-a", "a.lock", "a" * 61):
        with pytest.raises(UsageError):
            names.check_fleet_id(bad)
        with pytest.raises(UsageError):
            names.check_task_id(bad)


def test_each_task_has_a_run_of_its_own() -> None:
    assert names.run_id("f", "t.1") == "f-t.1"
    ids = ["a", "b", "a-b", "b-a", "a-b-a", "a.b", "a" * 60, "a" * 59 + "b", "b" * 40]
    runs = [names.run_id(fleet, task) for fleet, task in itertools.product(ids, ids)]
    assert len(set(runs)) == len(runs)
    assert all(map(context.is_id, runs))
