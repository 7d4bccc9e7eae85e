"""What is new to a remote, searched for secrets before it is pushed, and the checkpoints that are held back.

Each new blob is scanned once; so are the messages of new commits, and the names of files that new commits add (those
of files that are not committed are in a checkpoint's `meta.json`). Only where a scanner finds something is it looked up
which checkpoints reach it. An archive with ignored files is always held back: `.env` and the like are in there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from git_agentos.checkpoint import format
from git_agentos.errors import AgentosError
from git_agentos.git import new_objects, trees
from git_agentos.git.repository import CommitData, Repository, parse_commit
from git_agentos.util.named_tuple import NamedTuple

IGNORED_FILES = "ignored-files"
DESCRIPTION = "the description"
_ENDINGS = rb"(?m)^Agentos-Trigger: (?:archive|before_remove)$"
_IGNORED = b"ignored"
# Ignored files that are in an archive for what they rule, not for what is in them.
_RULES = (b".gitignore", b".gitattributes")
# The parts of a checkpoint's fourth parent in which files have their own paths.
_PREFIX = re.compile(rb"(?:ignored|raw|stages/[123])/")
Found = frozenset[tuple[bytes, str]]  # paths and blobs; for what is in a commit itself, no path and the commit
_NOTHING: Found = frozenset()


class Finding(Protocol):
    """What a scanner has found: the line (from 1), what it is, and a fingerprint by which it can be allowed. None of
    them holds the secret."""

    @property
    def line(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


class Scanner(Protocol):
    """Searches content for secrets. `version` changes whenever it may find something else."""

    @property
    def version(self) -> str: ...
    def scan(self, path: bytes, data: bytes, /) -> Sequence[Finding]:
        """What is in one text; other programs are not asked."""

    def scan_all(self, blobs: Iterable[tuple[bytes, bytes]], /) -> Sequence[Sequence[Finding]]:
        """What is in each of many, which are read one after the other. AgentosError where that cannot be said."""


class HeldBack(NamedTuple):
    """One reason why a checkpoint is not pushed. For an archive with ignored files, `path`, `line` and `fingerprint`
    are None: only encrypted can it be pushed. A secret in a name has no line; the name is then not wholly in `path`.
    What is no file has a name of its own there."""

    timeline: str
    checkpoint: str
    path: str | None
    line: int | None
    kind: str
    fingerprint: str | None


class _Source(NamedTuple):
    """What a text that is scanned is: a blob, or the message of a commit; with `names`, names that a commit has
    added, one a line."""

    oid: str
    is_message: bool = False
    names: tuple[bytes, ...] = ()


class _InCommit(NamedTuple):
    """A finding in a commit itself: where, and the line if it is in its message."""

    where: str
    line: int | None
    kind: str
    fingerprint: str


class Scan:
    """A search of everything that the checkpoints of timeline commits reach and `known`, which the remote has, do
    not."""

    def __init__(
        self,
        repository: Repository,
        commits: Sequence[CommitData],
        known: Iterable[str],
        scanner: Scanner,
        allowed: frozenset[str],
    ) -> None:
        self._repository = repository
        self._scanner = scanner
        self._allowed = allowed
        tips = dict.fromkeys(oid for commit in commits for oid in (commit.tree, *commit.parents[1:]))
        self._range = new_objects.Range(tuple(tips), tuple(known))
        self._reached: dict[str, Found] = {}
        self._findings: dict[str, Sequence[Finding]] = {}  # of blobs
        self._in_commits: dict[str, list[_InCommit]] = {}
        self._own: set[str] = set()  # the commits that a checkpoint is made of
        sources: list[_Source] = []
        for source, found in zip(sources, scanner.scan_all(self._texts(commits, sources)), strict=True):
            counting = [each for each in found if each.fingerprint not in allowed]
            if counting:
                self._keep(source, counting)

    def _texts(self, commits: Sequence[CommitData], sources: list[_Source]) -> Iterator[tuple[bytes, bytes]]:
        """Everything that is scanned: a name for it, and the text. What it is is added to `sources`."""
        with self._range.blobs(self._repository) as blobs, self._range.commits(self._repository) as listed:
            new = [parse_commit(each.oid, each.data) for each in listed]
            yield from self._of_commits(commits, new, sources)
            for blob in blobs:
                sources.append(_Source(blob.oid))
                yield _without_prefix(blob.path), blob.data

    def _of_commits(
        self, commits: Sequence[CommitData], new: Sequence[CommitData], sources: list[_Source]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Messages and names."""
        self._own.update(each.oid for each in commits)
        checkpoints = {oid for each in commits for oid in each.parents[1:]}
        self._own.update(checkpoints, *(each.parents[1:4] for each in new if each.oid in checkpoints))
        for commit in (*commits, *new):
            sources.append(_Source(commit.oid, is_message=True))
            yield b"message", commit.message
        users = [each.oid for each in new if each.oid not in self._own]
        for oid, names in new_objects.added_names(self._repository, users):
            sources.append(_Source(oid, names=tuple(names)))
            yield b"names", b"\n".join(name.replace(b"\n", b" ") for name in names)

    def _keep(self, source: _Source, found: Sequence[Finding]) -> None:
        if not source.is_message and not source.names:
            self._findings[source.oid] = found
            return
        rows = self._in_commits.setdefault(source.oid, [])
        for each in found:
            if source.names:
                where, line = self._shown(source.names[each.line - 1], hide=True), None
            else:
                is_own = source.oid in self._own
                where, line = DESCRIPTION if is_own else f"the message of commit {source.oid[:12]}", each.line
            rows.append(_InCommit(where, line, each.kind, each.fingerprint))

    @cached_property
    def _new(self) -> Mapping[str, bytes]:
        """Every object that is new; needed only where something was found."""
        return self._range.names(self._repository)

    def held_back(self, timeline: str, commit: CommitData) -> list[HeldBack]:
        """Why the checkpoint of a timeline commit is held back; empty if it is not."""
        checkpoint = commit.parents[1]
        found: list[HeldBack] = []
        if re.search(_ENDINGS, commit.message) and _has_ignored_files(self._repository, checkpoint):
            found.append(HeldBack(timeline, checkpoint, None, None, IGNORED_FILES, None))
        if not self._findings and not self._in_commits:
            return found
        # The tree of the timeline commit has nothing else than the checkpoint, unless somebody has made it.
        reached = self._in_tree(commit.tree).union(*(self._reach(each) for each in commit.parents[1:]))
        # Files first: what a commit itself says may be in them as well.
        for path, oid in sorted(reached, key=lambda each: (not each[0], each[1] in self._own, each)):
            found += self._rows(timeline, checkpoint, path, oid, found)
        found += self._rows(timeline, checkpoint, b"", commit.oid, found)
        return list(dict.fromkeys(found))

    def is_found_in(self, oid: str) -> bool:
        """Whether a commit or a tree that is new reaches anything that was found."""
        return bool((self._findings or self._in_commits) and self._reach_any(oid))

    def found_in(self, timeline: str, oid: str) -> list[HeldBack]:
        """What a commit or a tree reaches of what was found, as reasons; `oid` takes the place of the checkpoint."""
        found: list[HeldBack] = []
        for path, blob in sorted(self._reach_any(oid), key=lambda each: (not each[0], each)):
            found += self._rows(timeline, oid, path, blob, found)
        return list(dict.fromkeys(found))

    def _reach_any(self, oid: str) -> Found:
        return self._reach(oid) if self._repository.kind(oid) == "commit" else self._in_tree(oid)

    def _rows(self, timeline: str, checkpoint: str, path: bytes, oid: str, known: Sequence[HeldBack]) -> list[HeldBack]:
        """The rows of a blob, or of a commit; what a description says is in files of the checkpoint, too."""
        if oid in self._findings:
            where = self._shown(path)
            return [
                HeldBack(timeline, checkpoint, where, each.line, each.kind, each.fingerprint)
                for each in self._findings[oid]
            ]
        said = {each.fingerprint for each in known} if oid in self._own else set()
        return [
            HeldBack(timeline, checkpoint, *each)
            for each in self._in_commits.get(oid, ())
            if each.fingerprint not in said
        ]

    def _shown(self, path: bytes, *, hide: bool = False) -> str:
        """A path in a checkpoint as that of the file in the worktree, without the secrets in its names; with `hide`,
        it is known that there are some."""
        parts = _without_prefix(path).split(b"/")
        shown = [b"[redacted]" if self._has_secret(each) else each for each in parts]
        if shown == parts and (hide or self._has_secret(b"/".join(parts))):
            shown = [b"[redacted]"]
        return b"/".join(shown).decode("utf-8", "surrogateescape")

    def _has_secret(self, name: bytes) -> bool:
        return any(each.fingerprint not in self._allowed for each in self._scanner.scan(b"name", name))

    def _reach(self, oid: str) -> Found:
        """The findings that a commit reaches."""

        def found(one: str) -> Found:
            commit = self._repository.commit(one)
            here = {(b"", one)} if one in self._in_commits else _NOTHING
            return self._in_tree(commit.tree).union(
                here, *(self._reached.get(each, _NOTHING) for each in commit.parents)
            )

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


def _without_prefix(path: bytes) -> bytes:
    """A path in a checkpoint as that of the file in the worktree."""
    return _PREFIX.sub(b"", path, count=1)


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
