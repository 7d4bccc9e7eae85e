"""The open repository: objects through its store, everything else through git.

Oids are hex strings above this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from git_agentos.errors import MissingObjectsError, RepositoryError
from git_agentos.git import process, trees
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.location import Location
from git_agentos.git.objects.store import open_store
from git_agentos.git.objects.writer import ObjectWriter
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import is_hex


class CommitData(NamedTuple):
    """A commit's parts; `message` is bytes."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: bytes
    time: int  # seconds since the epoch, of the committer


class Repository:
    """One worktree's view of a repository."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.objects_dir = os.path.join(location.common_dir, "objects")
        self._objects = open_store(location, self.objects_dir)
        self._parsed = trees.Parsed(location.hash.raw_length)

    @property
    def hash(self) -> HashAlgorithm:
        """The hash algorithm of its object ids."""
        return self.location.hash

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
        return self._objects.exists(oid)

    def is_known(self, oid: str) -> bool:
        """Whether the object was in the store when it was opened, or is loose now: faster than `exists`, and may miss a
        pack that was just written."""
        return self._objects.is_known(oid)

    def exists_on_disk(self, oids: Iterable[str]) -> set[str]:
        """The `oids` that are in the store on disk now; packs that only this process still has open do not count."""
        return self._objects.exists_on_disk(oids)

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object; MissingObjectsError if it does not exist."""
        return self._objects.read(oid) or self._read_from_promisor(oid)

    def _read_from_promisor(self, oid: str) -> tuple[str, bytes]:
        # In a partial clone git fetches a missing object; elsewhere it reports that it is missing.
        out = self.git("cat-file", "--batch", data=oid.encode() + b"\n", ok=(0, 128))
        header, _, rest = out.partition(b"\n")
        words = header.split(b" ")
        if len(words) != 3:
            raise MissingObjectsError(f"object {oid} is missing from the object store")
        return words[1].decode(), rest[: int(words[2])]

    def kind(self, oid: str) -> str | None:
        """The kind of an object in the store, by its header; None if it does not exist."""
        header = self._objects.header(oid)
        return None if header is None else header[0]

    def blob(self, oid: str) -> bytes:
        return self.read(oid)[1]

    def is_large(self, oid: str, limit: int) -> bool:
        """Whether a blob is larger than `limit` bytes."""
        return self.size(oid) > limit

    def size(self, oid: str) -> int:
        """The size of a blob in bytes; only the header is read."""
        header = self._objects.header(oid)
        return int(self.git("cat-file", "-s", oid)) if header is None else header[1]

    def stream_blob(self, oid: str, descriptor: int) -> None:
        """Write a blob's content to an open file without holding it in memory."""
        args = ["cat-file", "blob", oid]
        child = process.spawn(args, env=self.location.environment(), stdout=descriptor)
        status, _, err = process.finish(child)
        if status != 0:
            raise process.failure(args, status, err)

    def read_tree(self, oid: str) -> bytes:
        """A tree's raw content."""
        if oid == self.hash.empty_tree:
            return b""
        kind, data = self.read(oid)
        if kind != "tree":
            raise RepositoryError(f"object {oid} is a {kind}, not a tree")
        return data

    def entries(self, oid: str) -> Mapping[bytes, trees.Entry]:
        """A tree's entries by name."""
        return self._parsed.get(oid, self.read_tree)

    def commit(self, oid: str) -> CommitData:
        """A commit's parts; MissingObjectsError if it does not exist, RepositoryError if it is not a commit."""
        kind, data = self.read(oid)
        if kind != "commit":
            raise RepositoryError(f"object {oid} is a {kind}, not a commit")
        return parse_commit(oid, data)

    def authored(self, oid: str) -> int:
        """When a commit was written, by its author's time: seconds since the epoch, 0 if that is unreadable."""
        head = self.read(oid)[1].partition(b"\n\n")[0]
        return _stamp(head.partition(b"\nauthor ")[2])

    def commit_tree(self, oid: str | None) -> str:
        """The tree of a commit; the empty tree for None."""
        return self.hash.empty_tree if oid is None else self.commit(oid).tree

    def commits_with_prefix(self, prefix: str) -> list[str]:
        """The oids of all commits that begin with a hex prefix."""
        out = self.git("rev-parse", f"--disambiguate={prefix}", ok=(0, 128))
        return [oid for oid in out.decode().split() if self.read(oid)[0] == "commit"]

    def find_commit(self, name: str) -> str | None:
        """The oid of the commit that git resolves `name` to; None if there is none."""
        args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        oid = self.git(*args, ok=(0, 1, 128)).strip().decode("ascii")
        # git 2.47 and later ignore some digits after a complete id.
        digits = name.lower()
        return None if not oid or (len(digits) > len(oid) and digits.startswith(oid) and is_hex(digits)) else oid

    def lookup(self, prefix: str) -> tuple[str, str] | None:
        """Kind and full oid of the object that a hex prefix names; None if there is none, or several."""
        return self._objects.lookup(prefix)

    def independent(self, commits: Sequence[str]) -> list[str]:
        """`commits`, in order, without those that another one reaches."""
        return self._objects.independent(commits)

    def merge_base(self, one: str, other: str) -> str | None:
        """A best common ancestor; None for unrelated histories."""
        return self._objects.merge_base(one, other)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` is `older` or descends from it."""
        return self._objects.is_ancestor(older, newer)

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
        super().__init__(objects_dir, repository.hash, repository.is_known, repository.exists_on_disk)
        self.environment = environment
        self.repository = repository
        self._commits: dict[str, bytes] = {}
        self._parsed = trees.Parsed(repository.hash.raw_length)

    def __enter__(self) -> Writer:
        return self

    def read_tree(self, oid: str) -> bytes:
        pending = self.pending_tree(oid)
        return self.repository.read_tree(oid) if pending is None else pending

    def entries(self, oid: str) -> Mapping[bytes, trees.Entry]:
        return self._parsed.get(oid, self.read_tree)

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
        return self.write_raw_commit(b"\n".join(lines))

    def write_raw_commit(self, data: bytes) -> str:
        """Write a commit of which all is known."""
        oid = self.write("commit", data)
        self._commits[oid] = data
        return oid


def parse_commit(oid: str, data: bytes) -> CommitData:
    """Parse a raw commit (gitformat: header lines, an empty line, the message)."""
    head, _, message = data.partition(b"\n\n")
    # `tree` and `parent` lines come first.
    tree, *lines = head.split(b"\n")
    parents = []
    for line in lines:
        if not line.startswith(b"parent "):
            break
        parents.append(line[7:].decode())
    seconds = _stamp(head.partition(b"\ncommitter ")[2])
    return CommitData(oid, tree[5:].decode(), tuple(parents), message, seconds)


def _stamp(text: bytes) -> int:
    """The time in a line `Name <email> seconds zone`."""
    words = text.partition(b"\n")[0].rsplit(b" ", 2)
    return int(words[1]) if len(words) == 3 and words[1].lstrip(b"-").isdigit() else 0
