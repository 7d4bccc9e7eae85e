"""Reading every object in the store, reachable or not, alternates included."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from git_agentos.errors import RepositoryError
from git_agentos.git import process
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple

_CHUNK = 16 << 20


class Content(NamedTuple):
    """An object, or a part of one that is large: the parts of one follow each other, each with the last `overlap` bytes
    of the one before."""

    oid: str
    kind: str
    data: bytes


def kinds(repository: Repository) -> Iterator[tuple[str, str]]:
    """The id and the kind of each object."""
    args = ("--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)")
    for line in repository.git("cat-file", *args).decode("ascii").splitlines():
        oid, _, kind = line.partition(" ")
        yield oid, kind


def read(repository: Repository, oids: Sequence[str], *, overlap: int = 0) -> Iterator[Content]:
    """The contents of objects. One that is gone by now, or cannot be read, is left out."""
    child = process.spawn(
        ["cat-file", "--batch", "--buffer"],
        env=repository.location.environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None and child.stdout is not None
    writer = threading.Thread(target=_ask, args=(child.stdin, oids), daemon=True)
    writer.start()
    try:
        for _ in oids:
            header = child.stdout.readline()
            if not header:
                raise RepositoryError("the objects of the repository cannot be read", "git fsck shows details")
            words = header.split()
            if len(words) == 3:
                yield from _parts(
                    child.stdout, words[0].decode("ascii"), words[1].decode("ascii"), int(words[2]), overlap
                )
    finally:
        child.stdout.close()
        child.wait()
        writer.join()


def _ask(pipe: IO[bytes], oids: Sequence[str]) -> None:
    try:
        with pipe:
            for oid in oids:
                pipe.write(f"{oid}\n".encode("ascii"))
    except OSError:
        return  # git has ended: the reader reports that


def _parts(pipe: IO[bytes], oid: str, kind: str, size: int, overlap: int) -> Iterator[Content]:
    before, left = b"", size
    while True:
        part = pipe.read(min(left, _CHUNK))
        if len(part) != min(left, _CHUNK):
            raise RepositoryError(f"object {oid} cannot be read", "git fsck shows details")
        left -= len(part)
        yield Content(oid, kind, before + part)
        before = part[-overlap:] if overlap else b""
        if not left:
            break
    pipe.read(1)  # a newline ends it
