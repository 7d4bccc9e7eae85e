"""How much of the slow tables runs: what `make test`, `make test-all` and `make soak` have in common.

| | tables marked `sampled`; steps that commands are killed at | other tables | tests of quick.txt |
|---|---|---|---|
| `make test` | fewer | at most `QUICK_CASES` cases of each test | left out |
| `make test-all`, and pytest by itself | a sample | all | run |
| `make soak` | all | all | run |

`AGENTOS_TEST_QUICK_CASES=1` makes the quick sample smaller, for one more version of git (`.ci/matrix`) or one more file
system (`make test-platforms`).

A sample is the same in every run, so that a change is judged by what it changes; every dimension of a table stays
covered. `AGENTOS_TEST_SEED=N` moves it; `make soak` leaves nothing out. The header of a test run names the seed.

A test that is named on the command line (`tests/x.py::test_y`) runs with all of its cases; `make test` with
`PYTEST_ARGS=tests/x.py` or `PYTEST_ARGS='-k restore'` leaves out as little as `make test-all`, unless
AGENTOS_TEST_QUICK_CASES is set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.env import PROJECT_ROOT

# The second comes through the sealed environment on its own.
EXHAUSTIVE = any(os.environ.get(name) == "1" for name in ("AGENTOS_TEST_EXHAUSTIVE", "SOAK_EXHAUSTIVE"))
SEED = int(os.environ.get("AGENTOS_TEST_SEED") or 0)
QUICK_CASES = int(os.environ.get("AGENTOS_TEST_QUICK_CASES") or 4)
QUICK_LIST = PROJECT_ROOT / "tests" / "quick.txt"


def is_sampled(*place: int, one_in: int) -> bool:
    """Whether a cell of a table is among the samples; `place` is its row, its column and so on: the samples lie on
    diagonals, so that each row and each column has some."""
    return EXHAUSTIVE or (sum(place) + SEED) % one_in == 0


def is_quick() -> bool:
    """Whether this is `make test`, and nothing was named."""
    return os.environ.get("AGENTOS_TEST_QUICK") == "1" and not EXHAUSTIVE


def configure(config: pytest.Config) -> None:
    """What is asked for by name, by folder or by `-k` is no quick sample, unless its size is asked for too.

    Processes of xdist take it from here.
    """
    if "AGENTOS_TEST_QUICK_CASES" in os.environ:
        return
    tops = {PROJECT_ROOT, PROJECT_ROOT / "tests"}
    if config.option.keyword or any(Path(word).resolve() not in tops for word in config.args):
        os.environ["AGENTOS_TEST_QUICK"] = "0"


def budget(steps: int) -> int:
    """How many of a command's steps it is killed at, where `steps` are tried in `make test-all`."""
    return max(2, steps // 4) if is_quick() else steps


def evenly(items: list[int], count: int) -> list[int]:
    """About `count` of the items, evenly spaced; which ones, the seed decides."""
    stride = max(1, -(-len(items) // max(1, count)))
    return items[(stride // 2 + SEED) % stride :: stride]


def sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that are no samples."""
    if any("::" in word for word in config.args):
        return
    run = _sampled_tables(items)
    if is_quick():
        run = _quick(run)
    chosen = set(run)
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = run


def header() -> str:
    """A line for the head of a test run."""
    amount = "everything" if EXHAUSTIVE else "a quick sample" if is_quick() else "a sample of the large tables"
    return f"tables: {amount} (AGENTOS_TEST_SEED={SEED})"


def _sampled_tables(items: list[pytest.Item]) -> list[pytest.Item]:
    known: dict[tuple[str, int], list[str]] = {}
    return [item for item in items if _is_run(item, known)]


def _is_run(item: pytest.Item, known: dict[tuple[str, int], list[str]]) -> bool:
    """`known` has, of each table, the rows, columns and so on that were met so far, by their ids."""
    marker = item.get_closest_marker("sampled")
    if marker is None or not isinstance(item, pytest.Function):
        return True
    place = []
    for dimension, id_ in enumerate(
        item.callspec._idlist
    ):  # one for each `parametrize`; nothing public tells them apart
        met = known.setdefault((_function(item), dimension), [])
        if id_ not in met:
            met.append(id_)
        place.append(met.index(id_))
    return is_sampled(*place, one_in=marker.kwargs["one_in"])


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """A few cases of each test, but for what tests/quick.txt says."""
    left_out, wanted = _quick_list()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(_function(item), []).append(item)
    picked = {
        each[number]
        for function, each in cases.items()
        if function not in left_out
        for number in evenly(list(range(len(each))), QUICK_CASES)
    }
    return [item for item in items if item in picked or item.nodeid in wanted]


def _quick_list() -> tuple[set[str], set[str]]:
    """The tests that are left out, and the cases that are run nevertheless: lines with `-` and with `+`."""
    lines = QUICK_LIST.read_text().splitlines()
    left_out = {line[2:] for line in lines if line.startswith("- ")}
    return left_out, {line[2:] for line in lines if line.startswith("+ ")}


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
