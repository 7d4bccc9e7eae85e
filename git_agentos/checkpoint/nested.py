"""Repositories inside the worktree: untracked ones, and submodules that are checked out.

Each gets a checkpoint of its own, in its own store. `nested/<path>` in S describes it (JSON):

    format      1
    kind        "repository" (its git directory lies inside the worktree) or "submodule"
    head        {"ref", "commit"}
    git_dir     of a "submodule": its git directory, relative to the main repository's
    checkpoint  id of its own checkpoint, or null
    timeline    name of its own timeline
    refs        {name: oid}    of a "repository": all refs, so that it can be made again
    tags        {oid: text}    annotated tag objects (latin-1)
    config      text           its configuration file (latin-1)

A "repository" can be deleted with its store. So its objects are brought into the main store as well, where the timeline
keeps them alive: a commit N whose parents are the tips of its refs is a further parent of the timeline commit. The
same is done for a "submodule" whose git directory goes with the worktree; `refs` then has something in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from git_agentos.checkpoint.state import Skipped
from git_agentos.errors import AgentosError, GitCommandError, RepositoryError
from git_agentos.git import locks, process, refs, scan, trees
from git_agentos.git.location import Location, locate
from git_agentos.git.refs import Head
from git_agentos.git.repository import Repository, Writer

_FORMAT = 1
_LIMIT = 1 << 30


class NestedCheckpoint(NamedTuple):
    """What taking a checkpoint in a nested repository gave."""

    id: str
    timeline: str
    tip: str
    dirty: bool
    head: Head
    skipped: tuple[Skipped, ...]


Take = Callable[[Location], NestedCheckpoint]


class Repositories(NamedTuple):
    """The nested repositories of a state: path -> description blob, commits to keep, what was left out, and the
    submodules that are not exactly what the index names."""

    records: dict[bytes, str]
    pins: list[str]
    skipped: list[Skipped]
    differing: set[bytes]


def head_commit(root: str, path: bytes) -> str | None:
    """The commit that is checked out in the repository at `path`; None where there is none."""
    location = locate_at(root, path)
    if location is None:
        return None
    return refs.read_head(location).commit


def locate_at(root: str, path: bytes) -> Location | None:
    """The repository whose top is at `path`; None where there is none that git accepts."""
    directory = os.path.join(os.fsencode(root), path)
    if not scan.is_repository(directory):
        return None
    try:
        location = locate(os.fsdecode(directory), inherit=False)
    except RepositoryError:
        return None
    # A `.git` that git does not accept makes it find the repository around it instead.
    return location if location.root == os.path.realpath(os.fsdecode(directory)) else None


def capture(
    repository: Repository,
    writer: Writer,
    untracked: Sequence[bytes],
    gitlinks: Mapping[bytes, str],
    take: Take | None,
    *,
    leaving: bool = False,
) -> Repositories:
    """Describe every nested repository and every submodule (`gitlinks`: path -> commit) that is checked out.

    With `leaving`, the worktree's git directory is about to go, and with it those of submodules.
    """
    result = Repositories({}, [], [], set())
    for path in [*untracked, *gitlinks]:
        expected = gitlinks.get(path)
        try:
            _capture_one(repository, writer, path, expected, take, result, leaving)
        except AgentosError as error:
            if isinstance(error, RepositoryError | GitCommandError):
                result.skipped.append(Skipped(os.fsdecode(path) + "/", f"nested repository: {error.message}"))
            else:
                raise
    return result


def _capture_one(
    repository: Repository,
    writer: Writer,
    path: bytes,
    expected: str | None,
    take: Take | None,
    result: Repositories,
    leaving: bool,
) -> None:
    name = os.fsdecode(path) + "/"
    if expected is not None and not scan.is_repository(os.path.join(os.fsencode(repository.location.root), path)):
        return  # a submodule that is not checked out
    location = locate_at(repository.location.root, path)
    if location is None:
        result.skipped.append(Skipped(name, "nested repository that git cannot open"))
        return
    if location.common_dir == repository.location.common_dir:
        result.skipped.append(Skipped(name, "another worktree of this repository"))
        return
    head = refs.read_head(location)
    taken = take(location) if take is not None else None
    if taken is not None:
        result.skipped.extend(Skipped(name + item.path, item.reason) for item in taken.skipped)
    if expected is not None and (head.commit != expected or (taken is not None and taken.dirty)):
        result.differing.add(path)
    inside = location.common_dir.startswith(os.path.join(location.root, ""))
    record: dict[str, Any] = {
        "format": _FORMAT,
        "kind": "repository" if inside else "submodule",
        "git_dir": None if inside else os.path.relpath(location.git_dir, repository.location.common_dir),
        "head": {"ref": head.ref, "commit": head.commit},
        "checkpoint": taken.id if taken is not None else None,
        "timeline": taken.timeline if taken is not None else None,
        "refs": {},
        "tags": {},
        "config": "",
    }
    elsewhere = not location.git_dir.startswith(os.path.join(repository.location.common_dir, ""))
    if leaving and not inside and elsewhere:
        result.skipped.append(
            Skipped(name, "its git directory lies outside of this repository and knows it by its path")
        )
    if inside or (leaving and location.common_dir.startswith(os.path.join(repository.location.git_dir, ""))):
        reason = _bring_in(repository, writer, location, head, record, result.pins)
        if reason is not None:
            result.skipped.append(Skipped(name + ".git/", reason))
    data = json.dumps(record, sort_keys=True, indent=1).encode("ascii")
    result.records[path] = writer.write("blob", data + b"\n")


def _bring_in(
    repository: Repository, writer: Writer, location: Location, head: Head, record: dict[str, Any], pins: list[str]
) -> str | None:
    """Copy a nested repository's objects into the main store and say in `record` how to make it again; the reason
    where that is not done."""
    inner = Repository(location)
    found = refs.names(location, "refs/")
    record["refs"] = found
    with contextlib.suppress(OSError), open(os.path.join(location.common_dir, "config"), "rb") as file:
        record["config"] = file.read().decode("latin-1")
    commits: dict[str, None] = {}
    for tip in [*found.values(), *([head.commit] if head.commit else [])]:
        oid = tip
        kind, data = inner.read(oid)
        while kind == "tag":
            record["tags"][oid] = data.decode("latin-1")
            oid = data.partition(b"\n")[0].removeprefix(b"object ").decode()
            kind, data = inner.read(oid)
        if kind == "commit":
            commits.setdefault(oid)
    missing = [oid for oid in commits if not repository.exists(oid)]
    if missing:
        if os.path.exists(os.path.join(location.common_dir, "shallow")):
            return "nested repository with a shallow history, which cannot be kept (git fetch --unshallow completes it)"
        if _size(location) > _LIMIT:
            return "nested repository too large to be kept in this one's object store"
        _copy_objects(location, missing, [oid for oid in commits if oid not in missing], repository.location)
    pins.append(
        writer.write_commit(
            trees.EMPTY_TREE, list(commits), b"nested repository\n", b"git-agentos <git-agentos@localhost>", 0
        )
    )
    return None


def _size(location: Location) -> int:
    out = process.run(["count-objects", "-v"], env=location.environment())
    sizes = dict(line.split(b": ") for line in out.splitlines() if b": " in line)
    return (int(sizes.get(b"size", 0)) + int(sizes.get(b"size-pack", 0))) * 1024


def _copy_objects(source: Location, wanted: Iterable[str], have: Iterable[str], target: Location) -> None:
    """Copy everything that `wanted` reaches and `have` does not, as one pack."""
    lines = "".join([f"{oid}\n" for oid in wanted] + [f"^{oid}\n" for oid in have])
    pack = process.spawn(
        ["pack-objects", "--revs", "--stdout", "--quiet"], env=source.environment(), stdin=process.PIPE
    )
    assert pack.stdin is not None and pack.stdout is not None and pack.stderr is not None
    index = process.spawn(["index-pack", "--stdin"], env=target.environment(), stdin=pack.stdout.fileno())
    pack.stdin.write(lines.encode())
    pack.stdin.close()
    pack.stdout.close()
    status, _, err = process.finish(index)
    said = pack.stderr.read()
    pack.stderr.close()
    if pack.wait() != 0:
        raise process.failure(["pack-objects"], pack.returncode, said)
    if status != 0:
        raise process.failure(["index-pack"], status, err)


# -- bringing them back --------------------------------------------------------------------------------------------


def read(repository: Repository, oid: str) -> Mapping[str, Any]:
    """A description written by `capture`; RepositoryError if it cannot be understood."""
    try:
        record = json.loads(repository.blob(oid))
        if record["format"] == _FORMAT:
            return dict(record)
    except (ValueError, KeyError, TypeError) as error:
        raise RepositoryError("the description of a nested repository is damaged") from error
    raise RepositoryError("a nested repository was saved by a newer git-agentos", "install a newer git-agentos")


# What of a nested repository's configuration is brought back. The rest can name programs that git would run, and a
# checkpoint may have come from elsewhere.
_SAFE_CONFIG = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|abbrev)|extensions\.worktreeconfig|user\.(name|email)|remote\..+\.(url|fetch|pushurl|push|tagopt"
    r"|prune|mirror)|branch\..+\.(remote|merge|rebase|pushremote)|init\.defaultbranch|pull\.(rebase|ff)|push\.default"
)


def make_again(repository: Repository, path: bytes, record: Mapping[str, Any]) -> None:
    """Create the repository that `record` describes at `path`, where there is none, with its refs and objects.

    It is made beside and comes with one rename, so it is there whole or not at all.
    """
    directory = os.path.join(repository.location.root, os.fsdecode(path))
    with locks.scratch(repository.location) as folder:
        made = os.path.join(folder, "made")
        process.run(["init", "--quiet", "--template=", made], cwd=folder)
        location = locate(made, inherit=False)
        _write_config(location, folder, record["config"])
        commits: dict[str, None] = {}
        for oid in [*record["refs"].values(), *([record["head"]["commit"]] if record["head"]["commit"] else [])]:
            if oid not in record["tags"]:
                commits.setdefault(oid)
        for text in record["tags"].values():
            target = text.partition("\n")[0].removeprefix("object ")
            if target not in record["tags"]:
                commits.setdefault(target)
        if commits:
            _copy_objects(repository.location, commits, (), location)
        for text in record["tags"].values():
            args = ["hash-object", "-t", "tag", "-w", "--stdin"]
            process.run(args, env=location.environment(), data=text.encode("latin-1"))
        for name, oid in record["refs"].items():
            refs.update(location, name, oid, None)
        head = Head(record["head"]["ref"], record["head"]["commit"])
        refs.set_head(location, head, reason="git-agentos: made again", who="git-agentos <git-agentos@localhost>")
        os.makedirs(directory, exist_ok=True)
        os.rename(os.path.join(made, ".git"), os.path.join(directory, ".git"))


def _write_config(location: Location, folder: str, text: str) -> None:
    """Put those settings of a saved configuration file in place that can do no harm."""
    saved = os.path.join(folder, "config")
    with open(saved, "w", encoding="latin-1") as file:
        file.write(text)
    try:
        out = process.run(["config", "--file", saved, "--null", "--list", "--no-includes"], cwd=folder)
    except GitCommandError:
        return
    target = os.path.join(location.git_dir, "config")
    for key, values in scan.parse_config(out).items():
        if _SAFE_CONFIG.fullmatch(key):
            process.run(["config", "--file", target, "--replace-all", key, values[0]], cwd=folder, ok=(0, 1, 5))
            for value in values[1:]:
                process.run(["config", "--file", target, "--add", key, value], cwd=folder, ok=(0, 1, 5))


def connect(repository: Repository, path: bytes, record: Mapping[str, Any]) -> bool:
    """Point the (empty or missing) directory at `path` at the submodule's git directory that is still there."""
    git_dir = os.path.normpath(os.path.join(repository.location.common_dir, record["git_dir"]))
    # A linked worktree has those of its submodules in its own git directory; another one's are not for it to take.
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


