"""What is new to a remote, searched for secrets before it is pushed, and the checkpoints that are held back.

All objects that the remote lacks are listed once, and each new blob is scanned once. Only where a scanner finds
something is it looked up which checkpoints reach that blob. An archive with ignored files is always held back: `.env`
and the like are in there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from git_agentos.checkpoint import format
from git_agentos.errors import AgentosError
from git_agentos.git import trees
from git_agentos.git.repository import CommitData, Repository
from git_agentos.util.named_tuple import NamedTuple

IGNORED_FILES = "ignored-files"
_ENDINGS = rb"(?m)^Agentos-Trigger: (?:archive|before_remove)$"
_IGNORED = b"ignored"
# Ignored files that are in an archive for what they rule, not for what is in them.
_RULES = (b".gitignore", b".gitattributes")
# The parts of a checkpoint's fourth parent in which files have their own paths.
_PREFIX = re.compile(rb"(?:ignored|raw|stages/[123])/")
Found = frozenset[tuple[bytes, str]]  # paths and blobs
_NOTHING: Found = frozenset()


class Finding(Protocol):
    """What a scanner has found: the line (from 1; None: all of the file), what it is, and a fingerprint by which it can
    be allowed. None of them holds the secret."""

    @property
    def line(self) -> int | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


class Scanner(Protocol):
    """Searches the content of a file for secrets. `version` changes whenever it may find something else."""

    @property
    def version(self) -> str: ...
    def scan(self, path: str, data: bytes, /) -> Sequence[Finding]: ...


class HeldBack(NamedTuple):
    """One reason why a checkpoint is not pushed. For an archive with ignored files, `path`, `line` and `fingerprint`
    are None: only encrypted can it be pushed."""

    timeline: str
    checkpoint: str
    path: str | None
    line: int | None
    kind: str
    fingerprint: str | None


class Scan:
    """A search of everything that `tips` reach and `known`, which the remote has, do not."""

    def __init__(
        self,
        repository: Repository,
        tips: Iterable[str],
        known: Iterable[str],
        scanner: Scanner,
        allowed: frozenset[str],
    ) -> None:
        self._repository = repository
        self._wanted = "".join([f"{each}\n" for each in tips] + [f"^{each}\n" for each in known])
        self._reached: dict[str, Found] = {}
        self._findings: dict[str, list[Finding]] = {}
        for oid, path in self._list("--filter=object:type=blob").items():
            if path:
                found = [
                    each for each in scanner.scan(_shown(path), repository.blob(oid)) if each.fingerprint not in allowed
                ]
                if found:
                    self._findings[oid] = found

    @cached_property
    def _new(self) -> Mapping[str, bytes]:
        """Every object that is new; needed only where something was found."""
        return self._list()

    def _list(self, *options: str) -> dict[str, bytes]:
        """Objects that are new: oid -> a path of it (empty for commits and the trees at the top)."""
        args = ("rev-list", "--objects", *options, "--stdin")
        out = self._repository.git(*args, data=self._wanted.encode("ascii"))
        rows = (line.partition(b" ") for line in out.split(b"\n") if line)
        return {oid.decode("ascii"): path for oid, _, path in rows}

    def held_back(self, timeline: str, commit: CommitData) -> list[HeldBack]:
        """Why the checkpoint of a timeline commit is held back; empty if it is not."""
        checkpoint = commit.parents[1]
        found = []
        if re.search(_ENDINGS, commit.message) and _has_ignored_files(self._repository, checkpoint):
            found.append(HeldBack(timeline, checkpoint, None, None, IGNORED_FILES, None))
        if self._findings:
            # The tree of the timeline commit has nothing else than the checkpoint, unless somebody has made it.
            reached = self._in_tree(commit.tree).union(*(self._reach(each) for each in commit.parents[1:]))
            for path, oid in sorted(reached):
                found += [
                    HeldBack(timeline, checkpoint, _shown(path), each.line, each.kind, each.fingerprint)
                    for each in self._findings[oid]
                ]
        return list(dict.fromkeys(found))

    def _reach(self, oid: str) -> Found:
        """The findings that a commit reaches."""

        def found(one: str) -> Found:
            commit = self._repository.commit(one)
            return self._in_tree(commit.tree).union(*(self._reached.get(each, _NOTHING) for each in commit.parents))

        return self._settle(oid, lambda one: self._repository.commit(one).parents, found)

    def _in_tree(self, oid: str) -> Found:
        """The findings below a tree."""

        def folders(one: str) -> Iterable[str]:
            return [child for mode, child in self._repository.entries(one).values() if mode == trees.DIRECTORY]

        def found(one: str) -> Found:
            here: set[tuple[bytes, str]] = set()
            for name, (mode, child) in self._repository.entries(one).items():
                if mode == trees.DIRECTORY:
                    here.update((name + b"/" + path, blob) for path, blob in self._reached.get(child, _NOTHING))
                elif child in self._findings:
                    here.add((name, child))
            return frozenset(here)

        return self._settle(oid, folders, found)

    def _settle(self, top: str, needed: Callable[[str], Iterable[str]], found: Callable[[str], Found]) -> Found:
        """What is `found` in an object once that is known of those that it needs; of each new object only once."""
        pending = [top]
        while pending:
            one = pending[-1]
            if one in self._reached or one not in self._new:
                pending.pop()
                continue
            missing = [each for each in needed(one) if each in self._new and each not in self._reached]
            if missing:
                pending += missing
                continue
            self._reached[one] = found(one)
            pending.pop()
        return self._reached.get(top, _NOTHING)


def _shown(path: bytes) -> str:
    """A path in a checkpoint as that of the file in the worktree."""
    return _PREFIX.sub(b"", path, count=1).decode("utf-8", "surrogateescape")


def _has_ignored_files(repository: Repository, checkpoint: str) -> bool:
    """Whether an archive has ignored files that are more than rules; one that cannot be read has."""
    try:
        extra = repository.commit(format.open_checkpoint(repository, checkpoint).metadata_commit).tree
        entry = repository.entries(extra).get(_IGNORED)
        if entry is None:
            return False
        return any(path.rpartition(b"/")[2] not in _RULES for path, _ in trees.walk(repository, entry[1]))
    except AgentosError:
        return True
