"""The commits that lines come from, and what timelines know about them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property

from git_agentos.errors import GitCommandError, MissingObjectsError, RepositoryError
from git_agentos.git.repository import Repository
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.why.versions import History

_MADE = ("commit: ", "commit (initial): ")  # how the reflog describes commits that were made in the worktree
_MOST = 1000  # commits that are looked at between two checkpoints


class Blamed(NamedTuple):
    """A line of a commit: the commit, and the line (from 0) of the file at `path` in it."""

    commit: str
    path: bytes
    line: int


class Signed(NamedTuple):
    """What a rebase and a cherry-pick keep of a commit: its author, and when that was."""

    author: bytes
    subject: bytes


def blame(repository: Repository, path: bytes, line: int | None) -> dict[int, Blamed]:
    """Line (from 0) -> where git blame finds it, for the lines of a file of the worktree that are committed."""
    only = [f"-L{line + 1},{line + 1}"] if line is not None else []
    try:
        out = repository.git("-c", "blame.ignoreRevsFile=", "blame", "--porcelain", *only, "--", path)
    except GitCommandError:
        return {}  # it is not in HEAD, nor in the index
    names: dict[str, bytes] = {}
    found: dict[int, Blamed] = {}
    commit, old, new = "", 0, 0
    for row in out.split(b"\n"):
        if row.startswith(b"\t"):
            if commit != repository.hash.zero:
                found[new] = Blamed(commit, names.get(commit, path), old)
        elif row.startswith(b"filename "):
            names[commit] = _unquoted(row.removeprefix(b"filename "))
        else:
            words = row.split(b" ")
            if len(words) >= 3 and repository.hash.is_oid(words[0].decode("latin-1")):
                commit, old, new = words[0].decode("ascii"), int(words[1]) - 1, int(words[2]) - 1
    return found


def _unquoted(name: bytes) -> bytes:
    """A path as git quotes it, with `core.quotePath` or without."""
    if not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    text = name[1:-1].decode("latin-1")
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def time_of(repository: Repository, oid: str) -> str | None:
    """When a commit was made; None if it cannot be read."""
    try:
        return times.seconds_to_text(repository.commit(oid).time)
    except (MissingObjectsError, RepositoryError, OverflowError, ValueError, OSError):
        return None


def signed(repository: Repository, oid: str) -> Signed | None:
    """Author and subject of a commit; None if it cannot be read."""
    try:
        _, data = repository.read(oid)
    except (MissingObjectsError, RepositoryError):
        return None
    header, _, message = data.partition(b"\n\n")
    author = next((row for row in header.split(b"\n") if row.startswith(b"author ")), b"")
    return Signed(author, message.partition(b"\n")[0])


class Reflog:
    """The commits that were made in this worktree, as the reflog of its HEAD has them."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    @cached_property
    def made(self) -> frozenset[str]:
        try:
            out = self._repository.git("log", "--walk-reflogs", "-z", "--format=%H %gs", "HEAD", "--")
        except GitCommandError:
            return frozenset()
        rows = (os.fsdecode(row).partition(" ") for row in out.split(b"\0") if row)
        return frozenset(oid.strip() for oid, _, said in rows if said.startswith(_MADE))

    def made_between(self, old: str | None, new: str) -> bool:
        """Whether all that lies between two commits was made here, one commit after the other."""
        oid = new
        for _ in range(_MOST):
            if oid == old:
                return True
            if oid not in self.made:
                return False
            parents = self._repository.commit(oid).parents
            if not parents:
                return old is None
            oid = parents[0]
        return False


class Arrivals:
    """When commits came into the history of a worktree, as its checkpoints know it."""

    def __init__(self, history: History, now: str | None) -> None:
        """`now` is the commit of the worktree's HEAD, or of its branch, today."""
        self._history = history
        self._repository = history.repository
        self._now = now

    def position_of(self, commit: str) -> int | None:
        """The first position at which HEAD's history has a commit, or its like before a rebase; the number of positions
        if it has it only now. None if it never has, or had it from the beginning."""
        for each in self._same(commit):
            found = self._first(each)
            if found is not None:
                return found if found > 0 else None
        return None

    def _same(self, commit: str) -> Iterator[str]:
        """A commit, and those with its author and subject."""
        yield commit
        wanted = signed(self._repository, commit)
        if wanted is not None:
            yield from (oid for oid in self._new.get(wanted, ()) if oid != commit)

    def _first(self, commit: str) -> int | None:
        previous = None
        for n, head in enumerate(self._heads):
            if head is None or head == previous:
                continue
            previous = head
            try:
                if head == commit or self._repository.is_ancestor(commit, head):
                    return n
            except (MissingObjectsError, RepositoryError):
                continue
        return None

    @cached_property
    def _new(self) -> Mapping[Signed, list[str]]:
        """The commits that HEAD has had here, and had not in the beginning, by author and subject."""
        heads = list(dict.fromkeys(each for each in self._heads if each is not None))
        if len(heads) < 2:
            return {}
        found: dict[Signed, list[str]] = {}
        try:
            args = ["rev-list", "--stdin", f"--max-count={_MOST}"]
            data = "\n".join([*heads[1:], f"^{heads[0]}"]).encode()
            out = self._repository.git(*args, data=data)
        except GitCommandError:
            return {}
        for oid in out.decode("ascii").split():
            key = signed(self._repository, oid)
            if key is not None:
                found.setdefault(key, []).append(oid)
        return found

    @cached_property
    def _heads(self) -> list[str | None]:
        """HEAD's commit at each position, and now."""
        return [*(each.head for each in self._history.positions), self._now]
