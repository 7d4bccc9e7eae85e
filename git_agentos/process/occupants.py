"""Which processes use a folder: stand in it, have it as their root, run a program from it, or have a file in it open.
And which may have made a lock file of git's, so that it is proven, or not, to be left by a killed one.

Processes that may not be read are left out. Where there is no /proc, folders and files are read from lsof(8).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

from git_agentos.process import mounts, ps, table
from git_agentos.process.table import Process
from git_agentos.util import git_command_line
from git_agentos.util.named_tuple import NamedTuple

# The options and variables that say where a git works.
_LOCATION_GIVEN = ("--git-dir=", "--work-tree=", "GIT_DIR=", "GIT_COMMON_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=")
DAEMON = ("watch", "start", "--foreground")  # the end of the watch daemon's command line
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_KINDS_OF_LSOF = {"cwd": "cwd", "rtd": "root", "txt": "exe"}


class Occupant(NamedTuple):
    """A process that uses a folder. `how` is `cwd`, `root`, `exe`, `open` or `mapped`; `path` what it uses of the
    folder; `ancestor` tells that this process was started by it, directly or not."""

    pid: int
    name: str
    how: str
    path: str
    ancestor: bool


def find(folder: str) -> list[Occupant]:
    """The live processes that use `folder` or what is below it, by pid; without this process."""
    top = os.path.realpath(folder)
    ancestors = set(table.parents(os.getpid()))
    if not table.has_proc():
        return _by_lsof(top, ancestors)
    found = []
    for pid in table.pids():
        use = _use(pid, top) if pid != os.getpid() else None
        if use is not None:
            found.append(Occupant(pid, table.title(pid), *use, pid in ancestors))
    return found


def standing_in(folders: Iterable[str]) -> dict[str, list[Occupant]]:
    """For each of `folders`, the live processes whose current directory is in it, by pid; without a git that only
    looks, for this process, the watch daemon or an editor. All processes are read once, however many folders there
    are."""
    if not table.has_proc():
        return {
            folder: [each for each in find(folder) if each.how == "cwd" and not _only_looks(each.pid)]
            for folder in folders
        }
    ancestors = set(table.parents(os.getpid()))
    tops = {folder: os.path.realpath(folder) for folder in folders}
    found: dict[str, list[Occupant]] = {folder: [] for folder in tops}
    for pid in table.pids():
        cwd = table.link(pid, "cwd") if pid != os.getpid() else None
        if cwd is None:
            continue
        inside = [folder for folder, top in tops.items() if is_below(cwd, top)]
        if inside and not _only_looks(pid):
            for folder in inside:
                found[folder].append(Occupant(pid, table.title(pid), "cwd", cwd, pid in ancestors))
    return found


def _only_looks(pid: int) -> bool:
    """Whether a process is a git that must take no locks which it does not need, as background programs call it
    (GIT_OPTIONAL_LOCKS in git(1)), or one that this process or the watch daemon has started; or it has ended."""
    words, here, above = table.argv(pid), os.getpid(), table.parents(pid)
    if not words:
        return table.link(pid, "cwd") is None
    # A child that has not become a git yet stands in the folder already, with the arguments of its parent.
    if words[-len(DAEMON) :] == DAEMON or (here in above and words == table.argv(here)):
        return True
    if os.path.basename(words[0]) != "git":
        return False
    if "--no-optional-locks" in words or (table.environment(pid) or {}).get("GIT_OPTIONAL_LOCKS") == "0":
        return True
    return here in above or any(table.argv(each)[-len(DAEMON) :] == DAEMON for each in above)


class Written(NamedTuple):
    """Files that processes may be writing to, by a descriptor or by a shared mapping: those below a folder, each with
    the number of its descriptors and mappings; and the inode numbers of those anywhere, if they were asked for."""

    paths: dict[str, int]
    inodes: set[int]


def written_files(folder: str, *, inodes: bool = False) -> Written:
    """The files below `folder` that processes may be writing to, and with `inodes` the inode numbers of all such files:
    a process of another mount namespace has other paths for them. All processes are read once. Empty where there is no
    /proc."""
    found = Written({}, set())
    top = os.path.realpath(folder)
    for pid in table.pids() if table.has_proc() else ():
        paths = []
        for number, path in table.open_files(pid):
            if (inodes or is_below(path, top)) and _is_for_writing(pid, number):
                paths.append(path)
                if inodes:
                    with contextlib.suppress(OSError):
                        found.inodes.add(os.stat(f"/proc/{pid}/fd/{number}").st_ino)
        maps = table.read(pid, "maps") or b""
        if inodes or b" " + os.fsencode(top) + b"/" in maps:
            for inode, path in _written_mappings(maps):
                paths.append(path)
                if inodes:
                    found.inodes.add(inode)
        for path in paths:
            if is_below(path, top):
                found.paths[path] = found.paths.get(path, 0) + 1
    return found


def _written_mappings(maps: bytes) -> Iterator[tuple[int, str]]:
    """The inode numbers and paths of the shared mappings in a process's table of them that can be written to."""
    for line in maps.splitlines():
        row = line.split(None, 5)  # ADDRESSES MODE OFFSET DEVICE INODE PATH (proc(5))
        if len(row) == 6 and row[1][1:2] == b"w" and row[1][3:4] == b"s":
            yield int(row[4]), os.fsdecode(row[5])


def _is_for_writing(pid: int, descriptor: str) -> bool:
    """Whether a descriptor of a process was opened for writing (proc(5): the mode of its link)."""
    try:
        return bool(os.lstat(f"/proc/{pid}/fd/{descriptor}").st_mode & stat.S_IWUSR)
    except OSError:
        return False


