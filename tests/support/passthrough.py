"""A FUSE file system that shows a folder, and behaves as other file systems do.

`python -m tests.support.passthrough MODES SOURCE MOUNT` shows the folder SOURCE at MOUNT and serves until it is
unmounted. Each of the MODES (separated by commas) makes it less able or another:

    nocase      names are kept as they are written, but are the same whatever their case (APFS, NTFS, exFAT)
    noform      the same for the normal forms of Unicode (APFS)
    utf8        a name that is not UTF-8 is refused with EILSEQ (APFS)
    norecase    with nocase: a rename to the same name in another case does nothing (some network shares)
    nolinks     no hard links (EPERM)
    nosymlinks  no symbolic links (EPERM)
    nomodes     every file has the same permission bits, `chmod` does nothing
    nochmod     the same, but `chmod` to anything else is refused with EPERM (vfat and exFAT on Linux)
    coarse      times are cut to 2 seconds
    nodirsync   `fsync` of a folder is refused with EINVAL
    busy        a file that is open is not replaced by a rename (EBUSY)

FUSE has no O_TMPFILE in any case.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from typing import Any

import mfusepy

from tests.support.filesystems import key


class PassThrough(mfusepy.Operations):  # type: ignore[misc]  # mfusepy has no types
    use_ns = True

    def __init__(self, modes: frozenset[str], source: str) -> None:
        self.modes = modes
        self.source = source
        self.open_files: dict[int, tuple[int, int]] = {}

    def _at(self, path: str) -> str:
        """The path in the source: each name as it is spelt there, the last one as given if it is not there."""
        if "utf8" in self.modes:
            try:
                path.encode("utf-8")
            except UnicodeEncodeError:
                raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ)) from None
        above, _, name = path.rpartition("/")
        if not name:
            return self.source
        folder = self.source + above
        # One look where the folder is spelt so: each request comes with a whole path, which may be long.
        if not os.path.lexists(folder):
            folder = self._at(above)
        return os.path.join(folder, self._spelt(folder, name))

    def _spelt(self, folder: str, name: str) -> str:
        if not self.modes & {"nocase", "noform"} or os.path.lexists(os.path.join(folder, name)):
            return name
        wanted = key(self.modes, name)
        with contextlib.suppress(OSError):
            return next((each for each in os.listdir(folder) if key(self.modes, each) == wanted), name)
        return name

    def _refuse_busy(self, full: str) -> None:
        if "busy" in self.modes:
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(full)
                if (found.st_dev, found.st_ino) in self.open_files.values():
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    # -- looking

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._at(path)) if fh is None else os.fstat(fh)
        names = ("st_dev", "st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
        result: dict[str, Any] = {name: getattr(found, name) for name in names}
        for name in ("st_atime", "st_mtime", "st_ctime"):
            moment = getattr(found, name + "_ns")
            result[name] = moment - moment % (2 * 10**9) if "coarse" in self.modes else moment
        if self.modes & {"nomodes", "nochmod"} and not stat.S_ISLNK(found.st_mode):
            result["st_mode"] = stat.S_IFMT(found.st_mode) | 0o755
        return result

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        with os.scandir(self._at(path)) as entries:
            found = [(each.name, each.stat(follow_symlinks=False)) for each in entries]
        rows = [(name, {"st_mode": each.st_mode, "st_ino": each.st_ino}, 0) for name, each in found]
        own = {"st_mode": stat.S_IFDIR, "st_ino": 1}
        return [(".", own, 0), ("..", own, 0), *rows]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")
        return {name: getattr(found, name) for name in (*names, "f_namemax")}

    # -- names

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._at(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at(path))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))
        return 0

    def symlink(self, target: str, source: str) -> int:
        if "nosymlinks" in self.modes:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        os.symlink(source, self._at(target))
        return 0

    def link(self, target: str, source: str) -> int:
        if "nolinks" in self.modes:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        os.link(self._at(source), self._at(target), follow_symlinks=False)
        return 0

    def rename(self, old: str, new: str, flags: int = 0) -> int:
        source, target = self._at(old), self._at(new)
        if source == target:
            wanted = os.path.join(os.path.dirname(target), os.path.basename(new))
            if "norecase" not in self.modes and wanted != source:
                os.rename(source, wanted)
            return 0
        self._refuse_busy(target)
        os.rename(source, target)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        if "nochmod" in self.modes and stat.S_IMODE(mode) != 0o755:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if not self.modes & {"nomodes", "nochmod"}:
            os.chmod(self._at(path), stat.S_IMODE(mode))
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.lchown(self._at(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._at(path), ns=times or (time.time_ns(),) * 2, follow_symlinks=False)
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at(path) if fh is None else fh, length)
        return 0

    # -- open files

    def _opened(self, descriptor: int) -> int:
        found = os.fstat(descriptor)
        self.open_files[descriptor] = (found.st_dev, found.st_ino)
        return descriptor

    def open(self, path: str, flags: int) -> int:
        return self._opened(os.open(self._at(path), flags & ~(os.O_APPEND | os.O_NOFOLLOW)))

    def create(self, path: str, mode: int, flags: int) -> int:
        full = self._at(path)
        wanted = flags & ~(os.O_APPEND | os.O_NOFOLLOW) | os.O_CREAT
        return self._opened(os.open(full, wanted, 0o755 if self.modes & {"nomodes", "nochmod"} else mode))

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return -errno.EINVAL if "nodirsync" in self.modes else 0

    def release(self, path: str, fh: int) -> int:
        self.open_files.pop(fh, None)
        os.close(fh)
        return 0


def serve(modes: frozenset[str], source: str, mount: str) -> None:
    """Serve until it is unmounted."""
    os.umask(0)
    options = {"use_ino": True, "hard_remove": True, "allow_other": True, "default_permissions": True}
    mfusepy.FUSE(
        PassThrough(modes, source), mount, foreground=True, nothreads=True, fsname="agentos-test",
        entry_timeout=0, attr_timeout=0, negative_timeout=0, **options,
    )  # fmt: skip


if __name__ == "__main__":
    serve(frozenset(sys.argv[1].split(",")), sys.argv[2], sys.argv[3])
