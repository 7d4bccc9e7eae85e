"""Repositories inside the worktree: untracked ones, and submodules that are checked out.

Each gets a checkpoint of its own, in its own object store. `nested/<path>` in S describes it (JSON):

    format      1
    kind        "repository" (its git directory is inside the worktree) or "submodule"
    head        {"ref", "commit"}
    git_dir     of a "submodule": its git directory, relative to the main repository's
    checkpoint  id of its own checkpoint, or null
    timeline    name of its own timeline
    refs, symbolic, tags, logs, elsewhere, config, info  of a "repository": how to recreate it (see `nested_objects`)

A "repository" can be deleted with its store. So its objects are imported into the main store as well, and the timeline
keeps them: a commit N that reaches them is a further parent of the timeline commit. The same is done for a "submodule"
whose git directory may be removed with the worktree; `refs` is then not empty. That is so if the worktree itself is
being removed, and if the submodule is in a "repository".

One store holds ids of one length only. So the objects of a repository with another hash algorithm stay in its own store
alone, with its own timeline, and `skipped` names it: it is restored while that store exists.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from git_agentos.checkpoint.model import Skipped, SkipReason
from git_agentos.errors import GitCommandError, MissingObjectsError, RepositoryError
from git_agentos.git import process, refs, untracked
from git_agentos.git.location import Location, locate
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository, Writer
from git_agentos.util import directories
from git_agentos.util.named_tuple import NamedTuple

_FORMAT = 1
# A nested repository that git or we cannot read is listed as skipped; everything else is saved.
_UNUSABLE = (RepositoryError, GitCommandError, MissingObjectsError)


class NestedCheckpoint(NamedTuple):
    """The checkpoint of a nested repository, and properties of its state; `state` is that state's fingerprint."""

    id: str
    worktree_id: str
    dirty: bool
    skipped: tuple[Skipped, ...]
    state: str


CreateNested = Callable[[Location], NestedCheckpoint]


class NestedOptions(NamedTuple):
    """How a capture treats repositories inside the worktree.

    `create` creates a checkpoint in one of them; without it, its HEAD alone is recorded. With `git_dir_goes`, the
    worktree's git directory is about to be removed: the objects of submodules in it are imported into the main store,
    as they are with `inside_another`: then this worktree is inside another one and may be removed with it. Without
    `import_objects`, no objects are imported: the caller only compares states.
    """

    create: CreateNested | None = None
    git_dir_goes: bool = False
    inside_another: bool = False
    import_objects: bool = True


class Repositories(NamedTuple):
    """The nested repositories of a state: path -> description blob, commits to keep, what was left out, the submodules
    that are not exactly what the index names, and the fingerprints of the states in them."""

    records: dict[bytes, str]
    pins: list[str]
    skipped: list[Skipped]
    differing: set[bytes]
    states: dict[bytes, str]


def head_commit(root: str, path: bytes) -> str | None:
    """The commit that is checked out in the repository at `path`; None if there is none."""
    location = locate_at(root, path)
    if location is None:
        return None
    return refs.read_head(location).commit


def locate_at(root: str, path: bytes) -> Location | None:
    """The repository whose top is at `path`; None if there is none that git accepts."""
    directory = os.path.join(os.fsencode(root), path)
    if not untracked.is_repository(directory):
        return None
    try:
        location = locate(os.fsdecode(directory), use_environment=False)
    except RepositoryError:
        return None
    # If git does not accept the `.git` there, it finds the enclosing repository instead.
    return location if location.root == os.path.realpath(os.fsdecode(directory)) else None


def describe_nested(
    repository: Repository,
    writer: Writer,
    repositories: Sequence[bytes],
    gitlinks: Mapping[bytes, str],
    options: NestedOptions,
) -> Repositories:
    """Describe `repositories`, and the submodules that are checked out (`gitlinks`: path -> commit)."""
    description = _Description(repository, writer, options)
    for path in [*repositories, *gitlinks]:
        try:
            description.add(path, gitlinks.get(path))
        except _UNUSABLE as error:
            description.skip(path, f"nested repository: {error.message}")
    return description.result


