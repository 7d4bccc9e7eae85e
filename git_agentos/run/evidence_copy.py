"""The copy of a run's evidence in git: a tree that the ref `refs/agentos/runs/<run id>` keeps.

It is made again with every event, before the note of that event is written: so it is never older than the note, and a
folder rebuilt from it is verified exactly as the original was. `git clean -fdx` removes the folder, and not the copy.

A file that the record names is copied as it was when it was named: one that was changed or removed since stays in the
copy. The copy is not trusted by itself: anybody can move a ref.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from git_agentos.checkpoint import timeline
from git_agentos.errors import RunError
from git_agentos.git import refs, tree_refs, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.run import lock
from git_agentos.run.context import CONTEXT, evidence_path, is_id, worktree_id
from git_agentos.run.events import MANIFEST
from git_agentos.run.evidence_folder import UNFINISHED, Folder
from git_agentos.store import database_path
from git_agentos.util import directories, files, locks
from git_agentos.worktree import layout as worktrees

PREFIX = "refs/agentos/runs/"
_SMALL = 1 << 20
_MAKING = ".made-again-"


class Copy:
    """The copy of one run's evidence, by the process that writes the evidence."""

    def __init__(self, location: Location, run_id: str) -> None:
        self._location = location
        self._name = PREFIX + run_id
        self._repository: Repository | None = None
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}  # name -> which file that was, and its blob

    def save(self, folder: Folder, named: Mapping[str, str]) -> None:
        """Copy the folder; `named` are the files that the record names, with their SHA-256. These and the manifest stay
        in the copy if they are missing."""
        if self._repository is None:
            self._repository = tree_refs.open_store(self._location)
        before = tree_refs.files(self._repository, self._name)
        tree_refs.put(self._repository, self._name, lambda writer: self._files(writer, folder, named, before))

    def _files(
        self, writer: Writer, folder: Folder, named: Mapping[str, str], before: tree_refs.Files
    ) -> tree_refs.Files:
        found = {}
        for name, regular in folder.walk():
            if regular and not name.endswith(UNFINISHED):
                found[os.fsencode(name)] = (trees.REGULAR, self._blob(writer, folder, name, named.get(name), before))
        for name in (*named, MANIFEST):
            path = os.fsencode(name)
            if path not in found and path in before:
                found[path] = before[path]
        return found

    def _blob(self, writer: Writer, folder: Folder, name: str, expected: str | None, before: tree_refs.Files) -> str:
        with open(folder.open(name), "rb") as file:
            state = os.fstat(file.fileno())
            which = (state.st_ino, state.st_size, state.st_mtime_ns)
            known = self._known.get(name)
            if known is not None and known[0] == which:
                return known[1]
            path = os.fsencode(name)
            if expected is not None and path in before:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    return before[path][1]
                file.seek(0)
            oid = write_blob(writer, file)
        self._known[name] = (which, oid)
        return oid


def write_blob(writer: Writer, file: BinaryIO) -> str:
    """Write the contents of a file as a blob; its id."""
    size = os.fstat(file.fileno()).st_size
    return writer.write("blob", file.read()) if size < _SMALL else writer.write_stream(file.fileno(), size)


class SavedFolder(Folder):
    """A copy, to be read as the folder that it was made of."""

    def __init__(self, path: str, repository: Repository, found: tree_refs.Files) -> None:
        super().__init__(path)
        self._repository = repository
        self._found = {os.fsdecode(name): oid for name, (_, oid) in found.items()}

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of a file; nothing can be written."""
        if flags != os.O_RDONLY:
            raise RunError(f"'{os.path.join(self.path, name)}' is in git only", "git agentos doctor --fix")
        oid = self._found.get(name)
        if oid is None:
            raise FileNotFoundError(2, os.strerror(2), os.path.join(self.path, name))
        with tempfile.TemporaryFile() as file:
            if self._repository.is_large(oid, _SMALL):
                self._repository.stream_blob(oid, file.fileno())
            else:  # no process for each of many small files
                file.write(self._repository.blob(oid))
            file.seek(0)
            return os.dup(file.fileno())

    def kind(self, name: str) -> int | None:
        """The file type bits of what has a name."""
        if name in self._found:
            return stat.S_IFREG
        return stat.S_IFDIR if any(each.startswith(f"{name}/") for each in self._found) else None

    def walk(self) -> Iterator[tuple[str, bool]]:
        """Every file, by name."""
        yield from ((name, True) for name in self._found)


def ids(location: Location) -> list[str]:
    """The ids of the runs whose evidence has a copy."""
    return [name for name in tree_refs.names(location, PREFIX) if is_id(name)]


def find_copy(location: Location, run_id: str) -> SavedFolder | None:
    """The copy of a run's evidence; None where there is none, or where the run's timeline is gone and with it all that
    the evidence names."""
    if not is_id(run_id) or refs.resolve(location, PREFIX + run_id) is None:
        return None
    repository = tree_refs.open_store(location)
    found = tree_refs.files(repository, PREFIX + run_id)
    if not found or (os.fsencode(CONTEXT) in found and timeline.tip(location, worktree_id(run_id)) is None):
        return None
    return SavedFolder(evidence_path(location, run_id), repository, found)


def delete(location: Location, run_id: str) -> None:
    """Delete the copy of a run that could not be started."""
    tree_refs.delete(location, PREFIX + run_id)


def rebuild_folder(location: Location, run_id: str, *, parts: bool = False) -> bool:
    """Rebuild the folder of a run's evidence, where it is missing and no process has the run; whether that was done.
    With `parts` also files that are missing in an existing folder. RepositoryError where something else is in its
    place."""
    path = evidence_path(location, run_id)
    if os.path.lexists(path) and not (parts and os.path.isdir(path) and not os.path.islink(path)):
        return False
    found = find_copy(location, run_id)
    if found is None or lock.holder(location, run_id) not in (None, os.getpid()):
        return False
    database_path.ensure_folder(worktrees.main_folder(location))
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    with locks.hold(os.path.join(directories.make_own(location.shared_state_dir), "evidence.turn")):
        return write_missing(location, run_id) if os.path.isdir(path) else _make(found)


def write_missing(location: Location, run_id: str) -> bool:
    """Write the files that are missing in the folder of a run's evidence, as far as the copy has them; whether any
    were."""
    found = find_copy(location, run_id)
    names = missing(found) if found is not None else []
    if found is not None:
        _write(found, Folder(found.path), names)
    return bool(names)


def missing(found: SavedFolder) -> list[str]:
    """The files that are missing in the folder that a copy was made of."""
    there = Folder(found.path)
    return [name for name, _ in found.walk() if not os.path.isdir(found.path) or there.kind(name) is None]


def _make(found: SavedFolder) -> bool:
    runs = os.path.dirname(found.path)
    for each in os.listdir(runs):
        if each.startswith(_MAKING):  # its process was killed
            shutil.rmtree(os.path.join(runs, each), ignore_errors=True)
    making = tempfile.mkdtemp(prefix=_MAKING, dir=runs)
    try:
        os.chmod(making, 0o755)
        _write(found, Folder(making), [name for name, _ in found.walk()])
        os.rename(making, found.path)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    files.sync_directory(runs)
    return True


def _write(source: SavedFolder, target: Folder, names: list[str]) -> None:
    for name in names:
        file: BinaryIO
        with open(source.open(name), "rb") as data, target.create(name) as file:
            shutil.copyfileobj(data, file)
            file.flush()
            os.fsync(file.fileno())
