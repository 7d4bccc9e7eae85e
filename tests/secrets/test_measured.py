"""How many made-up keys are found, and how many ordinary files are held for nothing: on two seeds."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.secrets.scanner import Scanner
from tests.support import made_up_keys
from tests.support.sampling import SEED

KEYS, FILES = 200, 2000
KEY = bytes(32)
# Of Python's own tests, some are private keys; other people's packages are not its library.
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
SEEDS = (1, 1000 + SEED)


def library(most: int) -> Iterator[tuple[bytes, bytes]]:
    """Files of Python's library: sources and whatever else lies there, the binary ones too."""
    top = Path(sysconfig.get_path("stdlib"))
    found = sorted(each for each in top.rglob("*") if _LEFT_OUT.isdisjoint(each.relative_to(top).parts))
    files = [each for each in found if each.is_file() and not each.is_symlink() and each.stat().st_size < 1 << 20]
    for each in files[:: max(1, len(files) // most)][:most]:
        yield bytes(each.relative_to(top)), each.read_bytes()


@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "another"))
@pytest.mark.parametrize("detect_secrets", [True, False], ids=("detect-secrets", "ours alone"))
def test_made_up_keys_are_found(seed: int, detect_secrets: bool) -> None:
    scanner = Scanner(KEY, detect_secrets=detect_secrets)
    missed = []
    for each in made_up_keys.hidden(seed, KEYS):
        found = scanner.scan(each.path, each.data)
        if each.line not in [finding.line for finding in found]:
            missed.append((each.provider, each.surrounding, each.data[-300:]))
        assert not any(each.secret in str(finding) for finding in found)
    assert len(missed) <= KEYS * 0.02, missed


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "another"))
def test_ordinary_files_are_not_held(seed: int) -> None:
    files = [*library(FILES // 2)]
    files += [(each.path, each.data) for each in made_up_keys.ordinary(seed, FILES - len(files))]
    assert len(files) == FILES
    scanner = Scanner(KEY)
    held = [(path, found) for path, data in files if (found := scanner.scan(path, data))]
    assert len(held) <= 2, held


def test_every_provider_and_surrounding_is_measured() -> None:
    keys = made_up_keys.hidden(1, KEYS)
    assert {each.provider for each in keys} == set(made_up_keys.PROVIDERS)
    assert {each.surrounding for each in keys} == set(made_up_keys.SURROUNDINGS)
    assert len(made_up_keys.PROVIDERS) == 20
    for each in keys:
        assert each.data.split(b"\n")[each.line - 1]


def test_a_seed_is_a_measurement() -> None:
    assert made_up_keys.hidden(7, 40) == made_up_keys.hidden(7, 40)
    assert made_up_keys.hidden(7, 40) != made_up_keys.hidden(8, 40)
    assert list(made_up_keys.ordinary(7, 60)) == list(made_up_keys.ordinary(7, 60))
