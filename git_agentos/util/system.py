"""What only some systems have, and what serves elsewhere: each is tried, whatever the system calls itself.

The process table is in `process.table`, mounts in `process.mounts`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
from collections.abc import Callable

_FICLONE = 0x40049409  # ioctl_ficlonerange(2)
_BLOCK = 1 << 20


def memory_file() -> int:
    """The descriptor of a new file without a name: in memory, else in the folder for temporary files."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("git-agentos")
    import tempfile  # takes time

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def umask() -> int:
    """The process's umask, read without setting it if the kernel shows it."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    value = os.umask(0o022)
    os.umask(value)
    return value


def copy_contents(source: bytes, target: bytes) -> None:
    """Copy the contents of a regular file to a new one; the disk blocks are shared until one of them changes, if the
    file system can (FICLONE; clonefile(2) on macOS). `source` may not be a link.

    Raises FileExistsError if there is a `target`.
    """
    with open(source, "rb", opener=_no_link) as old:
        if _clone_file(old.fileno(), target):
            return
        with open(target, "xb") as new:
            try:
                fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            except OSError:
                import shutil  # it takes long to import

                shutil.copyfileobj(old, new, _BLOCK)


def clone_contents(source: bytes, target: bytes) -> bool:
    """The same, but False, and no `target`, if the file system cannot share blocks."""
    with open(source, "rb", opener=_no_link) as old:
        if _clone_file(old.fileno(), target):
            return True
        with open(target, "xb") as new:
            try:
                fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            except OSError as error:
                os.unlink(target)
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return False
    return True


def _clone_file(source: int, target: bytes) -> bool:
    """Make the new file `target` by clonefile(2), which only macOS has; False if it cannot, then nothing was made.

    Raises FileExistsError if there is a `target`.
    """
    clone = _fclonefileat()
    if clone is None:
        return False
    here, no_flags = -2, 0  # AT_FDCWD of macOS
    if clone(source, here, target, no_flags) == 0:
        return True
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    return False


@functools.cache
def _fclonefileat() -> Callable[[int, int, bytes, int], int] | None:
    import ctypes  # takes time

    try:
        return ctypes.CDLL(None).fclonefileat
    except (OSError, AttributeError):
        return None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