class _Description:
    """The description of the repositories inside one worktree."""

    def __init__(self, repository: Repository, writer: Writer, options: NestedOptions) -> None:
        self.repository = repository
        self.writer = writer
        self.options = options
        self.result = Repositories({}, [], [], set(), {})

    def skip(self, path: bytes, reason: str, *, name: str = "") -> None:
        self.result.skipped.append(Skipped(os.fsdecode(path) + "/" + name, reason))

    def add(self, path: bytes, expected: str | None) -> None:
        """Describe the repository at `path`; `expected` is the commit that the index names for a submodule."""
        root = self.repository.location.root
        if expected is not None and not untracked.is_repository(os.path.join(os.fsencode(root), path)):
            return  # a submodule that is not checked out
        location = locate_at(root, path)
        if location is None:
            self.skip(path, "nested repository that git cannot open")
            return
        if location.common_dir == self.repository.location.common_dir:
            self.skip(path, SkipReason.OTHER_WORKTREE)
            return
        head = refs.read_head(location)
        created = self.options.create(location) if self.options.create is not None else None
        for item in created.skipped if created is not None else ():
            self.skip(path, item.reason, name=item.path)
        if expected is not None and (head.commit != expected or (created is not None and created.dirty)):
            self.result.differing.add(path)
        record = self._record(location, head, created)
        self._import(path, location, head, record)
        if created is not None:
            self.result.states[path] = created.state
        data = json.dumps(record, sort_keys=True, indent=1).encode("ascii")
        self.result.records[path] = self.writer.write("blob", data + b"\n")

    def _record(self, location: Location, head: Head, created: NestedCheckpoint | None) -> dict[str, Any]:
        inside = self._is_inside(location)
        return {
            "format": _FORMAT,
            "kind": "repository" if inside else "submodule",
            "git_dir": None if inside else os.path.relpath(location.git_dir, self.repository.location.common_dir),
            "head": {"ref": head.ref, "commit": head.commit},
            "checkpoint": created.id if created is not None else None,
            "timeline": created.worktree_id if created is not None else None,
            "refs": {},
            "symbolic": {},
            "tags": {},
            "logs": {},
            "elsewhere": [],
            "config": "",
            "info": {},
        }

    def _is_inside(self, location: Location) -> bool:
        """Whether the git directory is inside the repository's own worktree."""
        return location.common_dir.startswith(os.path.join(location.root, ""))

    def _import(self, path: bytes, location: Location, head: Head, record: dict[str, Any]) -> None:
        """Import what a repository needs to be recreated, if its git directory can be removed with the worktree."""
        outer, options = self.repository.location, self.options
        inside = self._is_inside(location)
        if options.git_dir_goes and not inside and not _is_below(location.git_dir, outer.common_dir):
            self.skip(path, "its git directory is outside this repository")
        removable = (options.git_dir_goes or options.inside_another) and _is_below(location.common_dir, outer.git_dir)
        if not inside and not removable:
            return
        if location.hash != outer.hash:
            self.skip(
                path,
                f"its objects are {location.hash.name} and stay in it: if it is deleted, they are lost",
                name=".git/",
            )
            return
        from git_agentos.checkpoint import nested_objects  # here and below: few worktrees have repositories inside

        reason = self._hold(location, head, record)
        if reason is None and options.git_dir_goes and (others := nested_objects.other_worktrees(location)):
            reason = f"worktrees of it need its git directory: '{others[0]}'"
        if reason is not None:
            self.skip(path, reason, name=".git/")

    def _hold(self, location: Location, head: Head, record: dict[str, Any]) -> str | None:
        """Make the main store keep all that the repository's refs and reflogs reach; the reason if that fails."""
        from git_agentos.checkpoint import nested_objects

        try:
            pin, reason = nested_objects.describe(
                self.repository, self.writer, location, head, record, keep=self.options.import_objects
            )
        except _UNUSABLE as error:
            return f"nested repository that cannot be kept: {error.message}"
        if pin is not None:
            self.result.pins.append(pin)
        return reason


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


