"""Applying a plan to the worktree, and reverting it if a step fails.

All files are prepared in a scratch directory first, so a full disk or a failing filter is noticed before anything is
changed. They are then renamed into place. The files that they replace are renamed into the scratch directory, and back
(with their inodes and times) if a later step fails. In a worktree that is being created nothing can be lost: there,
files are written in place.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import functools
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.checkpoint import checkout
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import Form
from git_agentos.checkpoint.restore.plan import Plan
from git_agentos.config import boolean
from git_agentos.git import trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.util import directories, files
from git_agentos.util.progress import SILENT, counted

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress

_STREAM_FROM = 32 << 20
# What a name begins with while it is respelled by two renames; `spelling` finds it after a kill.
RENAMING = b".agentos-renaming-"


class Prepared:
    """The prepared files of a plan: path -> the scratch file with its new content.

    `progress` is told how many are done.

    With `root`, the root of a worktree that is being created (and removed after a failure), files are `written` there
    directly, unless something is in their place.
    """

    def __init__(self, folder: str, root: str | None = None, progress: Progress = SILENT) -> None:
        self.folder = folder
        self.progress = progress
        self.files: dict[bytes, bytes] = {}
        self.written: dict[bytes, tuple[int, int, int]] = {}
        self._places = os.fsencode(folder)
        self._count = 0
        self._below = None if root is None else os.path.join(os.fsencode(root), b"")
        self._folders = {b""}

    def scratch_path(self) -> bytes:
        """A fresh name in the scratch directory."""
        self._count += 1
        return b"%b/%d" % (self._places, self._count)

    def write(self, repository: Repository, path: bytes, oid: str, permissions: int, *, crlf: bool = False) -> None:
        """Write the file of `path` with a blob's content; with `crlf`, with CRLF line endings."""
        form = Form(oid, crlf)
        if self._below is not None and self._is_reached(self._below, path):
            try:
                self.written[path] = _identity(_write_file(repository, form, self._below + path, permissions))
                return
            except FileExistsError:
                pass  # `_put` replaces it
        place = self.files[path] = self.scratch_path()
        _write_file(repository, form, place, permissions)

    def _is_reached(self, below: bytes, path: bytes) -> bool:
        """Create the folders above `path`; whether all of them are folders, and none is a symlink to a folder."""
        missing = []
        folder = path.rpartition(b"/")[0]
        while folder not in self._folders:
            missing.append(folder)
            folder = folder.rpartition(b"/")[0]
        for folder in reversed(missing):
            try:
                os.mkdir(below + folder)
            except FileExistsError:
                if not stat.S_ISDIR(os.lstat(below + folder).st_mode):
                    return False
            self._folders.add(folder)
        return True


def prepare(
    repository: Repository,
    store: Writer,
    plan: Plan,
    target: State,
    settings: Mapping[str, list[str]],
    prepared: Prepared,
) -> None:
    """Prepare every file of the plan, converted by the target's attributes, with its permission bits."""
    folder = prepared.folder
    convertible = [path for path, file in plan.write.items() if file.own is None and file.entry[0] != trees.SYMLINK]
    leaving = frozenset(plan.remove)
    through_git = checkout.converted(store, target, convertible, settings, folder, leaving)
    symlinks = boolean(settings, "core.symlinks", default=True)
    root = os.fsencode(repository.location.root)
    for path, file in counted(prepared.progress, "Preparing files", plan.write.items()):
        linked = file.entry[0] == trees.SYMLINK and symlinks
        form = file.own or Form(file.oid)
        if not linked and path not in through_git and not file.recheck:
            prepared.write(repository, path, form.oid, file.permissions, crlf=form.crlf)
        elif linked:
            place = prepared.files[path] = prepared.scratch_path()
            os.symlink(repository.blob(file.oid), place)
        elif path in through_git:
            if file.recheck and _is_same_file(through_git[path], os.path.join(root, path)):
                continue
            place = prepared.files[path] = prepared.scratch_path()
            os.rename(through_git[path], place)
            files.set_mode(place, file.permissions)
        elif not _is_file(os.path.join(root, path)) or not form.is_at(os.path.join(root, path)):
            place = prepared.files[path] = prepared.scratch_path()
            _write_file(repository, form, place, file.permissions)


