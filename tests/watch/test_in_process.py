"""A process that watches worktrees for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from git_agentos.watch import in_process
from git_agentos.watch.in_process import InProcess
from tests.support.repo import Repo
from tests.support.waiting import wait_until


@pytest.fixture
def own(repo: Repo) -> Iterator[InProcess]:
    found = in_process.begin(str(repo.git_dir))
    assert found is not None
    yield found
    found.close()


def test_a_change_makes_another_moment(repo: Repo, own: InProcess) -> None:
    assert own.moments() == {}
    root = str(repo.path)
    own.watch(root)
    wait_until(lambda: own.moments().get(root), "it is watched")
    before = own.moments()[root]
    repo.git("--no-optional-locks", "status", "--porcelain")
    assert own.moments()[root] == before
    repo.write("file.txt", "changed\n")
    assert own.moments()[root] not in (None, before)


def test_what_is_no_worktree_of_the_repository_is_not_watched(repo: Repo, own: InProcess) -> None:
    own.watch("/")
    own.watch(str(repo.path))
    wait_until(lambda: list(own.moments()) == [str(repo.path)], "that of the repository is watched")


def test_after_the_end_nothing_is_known(repo: Repo, own: InProcess) -> None:
    own.watch(str(repo.path))
    own.close()
    own.close()
    own.watch(str(repo.path))
    assert own.moments() == {}
