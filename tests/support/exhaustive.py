"""What `make soak` does in full, and CI by samples: one switch, and how samples are taken.

A sample is the same in every run, so a failure can be had again; every dimension of a table stays covered.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# The second comes through the sealed environment on its own.
EXHAUSTIVE = any(os.environ.get(name) == "1" for name in ("AGENTOS_TEST_EXHAUSTIVE", "SOAK_EXHAUSTIVE"))


def is_sampled(*place: int, one_in: int) -> bool:
    """Whether a cell of a table is among the samples; `place` is its row, its column and so on: the samples lie on
    diagonals, so that each row and each column has some."""
    return EXHAUSTIVE or sum(place) % one_in == 0


def sample(items: Sequence[T], *, one_in: int) -> Sequence[T]:
    """Every `one_in`-th item, or all."""
    return items if EXHAUSTIVE else items[::one_in]
