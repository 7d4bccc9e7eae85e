"""Small files: read whole, replaced whole, or created whole, and never through a symbolic link.

A reader meets the content before or the content after, also after a kill or a power cut. Where the file system has no
hard links, a file that is created can be met unfinished for a moment; a process that fails removes it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat

# What `os.link` fails with where the file system has no hard links.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)

_UNFINISHED = re.compile(r"\.(\d+)-[0-9a-f]{12}\.tmp")


class NotRegularError(OSError):
    """What should be a regular file is a directory, a link, a device, or a pipe."""


class TooLargeError(OSError):
    """A file is larger than what is written there can be."""


def read(path: str | bytes, *, limit: int = 64 << 20, follow: bool = False) -> bytes:
    """The content of a regular file.

    FileNotFoundError where there is none, NotRegularError where it is anything but a regular file (a link is only
    followed with `follow`, a pipe is not waited for), TooLargeError beyond `limit` bytes; other errors are OSError too.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotRegularError(error.errno, "not a regular file", path) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise TooLargeError(errno.EFBIG, f"larger than {limit} bytes", path)
    return data


def replace(path: str, data: bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Make `data` the content of `path`, by a rename.

    `mode` None keeps the permission bits of the file that is replaced (0644 less the umask where there is none). Not
    `durable`: no fsync, for what can be made again.
    """
    if mode is None:
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode):
                mode = stat.S_IMODE(found.st_mode)
    temporary = _write_beside(path, data, mode, durable)
    try:
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(os.path.dirname(path))


def create(path: str, data: bytes, *, mode: int = 0o644, durable: bool = True) -> bool:
    """Create `path` with `data`, whole; False where something has that name already, which is left as it is."""
    temporary = _write_beside(path, data, mode, durable)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if not _create_in_place(path, data, mode, durable):
            return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    if durable:
        sync_directory(os.path.dirname(path))
    return True


def remove_unfinished(folder: str) -> None:
    """Remove what processes that were killed in `replace` or `create` left in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            found = _UNFINISHED.fullmatch(name)
            if found is not None and not os.path.exists(f"/proc/{found[1]}"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def sync_directory(path: str) -> None:
    """Make renames in a directory durable; file systems that cannot do it are let be."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_beside(path: str, data: bytes, mode: int | None, durable: bool) -> str:
    """A new file with `data` in the directory of `path`, whose name begins with a dot; its path."""
    temporary = os.path.join(os.path.dirname(path), f".{os.getpid()}-{os.urandom(6).hex()}.tmp")
    _write_new(temporary, data, mode, durable)
    return temporary


def _create_in_place(path: str, data: bytes, mode: int, durable: bool) -> bool:
    try:
        _write_new(path, data, mode, durable)
    except FileExistsError:
        return False
    return True


def _write_new(path: str, data: bytes, mode: int | None, durable: bool) -> None:
    """Write a file that is not there yet; FileExistsError where it is. What fails half-way is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o644 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
