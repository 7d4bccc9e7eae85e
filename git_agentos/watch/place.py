"""Where the daemon's files are, and whether they are the user's own.

The socket is `$XDG_RUNTIME_DIR/git-agentos/<device>-<inode>.sock`, named by the repository's common git directory;
where there is no such folder, `<common git directory>/agentos/watch/<user>.sock`. There are:

    <user>.turn     held by the daemon while it lives (flock); its pid is in it
    <user>.log      what the daemon says, and `.log.1`, what it said before; at most 256 KiB each
    <user>.wanted   there while commands start one that does not run (`automatic`)
    <user>.starts   when they did, in seconds since the epoch, a line for each

Standard library only: a client imports it.
"""

from __future__ import annotations

import _socket
import os
import stat
import sys

_LONGEST = 100  # bytes of a socket's path; sun_path has 108 on Linux, 104 elsewhere
_FOLDER = "git-agentos"
_LARGE = 1 << 20  # bytes of an index: some ten thousand files


class UnsafePlaceError(Exception):
    """The folder of the socket is not the user's own: the message says why."""


def folder(common_dir: str) -> str:
    """The folder of the lock and the log."""
    return os.path.join(common_dir, "agentos", "watch")


def file(common_dir: str, kind: str) -> str:
    """The path of the lock or the log."""
    return os.path.join(folder(common_dir), f"{os.getuid()}.{kind}")


def socket_path(common_dir: str) -> str:
    """The path of the socket. OSError if there is no such repository."""
    found = os.stat(common_dir)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return os.path.join(runtime, _FOLDER, f"{found.st_dev:x}-{found.st_ino:x}.sock")
    return file(common_dir, "sock")


def address(path: str) -> tuple[str, int | None]:
    """By which name a socket at `path` is bound and connected, and a descriptor that has to be open meanwhile: a
    socket's name may have only so many bytes, and a folder that is open has a short one in /proc. UnsafePlaceError
    where there is no /proc."""
    if len(os.fsencode(path)) <= _LONGEST:
        return path, None
    parent, name = os.path.split(path)
    if not os.path.isdir("/proc/self/fd"):
        raise UnsafePlaceError(f"the path of its socket is too long: '{path}' (set XDG_RUNTIME_DIR)")
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return f"/proc/self/fd/{descriptor}/{name}", descriptor


def check(path: str) -> None:
    """UnsafePlaceError unless the folder of `path`, and the one above it in a runtime folder, are the user's own, so
    that nobody else can have put a socket there."""
    below = os.path.dirname(path)
    for each in (below, os.path.dirname(below)) if os.path.basename(below) == _FOLDER else (below,):
        try:
            found = os.lstat(each)
        except OSError as error:
            raise UnsafePlaceError(f"'{each}': {error.strerror}") from None
        if stat.S_ISLNK(found.st_mode):
            raise UnsafePlaceError(f"'{each}' is a symbolic link")
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafePlaceError(f"'{each}' is not a folder")
        if found.st_uid != os.getuid():
            raise UnsafePlaceError(f"'{each}' belongs to another user")
        if each == below and found.st_mode & 0o022:
            raise UnsafePlaceError(f"others may write to '{each}'")


def watched(git_dir: str) -> str:
    """The file that says to git's hook that asking the daemon is faster than looking at all files of this worktree."""
    return os.path.join(git_dir, "agentos", "watched")


def forget_watched(git_dir: str) -> None:
    """Nobody watches this worktree, or it is small."""
    try:
        os.unlink(watched(git_dir))
    except OSError:
        pass


def is_large(git_dir: str) -> bool:
    """Whether a worktree is so large that git takes longer to look at all files than to ask which have changed."""
    try:
        return os.stat(os.path.join(git_dir, "index")).st_size >= _LARGE
    except OSError:
        return False


def is_own_peer(connection: _socket.socket) -> bool:
    """Whether the process at the other end is the same user's."""
    found = _credentials(connection)
    return found is None or found[1] == os.getuid()  # else the folder of the socket is the user's own


def peer(connection: _socket.socket) -> int | None:
    """The process that has connected; None where that is not known."""
    found = _credentials(connection)
    return None if found is None or found[0] <= 0 else found[0]


def _credentials(connection: _socket.socket) -> tuple[int, int] | None:
    """Process and user of the other end (SO_PEERCRED, unix(7): pid, uid, gid as C ints)."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return None
    data = connection.getsockopt(_socket.SOL_SOCKET, option, 12)
    return int.from_bytes(data[:4], sys.byteorder), int.from_bytes(data[4:8], sys.byteorder)


def make(common_dir: str) -> str:
    """Create the folders of the socket and of the log where they are missing; the path of the socket."""
    path = socket_path(common_dir)
    for each in (os.path.dirname(folder(common_dir)), folder(common_dir), os.path.dirname(path)):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise UnsafePlaceError(f"'{each}': {error.strerror}") from None
    check(file(common_dir, "turn"))
    check(path)
    return path
