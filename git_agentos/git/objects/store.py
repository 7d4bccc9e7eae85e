"""The port for objects, and which backend serves a repository."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from git_agentos.errors import RepositoryError
from git_agentos.git import repository_format
from git_agentos.git.location import Location

# What questions cost more without libgit2 than with it, and what its import costs, in microseconds.
_IMPORT = 20_000
_READ = 100
_LOOK_UP = 2  # in the indexes of packs
_ANCESTRY = 4_000  # a `git merge-base`


class ObjectStore(Protocol):
    """The objects of a repository, its alternates included. Oids are hex strings. Nothing is fetched from a promisor
    remote, and nothing is replaced (git-replace(1))."""

    def read(self, oid: str, /) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if it does not exist, RepositoryError if it is damaged."""

    def header(self, oid: str, /) -> tuple[str, int] | None:
        """Kind and size of an object; None if it does not exist, or its header cannot be read."""

    def exists(self, oid: str, /) -> bool:
        """Whether the object is in the store."""

    def is_known(self, oid: str, /) -> bool:
        """Whether the object was in the store when its packs were last listed, or is loose now.

        `exists` looks for new packs before it returns false, for each object again, at a cost that grows with the
        number of packs. This function may miss a pack that was just written.
        """

    def exists_on_disk(self, oids: Iterable[str], /) -> set[str]:
        """The `oids` that are in the store on disk now; packs that only this process still has open do not count."""

    def lookup(self, prefix: str, /) -> tuple[str, str] | None:
        """Kind and full oid of the object that a hex prefix names; None if there is none, or several."""

    def independent(self, commits: Sequence[str], /) -> list[str]:
        """`commits`, in order, without those that another one reaches."""

    def merge_base(self, one: str, other: str, /) -> str | None:
        """A best common ancestor of two commits; None for unrelated histories."""

    def is_ancestor(self, older: str, newer: str, /) -> bool:
        """Whether the commit `newer` is `older` or descends from it."""


def open_store(location: Location, objects_dir: str) -> ObjectStore:
    """The objects of a repository, by the backend that serves it (docs/decisions/018-objects-behind-a-port.md).

    UnsupportedRepository if its format has become one that is not supported since it was located, RepositoryError if it
    has become another one.
    """
    if repository_format.read(location.common_dir) != location.format:
        raise RepositoryError("the format of this repository has just changed", "try again")
    from git_agentos.git.objects.plumbing import PlumbingStore

    plumbing = PlumbingStore(location.git_dir, objects_dir, location.hash, location.environment())
    if location.format != repository_format.DEFAULT:
        return plumbing

    def libgit2() -> ObjectStore:
        from git_agentos.git.objects.libgit2_store import Libgit2Store

        return Libgit2Store(location.git_dir, objects_dir)

    return SwitchingStore(plumbing, libgit2)


class SwitchingStore:
    """An `ObjectStore` that asks `quick`, and when that has cost enough, the store that `open_fast` opens. If that one
    cannot be opened, it goes on with `quick`.

    Importing libgit2 takes as long as reading some two hundred objects without it. A checkpoint of a few changes reads
    fewer, and so do the hooks; a restore of many files reads thousands. How many it will be is not known when a
    repository is opened, so what the questions cost is added up.
    """

    def __init__(self, quick: ObjectStore, open_fast: Callable[[], ObjectStore]) -> None:
        self._store = quick
        self._open_fast: Callable[[], ObjectStore] | None = open_fast
        self._cost = 0

    def _for(self, cost: int) -> ObjectStore:
        """The store for a question of that cost."""
        self._cost += cost
        if self._cost > _IMPORT and self._open_fast is not None:
            open_fast, self._open_fast = self._open_fast, None
            with contextlib.suppress(RepositoryError):
                self._store = open_fast()
        return self._store

    def read(self, oid: str) -> tuple[str, bytes] | None:
        return self._for(_READ).read(oid)

    def header(self, oid: str) -> tuple[str, int] | None:
        return self._for(_READ).header(oid)

    def exists(self, oid: str) -> bool:
        return self._for(_LOOK_UP).exists(oid)

    def is_known(self, oid: str) -> bool:
        return self._for(_LOOK_UP).is_known(oid)

    def exists_on_disk(self, oids: Iterable[str]) -> set[str]:
        wanted = list(oids)
        return self._for(_LOOK_UP * len(wanted)).exists_on_disk(wanted)

    def lookup(self, prefix: str) -> tuple[str, str] | None:
        return self._for(_READ).lookup(prefix)

    def independent(self, commits: Sequence[str]) -> list[str]:
        return self._for(_ANCESTRY).independent(commits)

    def merge_base(self, one: str, other: str) -> str | None:
        return self._for(_ANCESTRY).merge_base(one, other)

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self._for(_ANCESTRY).is_ancestor(older, newer)
