"""Merging commits in memory, as the user's own git merges: `git merge-tree --write-tree` (git 2.38).

No index and no worktree is changed; merge drivers, attributes, rename detection and `merge.*` are the user's. Trees and
blobs of the result are written to the object store, or to a `quarantine`.

Format: git-merge-tree(1), OUTPUT, with -z.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.errors import RepositoryError
from git_agentos.git import process, state_dir
from git_agentos.git.quarantine import environment
from git_agentos.git.repository import Repository, Writer
from git_agentos.util.named_tuple import NamedTuple

_NO_SUCH_OPTION = 129
_SHARE = 16  # the smallest number of pairs for which a further process is started


class MergeResult(NamedTuple):
    """The result of a merge: `tree` (with conflict markers if it is not clean), the paths in conflict as bytes,
    and git's messages about them."""

    tree: str
    clean: bool
    files: list[bytes]
    messages: list[str]


class MergeEnvironment(NamedTuple):
    """Where merges are computed: the attributes are those of the working tree that `environment` and `cwd` name."""

    environment: Mapping[str, str] = {}
    cwd: str | None = None


def quarantine(repository: Repository, folder: str) -> dict[str, str]:
    """The environment in which git writes objects to `folder` (created here), and still reads the store.

    Empty in a partial clone, where objects that git fetches must be kept.
    """
    if "extensions.partialclone" in _extensions(repository):
        return {}
    return environment(repository, folder)


@contextlib.contextmanager
def discarding_writer(repository: Repository) -> Iterator[Writer]:
    """A writer whose objects are discarded at the end, for comparisons."""
    with (
        state_dir.scratch(repository.location) as folder,
        repository.writer(quarantine(repository, os.path.join(folder, "objects"))) as writer,
    ):
        yield writer


def _extensions(repository: Repository) -> set[str]:
    """The keys of the repository's own configuration that begin with `extensions.`, lower-cased."""
    out = repository.git("config", "--null", "--name-only", "--get-regexp", r"^extensions\.", ok=(0, 1))
    return {os.fsdecode(name).lower() for name in out.split(b"\0") if name}


def merge(
    repository: Repository, ours: str, theirs: str, where: MergeEnvironment, *, durable: bool = False
) -> MergeResult:
    """Merge commit `theirs` into commit `ours`; with `durable`, the objects of the result are fsynced."""
    args = ["-c", "core.fsync=loose-object"] if durable else []
    args += ["merge-tree", "--write-tree", "-z", ours, theirs]
    out = repository.git(*args, env=where.environment, cwd=where.cwd, ok=(0, 1))
    fields = out.split(b"\0")
    return _parse(fields, 0, clean=len(fields) <= 2)[0]


def merge_pairs(repository: Repository, pairs: Sequence[tuple[str, str]], where: MergeEnvironment) -> list[MergeResult]:
    """The merges of many pairs of commits, in order, computed by a few processes. Unrelated histories are merged, too
    (files that both have are in conflict)."""
    share = max(_SHARE, -(-len(pairs) // (os.cpu_count() or 1)))
    parts = [pairs[n : n + share] for n in range(0, len(pairs), share)]
    if len(parts) <= 1:
        return [merged for part in parts for merged in _batch(repository, part, where)]
    from concurrent.futures import ThreadPoolExecutor  # which imports logging

    with ThreadPoolExecutor(len(parts)) as pool:
        done = list(pool.map(lambda part: _batch(repository, part, where), parts))
    return [merged for part in done for merged in part]


def _batch(repository: Repository, pairs: Sequence[tuple[str, str]], where: MergeEnvironment) -> list[MergeResult]:
    args = ["merge-tree", "--write-tree", "--stdin", "-z", "--allow-unrelated-histories"]
    env = repository.location.environment(where.environment)
    data = "".join(f"{one} {other}\n" for one, other in pairs).encode()
    child = process.spawn(args, cwd=where.cwd or repository.location.root, env=env, stdin=process.PIPE)
    status, out, err = process.finish(child, data)
    if status == _NO_SUCH_OPTION:  # git 2.38 has no --stdin yet
        return [_single(repository, one, other, where) for one, other in pairs]
    if status != 0:
        raise process.failure(args, status, err)
    fields = out.split(b"\0")
    position, results = 0, []
    for _ in pairs:
        if position + 1 >= len(fields):
            raise RepositoryError("git merge-tree stopped before the last pair", "git fsck shows details")
        merged, position = _parse(fields, position + 1, clean=fields[position] == b"1")
        results.append(merged)
        position += 1
    return results


def _single(repository: Repository, one: str, other: str, where: MergeEnvironment) -> MergeResult:
    args = ["merge-tree", "--write-tree", "-z", "--allow-unrelated-histories", one, other]
    found = repository.git(*args, env=where.environment, cwd=where.cwd, ok=(0, 1)).split(b"\0")
    return _parse(found, 0, clean=len(found) <= 2)[0]


def _parse(fields: list[bytes], position: int, *, clean: bool) -> tuple[MergeResult, int]:
    """One result, and the position after it (at the empty field that ends it)."""
    tree = fields[position].decode()
    position += 1
    if clean:
        return MergeResult(tree, True, [], []), position
    files: dict[bytes, None] = {}
    while fields[position]:
        files.setdefault(fields[position].partition(b"\t")[2])
        position += 1
    position += 1
    messages = []
    named: dict[bytes, None] = {}
    # Advice on submodules is printed after the messages, without NULs despite -z: as a field, it ends them.
    while position < len(fields) and fields[position].isdigit():
        count = int(fields[position])
        kind = fields[position + count + 1]
        if kind.startswith(b"CONFLICT"):
            # A conflict without stages (a directory split by a rename) has only its message.
            named.update(dict.fromkeys(fields[position + 1 : position + count + 1]))
            messages.append(fields[position + count + 2].decode("utf-8", "surrogateescape").rstrip("\n"))
        position += count + 3
    return MergeResult(tree, False, sorted(files or named), messages), position
