"""Objects that are reached from some and not from others: their content in one stream, as fast as git can give it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Iterator

from git_agentos.errors import MissingObjectsError
from git_agentos.git import process
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple

_BLOBS = ("--objects", "--filter=object:type=blob", "--filter-provided-objects")
_FORMAT = "%(objectname) %(objecttype) %(objectsize) %(rest)"


class NewObject(NamedTuple):
    """An object: its id, a path of it (of a blob, without the spaces in front), and its content."""

    oid: str
    path: bytes
    data: bytes


class Range(NamedTuple):
    """What `tips` reach and `known` do not; all of them are ids."""

    tips: tuple[str, ...]
    known: tuple[str, ...]

    def names(self, repository: Repository) -> dict[str, bytes]:
        """All objects: id -> a path of it (empty for commits and the trees at the top)."""
        out = repository.git("rev-list", "--objects", "--stdin", data=self._words())
        rows = (line.partition(b" ") for line in out.split(b"\n") if line)
        return {oid.decode("ascii"): path for oid, _, path in rows}

    def blobs(self, repository: Repository) -> Iterator[NewObject]:
        """All blobs. In a partial clone, git fetches those that are missing."""
        return self._stream(repository, _BLOBS)

    def commits(self, repository: Repository) -> Iterator[NewObject]:
        """All commits, newest first."""
        return self._stream(repository, ())

    def _words(self) -> bytes:
        return "".join([f"{each}\n" for each in self.tips] + [f"^{each}\n" for each in self.known]).encode("ascii")

    def _stream(self, repository: Repository, options: Iterable[str]) -> Iterator[NewObject]:
        environment = repository.location.environment()
        root = repository.location.root
        args = ["rev-list", *options, "--stdin"]
        with contextlib.ExitStack() as children:
            lister = children.enter_context(process.spawn(args, cwd=root, env=environment, stdin=process.PIPE))
            children.callback(_end, lister)
            reading = ["cat-file", f"--batch={_FORMAT}", "--buffer"]
            assert lister.stdout is not None and lister.stdin is not None
            reader = process.spawn(reading, cwd=root, env=environment, stdin=lister.stdout.fileno())
            children.enter_context(reader)
            children.callback(_end, reader)
            lister.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                lister.stdin.write(self._words())
                lister.stdin.close()
            yield from _objects(reader)
            for child, words in ((lister, args), (reader, reading)):
                assert child.stderr is not None
                err = child.stderr.read()
                if child.wait() != 0:
                    raise process.failure(words, child.returncode, err)


def added_names(repository: Repository, commits: Iterable[str]) -> Iterator[tuple[str, list[bytes]]]:
    """The paths of the files that each of the commits has added, whatever is in them; a merge those of its own."""
    given = dict.fromkeys(commits)
    args = ("diff-tree", "--stdin", "-r", "-c", "--root", "-z", "--name-only", "--no-renames", "--diff-filter=A")
    if not given:
        return
    out = repository.git(*args, data="".join(f"{each}\n" for each in given).encode("ascii"))
    oid, names = "", list[bytes]()
    for field in out.split(b"\0"):
        text = field.decode("ascii", "replace")
        if text not in given:
            names.append(field)
            continue
        if oid:
            yield oid, names
        oid, names = text, []
    if oid:
        yield oid, names[:-1]


def _objects(child: subprocess.Popen[bytes]) -> Iterator[NewObject]:
    """What `cat-file --batch` prints. If it ends in the middle of an object, its exit code says why."""
    out = child.stdout
    assert out is not None
    while header := out.readline():
        words = header[:-1].split(b" ", 3)
        if len(words) < 3:
            raise MissingObjectsError(f"object {words[0].decode('ascii', 'replace')} is missing from the object store")
        size = int(words[2])
        data = out.read(size + 1)
        if len(data) <= size:
            return
        yield NewObject(words[0].decode("ascii"), words[3] if len(words) > 3 else b"", data[:-1])


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child that is still running: whoever reads has had enough."""
    if child.poll() is None:
        child.kill()
