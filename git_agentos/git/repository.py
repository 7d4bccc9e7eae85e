"""The open repository: objects through libgit2, everything else through git.

Oids are hex strings above this module.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from git_agentos.errors import MissingObjectsError, RepositoryError, UnsupportedRepository
from git_agentos.git import libgit2, process, trees
from git_agentos.git.location import Location, extensions
from git_agentos.git.objects import ObjectWriter

if TYPE_CHECKING:
    import pygit2

_EXTENSIONS = ("worktreeconfig", "partialclone", "preciousobjects", "relativeworktrees", "noop")


class CommitData(NamedTuple):
    """A commit's parts; `message` is bytes."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: bytes
    time: int  # seconds since the epoch, of the committer


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


def _not_opened(location: Location) -> RepositoryError:
    """The error for a repository that git opens and libgit2 does not; libgit2's message does not help a user."""
    unknown = sorted(extensions(location.common_dir).keys() - {*_EXTENSIONS, "objectformat"})
    if unknown:
        names = ", ".join(f"extensions.{each}" for each in unknown)
        return UnsupportedRepository(
            f"this repository uses {names}, which git-agentos does not support",
            "git-agentos works with repositories whose object format is sha1 and whose refs are files",
        )
    return UnsupportedRepository(
        f"the repository at '{location.root}' cannot be opened",
        "'git fsck' and 'git status' show whether it is damaged",
    )