def put_aside(repository: Repository, path: bytes, key: str) -> bool:
    """Move a nested repository out of the worktree as it is, to `<git dir>/agentos/kept/<key>/<path>`.

    False where it lies on another file system and cannot be moved in one step: it then stays.
    """
    location = repository.location
    folder = os.path.join(locks.own_folder(os.path.join(locks.own_folder(location.state_dir), "kept")), key)
    target = os.path.join(os.fsencode(folder), path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.rename(os.path.join(os.fsencode(location.root), path), target)
    except OSError:
        return False
    return True


def take_back(repository: Repository, path: bytes, *, key: str | None = None, holding: str | None = None) -> bool:
    """Move the newest repository that was put aside from `path` back to it: of those under `key`, and of those that
    have the object `holding`. False where there is none."""
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
        if scan.is_repository(source) and (holding is None or _holds(os.path.join(kept, each), path, holding)):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with contextlib.suppress(OSError):
                os.rmdir(target)
            with contextlib.suppress(OSError):
                os.rename(source, target)
                _remove_empty(os.path.join(kept, each))
                return True
    return False


def _holds(root: str, path: bytes, oid: str) -> bool:
    location = locate_at(root, path)
    return location is not None and Repository(location).exists(oid)


def _remove_empty(folder: str) -> None:
    for top, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(top)
