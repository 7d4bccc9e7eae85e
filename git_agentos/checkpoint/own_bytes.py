"""The bytes that files had on disk, as far as a state knows them.

For a file that was modified, staged, untracked, or ignored and saved, a state knows them: they are the blob's, or the
blob's with each LF as CRLF, or in `raw`. So the file is restored without attributes, filters and configuration, which
may have changed. Any other file has the bytes that a checkout of its blob gives.
"""

from __future__ import annotations

from git_agentos.checkpoint.model import State
from git_agentos.git import hash_algorithm
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple


class Form(NamedTuple):
    """The bytes of a file: those of a blob; with `crlf`, with each LF as CRLF."""

    oid: str
    crlf: bool = False

    def is_at(self, path: bytes) -> bool:
        """Whether the file at `path`, on disk, has these bytes."""
        if not self.crlf:
            return hash_algorithm.of_oid(self.oid).hash_file(path) == self.oid
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return False
        return is_crlf(data, self.oid)

    def read(self, repository: Repository) -> bytes:
        data = repository.blob(self.oid)
        return data.replace(b"\n", b"\r\n") if self.crlf else data


def is_crlf(data: bytes, oid: str) -> bool:
    """Whether `data` is the blob `oid` with each LF as CRLF."""
    stored = data.replace(b"\r\n", b"\n")
    return stored.replace(b"\n", b"\r\n") == data and hash_algorithm.of_oid(oid).hash_blob(stored) == oid


class OwnBytes:
    """What `state` knows of the bytes of its files."""

    def __init__(self, state: State) -> None:
        self._raw = state.raw
        self._crlf = state.crlf
        self._as_stored: frozenset[bytes] = frozenset()
        if state.has_own_bytes:
            self._as_stored = state.as_stored.union(state.staged, state.unstaged, state.untracked, state.ignored)
        self.paths = self._as_stored.union(self._crlf, self._raw)

    def of(self, path: bytes, oid: str) -> Form | None:
        """The bytes of the file at `path` whose blob is `oid`; None if they are what a checkout gives."""
        if path in self._raw:
            return Form(self._raw[path])
        if path in self._crlf:
            return Form(oid, crlf=True)
        return Form(oid) if path in self._as_stored else None
