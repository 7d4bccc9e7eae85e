"""Small files: read, replaced or created as a whole, and never through a symbolic link.

A reader sees the content before or the content after, also after a kill or a power cut. Where the file system has no
hard links, a new file can be seen unfinished for a moment; a process that fails removes it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from typing import Any

# What `os.link` fails with where the file system has no hard links.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)

# What a rename over a file fails with while the file is open, where the file system refuses that.
BUSY = (errno.EBUSY, errno.ETXTBSY)
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)  # seconds, between attempts

_UNFINISHED = r"\.(\d+)-[0-9a-f]{12}\.tmp"


class NotRegularError(OSError):
    """What should be a regular file is a directory, a link, a device, or a pipe."""


class TooLargeError(OSError):
    """A file is larger than anything that git or git-agentos writes there."""


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
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise TooLargeError(errno.EFBIG, f"larger than {limit} bytes", path)
    return data


def read_object(path: str, *, limit: int = 64 << 20) -> dict[str, Any]:
    """The JSON object in a file. OSError as `read`, ValueError where it holds anything else."""
    import json  # not loaded where there is nothing to read

    data = read(path, limit=limit)
    try:
        body = json.loads(data)
    except RecursionError as error:
        raise ValueError(f"'{path}' is nested too deeply") from error
    if not isinstance(body, dict):
        raise ValueError(f"'{path}' has no JSON object")
    return body


def replace(
    path: str,
    data: bytes,
    *,
    mode: int | None = None,
    durable: bool = True,
    temporary: str | None = None,
    mtime: float | None = None,
) -> None:
    """Make `data` the content of `path`, by a rename.

    `mode` None keeps the permission bits of the file that is replaced (0644 less the umask where there is none). Not
    `durable`: no fsync, for what can be made again. `temporary` is the file that is renamed, on the same file system:
    by default a new one in the same directory. `mtime` is the modification time to set, in seconds.
    """
    if mode is None:
        mode = _mode_of(path)
    if temporary is None:
        temporary = _temporary_name(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    write_new(temporary, data, mode, durable)
    try:
        if mtime is not None:
            os.utime(temporary, (mtime, mtime))
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(os.path.dirname(path))


def install(source: str, target: str) -> None:
    """Rename `source`, which another program wrote, to `target`; its content is on disk before."""
    with open(source, "rb") as file:
        os.fsync(file.fileno())
    rename(source, target)
    sync_directory(os.path.dirname(target))


def rename(source: str, target: str) -> None:
    """Rename a file over another one. Some file systems of networks refuse that while any process has the other one
    open: readers of small files have them open for a moment, which is waited for."""
    for pause in _PAUSES:
        try:
            os.rename(source, target)
            return
        except OSError as error:
            if error.errno not in BUSY:
                raise
        time.sleep(pause)
    os.rename(source, target)


def create(path: str, data: bytes, *, mode: int = 0o644, durable: bool = True, dir_fd: int | None = None) -> bool:
    """Create `path` with `data`, whole; False where something has that name already, which is left as it is.

    With `dir_fd`, `path` is a name in the directory that is open there.
    """
    temporary = _temporary_name(path)
    write_new(temporary, data, mode, durable, dir_fd)
    try:
        os.link(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:
            write_new(path, data, mode, durable, dir_fd)
        except FileExistsError:
            return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    if durable:
        sync_directory(os.path.dirname(path), dir_fd=dir_fd)
    return True


def remove_unfinished(folder: str) -> None:
    """Remove what processes that were killed in `replace` or `create` left in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            found = re.fullmatch(_UNFINISHED, name)
            if found is not None and _has_ended(int(found[1])):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def sync(descriptor: int) -> None:
    """Make a file or folder durable; nothing happens for a folder where the file system cannot do that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise


def set_mode(file: int | bytes, mode: int) -> None:
    """Set the permission bits of a new file or folder of this process, where the file system has such: vfat and exFAT
    refuse those that they do not have with EPERM."""
    with contextlib.suppress(PermissionError):
        os.chmod(file, mode)


def change_mode(path: bytes, mode: int, owner: int) -> None:
    """Set the permission bits of a file or folder, where the file system has such.

    PermissionError if `owner` is another user.
    """
    try:
        os.chmod(path, mode)
    except PermissionError:
        if os.geteuid() not in (0, owner):
            raise


def sync_directory(path: str, *, dir_fd: int | None = None) -> None:
    """Make renames in a directory durable; nothing happens on file systems that cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, dir_fd=dir_fd)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _has_ended(pid: int) -> bool:
    """Whether there is no process with this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # it is another user's
    return False


def _mode_of(path: str) -> int | None:
    """The permission bits of a regular file; None where there is none."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            return stat.S_IMODE(status.st_mode)
    return None


def _temporary_name(path: str) -> str:
    """A new name in the directory of `path`, which begins with a dot."""
    return os.path.join(os.path.dirname(path), f".{os.getpid()}-{os.urandom(6).hex()}.tmp")


def write_new(path: str, data: bytes, mode: int | None, durable: bool, dir_fd: int | None = None) -> None:
    """Write a file that is not there yet (`mode` None: 0644 less the umask); FileExistsError where it is. It is removed
    if that fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o644 if mode is None else mode, dir_fd=dir_fd)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                set_mode(file.fileno(), mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path, dir_fd=dir_fd)
        raise
