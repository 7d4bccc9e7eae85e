"""What `make soak` does in full, and CI by samples: one switch, and how samples are taken.

A sample is the same in every run, so a failure can be had again; every dimension of a table stays covered.
"""

from __future__ import annotations

import os

import pytest

# The second comes through the sealed environment on its own.
EXHAUSTIVE = any(os.environ.get(name) == "1" for name in ("AGENTOS_TEST_EXHAUSTIVE", "SOAK_EXHAUSTIVE"))


def is_sampled(*place: int, one_in: int) -> bool:
    """Whether a cell of a table is among the samples; `place` is its row, its column and so on: the samples lie on
    diagonals, so that each row and each column has some."""
    return EXHAUSTIVE or sum(place) % one_in == 0


def sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is no sample of a test with the marker `sampled`. Whoever names a case runs it."""
    if any("[" in word for word in config.args):
        return
    known: dict[tuple[str, int], list[str]] = {}
    run: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (run if _is_run(item, known) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = run


def _is_run(item: pytest.Item, known: dict[tuple[str, int], list[str]]) -> bool:
    """`known` has, of each table, the rows, columns and so on that were met so far, by their ids."""
    marker = item.get_closest_marker("sampled")
    if marker is None or not isinstance(item, pytest.Function):
        return True
    place = []
    for dimension, id_ in enumerate(
        item.callspec._idlist
    ):  # one for each `parametrize`; nothing public tells them apart
        met = known.setdefault((item.nodeid.partition("[")[0], dimension), [])
        if id_ not in met:
            met.append(id_)
        place.append(met.index(id_))
    return is_sampled(*place, one_in=marker.kwargs["one_in"])
