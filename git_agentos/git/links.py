"""Which objects an object names, read one by one: also of those that are damaged, or of which something is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from git_agentos.errors import AgentosError
from git_agentos.git import trees
from git_agentos.git.repository import Repository, parse_commit


def reached_by(repository: Repository, roots: Iterable[str], wanted: Collection[str]) -> set[str]:
    """Those of the objects `wanted` that some other objects name, and of `wanted` what these reach in turn."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        for oid in of(repository, waiting.pop()):
            if oid in wanted and oid not in found:
                found.add(oid)
                waiting.append(oid)
    return found


def of(repository: Repository, oid: str) -> list[str]:
    """The objects that an object names; none if it cannot be read."""
    with contextlib.suppress(AgentosError, ValueError, IndexError):
        kind, data = repository.read(oid)
        if kind == "commit":
            commit = parse_commit(oid, data)
            return [commit.tree, *commit.parents]
        if kind == "tree":
            entries = trees.parse(data, repository.hash.raw_length)
            return [each for mode, each in entries.values() if mode != trees.GITLINK]
        if kind == "tag":
            return [data.split(b"\n", 1)[0].removeprefix(b"object ").decode("ascii")]
    return []