class Repository:
    """One worktree's view of a repository."""

    def __init__(self, location: Location) -> None:
        self.location = location
        try:
            self._git = _open(location.git_dir)
        except (libgit2.GitError, KeyError) as error:
            raise _not_opened(location) from error
        self._odb = self._git.odb
        self._backends = list(self._odb.backends)
        self.objects_dir = os.path.join(location.common_dir, "objects")
        self._parsed = trees.Parsed(self.read_tree)

    # -- git ------------------------------------------------------------------------------------------------

    def git(
        self,
        *args: str | bytes,
        data: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        ok: Sequence[int] = (0,),
    ) -> bytes:
        """Run a git command in this worktree; its stdout."""
        return process.run(args, cwd=cwd or self.location.root, env=self.location.environment(env), data=data, ok=ok)

    # -- objects --------------------------------------------------------------------------------------------

    def exists(self, oid: str) -> bool:
        """Whether the object is in the store (alternates included), without asking a promisor remote."""
        if oid == trees.EMPTY_TREE:
            # libgit2 has it built in, but git fsck requires it as an object.
            return os.path.exists(os.path.join(self.objects_dir, oid[:2], oid[2:]))
        # Not `in repository`: that reads the whole object.
        return libgit2.Oid(hex=oid) in self._odb

    def is_known(self, oid: str) -> bool:
        """Whether the object was in the store when it was opened, or is loose now.

        `exists` looks for new packs before it returns false, for each object again, at a cost that grows with the
        number of packs. This function may miss a pack that was just written.
        """
        return any(backend.exists(oid) for backend in self._backends)

    def exists_on_disk(self, oids: Iterable[str]) -> set[str]:
        """The `oids` that are in the store on disk now; packs that only this process still has open do not count."""
        odb = libgit2.open_objects(self.objects_dir)
        return {oid for oid in oids if (self.exists(oid) if oid == trees.EMPTY_TREE else libgit2.Oid(hex=oid) in odb)}

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object; MissingObjectsError if it does not exist."""
        try:
            kind, data = self._odb.read(libgit2.Oid(hex=oid))
        except (KeyError, ValueError) as error:
            return self._read_from_promisor(oid, error)
        except libgit2.GitError as error:
            raise RepositoryError(f"object {oid} cannot be read: {error}", "git fsck shows details") from error
        return libgit2.KINDS[kind], data

    def _read_from_promisor(self, oid: str, cause: Exception) -> tuple[str, bytes]:
        # In a partial clone git fetches a missing object; elsewhere it reports that it is missing.
        out = self.git("cat-file", "--batch", data=oid.encode() + b"\n", ok=(0, 128))
        header, _, rest = out.partition(b"\n")
        words = header.split(b" ")
        if len(words) != 3:
            raise MissingObjectsError(f"object {oid} is missing from the object store") from cause
        return words[1].decode(), rest[: int(words[2])]

    def kind(self, oid: str) -> str | None:
        """The kind of an object in the store, by its header; None if it does not exist."""
        try:
            return libgit2.KINDS[self._odb.read_header(libgit2.Oid(hex=oid))[0]]
        except (KeyError, ValueError, libgit2.GitError):
            return None

    def blob(self, oid: str) -> bytes:
        return self.read(oid)[1]

    def is_large(self, oid: str, limit: int) -> bool:
        """Whether a blob is larger than `limit` bytes."""
        return self.size(oid) > limit

    def size(self, oid: str) -> int:
        """The size of a blob in bytes; only the header is read."""
        try:
            _, size = self._odb.read_header(oid)
        except (KeyError, ValueError, libgit2.GitError):
            return int(self.git("cat-file", "-s", oid))
        return int(size)

    def stream_blob(self, oid: str, descriptor: int) -> None:
        """Write a blob's content to an open file without holding it in memory."""
        args = ["cat-file", "blob", oid]
        child = process.spawn(args, env=self.location.environment(), stdout=descriptor)
        status, _, err = process.finish(child)
        if status != 0:
            raise process.failure(args, status, err)

    def read_tree(self, oid: str) -> bytes:
        """A tree's raw content."""
        if oid == trees.EMPTY_TREE:
            return b""
        kind, data = self.read(oid)
        if kind != "tree":
            raise RepositoryError(f"object {oid} is a {kind}, not a tree")
        return data

    def entries(self, oid: str) -> Mapping[bytes, trees.Entry]:
        """A tree's entries by name."""
        return self._parsed.get(oid)

    def commit(self, oid: str) -> CommitData:
        """A commit's parts; MissingObjectsError if it does not exist, RepositoryError if it is not a commit."""
        kind, data = self.read(oid)
        if kind != "commit":
            raise RepositoryError(f"object {oid} is a {kind}, not a commit")
        return parse_commit(oid, data)

    def commit_tree(self, oid: str | None) -> str:
        """The tree of a commit; the empty tree for None."""
        return trees.EMPTY_TREE if oid is None else self.commit(oid).tree

    def commits_with_prefix(self, prefix: str) -> list[str]:
        """The oids of all commits that begin with a hex prefix."""
        out = self.git("rev-parse", f"--disambiguate={prefix}", ok=(0, 128))
        return [oid for oid in out.decode().split() if self.read(oid)[0] == "commit"]

    def find_commit(self, name: str) -> str | None:
        """The oid of the commit that git resolves `name` to; None if there is none."""
        args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return self.git(*args, ok=(0, 1, 128)).strip().decode("ascii") or None

    def lookup(self, prefix: str) -> tuple[str, str] | None:
        """Kind and full oid of the object that a hex prefix names; None if there is none, or several."""
        try:
            found: Any = self._git.git_object_lookup_prefix(prefix)  # may be None, which pygit2's types omit
        except (ValueError, KeyError, libgit2.GitError):
            return None
        return (libgit2.KINDS[int(found.type)], str(found.id)) if found is not None else None

    def independent(self, commits: Sequence[str]) -> list[str]:
        """`commits` without those that an earlier one in the list reaches."""
        kept: list[str] = []
        for oid in commits:
            if not any(other == oid or self._git.descendant_of(other, oid) for other in kept):
                kept.append(oid)
        return kept

    def merge_base(self, one: str, other: str) -> str | None:
        """A best common ancestor; None for unrelated histories."""
        found: object = self._git.merge_base(one, other)  # may be None, which pygit2's types omit
        return str(found) if found is not None else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` is `older` or descends from it."""
        return older == newer or bool(self._git.descendant_of(newer, older))

    def writer(self, environment: Mapping[str, str] | None = None) -> Writer:
        """A writer for the objects of one checkpoint, which also reads trees from the store.

        With the `environment` of `merge_tree.quarantine`, objects are written there instead of to the store.
        """
        return Writer(self, environment or {})

    def __repr__(self) -> str:
        return f"Repository({self.location.root!r})"


class Writer(ObjectWriter):
    """An ObjectWriter that is also a TreeStore. A git with its `environment` writes where it does."""

    def __init__(self, repository: Repository, environment: Mapping[str, str]) -> None:
        objects_dir = environment.get("GIT_OBJECT_DIRECTORY", repository.objects_dir)
        super().__init__(objects_dir, repository.is_known, repository.exists_on_disk)
        self.environment = environment
        self.repository = repository
        self._commits: dict[str, bytes] = {}
        self._parsed = trees.Parsed(self.read_tree)

    def __enter__(self) -> Writer:
        return self

    def read_tree(self, oid: str) -> bytes:
        pending = self.pending_tree(oid)
        return self.repository.read_tree(oid) if pending is None else pending

    def entries(self, oid: str) -> Mapping[bytes, trees.Entry]:
        return self._parsed.get(oid)

    def pending_commit(self, oid: str) -> CommitData:
        """A commit written through this writer."""
        return parse_commit(oid, self._commits[oid])

    def write_tree(self, data: bytes) -> str:
        return self.write("tree", data)

    def write_commit(self, tree: str, parents: Sequence[str], message: bytes, who: bytes, seconds: int) -> str:
        """Write a commit whose author and committer are `who` (`Name <email>`) at `seconds`, UTC."""
        lines = [b"tree " + tree.encode()]
        lines += [b"parent " + parent.encode() for parent in parents]
        stamp = b"%b %d +0000" % (who, seconds)
        lines += [b"author " + stamp, b"committer " + stamp, b"", message]
        data = b"\n".join(lines)
        oid = self.write("commit", data)
        self._commits[oid] = data
        return oid


def parse_commit(oid: str, data: bytes) -> CommitData:
    """Parse a raw commit (gitformat: header lines, an empty line, the message)."""
    head, _, message = data.partition(b"\n\n")
    # `tree` and `parent` lines come first and have a fixed length.
    parents = []
    position = 46
    while head.startswith(b"parent ", position):
        parents.append(head[position + 7 : position + 47].decode())
        position += 48
    _, _, committer = head.partition(b"\ncommitter ")
    words = committer.partition(b"\n")[0].rsplit(b" ", 2)
    seconds = int(words[1]) if len(words) == 3 and words[1].lstrip(b"-").isdigit() else 0
    return CommitData(oid, head[5:45].decode(), tuple(parents), message, seconds)