def _is_file(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_same_file(one: bytes, other: bytes) -> bool:
    """Whether `other` is a file with the bytes of `one`."""
    with contextlib.suppress(OSError):
        return _is_file(other) and filecmp.cmp(one, other, shallow=False)
    return False


def _write_file(repository: Repository, form: Form, place: bytes, permissions: int) -> os.stat_result:
    """Write the file `place`. There may be thousands, so each takes as few system calls as possible."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    try:
        if not form.crlf and repository.is_large(form.oid, _STREAM_FROM):
            repository.stream_blob(form.oid, descriptor)
        else:
            data = memoryview(form.read(repository))
            while data:
                data = data[os.write(descriptor, data) :]
        found = os.fstat(descriptor)
        if stat.S_IMODE(found.st_mode) != permissions:
            files.set_mode(descriptor, permissions)
        return found
    finally:
        os.close(descriptor)


class Application:
    """A plan being applied; `revert` undoes what was done so far, newest first."""

    def __init__(self, repository: Repository, plan: Plan, prepared: Prepared) -> None:
        self.root = os.fsencode(repository.location.root)
        self._below = os.path.join(self.root, b"")
        self.plan = plan
        self.prepared = prepared
        self._undo: list[Callable[[], None]] = []
        self._put_in_place = dict(prepared.written)
        self._made: set[bytes] = set()
        self._parents = {b""}  # folders that are there while files are put in place
        self._opened: set[bytes] = set()

    def on_revert(self, step: Callable[[], None]) -> None:
        """Register a step that reverts a change outside of the worktree's files."""
        self._undo.append(step)

    def run(self) -> None:
        """Apply the plan to the worktree's files and directories."""
        plan = self.plan
        self._open_folders()
        for path in counted(self.prepared.progress, "Removing files", plan.remove):
            self._move_away(path)
        for path in plan.in_the_way:
            if path not in plan.write:
                self._move_away(path)
        for path in sorted(plan.remove_directories, key=len, reverse=True):
            self._remove_tree_of_directories(path)
        self._remove_emptied([*plan.remove, *plan.remove_directories, *plan.aside])
        for old, new in plan.renames:
            self._respell(os.path.join(self.root, old), os.path.join(self.root, new))
        for path in counted(self.prepared.progress, "Updating files", self.prepared.files):
            self._make_parents(path)
            self._put(path)
        for path in plan.make_directories:
            self._make_parents(path + b"/")
        for path, bits in plan.chmod.items():
            self._chmod(path, bits)

    def set_modes(self) -> None:
        """The last steps of an exact plan: remove special files, set the permission bits of directories."""
        for path in self.plan.special:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                full = os.path.join(self.root, path)
                if stat.S_IFMT(os.lstat(full).st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                    os.unlink(full)  # nothing has come in its place
        self._remove_emptied(self.plan.special)
        folders = self.plan.folders
        if folders is None:
            return
        for path in sorted({*folders.now, *self._made}, key=len, reverse=True):
            if path in self._made or path in self._opened or folders.now[path] != folders.wanted(path):
                self._chmod_folder(path, folders.wanted(path))

    def backdate(self, paths: Iterable[bytes], second: int) -> None:
        """Set the times of files to just before `second`: git's rule for racy entries
        (Documentation/technical/racy-git.txt)."""
        for path in paths:
            full = os.path.join(self.root, path)
            found = os.lstat(full)
            if found.st_mtime_ns < second * 10**9:
                continue
            os.utime(full, ns=(found.st_atime_ns, second * 10**9 - 1), follow_symlinks=False)
            self._undo.append(functools.partial(_set_times, full, found))
            if path in self._put_in_place and self._put_in_place[path] == _identity(found):
                self._put_in_place[path] = _identity(os.lstat(full))

    def mismatches(self) -> list[bytes]:
        """Paths that are not as the plan left them."""
        found = []
        for path, expected in self._put_in_place.items():
            try:
                status = os.lstat(self._below + path)
            except OSError:
                found.append(path)
                continue
            if _identity(status) != expected:
                found.append(path)
        for path in self.plan.remove:
            full = os.path.join(self.root, path)
            if path in self._put_in_place or not os.path.lexists(full) or os.path.isdir(full):
                continue
            if not self._below_a_link(path) and not self._came_back(path):
                found.append(path)
        return found

    def _below_a_link(self, path: bytes) -> bool:
        """Whether `path` leads through a symlink."""
        while path := path.rpartition(b"/")[0]:
            if os.path.islink(os.path.join(self.root, path)):
                return True
        return False

    def _came_back(self, path: bytes) -> bool:
        """Whether the path is in a repository that was restored."""
        while path := path.rpartition(b"/")[0]:
            if path in self.plan.nested:
                return True
        return False

    def revert(self) -> None:
        """Revert everything; the first failure ends it (`recover` then continues from the journal)."""
        while self._undo:
            self._undo[-1]()
            self._undo.pop()

    # -- steps ----------------------------------------------------------------------------------------------

    def _move_away(self, path: bytes) -> None:
        source = os.path.join(self.root, path)
        place = self.prepared.scratch_path()
        try:
            _rename(source, place)
        except (FileNotFoundError, NotADirectoryError):
            return
        self._undo.append(lambda: _rename(place, source))

    def _respell(self, source: bytes, target: bytes) -> None:
        """Rename a file or folder to a name that is the same for the file system. Some do nothing then: so by way of
        another name."""
        folder, name = os.path.split(target)
        try:
            os.rename(source, target)
        except (FileNotFoundError, NotADirectoryError):
            return
        if name in os.listdir(folder):
            self._undo.append(lambda: os.rename(target, source))
            return
        between = os.path.join(folder, RENAMING + name)
        for old, new in ((source, between), (between, target)):
            os.rename(old, new)
            self._undo.append(functools.partial(os.rename, new, old))

    def _put(self, path: bytes) -> None:
        target = self._below + path
        try:
            found = os.lstat(target)
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode):
            self._remove_tree_of_directories(path)
            found = None
        place = self.prepared.files[path]
        self._put_in_place[path] = _identity(os.lstat(place))
        if found is None:
            _rename(place, target)
            self._undo.append(lambda: _rename(target, place))
            return
        kept = self.prepared.scratch_path()
        # A second link keeps the old content while one rename replaces it: at no moment is the path missing.
        try:
            os.link(target, kept, follow_symlinks=False)
        except OSError:
            _rename(target, kept)
            self._undo.append(lambda: _rename(kept, target))
            _rename(place, target)
            return
        try:
            _rename(place, target)
        except OSError as error:
            if error.errno not in files.BUSY:
                raise
            os.unlink(target)  # as git does with every file: a program that has it open goes on to read the old one
            self._undo.append(lambda: _rename(kept, target))
            _rename(place, target)
        else:
            self._undo.append(lambda: _rename(kept, target))

    def _make_parents(self, path: bytes) -> None:
        missing = []
        above = parent = path.rpartition(b"/")[0]
        while parent not in self._parents:
            full = os.path.join(self.root, parent)
            if os.path.isdir(full) and not os.path.islink(full):
                break
            missing.append(full)
            self._made.add(parent)
            parent = parent.rpartition(b"/")[0]
        for full in reversed(missing):
            os.mkdir(full)
            self._undo.append(_remover(full))
        self._parents.add(above)

    def _remove_emptied(self, gone: Sequence[bytes]) -> None:
        """Remove directories that became empty, unless they are empty in the target."""
        parents = {path.rpartition(b"/")[0] for path in gone} - {b""}
        for deepest in sorted(parents, key=len, reverse=True):
            parent = deepest
            while parent and parent not in self.plan.keep_directories and self._rmdir(parent):
                parent = parent.rpartition(b"/")[0]

    def _remove_tree_of_directories(self, path: bytes) -> None:
        """Remove a directory and the empty directories below it; what is not empty stays."""
        full = os.path.join(self.root, path)
        for top in reversed([top for top, _ in directories.tree(full)]):
            self._rmdir(os.path.relpath(top, self.root))

    def _rmdir(self, path: bytes) -> bool:
        full = os.path.join(self.root, path)
        try:
            mode = stat.S_IMODE(os.lstat(full).st_mode)
            os.rmdir(full)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                return False
            raise
        self._undo.append(lambda: _make_directory(full, mode))
        return True

    def _open_folders(self) -> None:
        """Make directories accessible that the plan changes."""
        folders = self.plan.folders
        for path in sorted(folders.now, key=len) if folders is not None else ():
            if folders is not None and folders.now[path] & 0o700 != 0o700:
                self._opened.add(path)
                self._chmod_folder(path, folders.now[path] | 0o700)

    def _chmod_folder(self, path: bytes, bits: int) -> None:
        full = os.path.join(self.root, path) if path else self.root
        try:
            found = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) != bits:
            self._change_mode(full, bits, found)

    def _chmod(self, path: bytes, bits: int) -> None:
        full = os.path.join(self.root, path)
        try:
            found = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISREG(found.st_mode):
            self._change_mode(full, bits, found)

    def _change_mode(self, full: bytes, bits: int, found: os.stat_result) -> None:
        files.change_mode(full, bits, found.st_uid)
        self._undo.append(lambda: files.change_mode(full, stat.S_IMODE(found.st_mode), found.st_uid))


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    """Stat data that a rename does not change, and any write does."""
    return (stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns)


def _set_times(full: bytes, found: os.stat_result) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.utime(full, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def _remover(full: bytes) -> Callable[[], None]:
    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(full)

    return remove


def _make_directory(full: bytes, mode: int) -> None:
    os.mkdir(full)
    files.set_mode(full, mode)


def _rename(source: bytes, target: bytes) -> None:
    """Move a file or symlink; across file systems as a copy beside the target and a rename."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = os.path.join(os.path.dirname(target), b".agentos-" + os.urandom(6).hex().encode())
        try:
            shutil.copy2(source, beside, follow_symlinks=False)
            os.rename(beside, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        os.unlink(source)
