"""Hypothesis looks for what an agent can do and a rollback does not take back, or an undo not bring back.

The worktree is compared with a really fresh one at the same base, with the same set-up: bytes, modes, links, folders,
index, HEAD, branch, status, operation.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.law import edits
from tests.support.law.edits import Edit
from tests.support.law.start import copy_template, templates
from tests.support.repo import Repo
from tests.support.rollbacks import RolledBackWorktree, assert_like, prepare
from tests.support.sampling import EXHAUSTIVE

_BEGINNINGS = ("filled", "index-v4", "split-index", "untracked-cache")


@dataclass(frozen=True)
class Sly:
    """An edit of the same size whose time is set back."""

    path: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        full = repo.at(self.path)
        if os.path.isfile(full) and not os.path.islink(full) and edits._is_real(repo, self.path):
            found = os.stat(full)
            with open(full, "r+b") as file:
                file.write(b"~" * found.st_size)
            os.utime(full, ns=(found.st_atime_ns, found.st_mtime_ns))


@dataclass(frozen=True)
class Fold:
    """Permission bits of a folder."""

    path: bytes
    mode: int

    def do(self, repo: Repo, templates: Path) -> None:
        full = repo.at(self.path)
        if os.path.isdir(full) and not os.path.islink(full):
            os.chmod(full, self.mode)


_PLACES = st.sampled_from((b"file", b"d/e", b"run.sh", b".env", b"made.txt", b"bad\xff", b"cache/link", b"x.log"))
_BELOW = st.sampled_from((b"build/out", b"build/a/b", b"cache/more", b".env", b"made.txt", b"a.log"))
_BLIND = ("config", "core.trustctime", "false")
_SLY: st.SearchStrategy[Edit] = st.one_of(
    st.builds(Sly, _PLACES),
    st.builds(Fold, st.sampled_from((b"d", b"cache", b"build", b"")), st.sampled_from((0o700, 0o750, 0o777))),
    st.builds(edits.Write, _BELOW, st.sampled_from(("aa", "large", "every byte")), st.sampled_from((None, 0o600))),
    st.builds(edits.Mkdir, st.sampled_from((b"build/empty", b"cache/empty/er", b"d/empty"))),
    st.builds(edits.Remove, st.sampled_from((b".env", b"cache", b"made.txt", b"d", b".gitignore"))),
    st.builds(edits.Git, st.sampled_from((_BLIND, ("branch", "-f", "agentos/run-r1")))),
)
_ALL = st.lists(st.one_of(edits.edits, edits.edits, _SLY, edits.wrecks), min_size=1, max_size=12)
_SETTINGS = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), max_examples=40 if EXHAUSTIVE else 3,
    phases=tuple(Phase) if EXHAUSTIVE else (Phase.explicit, Phase.generate),
)  # fmt: skip


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("templates")
    templates(folder)
    return folder


@pytest.mark.parametrize("number", range(20 if EXHAUSTIVE else 3))
def test_back_and_forth(number: int, made_once: Path, tmp_path: Path) -> None:
    @seed(number)
    @_SETTINGS
    @given(_ALL)
    def law(steps: list[Edit]) -> None:
        shutil.rmtree(tmp_path / "ground", ignore_errors=True)
        (tmp_path / "ground").mkdir()
        repo = copy_template(made_once, _BEGINNINGS[number % len(_BEGINNINGS)], tmp_path / "ground")
        ground = prepare(repo)
        for step in steps:
            step.do(ground.there, made_once)
        _holds(ground, steps)

    law()


def _holds(ground: RolledBackWorktree, steps: list[Edit]) -> None:
    # Whether git sees a sly edit then is a matter of the second in which it was made.
    blind = edits.Git(_BLIND) in steps
    before = ground.look(by_content=blind)
    ground.roll_back()
    ground.assert_fresh(f"after {steps}")
    if not before.unlike(ground.look(by_content=blind)):
        return  # nothing had been changed: there is nothing to undo
    ground.undo()
    assert_like(before, ground.look(by_content=blind), f"undone after {steps}")
    ground.undo()
    ground.assert_fresh(f"done again after {steps}")
