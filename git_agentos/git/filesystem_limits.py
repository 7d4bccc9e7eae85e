"""What the file systems of a worktree and of its git directory cannot do, in words, for `doctor`.

Each ability is tried in a scratch folder, which is removed. Only what makes a difference to a user is named: that a
file system has no O_TMPFILE, for example, is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from git_agentos.errors import system_reason
from git_agentos.git import filesystem, state_dir
from git_agentos.git.location import Location
from git_agentos.process import mounts
from git_agentos.util import directories, files

_SECOND = 10**9
# A time with an odd number of seconds, and with nanoseconds: what comes back tells in which steps times are kept.
_ODD_TIME = 1_600_000_001 * _SECOND + 123_456_789


@dataclass(frozen=True)
class FileSystem:
    """The file system at `path`, which is the top of the worktree, the git directory that all worktrees share, or both.

    `type` is as the system calls it, None if it does not tell; `limits` are sentences about what does not work on it.
    """

    of: str
    path: str
    type: str | None
    limits: tuple[str, ...]


def of_location(location: Location) -> list[FileSystem]:
    """The file systems of a worktree and of its git directory; one if both are on the same device."""
    is_one = os.stat(location.root).st_dev == os.stat(location.common_dir).st_dev
    top = location._replace(git_dir=location.common_dir)
    repository = _describe(
        "worktree and git directory" if is_one else "git directory",
        location.root if is_one else location.common_dir,
        filesystem.names_of_refs(location),
        lambda: state_dir.scratch(top),
    )
    if is_one:
        return [repository]
    worktree = _describe(
        "worktree",
        location.root,
        filesystem.names(location),
        lambda: directories.scratch(location.root, filesystem.SCRATCH_PREFIX),
    )
    return [worktree, repository]


def _describe(
    of: str, path: str, names: filesystem.Names, scratch: Callable[[], contextlib.AbstractContextManager[str]]
) -> FileSystem:
    limits = list(_limits_of_names(names))
    try:
        with scratch() as folder:
            limits += _limits_of_files(os.fsencode(folder))
    except OSError as error:
        is_read_only = error.errno == errno.EROFS
        limits.append("it is read-only" if is_read_only else f"nothing can be written: {system_reason(error)}")
    if mounts.may_be_shared(path):
        limits.append(
            "other machines may use it: locks that a killed git left are not removed,"
            " and a workflow database has no write-ahead log"
        )
    return FileSystem(of, path, mounts.file_system_of(path), tuple(limits))


def _limits_of_names(names: filesystem.Names) -> Iterator[str]:
    if names.ignores_case:
        yield "names that differ only by case are one file: of two such paths, a restore writes one and names the other"
    if names.ignores_form:
        yield "the composed and the decomposed form of a character are the same name"
    if names.utf8_only:
        yield "names that are not UTF-8 are refused: a restore names such paths, and keeps their index entries"


def _limits_of_files(folder: bytes) -> Iterator[str]:
    """What does not work in an empty folder."""

    def path(name: bytes) -> bytes:
        return os.path.join(folder, name)

    file = path(b"file")
    descriptor = _create(file)
    try:
        if not _works(lambda: os.link(file, path(b"link"))):
            yield "no hard links: the locks of refs are folders"
        if not _works(lambda: os.symlink(b"file", path(b"symlink"))):
            yield "no symbolic links: git writes them as files (core.symlinks=false), and so does a restore"
        if not _has_modes(file):
            yield "no executable bits: they are kept in the index and in checkpoints only (core.fileMode=false)"
        yield from _limits_of_times(file)
        os.close(_create(path(b"other")))
        if not _works(lambda: os.rename(path(b"other"), file)):
            yield "a file that a program has open is not replaced: close it before a restore"
    finally:
        os.close(descriptor)
    if not _works(lambda: _sync_folder(folder)):
        yield "folders cannot be synced: after a power cut, the newest checkpoints may be missing"


def _create(path: bytes) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _works(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def _has_modes(file: bytes) -> bool:
    """Whether a file's executable bit can be set and cleared."""
    found = []
    for mode in (0o700, 0o600):
        files.set_mode(file, mode)
        found.append(bool(os.stat(file).st_mode & 0o100))
    return found == [True, False]


def _limits_of_times(file: bytes) -> Iterator[str]:
    with contextlib.suppress(OSError):
        os.utime(file, ns=(_ODD_TIME, _ODD_TIME))
        lost = abs(_ODD_TIME - os.stat(file).st_mtime_ns)
        if lost >= 123_456_789:
            steps = "2 s" if lost > _SECOND else "1 s"
            yield f"times are kept in steps of {steps}: git and git-agentos read files again that changed just before"


def _sync_folder(folder: bytes) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
