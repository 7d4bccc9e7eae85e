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

    def blobs(self, repository: Repository) -> Stream:
        """All blobs. In a partial clone, git fetches those that are missing."""
        return Stream(repository, _BLOBS, self._words())

    def commits(self, repository: Repository) -> Stream:
        """All commits, newest first."""
        return Stream(repository, (), self._words())

    def _words(self) -> bytes:
        return "".join([f"{each}\n" for each in self.tips] + [f"^{each}\n" for each in self.known]).encode("ascii")


class Stream:
    """Objects that git lists and reads from now on, while the caller does something else. It ends with the context."""

    def __init__(self, repository: Repository, options: Iterable[str], words: bytes) -> None:
        environment, root = repository.location.environment(), repository.location.root
        self._commands = (["rev-list", *options, "--stdin"], ["cat-file", f"--batch={_FORMAT}", "--buffer"])
        lister = process.spawn(self._commands[0], cwd=root, env=environment, stdin=process.PIPE)
        assert lister.stdout is not None and lister.stdin is not None
        try:
            reader = process.spawn(self._commands[1], cwd=root, env=environment, stdin=lister.stdout.fileno())
        except BaseException:
            _end(lister)
            raise
        self._children = (lister, reader)
        lister.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            lister.stdin.write(words)
            lister.stdin.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            _end(child)

    def __iter__(self) -> Iterator[NewObject]:
        """Each object once; GitCommandError or MissingObjectsError where one cannot be read."""
        yield from _objects(self._children[1])
        for child, args in zip(self._children, self._commands, strict=True):
            assert child.stderr is not None
            err = child.stderr.read()
            if child.wait() != 0:
                raise process.failure(args, child.returncode, err)


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
    """End a child, also one that is still running: whoever reads has had enough."""
    if child.poll() is None:
        child.kill()
    with child:
        pass
