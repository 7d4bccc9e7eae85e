"""Files below one folder, reached from its descriptor: no symbolic link below it is ever followed.

A folder that is pinned stays the same one for as long as this object lives, whatever is put in its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from git_agentos.errors import RunError
from git_agentos.util import files

UNFINISHED = ".new"  # how the name of a file ends that is being written
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """The folder `path`; names below it are relative, with slashes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._pinned: int | None = None
        self._real = path

    def __del__(self) -> None:
        self.unpin()

    def pin(self) -> None:
        """Keep to the folder that is there now."""
        self.unpin()
        self._pinned = os.open(self.path, _DIRECTORY)
        self._real = os.path.realpath(self.path)

    def unpin(self) -> None:
        """Go by the path again."""
        if self._pinned is not None:
            os.close(self._pinned)
            self._pinned = None

    def is_in_place(self) -> bool:
        """Whether the pinned folder is still the one at the path."""
        if self._pinned is None:
            return True
        try:
            same = os.path.samestat(os.fstat(self._pinned), os.lstat(self.path))
            return same and os.path.realpath(self.path) == self._real
        except OSError:
            return False

    @contextlib.contextmanager
    def parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder in which `name` lies, and its last part."""
        *folders, last = name.split("/")
        at = os.dup(self._pinned) if self._pinned is not None else os.open(self.path, _DIRECTORY)
        try:
            for part in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                below = os.open(part, _DIRECTORY, dir_fd=at)
                os.close(at)
                at = below
            yield at, last
        finally:
            os.close(at)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of a regular file; OSError (ELOOP) for a link, RunError for what is no file."""
        with self.parent(name) as (at, last):
            descriptor = os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644, dir_fd=at)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RunError(f"'{os.path.join(self.path, name)}' is not a regular file", "git-agentos did not make it")
        return descriptor

    def create(self, name: str) -> BinaryIO:
        """A new file, to be written; FileExistsError where there is anything of that name."""
        with self.parent(name, make=True) as (at, last):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return open(os.open(last, flags, 0o644, dir_fd=at), "wb")  # the caller closes it

    def replace(self, name: str, data: bytes) -> None:
        """Make `data` the content of a file, durably, by a rename of an `UNFINISHED` sibling."""
        with self.parent(name, make=True) as (at, last):
            temporary = last + UNFINISHED
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=at)
            files.write_new(temporary, data, None, True, at)
            os.replace(temporary, last, src_dir_fd=at, dst_dir_fd=at)
            files.sync(at)

    def kind(self, name: str) -> int | None:
        """The file type bits of what has a name (`stat.S_IFREG` …); None where nothing has, or a part is no folder."""
        try:
            with self.parent(name) as (at, last):
                return stat.S_IFMT(os.lstat(last, dir_fd=at).st_mode)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.parent(name) as (at, last):
            os.unlink(last, dir_fd=at)

    def set_aside(self, name: str) -> None:
        """Rename what has a name, if anything has, to `<name>.1`, or the next number that is free."""
        number = 1
        while self.kind(f"{name}.{number}") is not None:
            number += 1
        with contextlib.suppress(FileNotFoundError), self.parent(name) as (at, last):
            os.rename(last, f"{last}.{number}", src_dir_fd=at, dst_dir_fd=at)

    def make(self, name: str) -> None:
        """Make a folder and those above it; one that is there is left."""
        with self.parent(f"{name}/x", make=True):
            pass

    def is_empty(self, name: str) -> bool:
        """Whether a folder has nothing in it."""
        with self.parent(f"{name}/x") as (at, _):
            return not os.listdir(at)

    def walk(self) -> Iterator[tuple[str, bool]]:
        """Everything below that is no folder, by name, and whether it is a regular file."""
        with self.parent("x") as (at, _):
            yield from _below(at, "")


def _below(at: int, prefix: str) -> Iterator[tuple[str, bool]]:
    with os.scandir(at) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below = os.open(entry.name, _DIRECTORY, dir_fd=at)
                try:
                    yield from _below(below, f"{prefix}{entry.name}/")
                finally:
                    os.close(below)
            else:
                yield prefix + entry.name, entry.is_file(follow_symlinks=False)