# -- restoring ------------------------------------------------------------------------------------------------


def read(repository: Repository, oid: str) -> Mapping[str, Any]:
    """A description written by `capture`; RepositoryError if it cannot be understood."""
    try:
        record = json.loads(repository.blob(oid))
        if record["format"] == _FORMAT:
            return dict(record)
    except (ValueError, KeyError, TypeError) as error:
        raise RepositoryError("the description of a nested repository is damaged") from error
    raise RepositoryError("a nested repository was saved by a newer git-agentos", "install a newer git-agentos")


def link_git_dir(repository: Repository, path: bytes, record: Mapping[str, Any]) -> bool:
    """Link the (empty or missing) directory at `path` with the submodule's existing git directory."""
    git_dir = os.path.normpath(os.path.join(repository.location.common_dir, record["git_dir"]))
    # A linked worktree has its submodules in its own git directory; it must not use those of another worktree.
    folders = (repository.location.common_dir, repository.location.git_dir)
    inside = tuple(os.path.join(folder, "modules", "") for folder in folders)
    if not git_dir.startswith(inside) or not os.path.isfile(os.path.join(git_dir, "HEAD")):
        return False
    directory = os.path.join(repository.location.root, os.fsdecode(path))
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, ".git"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"gitdir: {os.path.relpath(git_dir, directory)}\n")
    process.run(
        ["config", "--file", os.path.join(git_dir, "config"), "core.worktree", os.path.relpath(directory, git_dir)],
        cwd=repository.location.root,
    )
    return True


def move_aside(repository: Repository, path: bytes, key: str) -> bool:
    """Move a nested repository out of the worktree as it is, to `<git dir>/agentos/kept/<key>/<path>`.

    False if it is on another file system and cannot be moved by a rename: then it stays.
    """
    location = repository.location
    folder = os.path.join(directories.make_own(location.state_dir, "kept"), key)
    target = os.path.join(os.fsencode(folder), path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.rename(os.path.join(os.fsencode(location.root), path), target)
    except OSError:
        return False
    return True


def reinstate(repository: Repository, path: bytes, *, key: str | None = None, holding: str | None = None) -> bool:
    """Move the newest repository that was moved aside from `path` back there; with `key` one of those under `key`, with
    `holding` one that has this object. False if there is none."""
    kept = os.path.join(repository.location.state_dir, "kept")
    try:
        keys = sorted(os.listdir(kept), key=lambda key: os.stat(os.path.join(kept, key)).st_ctime_ns, reverse=True)
    except FileNotFoundError:
        return False
    target = os.path.join(os.fsencode(repository.location.root), path)
    for each in keys:
        if key is not None and each != key:
            continue
        source = os.path.join(os.fsencode(kept), os.fsencode(each), path)
        if untracked.is_repository(source) and (holding is None or _holds(os.path.join(kept, each), path, holding)):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with contextlib.suppress(OSError):
                os.rmdir(target)
            with contextlib.suppress(OSError):
                os.rename(source, target)
                _remove_empty_above(source, os.path.join(os.fsencode(kept), os.fsencode(each)))
                return True
    return False


def _holds(root: str, path: bytes, oid: str) -> bool:
    location = locate_at(root, path)
    return location is not None and Repository(location).exists(oid)


def _remove_empty_above(path: bytes, top: bytes) -> None:
    """Remove the empty folders above `path`, up to `top`. Other empty folders there may belong to repositories that are
    kept, and are not removed."""
    with contextlib.suppress(OSError):
        while len(path) > len(top):
            path = os.path.dirname(path)
            os.rmdir(path)
