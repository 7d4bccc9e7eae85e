"""Scanning a worktree with git: which tracked paths changed, what is untracked, which flags are set.

`Scan.start` starts the git processes and returns at once; `Scan.read` waits for them and parses their output. A
command starts the scan before it imports large modules, so git scans the file system while Python loads pygit2.
Standard library only.

Five processes run in parallel: `version`, `status -uno` (stats the index entries, in threads), `ls-files --others
--directory` (walks the directories, and, unlike `status`, also names empty ones), `ls-files -v` (the flags that make
`status` blind) and `config --list`. None of them takes a lock or writes the index.

Formats: git-status(1) "Porcelain Format Version 2" with -z; git-ls-files(1) -z and -v.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from git_agentos.errors import GitCommandError, RepositoryError
from git_agentos.git import configuration, index_entries, process, untracked, version
from git_agentos.git.location import Location, locate
from git_agentos.util import system
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

_STATUS = (
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "-z",
    "--untracked-files=no",
    "--no-renames",
    "--ignore-submodules=none",
    "--branch",
    "--no-ahead-behind",
)
_FLAGS = ("ls-files", "-v", "-z", "--sparse")

# An immutable default for mappings.
_NONE: Mapping[Any, Any] = MappingProxyType({})


class TrackedChange(NamedTuple):
    """A tracked path that differs: HEAD to index (`staged`) or index to worktree (`unstaged`).

    `staged` and `unstaged` are git's letters, `.` for no difference. Modes are git's octal values as ints, 0 if the
    path is absent; oids are hex, None if absent.
    """

    path: bytes
    staged: str
    unstaged: str
    head_mode: int
    index_mode: int
    worktree_mode: int
    index_oid: str | None


class Unmerged(NamedTuple):
    """A path in conflict: `stages[n]` is the (mode, oid) of stage n + 1, None if that stage is absent."""

    path: bytes
    stages: tuple[tuple[int, str] | None, ...]
    worktree_mode: int


class ScanResult(NamedTuple):
    """What a scan found. Paths are bytes relative to the worktree root, without a trailing slash."""

    head_commit: str | None = None  # the commit that the index was compared with; None while HEAD is unborn
    changed: Sequence[TrackedChange] = ()  # tracked paths that differ
    unmerged: Sequence[Unmerged] = ()  # conflicts
    untracked: Sequence[bytes] = ()  # untracked files that are not ignored
    nested: Sequence[bytes] = ()  # untracked repositories
    empty_directories: Sequence[bytes] = ()  # empty untracked directories
    unreadable: Sequence[bytes] = ()  # directories that cannot be read
    assume_unchanged: Sequence[bytes] = ()  # paths with that flag
    skip_worktree: Sequence[bytes] = ()  # paths with that flag; with a trailing slash everything below
    absent: Sequence[bytes] = ()  # paths of skip_worktree that are not on disk
    unseen: Mapping[bytes, tuple[int, str]] = _NONE  # paths whose flags hide edits from git -> the index's mode and oid
    gitlinks: Mapping[bytes, str] = _NONE  # submodules -> the commit in the index
    hidden_rules: Sequence[bytes] = ()  # ignored `.gitignore` files in folders with files that are not ignored
    tracks_attributes: bool = False  # whether the index has a `.gitattributes` file
    config: Mapping[str, list[str]] = _NONE  # git's configuration: key -> values
    git_version: str = ""  # as git reports it


class Child:
    """A git process that writes its output to memory files, so that it never waits for a reader."""

    def __init__(
        self,
        args: Sequence[str | bytes],
        location: Location,
        *,
        neutral_config: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """`extra` are variables beside those of the location."""
        self.args = args
        self.out = system.memory_file()
        self.err = system.memory_file()
        env = location.environment(extra)
        self.process = process.spawn(
            args, cwd=location.root, env=env, stdout=self.out, stderr=self.err, neutral_config=neutral_config
        )

    def result(self) -> tuple[bytes, bytes]:
        """stdout and stderr; a failed command is a GitCommandError."""
        status = self.process.wait()
        out, err = _contents(self.out), _contents(self.err)
        self.out = self.err = -1
        if status != 0:
            raise process.failure(self.args, status, err)
        return out, err

    def discard(self) -> None:
        """Stop the process; its output is not needed. Nothing happens if it was read."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for descriptor in (self.out, self.err):
            if descriptor >= 0:
                os.close(descriptor)
        self.out = self.err = -1


