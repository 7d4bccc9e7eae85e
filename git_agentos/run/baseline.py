"""The baseline of a run's worktree: by it a rollback finds what was changed, at a cost that depends on the changes.

The state itself is in the checkpoint `pre_run`; the baseline only says what need not be read. It is in the worktree's
git directory, as `<git dir>/agentos/pristine/`:

    index           git's index as it was: `diff-files` with it names every tracked file whose stat data are others, the
                    change time among them, whatever the agent's own index or configuration says
    manifest.json   version  1
                    folders  {path: [mode, mtime, ctime, inode, empty]}
                    others   [path of a file that the index does not have]
                    tree     the index, as a tree
                    young    {path: [mode, size, mtime, ctime, inode] or null}
                    config   text (latin-1) of config.worktree, or null

git compares times in whole seconds. `young` are files that were made in the second of the recording (git calls them
racy): those are compared here, in nanoseconds; null stands for one that is always read. Folders of that age, and
folders with something in them that git ignores, have 0 for their change time: they are always read. (They are listed
nevertheless: an unchanged folder vouches for the folders in it.) Where any of it is missing or damaged, everything is
read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping

from git_agentos.checkpoint.capture import listing
from git_agentos.checkpoint.capture.listing import Folder, Known, Listing
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import boolean
from git_agentos.errors import AgentosError
from git_agentos.git import configuration as git_configuration
from git_agentos.git import filters, process, state_dir, trees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation
from git_agentos.util import directories, file_times, files
from git_agentos.util.named_tuple import NamedTuple

_VERSION = 1
_FOLDER = "pristine"
_MANIFEST = "manifest.json"
_INDEX = "index"
_LATER = 1 << 33  # seconds: the time of the index, so that to git no entry is as young as the index
# Settings by which git would compare less, or something else; and our index is never split, since the shared part would
# stay in the git directory.
_STRICT = (
    "-c", "core.fileMode=true", "-c", "core.ignoreStat=false", "-c", "core.preloadIndex=true",
    "-c", "core.splitIndex=false",
)  # fmt: skip


class _Row(NamedTuple):
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int


class Baseline(NamedTuple):
    """What was recorded; `copy` is the path of the copy of the index."""

    known: Known
    young: Mapping[bytes, _Row | None]
    config: bytes | None
    copy: str


class Comparison(NamedTuple):
    """A worktree compared with its baseline: files that may have changed (None: all may), and what the walk found."""

    touched: frozenset[bytes] | None
    walked: Listing


def record(inner: OpenWorktree) -> None:
    """Record the worktree right after its set-up and its first checkpoint. (It is no evidence: it can be made
    again.)"""
    location = inner.location
    folder = directories.make_own(location.state_dir, _FOLDER)
    forget(location)
    copy = os.path.join(folder, _INDEX)
    try:
        shutil.copy2(os.path.join(location.git_dir, _INDEX), copy)
    except FileNotFoundError:
        return
    if boolean(inner.settings.values, "core.splitindex", default=False):
        inner.repository.git("update-index", "--no-split-index", env={"GIT_INDEX_FILE": copy})
    written = os.stat(copy).st_mtime_ns
    walked = listing.list_directories(location.root)
    now = time.time_ns()
    tracked = set(inner.repository.git("ls-files", "-z").split(b"\0"))
    settled = now - file_times.unsafe_for(os.stat(location.root))
    young = _young(inner, tracked, settled) if written // 10**9 >= settled // 10**9 else {}
    config = configuration(location)
    body = {
        "version": _VERSION,
        "folders": {
            os.fsdecode(path): each if path in walked.plain and each.ctime < settled else each._replace(ctime=0)
            for path, each in walked.folders.items()
        },
        "others": [os.fsdecode(path) for path in walked.names if path not in tracked],
        "tree": inner.repository.git("write-tree", env={"GIT_INDEX_FILE": copy}).decode().strip(),
        "young": {os.fsdecode(path): row for path, row in young.items()},
        "config": None if config is None else config.decode("latin-1"),
    }
    os.utime(copy, (_LATER, _LATER))
    text = json.dumps(body, separators=(",", ":"))
    files.replace(os.path.join(folder, _MANIFEST), text.encode("ascii"), durable=False)


def forget(location: Location) -> None:
    """Remove the baseline."""
    for name in (_MANIFEST, _INDEX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(location.state_dir, _FOLDER, name))


def read(location: Location) -> Baseline | None:
    """The baseline; None where it is missing or damaged."""
    folder = os.path.join(location.state_dir, _FOLDER)
    index = os.path.join(folder, _INDEX)
    try:
        if os.path.islink(folder) or not os.path.isfile(index):
            return None
        with open(os.path.join(folder, _MANIFEST), encoding="ascii") as file:
            body = json.load(file)
        if body["version"] != _VERSION:
            return None
        folders = {os.fsencode(path): Folder(*row) for path, row in body["folders"].items()}
        young = {os.fsencode(path): row and _Row(*row) for path, row in body["young"].items()}
        others = [os.fsencode(path) for path in body["others"]]
        tree = str(body["tree"])
        text = body["config"]
        return Baseline(Known(folders, others, tree), young, text if text is None else text.encode("latin-1"), index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def compare(location: Location, known: Baseline | None) -> Comparison:
    """What may have changed since the recording."""
    if known is None:
        return Comparison(None, listing.list_directories(location.root))
    env = location.environment({"GIT_INDEX_FILE": known.copy})
    args = [*_STRICT, "diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all"]
    child = process.spawn(args, cwd=location.root, env=env)
    try:
        walked = listing.list_directories(location.root, known.known)
    finally:
        status, out, _ = process.finish(child)
    if status != 0:
        return Comparison(None, listing.list_directories(location.root))
    touched = {path for path in out.split(b"\0") if path}
    root = os.fsencode(location.root)
    touched |= {path for path, row in known.young.items() if row is None or row != _stat(os.path.join(root, path))}
    return Comparison(frozenset(touched), walked)


def changed_by_reading(inner: OpenWorktree, state: State) -> frozenset[bytes]:
    """Files that differ from the state, without a baseline: git reads every tracked file.

    Where anything is converted between worktree and store, all files are named: git compares what it would store.
    """
    repository, values, tree = inner.repository, inner.settings.values, state.index_tree
    every = {path: entry[0] for path, entry in trees.walk(repository, tree) if entry[0] != trees.GITLINK}
    attributes = any(path.rpartition(b"/")[2] == b".gitattributes" for path in every)
    if filters.any_configured(repository, values, tracks_attributes=attributes):
        return frozenset(every)
    with state_dir.scratch(inner.location) as folder:
        env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        repository.git(*_STRICT, "read-tree", tree, env=env)
        repository.git(*_STRICT, "update-index", "-q", "--refresh", env=env, ok=(0, 1))
        out = repository.git(*_STRICT, "diff-files", "-z", "--name-only", "--ignore-submodules=all", env=env)
    touched = {path for path in out.split(b"\0") if path}
    root = os.fsencode(inner.location.root)
    for path, mode in every.items():
        row = _stat(os.path.join(root, path))
        usual = (0o777 if mode == trees.EXECUTABLE else 0o666) & ~state.umask
        if row is not None and mode != trees.SYMLINK and stat.S_IMODE(row.mode) != usual:
            touched.add(path)
    return frozenset(touched)


def _young(inner: OpenWorktree, tracked: Iterable[bytes], settled: int) -> dict[bytes, _Row | None]:
    """Tracked files that are racy for git, which compares whole seconds; None where a file may change and have the same
    times, since it is younger than `settled`."""
    root = os.fsencode(inner.location.root)
    found: dict[bytes, _Row | None] = {}
    for path in tracked:
        row = _stat(os.path.join(root, path)) if path else None
        if row is not None and row.ctime // 10**9 >= settled // 10**9:
            found[path] = row if row.ctime < settled else None
    return found


def _stat(path: bytes) -> _Row | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return _Row(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


# -- the worktree's own configuration ----------------------------------------------------------------------------------


def configuration(location: Location) -> bytes | None:
    """The worktree's own configuration file; None where it has none."""
    try:
        return files.read(config_path(location), follow=True)
    except OSError:
        return None


def config_path(location: Location) -> str:
    """Where that file is; there may be none."""
    return os.path.join(location.git_dir, "config.worktree")


def is_config_recorded(location: Location, known: Baseline) -> bool:
    """Whether it has the settings that were recorded, apart from the guard's, which are written again."""
    if configuration(location) == known.config:
        return True
    guards = {(each.name.lower(), each.value) for each in activation.values(location)}
    try:
        with state_dir.scratch(location) as folder:
            recorded = os.path.join(folder, "config")
            files.write_new(recorded, known.config or b"", None, False)
            return _settings(config_path(location), guards) == _settings(recorded, guards)
    except (AgentosError, OSError):
        return False


def restore_config(location: Location, known: Baseline) -> None:
    """Write what was recorded."""
    if known.config is not None:
        files.replace(config_path(location), known.config)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(config_path(location))


def _settings(path: str, without: set[tuple[str, str]]) -> dict[str, list[str]]:
    """The settings in a file, apart from some pairs of name and value."""
    values = git_configuration.read_file(path)
    found = {key: [each for each in given if (key, each) not in without] for key, given in values.items()}
    return {key: rest for key, rest in found.items() if rest}
