"""Hypothesis looks for a history that breaks the law.

The profile `ci` takes a few hundred steps, always the same ones, and prints a history that breaks the law as it was
found. `HYPOTHESIS_PROFILE=shrink` is the same and then looks for the smallest such history, which takes minutes. `make
soak` (the profile `soak`) runs 10,000 examples, new ones each time, and shrinks as well.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.law.machine import Law, LawOfLineEnds
from tests.support.law.start import templates

pytestmark = pytest.mark.law

_SHARDS = 8  # so that xdist can spread them

_COMMON = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    database=None,
    verbosity=Verbosity.normal,
)
settings.register_profile("shrink", _COMMON, max_examples=4, stateful_step_count=12)
settings.register_profile("ci", settings.get_profile("shrink"), phases=(Phase.explicit, Phase.generate))
settings.register_profile("soak", _COMMON, max_examples=10_000 // _SHARDS, stateful_step_count=16)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("templates")
    templates(folder)
    return folder


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_the_law(shard: int, made_once: Path, tmp_path: Path) -> None:
    """Whatever happens: see the package's docstring."""
    _hold(Law, shard, made_once, tmp_path)


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_the_law_where_line_ends_are_converted(shard: int, made_once: Path, tmp_path: Path) -> None:
    _hold(LawOfLineEnds, shard, made_once, tmp_path)


def _hold(law: type[Law], shard: int, made_once: Path, tmp_path: Path) -> None:
    class Shard(law):  # type: ignore[misc, valid-type]  # a class is made of whichever it is
        templates = made_once
        folder = tmp_path

    machine = seed(shard)(Shard) if _PROFILE != "soak" else Shard
    run_state_machine_as_test(machine, settings=settings.get_profile(_PROFILE))