def _contents(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


class Scan:
    """A running scan of one worktree. As a context manager, it is stopped at the end if nobody has read it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.index_stamp = index_entries.stamp(location)
        self._config = Child(configuration.LIST, location, neutral_config=False)
        self._status = Child(_STATUS, location)
        self._others = Child(untracked.LIST_DIRECTORIES, location)
        self._flags = Child(_FLAGS, location)
        self._version = Child(("version",), location)
        self._config_values: dict[str, list[str]] | None = None
        self._is_over = False  # read, or discarded

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @classmethod
    def start(cls, path: str) -> Scan:
        """Start scanning the worktree that `path` is in; raises RepositoryError if there is none."""
        return cls(locate(path))

    def config(self) -> dict[str, list[str]]:
        """The worktree's configuration; waits for that one process only."""
        if self._config_values is None:
            self._config_values = configuration.parse(self._config.result()[0])
        return self._config_values

    def discard(self) -> None:
        """Stop the processes of a scan whose result is not needed; nothing happens if it was read."""
        if self._is_over:
            return
        self._is_over = True
        children = [self._status, self._others, self._flags, self._version]
        if self._config_values is None:
            children.append(self._config)
        for child in children:
            child.discard()

    def read(self) -> ScanResult:
        """Wait for git and parse its output; GitCommandError if the index is damaged."""
        self._is_over = True
        try:
            return self._read()
        except (GitCommandError, ValueError) as error:
            from git_agentos.git import index_damage  # needed only after an error

            if index_damage.is_damaged(self.location):
                raise index_damage.error(self.location) from error
            raise

    def _read(self) -> ScanResult:
        git_version = self._version.result()[0].decode("ascii", "replace").strip()
        try:
            version.require(git_version)
        except RepositoryError:
            for child in (self._status, self._others, self._flags):
                child.discard()
            raise
        config = self.config()
        flags, _ = self._flags.result()
        assume_unchanged, skipped, every = _parse_flags(flags)
        sparse = parse_boolean(config.get("core.sparsecheckout", [""])[-1]) is True
        blind = assume_unchanged if sparse else [*assume_unchanged, *(p for p in skipped if not p.endswith(b"/"))]
        status, _ = self._status.result()
        head_commit, changed, unmerged = _parse_status(status)
        # `status` ignores paths with these flags, and git does not update their stat data: a capture must read them.
        unseen = index_entries.entries_of(self.location, set(blind)) if blind else {}
        collapsed = _collapse_sparse(skipped, every) if skipped else []
        missing = _missing(self.location, unseen)
        vanished = [change.path for change in changed if change.unstaged == "D"]
        vanished += [entry.path for entry in unmerged if not entry.worktree_mode]
        vanished += missing
        flagged = set(skipped)
        absent = collapsed if sparse else [path for path in missing if path in flagged]
        listed, warnings = self._others.result()
        others = untracked.collect(self.location, listed, vanished)
        for path in absent:
            # For git, a directory of skip-worktree paths contains them, even if it is empty on disk.
            if path.endswith(b"/") and path != b"/":
                untracked.search_directory(self.location, path[:-1], others)
        visible = [*others.files, *(path + b"/." for path in (*others.nested, *others.empty_directories))]
        tracked = (record[2:] for record in flags.split(b"\0"))
        gone = set(absent)
        return ScanResult(
            head_commit=head_commit,
            changed=changed,
            unmerged=unmerged,
            untracked=others.files,
            nested=others.nested,
            empty_directories=others.empty_directories,
            unreadable=sorted({*untracked.unreadable_in(warnings), *others.unreadable}),
            assume_unchanged=assume_unchanged,
            skip_worktree=collapsed,
            unseen={path: entry for path, entry in unseen.items() if path not in gone},
            absent=absent,
            gitlinks=index_entries.gitlinks(self.location),
            hidden_rules=untracked.hidden_rules(self.location, tracked, visible),
            tracks_attributes=b".gitattributes\0" in flags,
            config=config,
            git_version=git_version,
        )


def _parse_status(out: bytes) -> tuple[str | None, list[TrackedChange], list[Unmerged]]:
    head_commit = None
    changed: list[TrackedChange] = []
    unmerged: list[Unmerged] = []
    for record in out.split(b"\0"):
        kind = record[:2]
        if kind == b"1 ":
            xy, _sub, head, index, worktree, _head_oid, index_oid, path = record[2:].split(b" ", 7)
            modes = (int(head, 8), int(index, 8), int(worktree, 8))
            oid = index_oid.decode() if modes[1] else None
            changed.append(TrackedChange(path, chr(xy[0]), chr(xy[1]), *modes, oid))
        elif kind == b"u ":
            _xy, _sub, m1, m2, m3, worktree, h1, h2, h3, path = record[2:].split(b" ", 9)
            stages = tuple(
                (int(mode, 8), oid.decode()) if int(mode, 8) else None for mode, oid in ((m1, h1), (m2, h2), (m3, h3))
            )
            unmerged.append(Unmerged(path, stages, int(worktree, 8)))
        elif record.startswith(b"# branch.oid ") and not record.endswith(b"(initial)"):
            head_commit = record[13:].decode()
    return head_commit, changed, unmerged


def _parse_flags(out: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """assume-unchanged paths, skip-worktree paths (directories of a sparse index with a slash), and, if there are any
    of these, all paths."""
    if out.count(b"\0") == out.startswith(b"H ") + out.count(b"\0H "):
        return [], [], []  # no flags: no need to parse a hundred thousand records
    records = out.split(b"\0")
    odd = [record for record in records if not record.startswith(b"H ")]
    assumed = sorted({record[2:] for record in odd if record[:1].islower()})
    skipped = [record[2:] for record in odd if record[:1] in (b"S", b"s")]
    return assumed, skipped, [record[2:] for record in records if record] if skipped else []


def _collapse_sparse(skipped: list[bytes], every: list[bytes]) -> list[bytes]:
    """`skipped`, in which a directory (with a trailing slash) replaces its entries if all of them have the flag."""
    kept: set[bytes] = {b""}
    flagged = set(skipped)
    for path in every:
        if path not in flagged:
            while path := path.rpartition(b"/")[0]:
                if path in kept:
                    break
                kept.add(path)
    if not any(path not in flagged for path in every):
        return [b"/"]
    collapsed: dict[bytes, None] = {}
    for path in skipped:
        parts = path.rstrip(b"/").split(b"/")
        prefix = b""
        for part in parts[:-1]:
            prefix = prefix + b"/" + part if prefix else part
            if prefix not in kept:
                collapsed[prefix + b"/"] = None
                break
        else:
            collapsed[path] = None
    return list(collapsed)


def _missing(location: Location, paths: Iterable[bytes]) -> list[bytes]:
    """The `paths` at which there is no file or symlink."""
    root = os.fsencode(location.root)
    missing = []
    for path in paths:
        full = os.path.join(root, path)
        if not os.path.lexists(full) or (os.path.isdir(full) and not os.path.islink(full)):
            missing.append(path)
    return missing
