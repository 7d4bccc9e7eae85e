"""What tests look at in a repository whose refs may be in files or in reftables: one place that knows the difference.

The answers are git's own, where it has one.
`GIT_DEFAULT_REF_FORMAT=reftable` makes every repository of the tests one with reftables.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from git_agentos.git.location import Location, locate
from git_agentos.git.refs import files, reftable
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


def use_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have git make repositories as libgit2 and every git know them: with SHA-1, and refs in files."""
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha1")
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", FILES)


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
    return {name: _reflog(root, name) for name in names}


def _reflog(root: Path, name: str) -> bytes:
    shown = git_run(root, "reflog", "show", "--format=%H %gn %ge %gs", name, "--")
    if shown.returncode == 0:
        return shown.stdout
    # Of a branch without a commit git shows none; of others, tests/git/test_refs.py compares ours with git's.
    return b"\n".join(reftable.read_log(locate(str(root)), name))


def lock_of(repo: Repo, name: str) -> Path:
    """The lock that git takes to change a ref; in reftables that of a stack."""
    if not is_reftable(repo.git_dir):
        return Path(repo.text("rev-parse", "--path-format=absolute", "--git-path", name) + ".lock")
    option = "--git-common-dir" if name.startswith("refs/heads/") else "--git-dir"
    return Path(repo.text("rev-parse", "--path-format=absolute", option), TABLES, "tables.list.lock")


def point_nowhere(repo: Repo, name: str) -> str:
    """Point a ref at a commit that is not there, as a power cut may leave it; the id of that commit."""
    commit = repo.text("commit-tree", "-m", f"of {name}, and lost", "HEAD^{tree}")
    repo.git("update-ref", "--no-deref", name, commit)
    repo.try_git("reflog", "delete", f"{name}@{{0}}")
    Path(repo.text("rev-parse", "--path-format=absolute", "--git-path", f"objects/{commit[:2]}/{commit[2:]}")).unlink()
    return commit


def damage(repo: Repo, name: str) -> None:
    """Damage one ref: its file, or in reftables, where all others are damaged with it, what it leads to."""
    if is_reftable(repo.git_dir):
        repo.git("symbolic-ref", name, name)
    else:
        path = Path(repo.text("rev-parse", "--path-format=absolute", "--git-path", name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * 41)


def before_it_moves(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Have `act` called when we have locked a ref, just before it moves."""
    for backend in (files, reftable):
        monkeypatch.setattr(backend, "transaction", _watched(backend.transaction, name, act))


def _watched(real: Callable[..., Any], name: str, act: Callable[[], None]) -> Callable[..., Any]:
    @contextlib.contextmanager
    def transaction(location: Location, ref: str, *args: Any) -> Iterator[Callable[[], None]]:
        with real(location, ref, *args) as commit:

            def move() -> None:
                if ref == name:
                    act()
                commit()

            yield move

    return transaction


def has_log(repo: Repo, name: str) -> bool:
    return repo.try_git("reflog", "exists", name) == 0


def log_lines(repo: Repo, name: str = "HEAD") -> list[str]:
    """The messages of a reflog, oldest first."""
    return repo.text("log", "-g", "--format=%gs", name, "--").splitlines()[::-1]
