"""Packed objects by libgit2, in the repositories that it can open: SHA-1, without extensions that it does not know."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.git.hash_algorithm import SHA1
from git_agentos.git.objects import alternates, libgit2, loose
from git_agentos.git.objects.loose import LooseObjects, damaged
from git_agentos.git.objects.pack_index import PackIndexes

if TYPE_CHECKING:
    import pygit2

# What libgit2 may ignore: it reads nothing but objects for us. Never `refstorage`, since it would read wrong refs.
_EXTENSIONS = ("worktreeconfig", "partialclone", "preciousobjects", "relativeworktrees", "submodulepathconfig", "noop")
_opening = threading.Lock()


def _open(git_dir: str) -> pygit2.Repository:
    """Open a repository without libgit2's own check of its owner: git has checked it already (safe.directory).

    The setting is global to the process, which may use libgit2 itself: it is restored afterwards.
    """
    with _opening:
        validates = libgit2.validates_owner()
        libgit2.validate_owner(False)
        known = libgit2.known_extensions()
        if not known.issuperset(_EXTENSIONS):
            libgit2.know_extensions([*_EXTENSIONS, *(known - set(_EXTENSIONS))])
        try:
            return libgit2.open_repository(git_dir)
        finally:
            libgit2.validate_owner(validates)


class Libgit2Store:
    """An `ObjectStore` of libgit2."""

    def __init__(self, git_dir: str, objects_dir: str) -> None:
        """UnsupportedRepository if libgit2 cannot open it; its own message does not help a user."""
        try:
            self._git = _open(git_dir)
        except (libgit2.GitError, KeyError) as error:
            raise UnsupportedRepository(
                f"the repository at '{git_dir}' cannot be opened",
                "'git fsck' and 'git status' show whether it is damaged",
            ) from error
        self._objects_dir = objects_dir
        self._stores = alternates.folders(objects_dir)
        self._loose = LooseObjects(self._stores, SHA1)
        self._odb = self._git.odb
        self._backends = list(self._odb.backends)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        try:
            if (found := self._loose.read(oid)) is not None:
                return found
        except RepositoryError:
            packs = PackIndexes(self._stores, SHA1.raw_length).on_disk()
            if not any(oid in each for each in packs):
                raise
        try:
            kind, data = self._odb.read(libgit2.Oid(hex=oid))
        except (KeyError, ValueError):
            return None
        except libgit2.GitError as error:
            raise damaged(oid, str(error)) from error
        return libgit2.KINDS[kind], data

    def header(self, oid: str) -> tuple[str, int] | None:
        try:
            if (found := self._loose.header(oid)) is not None:
                return found
            kind, size = self._odb.read_header(libgit2.Oid(hex=oid))
        except (KeyError, ValueError, RepositoryError, libgit2.GitError):
            return None
        return libgit2.KINDS[kind], int(size)

    def exists(self, oid: str) -> bool:
        if oid == SHA1.empty_tree:
            # libgit2 has it built in, but git fsck requires it as an object.
            return loose.exists(self._objects_dir, oid)
        # Not `in repository`: that reads the whole object.
        return SHA1.is_oid(oid) and libgit2.Oid(hex=oid) in self._odb

    def is_known(self, oid: str) -> bool:
        return any(backend.exists(oid) for backend in self._backends)

    def exists_on_disk(self, oids: Iterable[str]) -> set[str]:
        odb = libgit2.open_objects(self._objects_dir)
        return {oid for oid in oids if (self.exists(oid) if oid == SHA1.empty_tree else libgit2.Oid(hex=oid) in odb)}

    def lookup(self, prefix: str) -> tuple[str, str] | None:
        try:
            found: Any = self._git.git_object_lookup_prefix(prefix)  # may be None, which pygit2's types omit
        except (ValueError, KeyError, libgit2.GitError):
            return None
        return (libgit2.KINDS[int(found.type)], str(found.id)) if found is not None else None

    def independent(self, commits: Sequence[str]) -> list[str]:
        kept: list[str] = []
        for oid in commits:
            if not any(self.is_ancestor(oid, other) for other in kept):
                kept = [other for other in kept if not self.is_ancestor(other, oid)]
                kept.append(oid)
        return kept

    def merge_base(self, one: str, other: str) -> str | None:
        found: object = self._git.merge_base(one, other)  # may be None, which pygit2's types omit
        return str(found) if found is not None else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        return older == newer or bool(self._git.descendant_of(newer, older))
