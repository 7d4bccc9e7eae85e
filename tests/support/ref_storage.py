"""What tests look at in a repository whose refs may be in files or in reftables: one place that knows the difference.

The answers are git's own. `GIT_DEFAULT_REF_FORMAT=reftable` makes every repository of the tests one with reftables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.repo import Repo, git, git_run

FILES, REFTABLE = "files", "reftable"
TABLES = "reftable"  # the folder in a git directory


def by_default() -> str:
    """The format of the repositories that git makes in this run."""
    return os.environ.get("GIT_DEFAULT_REF_FORMAT", FILES)


def is_known() -> bool:
    """Whether this git knows reftables."""
    return b"ref-format" in git_run(Path.cwd(), "init", "-h").stdout


def require() -> None:
    """Skip a test where git has no reftables."""
    if not is_known():
        pytest.skip("this git has no reftables (git 2.45 and later have)")


def require_files(why: str) -> None:
    """Skip a test of what only files have, where the repositories of this run have reftables."""
    if by_default() != FILES:
        pytest.skip(f"refs are in reftables: {why}")


def is_reftable(git_dir: Path) -> bool:
    return (git_dir / TABLES).is_dir()


def head_ref(root: Path) -> str | None:
    """The ref that HEAD points to; None if it is detached."""
    found = git_run(root, "symbolic-ref", "--quiet", "--no-recurse", "HEAD")
    return os.fsdecode(found.stdout.strip()) if found.returncode == 0 else None


def root_refs(root: Path) -> Mapping[str, str]:
    """Name -> oid of the refs outside of `refs/` that are in reftables (`ORIG_HEAD`, `CHERRY_PICK_HEAD`)."""
    out = git(root, "for-each-ref", "--include-root-refs", "--format=%(refname) %(objectname)").decode()
    found = dict(line.split(" ") for line in out.splitlines() if not line.startswith("refs/"))
    return {name: oid for name, oid in found.items() if name not in ("HEAD", "MERGE_HEAD", "FETCH_HEAD")}


def reflogs(root: Path) -> Mapping[str, bytes]:
    """Name -> entries of the reflogs in reftables, without those of git-agentos's refs."""
    names = git(root, "reflog", "list").decode().split()
    return {name: git(root, "reflog", "show", "--format=%H %gn %ge %gs", name, "--") for name in names}


def log_lines(repo: Repo, name: str = "HEAD") -> list[str]:
    """The messages of a reflog, oldest first."""
    return repo.text("log", "-g", "--format=%gs", name, "--").splitlines()[::-1]
