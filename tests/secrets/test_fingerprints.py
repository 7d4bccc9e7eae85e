"""A fingerprint is the same in every run and worktree of a repository, and says nothing without its key."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from git_agentos.errors import DamagedFile
from git_agentos.git.location import locate
from git_agentos.secrets import fingerprints
from tests.support.repo import Repo

SECRET = b"a secret"


def fingerprint(repo: Repo) -> str:
    """In a process of its own."""
    code = (
        "import sys\nfrom git_agentos.git.location import locate\nfrom git_agentos.secrets import fingerprints\n"
        "print(fingerprints.of(sys.argv[2].encode(), fingerprints.key(locate(sys.argv[1]))))"
    )
    argv = [sys.executable, "-c", code, str(repo.path), SECRET.decode()]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_it_is_the_same_in_every_run_and_worktree(repo: Repo) -> None:
    linked = repo.scratch / "linked"
    repo.git("worktree", "add", "-q", "--detach", str(linked))
    first = fingerprint(repo)
    assert len(first) == fingerprints.LENGTH
    assert [fingerprint(repo), fingerprint(Repo(linked))] == [first, first]


def test_processes_that_begin_together_agree(repo: Repo) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(fingerprint, [repo] * 8))) == 1


def test_another_repository_has_others(make_repo: Callable[[str], Repo]) -> None:
    assert fingerprint(make_repo("one")) != fingerprint(make_repo("two"))


def test_the_key_is_private_and_not_in_the_worktree(repo: Repo) -> None:
    known = fingerprints.key(locate(str(repo.path)))
    path = repo.git_dir / "agentos" / "fingerprint-key"
    assert path.read_bytes() == known
    assert len(known) == 32
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert repo.text("status", "--porcelain", "--ignored") == ""


@pytest.mark.parametrize("damage", ["short", "empty", "link"])
def test_a_damaged_key_is_named_and_not_replaced(repo: Repo, damage: str) -> None:
    location = locate(str(repo.path))
    fingerprints.key(location)
    path = repo.git_dir / "agentos" / "fingerprint-key"
    if damage == "link":
        path.unlink()
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"x" if damage == "short" else b"")
    with pytest.raises(DamagedFile, match="fingerprint-key' is damaged"):
        fingerprints.key(location)
    path.unlink()
    assert len(fingerprints.key(location)) == 32
