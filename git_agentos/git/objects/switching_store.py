"""The backend of SHA-1 repositories whose refs are files: plumbing first, and libgit2 as soon as that pays.

Importing libgit2 takes as long as reading some two hundred objects without it. A checkpoint of a few changes reads
fewer, and so do the hooks; a restore of many files reads thousands. How many it will be is not known when a repository
is opened, so what the questions cost is added up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from git_agentos.errors import RepositoryError
from git_agentos.git.objects.store import ObjectStore

# What questions cost more without libgit2 than with it, and what its import costs, in microseconds.
_IMPORT = 20_000
_READ = 100
_LOOK_UP = 10  # in the indexes of packs
_ANCESTRY = 4_000  # a `git merge-base`


class SwitchingStore:
    """An `ObjectStore` that asks `quick`, and when that has cost enough, the store that `open_fast` opens. If that one
    cannot be opened, it goes on with `quick`."""

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
