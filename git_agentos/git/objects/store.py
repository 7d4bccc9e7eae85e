"""The port for objects, and which backend serves a repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from git_agentos.errors import RepositoryError
from git_agentos.git import repository_format
from git_agentos.git.location import Location


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
    """The objects of a repository, by the backend that serves it (docs/decisions/018-objects-behind-a-port.md): libgit2
    where it can open the repository, since it reads fastest; else plumbing.

    RepositoryError if the repository cannot be opened, UnsupportedRepository if its format has become one that is not
    supported since it was located.
    """
    if location.format == repository_format.DEFAULT:
        # Imported here, as the other backend is for those who cannot wait for libgit2.
        from git_agentos.git.objects.libgit2_store import Libgit2Store

        try:
            return Libgit2Store(location.git_dir, objects_dir)
        except RepositoryError:
            repository_format.read(location.common_dir)
            raise
    from git_agentos.git.objects.plumbing import PlumbingStore

    return PlumbingStore(location.git_dir, objects_dir, location.hash, location.environment())
