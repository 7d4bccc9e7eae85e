"""Complete states: everything a checkpoint must bring back, read with plain git and `os`, nothing of ours.

`complete_state(worktree)` reads

* HEAD: the branch it names, or none when detached, and the commit, or none when unborn;
* the index: every entry's path, mode, oid, stage, and the flags intent-to-add, assume-unchanged and skip-worktree (a
  sparse index is read expanded);
* every path below the worktree's root except `.git` and `.agentos`: type, permission bits, bytes or link target; a
  directory is recorded where it is empty;
* the operation in progress: every file of it in the git dir, and `refs/bisect/*`;
* nested repositories and populated submodules, each a complete state of its own;
* what `git status` says (equal files and index that git reports differently are not equal to a user);
* refs, which comparisons leave out unless asked.

With `strict=True` also what only an operation that must change nothing leaves alone: every file of the git dir (the
index file's bytes, configuration, reflogs, stash) but for object stores and what is ours (`refs/agentos`, `agentos/`),
and every mtime. `differences` names what differs, one line each; `assert_same` fails with that list.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from tests.support import ref_storage
from tests.support.repo import GitFailed, git, git_run

Branches: TypeAlias = Literal["exact", "any", "ignore"]
Permissions: TypeAlias = Literal["all", "executable", "ignore"]
K = TypeVar("K")
V = TypeVar("V")

_OPERATION_FILES = (
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "AUTO_MERGE",
    "SQUASH_MSG",
)
_OPERATION_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_FLAGS = ((1 << 29, "intent-to-add"), (1 << 15, "assume-unchanged"), (1 << 30, "skip-worktree"))
_DEBUG_LINES = re.compile(
    rb"  ctime: \d+:\d+\n  mtime: \d+:\d+\n  dev: \d+\tino: \d+\n  uid: \d+\tgid: \d+\n"
    rb"  size: \d+\tflags: ([0-9a-f]+)\n"
)
STATUS = ("--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames")
_WHOLE = 64 * 1024
_MAX_LINES = 40


@dataclass(frozen=True)
class Head:
    """`branch` is the full refname HEAD names, None when detached; `oid` None when unborn."""

    branch: str | None
    oid: str | None


@dataclass(frozen=True, order=True)
class IndexEntry:
    path: bytes
    stage: int
    mode: str
    oid: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class File:
    """`kind` is file, symlink, empty directory or special; `data` the bytes (a digest of large ones) or the target."""

    kind: str
    permissions: int
    data: bytes


@dataclass(frozen=True)
class Strict:
    """What an operation that must change nothing leaves alone."""

    git_dir: Mapping[str, bytes]
    mtimes: Mapping[bytes, int]


@dataclass(frozen=True)
class State:
    head: Head
    index: tuple[IndexEntry, ...]
    files: Mapping[bytes, File]
    operation: Mapping[str, bytes]
    bisect: Mapping[str, str]
    status: bytes
    nested: Mapping[bytes, State]
    refs: Mapping[str, str] = field(repr=False)
    strict: Strict | None = field(default=None, repr=False)

    def without(self, *paths: bytes) -> State:
        """This state with no regard to the files at or below `paths` (and to status, which would name them)."""
        files = {
            path: file
            for path, file in self.files.items()
            if not any(path == gone or path.startswith(gone + b"/") for gone in paths)
        }
        return State(
            self.head, self.index, files, self.operation, self.bisect, b"", self.nested, self.refs, self.strict
        )

    def listing(self) -> dict[bytes, bytes]:
        """Path to bytes of every file and link: for assertions on a few paths."""
        return {path: file.data for path, file in self.files.items()}


def complete_state(worktree: Path | str, *, strict: bool = False) -> State:
    """Read everything; see the module's docstring. Changes nothing, not even the index's stat data."""
    root = Path(worktree)
    git_dir = _git_dir(root)
    refs = _refs(root)
    files: dict[bytes, File] = {}
    nested: dict[bytes, State] = {}
    mtimes: dict[bytes, int] = {}
    for path, found in _walk(os.fsencode(root), b"", mtimes):
        if isinstance(found, File):
            files[path] = found
        else:
            nested[path] = complete_state(found, strict=strict)
    return State(
        head=_head(root, git_dir, refs),
        index=tuple(sorted(_index(root))),
        files=files,
        operation=dict(_operation(root, git_dir)),
        bisect={name: oid for name, oid in refs.items() if name.startswith("refs/bisect/")},
        status=_status(root),
        nested=nested,
        refs={name: oid for name, oid in refs.items() if not name.startswith(("refs/agentos/", "refs/bisect/"))},
        strict=Strict(dict(_git_dir_files(root, git_dir)), mtimes) if strict else None,
    )


def index_entries(worktree: Path) -> tuple[IndexEntry, ...]:
    """The index alone, sorted."""
    return tuple(sorted(_index(worktree)))


def differences(
    before: State,
    after: State,
    *,
    branch: Branches = "exact",
    permissions: Permissions = "executable",
    status: bool = True,
    refs: bool = False,
    strict: bool = False,
) -> list[str]:
    """What differs, one line each, empty if nothing does.

    `branch="any"`: a branch's name does not count, but being on one does; `"ignore"`: HEAD's branch does not count.
    `permissions="executable"`: only the owner's execute bit of a file counts, which is what git knows.
    """
    lines = [f"HEAD: {line}" for line in _head_differences(before.head, after.head, branch)]
    lines += _mapping_differences(
        "index",
        {(entry.path, entry.stage): entry for entry in before.index},
        {(entry.path, entry.stage): entry for entry in after.index},
    )
    lines += _mapping_differences(
        "worktree",
        {path: _normal(file, permissions) for path, file in before.files.items()},
        {path: _normal(file, permissions) for path, file in after.files.items()},
    )
    lines += _mapping_differences("operation", before.operation, after.operation)
    lines += _mapping_differences("bisect", before.bisect, after.bisect)
    if status and before.status != after.status:
        old, new = before.status.split(b"\0"), after.status.split(b"\0")
        lines += [f"status: no longer {line!r}" for line in old if line not in new]
        lines += [f"status: now {line!r}" for line in new if line not in old]
    if refs:
        lines += _mapping_differences("ref", before.refs, after.refs)
    if strict:
        assert before.strict is not None
        assert after.strict is not None
        lines += _mapping_differences("git dir", before.strict.git_dir, after.strict.git_dir)
        lines += _mapping_differences("mtime", before.strict.mtimes, after.strict.mtimes)
    for path in sorted(before.nested.keys() | after.nested.keys()):
        if path not in after.nested:
            lines.append(f"nested {path!r}: gone")
        elif path not in before.nested:
            lines.append(f"nested {path!r}: new")
        else:
            inner = differences(
                before.nested[path],
                after.nested[path],
                branch=branch,
                permissions=permissions,
                status=status,
                refs=refs,
                strict=strict,
            )
            lines += [f"nested {path!r}: {line}" for line in inner]
    return lines


def assert_same(
    before: State,
    after: State,
    what: str,
    *,
    branch: Branches = "exact",
    permissions: Permissions = "executable",
    status: bool = True,
    refs: bool = False,
    strict: bool = False,
) -> None:
    """Fail, naming `what` and every difference, unless both states are the same (options as `differences`)."""
    lines = differences(before, after, branch=branch, permissions=permissions, status=status, refs=refs, strict=strict)
    if lines:
        more = [f"… and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
        raise AssertionError("\n  ".join([f"{what}:", *lines[:_MAX_LINES], *more]))


def assert_unchanged(before: State, after: State, what: str) -> None:
    """Fail unless nothing at all changed; both states are to be strict ones."""
    assert_same(before, after, what, permissions="all", refs=True, strict=True)


def _git_dir(root: Path) -> Path:
    return Path(os.fsdecode(git(root, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")))


def _common_dir(git_dir: Path) -> Path:
    file = git_dir / "commondir"
    if not file.exists():
        return git_dir
    return Path(os.path.normpath(git_dir / os.fsdecode(file.read_bytes().removesuffix(b"\n"))))


def _head(root: Path, git_dir: Path, refs: Mapping[str, str]) -> Head:
    """HEAD from its file: states are read thousands of times, and each start of git takes as long as all the rest."""
    path = git_dir / "HEAD"
    if ref_storage.is_reftable(git_dir):
        ref = ref_storage.head_ref(root)
        oid = git_run(root, "rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
        return Head(ref, oid or None)
    text = f"ref: {os.readlink(path)}" if path.is_symlink() else path.read_text(errors="surrogateescape").strip()
    branch = text.removeprefix("ref:").strip() if text.startswith("ref:") else None
    oid = text if branch is None else refs.get(branch, "").partition(" ")[0]
    return Head(branch, oid or None)


def _index(root: Path) -> Iterator[IndexEntry]:
    # `--debug` writes five lines after each NUL; the pieces between the NULs are "<debug of the last><next header>".
    pieces = git(root, "ls-files", "--stage", "--debug", "-z").split(b"\0")
    header, rest = pieces[0], pieces[1:]
    for piece in rest:
        debug = _DEBUG_LINES.match(piece)
        if debug is None:
            raise GitFailed(f"cannot read git ls-files --debug: {piece!r}")
        bits = int(debug[1], 16)
        facts, path = header.split(b"\t", 1)
        mode, oid, stage = facts.decode().split(" ")
        yield IndexEntry(path, int(stage), mode, oid, tuple(name for bit, name in _FLAGS if bits & bit))
        header = piece[debug.end() :]


def _walk(root: bytes, below: bytes, mtimes: dict[bytes, int]) -> Iterator[tuple[bytes, File | Path]]:
    folder = os.path.join(root, below) if below else root
    mtimes[below] = os.lstat(folder).st_mtime_ns
    empty = True
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if not below and entry.name in (b".git", b".agentos"):
            continue
        empty = False
        path = os.path.join(below, entry.name) if below else entry.name
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            if _is_repository(entry.path):
                yield path, Path(os.fsdecode(entry.path))
            else:
                yield from _walk(root, path, mtimes)
            continue
        mtimes[path] = found.st_mtime_ns
        yield path, _file(entry.path, found)
    if empty and below:
        yield below, File("empty directory", stat.S_IMODE(os.lstat(folder).st_mode), b"")


def _file(path: bytes, found: os.stat_result) -> File:
    permissions = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return File("symlink", 0, os.readlink(path))
    if not stat.S_ISREG(found.st_mode):
        return File("special", permissions, b"")
    with open(path, "rb") as stream:
        data = stream.read()
    if len(data) > _WHOLE:
        data = b"%d bytes, sha256 %s" % (len(data), hashlib.sha256(data).hexdigest().encode())
    return File("file", permissions, data)


def _is_repository(folder: bytes) -> bool:
    inside = os.path.join(folder, b".git")
    if not os.path.lexists(inside):
        return False
    top = git_run(Path(os.fsdecode(folder)), "rev-parse", "--show-toplevel")
    return top.returncode == 0 and os.path.realpath(top.stdout.removesuffix(b"\n")) == os.path.realpath(folder)


def _operation(root: Path, git_dir: Path) -> Iterator[tuple[str, bytes]]:
    if ref_storage.is_reftable(git_dir):
        for name, oid in ref_storage.root_refs(root).items():
            if name in _OPERATION_FILES or name.startswith("BISECT_"):
                yield name, oid.encode() + b"\n"
    bisect = sorted(path.name for path in git_dir.glob("BISECT_*"))
    for name in (*_OPERATION_FILES, *bisect):
        if (git_dir / name).is_file():
            yield name, (git_dir / name).read_bytes()
    for name in _OPERATION_FOLDERS:
        for path in sorted((git_dir / name).rglob("*")):
            if path.is_file():
                yield str(path.relative_to(git_dir)), path.read_bytes()


def _refs(root: Path) -> dict[str, str]:
    lines = git(root, "for-each-ref", "--format=%(refname) %(objectname) %(symref)").decode().splitlines()
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines)}


def _status(root: Path) -> bytes:
    return git(root, *STATUS)


def _git_dir_files(root: Path, git_dir: Path) -> Iterator[tuple[str, bytes]]:
    if ref_storage.is_reftable(git_dir):
        yield from ref_storage.reflogs(root).items()
        yield from ((name, oid.encode()) for name, oid in ref_storage.root_refs(root).items())
    for top in {_common_dir(git_dir), git_dir}:
        for folder, folders, names in os.walk(top):
            below = os.path.relpath(folder, top)
            folders[:] = [
                name
                for name in folders
                if name not in ("objects", "agentos", ref_storage.TABLES) and os.path.join(below, name) != "./modules"
            ]
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as stream:
                        yield path, stream.read()


def _head_differences(before: Head, after: Head, branch: Branches) -> Iterator[str]:
    if before.oid != after.oid:
        yield f"commit {before.oid} -> {after.oid}"
    if branch == "exact" and before.branch != after.branch:
        yield f"branch {before.branch} -> {after.branch}"
    if branch == "any" and (before.branch is None) != (after.branch is None):
        yield f"detached: {before.branch} -> {after.branch}"


def _normal(file: File, permissions: str) -> File:
    if permissions == "all":
        return file
    known = 0o100 if permissions == "executable" and file.kind == "file" else 0
    return File(file.kind, file.permissions & known, file.data)


def _mapping_differences(what: str, before: Mapping[K, V], after: Mapping[K, V]) -> list[str]:
    lines = [f"{what} {key!r}: gone, was {_short(value)}" for key, value in before.items() if key not in after]
    lines += [f"{what} {key!r}: new, is {_short(value)}" for key, value in after.items() if key not in before]
    lines += [
        f"{what} {key!r}: {_short(value)} -> {_short(after[key])}"
        for key, value in before.items()
        if key in after and after[key] != value
    ]
    return lines


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:220]} … {text[-60:]}"