def is_below(path: str, top: str) -> bool:
    """Whether `path` is `top` or lies below it."""
    return path == top or path.startswith(top + os.sep)


def _use(pid: int, top: str) -> tuple[str, str] | None:
    """How a process uses a folder, and by which path; None where it does not."""
    for how in ("cwd", "root", "exe"):
        target = table.link(pid, how)
        if target is not None and is_below(target, top):
            return how, target
    with contextlib.suppress(OSError):
        # A process of another mount namespace has other names for its folders; this one is known by its inode.
        if os.path.samestat(os.stat(f"/proc/{pid}/cwd"), os.stat(top)):
            return "cwd", top
    for _, target in table.open_files(pid):
        if is_below(target, top):
            return "open", target
    if b" " + os.fsencode(top) + b"/" in (table.read(pid, "maps") or b""):
        return "mapped", top
    return None


def _by_lsof(top: str, ancestors: set[int]) -> list[Occupant]:
    # Neither warnings nor the names of hosts and ports, for which it would ask the network.
    return parse_lsof(ps.output_of(["lsof", "-w", "-n", "-P", "-F", "pcfn"])[1], top, ancestors)


def parse_lsof(out: str, top: str, ancestors: set[int]) -> list[Occupant]:
    """The occupants of `top` by the output of `lsof -F pcfn`: lines that begin with the field's letter."""
    found: dict[int, Occupant] = {}
    pid, name, how = 0, "?", "open"
    for line in out.split("\n"):
        field, value = line[:1], _unescape(line[1:])
        if field == "p":
            pid = int(value)
        elif field == "c":
            name = value
        elif field == "f":
            how = _KINDS_OF_LSOF.get(value, "open")
        elif field == "n" and pid != os.getpid() and pid not in found and is_below(value, top):
            found[pid] = Occupant(pid, name, how, value, pid in ancestors)
    return [found[pid] for pid in sorted(found)]


def _unescape(text: str) -> str:
    """The text that lsof prints with `\\xNN` for a byte that is not printable."""
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), os.fsencode(text)))


# -- lock files --------------------------------------------------------------------------------------------------------


def why_not_stale(lock: str, folders: Sequence[str]) -> str | None:
    """Why the lock file `lock` is not proven to be left by a killed process, by one look at all processes; None where
    it is proven.

    `git.stale_locks` has the rule, and waits for processes that are about to end.
    """
    try:
        found = os.lstat(lock)
    except FileNotFoundError:
        return "it is gone"
    return why_unprovable(lock, found) or next(iter(holders(found, folders).values()), None)


def why_unprovable(lock: str, found: os.stat_result) -> str | None:
    """Why nothing can be proven about the lock file `lock`, whatever processes there are; None where it can."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if not table.has_proc():
        return "this system does not tell what other processes do"
    if mounts.may_be_shared(lock) is not False:
        return "its file system may be shared with other machines"
    return None


def holders(lock: os.stat_result, folders: Sequence[str], among: Iterable[Process] | None = None) -> dict[Process, str]:
    """The living processes that may have made a lock file, each with the reason: those of its owner that have it open,
    and the gits that work in one of `folders`. `among` are the only ones that are looked at; None for all."""
    tops = [os.path.realpath(folder) for folder in folders]
    found = {}
    for pid in table.pids() if among is None else [each.pid for each in among]:
        process = table.identify(pid) if pid != os.getpid() else None
        if process is None or (among is not None and process not in among):
            continue
        reason = _why_holder(pid, lock, tops)
        if reason is not None:
            found[process] = reason
    return found


def _why_holder(pid: int, lock: os.stat_result, tops: Sequence[str]) -> str | None:
    """Why the process may be the one that made the lock; None where it is not."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None  # it is gone
    if owner != lock.st_uid or not table.is_alive(pid):
        return None  # the file would belong to another user
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except FileNotFoundError:
        return None
    except OSError:
        return f"process {pid} ({table.title(pid)}) may not be looked into"
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), lock) and not _is_path_only(pid, descriptor):
                return f"process {pid} ({table.title(pid)}) has it open"
    if table.name(pid).startswith("git") and not _makes_no_lock(pid) and _works_in(pid, tops):
        return f"process {pid} ({table.title(pid)}) is at work in this repository"
    return None


def _is_path_only(pid: int, descriptor: str) -> bool:
    """Whether a descriptor was opened with O_PATH, as by a process that looks at a lock, never by one that makes it."""
    return bool(int(table.field(pid, f"fdinfo/{descriptor}", "flags") or "0", 8) & os.O_PATH)


def _makes_no_lock(pid: int) -> bool:
    """Whether a git makes no lock of its own: it waits for a git-agentos command, as the git of `git agentos …` does,
    watches files, or reads objects for another process (`cat-file`)."""
    argv = table.argv(pid)
    command = git_command_line.parse(argv).command or ""
    if command == "cat-file":
        return "--batch-command" in argv
    return command in ("agentos", "fsmonitor--daemon") or command.startswith("agentos-")


def _works_in(pid: int, tops: Sequence[str]) -> bool:
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, ProcessLookupError):
        return False  # it is ending, or has ended: it touches no file any more
    except OSError:
        return True  # it may not be looked into
    words = [*table.argv(pid), *os.fsdecode(table.read(pid, "environ") or b"").split("\0")]
    named = [os.path.join(cwd, word.partition("=")[2]) for word in words if word.startswith(_LOCATION_GIVEN)]
    opened = [path for _, path in table.open_files(pid) if path.startswith(os.sep)]
    return any(is_below(os.path.normpath(path), top) for path in (cwd, *named, *opened) for top in tops)
