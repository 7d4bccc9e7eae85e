"""Objects without libgit2: loose ones and small ones in packs are read here, others by a `git cat-file` that keeps
running.

Whether an object exists is looked up in the indexes of the packs, not asked of git: in a partial clone git would fetch
it from the promisor remote, and for each object that does not exist it lists the packs again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from git_agentos.errors import RepositoryError
from git_agentos.git import process
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.objects import alternates
from git_agentos.git.objects.cat_file import CatFile
from git_agentos.git.objects.loose import LooseObjects, damaged
from git_agentos.git.objects.pack_file import PackFile
from git_agentos.git.objects.pack_index import PackIndex, PackIndexes

_MOST_FILES = 32  # packs that are open at a time
_SHORTEST = 4  # digits of a prefix, as git


class PlumbingStore:
    """An `ObjectStore` of the standard library and git."""

    def __init__(
        self, git_dir: str, objects_dir: str, hash_algorithm: HashAlgorithm, environment: Mapping[str, str]
    ) -> None:
        self._hash = hash_algorithm
        self._git_dir = git_dir
        self._environment = environment
        stores = alternates.folders(objects_dir)
        self._loose = LooseObjects(stores, hash_algorithm)
        self._packs = PackIndexes(stores, hash_algorithm.raw_length)
        self._last: PackIndex | None = None  # the pack that the last object was in: the next one often is too
        self._files: dict[PackIndex, PackFile] = {}
        self._cat_file = CatFile(environment)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        if not self._hash.is_oid(oid):
            return None
        try:
            found = self._loose.read(oid)
        except RepositoryError:
            if not self._is_packed(oid):
                raise
            found = None
        if found is None and self._is_packed(oid):
            found = self._read_packed(oid)
        return found

    def _read_packed(self, oid: str) -> tuple[str, bytes] | None:
        """An object in the pack `_last`; git reads it where that is faster, and says what is wrong with it."""
        assert self._last is not None
        if self._last not in self._files:
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            with contextlib.suppress(OSError):
                self._files[self._last] = PackFile(self._last)
        file = self._files.get(self._last)
        found = None if file is None else file.read(oid)
        if found is not None and self._hash.object_id(*found) == oid:
            return found
        found = self._cat_file.read(oid)
        if found is not None and self._hash.object_id(*found) != oid:
            raise damaged(oid, "it has the content of another object")
        return found

    def header(self, oid: str) -> tuple[str, int] | None:
        if not self._hash.is_oid(oid):
            return None
        try:
            return self._loose.header(oid) or (self._cat_file.header(oid) if self._is_packed(oid) else None)
        except RepositoryError:
            return None

    def exists(self, oid: str) -> bool:
        return self._hash.is_oid(oid) and (self.is_known(oid) or self._is_in(self._packs.on_disk(), oid))

    def is_known(self, oid: str) -> bool:
        if self._last is not None and oid in self._last:
            return True
        return self._loose.exists(oid) or self._is_in(self._packs.known(), oid)

    def exists_on_disk(self, oids: Iterable[str]) -> set[str]:
        packs = self._packs.on_disk()
        if self._last not in packs:
            self._last = None
        return {oid for oid in oids if self.is_known(oid)}

    def _is_packed(self, oid: str) -> bool:
        return self._is_in(self._packs.known(), oid) or self._is_in(self._packs.on_disk(), oid)

    def _is_in(self, packs: Iterable[PackIndex], oid: str) -> bool:
        self._last = next((each for each in packs if oid in each), self._last)
        return self._last is not None and oid in self._last

    def lookup(self, prefix: str) -> tuple[str, str] | None:
        if not self._hash.can_be_prefix(prefix) or len(prefix) < _SHORTEST:
            return None
        found = set(self._loose.with_prefix(prefix))
        found.update(oid for each in self._packs.on_disk() for oid in each.with_prefix(prefix))
        if len(found) != 1:
            return None
        oid = found.pop()
        header = self.header(oid)
        return (header[0], oid) if header is not None else None

    def independent(self, commits: Sequence[str]) -> list[str]:
        if len(commits) < 2:
            return list(commits)
        return self._merge_base("--independent", *commits) or []

    def merge_base(self, one: str, other: str) -> str | None:
        found = self._merge_base(one, other)
        return found[0] if found else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        return older == newer or self._merge_base("--is-ancestor", older, newer) is not None

    def _merge_base(self, *args: str) -> list[str] | None:
        """The oids that `git merge-base` prints; None if it exits with 1, its "no"."""
        command = ("merge-base", *args)
        status, out, err = process.finish(process.spawn(command, cwd=self._git_dir, env=self._environment))
        if status not in (0, 1):
            raise process.failure(command, status, err)
        return out.decode("ascii").split() if status == 0 else None
