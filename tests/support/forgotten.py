"""Timelines to forget from, and what their repositories hold."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from tests.support.repo import Repo
from tests.support.tool import run_ok


def take(repo: Repo, count: int, *, trigger: str = "periodic", size: int = 4000, first: int = 0) -> list[str]:
    """Checkpoints of one changed and one new file each, with contents of their own; the ids, oldest first."""
    found = []
    for number in range(first, first + count):
        repo.write("notes.txt", f"note {number}\n" * 40)
        repo.write("new.bin", random.Random(number).randbytes(size))
        found.append(run_ok(repo.path, "checkpoint", "--trigger", trigger)["id"])
    return found


def timeline(repo: Repo, name: str = "main") -> list[str]:
    """The ids of the checkpoints of a timeline, oldest first, by plain git; carriers are not among them."""
    rows = repo.text("log", "--first-parent", "--format=%P %s", f"refs/agentos/timelines/{name}").splitlines()
    found = [row.split() for row in rows]
    held = [row[1] for row in found if len(row) > 1 and row[2:3] != ["log"] and len(row[1]) == len(row[0])]
    return held[::-1]


def objects(repo: Repo) -> set[str]:
    """All objects in the store."""
    listed = repo.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def unreachable(repo: Repo) -> set[str]:
    """The objects that no ref, reflog or index reaches."""
    reached = repo.text("rev-list", "--objects", "--no-object-names", "--all", "--reflog", "--indexed-objects")
    return objects(repo) - set(reached.split())


def reached_from(repo: Repo, roots: Iterable[str]) -> set[str]:
    """What some commits reach."""
    return set(repo.text("rev-list", "--objects", "--no-object-names", *roots).split())


def unpack(repo: Repo) -> None:
    """Make all packed objects loose."""
    for pack in sorted((repo.git_dir / "objects/pack").glob("*.pack")):
        data = pack.read_bytes()
        for path in pack.parent.glob(f"{pack.stem}.*"):
            path.unlink()
        repo.git("unpack-objects", "-q", stdin=data)


def holders(repo: Repo, text: bytes, *more: Path) -> list[str]:
    """Where a text is: objects, reachable or not, loose or packed, by kind and id; and files below the git directory,
    `.agentos` and `more`, by path."""
    found = []
    data = repo.git("cat-file", "--batch-all-objects", "--batch", "--unordered")
    while data:
        header, _, rest = data.partition(b"\n")
        oid, kind, size = header.decode().split()
        content, data = rest[: int(size)], rest[int(size) + 1 :]
        if text in content:
            found.append(f"{kind} {oid}")
    common = Path(repo.text("rev-parse", "--path-format=absolute", "--git-common-dir"))
    for top in (common, repo.path / ".agentos", *more):
        plain = (path for path in top.rglob("*") if path.is_file() and not path.is_symlink())
        found += [str(path) for path in plain if text in path.read_bytes() or text in bytes(path)]
    return found


def store_size(repo: Repo) -> int:
    """Bytes on disk in the object store."""
    return sum(path.lstat().st_blocks * 512 for path in Path(repo.git_dir / "objects").rglob("*") if path.is_file())
