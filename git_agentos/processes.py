"""Other processes: who works in a folder, whether a lock's maker is still alive, and running programs that are not git.

Standard library only, and nothing of ours but that: it stands below everything else. What is known of other processes
comes from /proc (elsewhere `lsof` tells the folders that they stand in). A process that may not be looked into is
passed over by `inside`, and makes `why_not_stale` say no.

Run as a script (`processes.py FOLDER…`), it deletes folders: that is how `remove_in_background` outlives its caller.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_PROC = "/proc"
# How a git is told where to work, on its command line and in its environment.
_PLACE_GIVEN = (b"--git-dir=", b"--work-tree=", b"GIT_DIR=", b"GIT_COMMON_DIR=", b"GIT_WORK_TREE=", b"GIT_INDEX_FILE=")
TooLate = subprocess.TimeoutExpired  # what waiting for a program raises
_GRACE = 5.0  # seconds between asking a group of processes to end and ending it
_MOST_OUTPUT = 1 << 20
# On these, the process that holds a lock may run on another machine, where nobody here can see it.
_SHARED_FILE_SYSTEMS = (
    "nfs", "cifs", "smb", "9p", "virtiofs", "fuse", "ceph", "gluster", "lustre", "afs", "gpfs", "vboxsf", "vmhgfs",
    "beegfs",
)  # fmt: skip


class Process(NamedTuple):
    """A process in a folder. `how` is `cwd`, `root`, `exe`, `open` or `mapped`; `path` what of the folder it has;
    `ancestor` tells that it is what this process was started by, directly or not."""

    pid: int
    name: str
    how: str
    path: str
    ancestor: bool


class Identity(NamedTuple):
    """A process: its id, and when it was started (proc(5), in ticks since the system was)."""

    pid: int
    started: bytes


class Ended(NamedTuple):
    """How a program ended: `code` is negative for a signal, None where it ran out of time; `output` is the end (1 MiB)
    of what it said on stdout and stderr, in the order in which it came."""

    code: int | None
    output: bytes

    @property
    def timed_out(self) -> bool:
        return self.code is None


# -- who is there --------------------------------------------------------------------------------------------------


def inside(folder: str) -> list[Process]:
    """The live processes that stand in `folder`, have it as their root, run a program from it, or have a file below it
    open or mapped; by pid. This process itself does not count."""
    top = os.fsencode(os.path.realpath(folder))
    ancestors = above()
    if not os.path.isdir(os.path.join(_PROC, "self")):
        return _inside_by_lsof(top, ancestors)
    found = []
    for pid in _pids():
        place = _place_inside(pid, top) if pid != os.getpid() else None
        if place is not None:
            how, path = place
            found.append(Process(pid, _name(pid), how, os.fsdecode(path), pid in ancestors))
    return found


def standing(folders: Iterable[str]) -> dict[str, list[Process]]:
    """For each of `folders`, the live processes that stand in it, by pid: one look at all of them, however many folders
    there are. Less than `inside` tells."""
    if not os.path.isdir(os.path.join(_PROC, "self")):
        return {folder: [each for each in inside(folder) if each.how == "cwd"] for folder in folders}
    ancestors = above()
    tops = {folder: os.fsencode(os.path.realpath(folder)) for folder in folders}
    found: dict[str, list[Process]] = {folder: [] for folder in tops}
    for pid in _pids():
        place = _link(f"{_PROC}/{pid}/cwd") if pid != os.getpid() else None
        for folder, top in tops.items() if place is not None else ():
            if place is not None and _below(place, top):
                found[folder].append(Process(pid, _name(pid), "cwd", os.fsdecode(place), pid in ancestors))
    return found


def _place_inside(pid: int, top: bytes) -> tuple[str, bytes] | None:
    for how in ("cwd", "root", "exe"):
        target = _link(f"{_PROC}/{pid}/{how}")
        if target is not None and _below(target, top):
            return how, target
    with contextlib.suppress(OSError):
        # A process of another mount namespace has other names for its places; the folder is known by its inode.
        if os.path.samestat(os.stat(f"{_PROC}/{pid}/cwd"), os.stat(top)):
            return "cwd", top
    for target in _open_files(pid):
        if _below(target, top):
            return "open", target
    with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/maps", "rb") as file:
        data = file.read()
        if b" " + top + b"/" in data:
            return "mapped", top
    return None


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())


def _link(path: str) -> bytes | None:
    try:
        return os.readlink(os.fsencode(path))
    except OSError:
        return None


def _open_files(pid: int) -> Iterator[bytes]:
    try:
        names = os.listdir(f"{_PROC}/{pid}/fd")
    except OSError:
        return
    for name in names:
        target = _link(f"{_PROC}/{pid}/fd/{name}")
        if target is not None and target.startswith(b"/"):
            yield target


def _below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top + b"/")


def _name(pid: int) -> str:
    """What a process is called: its command line's first words, or the kernel's name for it."""
    words = _command_line(pid)
    if words:
        words[0] = os.path.basename(words[0])
        return " ".join(os.fsdecode(word) for word in words[:4])
    try:
        with open(f"{_PROC}/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read().strip())
    except OSError:
        return "?"


def _command_line(pid: int) -> list[bytes]:
    try:
        with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[:-1]
    except OSError:
        return []


def above() -> set[int]:
    """The processes that this one was started by, up to the first."""
    found: set[int] = set()
    pid = os.getppid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            with open(f"{_PROC}/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def carrying(name: str, value: str) -> list[int]:
    """The living processes that were started with a variable set to `value`, by pid, as far as they may be looked
    into."""
    wanted = os.fsencode(f"{name}={value}")
    found = []
    for pid in _pids() if os.path.isdir(os.path.join(_PROC, "self")) else ():
        with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0") and not _is_dead(pid):
                found.append(pid)
    return found


def ps(pid: int, *columns: str) -> str:
    """What `ps` tells of a process, for systems without /proc; empty where it tells nothing."""
    wanted = [word for column in columns for word in ("-o", f"{column}=")]
    try:
        done = subprocess.run(
            ["ps", *wanted, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return ""
    return os.fsdecode(done.stdout).strip()


def _inside_by_lsof(top: bytes, ancestors: set[int]) -> list[Process]:
    try:
        done = subprocess.run(
            ["lsof", "-w", "-d", "cwd,rtd,txt", "-F", "pcfn"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return []
    return parse_lsof(done.stdout, top, ancestors)


def parse_lsof(out: bytes, top: bytes, ancestors: set[int]) -> list[Process]:
    """The processes inside `top` by the output of `lsof -F pcfn`: lines that begin with the field's letter."""
    kinds = {b"cwd": "cwd", b"rtd": "root", b"txt": "exe"}
    found: dict[int, Process] = {}
    pid, name, how = 0, "?", "open"
    for line in out.split(b"\n"):
        field, value = line[:1], line[1:]
        if field == b"p":
            pid = int(value)
        elif field == b"c":
            name = os.fsdecode(value)
        elif field == b"f":
            how = kinds.get(value, "open")
        elif field == b"n" and pid != os.getpid() and pid not in found and _below(value, top):
            found[pid] = Process(pid, name, how, os.fsdecode(value), pid in ancestors)
    return [found[pid] for pid in sorted(found)]


# -- whose lock ----------------------------------------------------------------------------------------------------


def why_not_stale(lock: str, places: Sequence[str]) -> str | None:
    """Why git's lock file `lock` is not proven to be left by a killed process, at one look; None where it is proven.

    `git.stale_locks` says what the rule is, and waits for processes that are about to end.
    """
    try:
        found = os.lstat(lock)
    except FileNotFoundError:
        return "it is gone"
    return unprovable(lock, found) or next(iter(makers(found, places).values()), None)


def unprovable(lock: str, found: os.stat_result) -> str | None:
    """Why nothing can be proven about the lock file `lock`, whatever processes there are; None where it can."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if not os.path.isdir(os.path.join(_PROC, "self")):
        return "this system does not tell what other processes do"
    kind = file_system_of(lock)
    if kind is None or kind.startswith(_SHARED_FILE_SYSTEMS):
        return "its file system may be shared with other machines"
    return None


def makers(lock: os.stat_result, places: Sequence[str], among: Iterable[Identity] | None = None) -> dict[Identity, str]:
    """The living processes that may have made a lock file, each with the reason: those of its owner that have it open,
    and the gits that work in one of the folders `places`. `among` names the only ones that are looked at."""
    tops = [os.fsencode(os.path.realpath(place)) for place in places]
    found = {}
    for pid in _pids() if among is None else [each.pid for each in among]:
        identity = _identity(pid) if pid != os.getpid() else None
        if identity is None or (among is not None and identity not in among):
            continue
        reason = _may_hold(pid, lock, tops)
        if reason is not None:
            found[identity] = reason
    return found


def _may_hold(pid: int, lock: os.stat_result, tops: Sequence[bytes]) -> str | None:
    """Why the process may be the one that made the lock; None where it is not."""
    try:
        owner = os.stat(f"{_PROC}/{pid}").st_uid
    except OSError:
        return None  # gone
    if owner != lock.st_uid or _is_dead(pid):
        return None  # the file would not be this one's
    try:
        names = os.listdir(f"{_PROC}/{pid}/fd")
    except FileNotFoundError:
        return None
    except OSError:
        return f"process {pid} ({_name(pid)}) may not be looked into"
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"{_PROC}/{pid}/fd/{name}"), lock) and not _only_names(pid, name):
                return f"process {pid} ({_name(pid)}) has it open"
    if _is_git(pid) and not _makes_no_lock(pid) and _works_in(pid, tops):
        return f"process {pid} ({_name(pid)}) is at work in this repository"
    return None


def _only_names(pid: int, descriptor: str) -> bool:
    """Whether a descriptor was opened with O_PATH: so does whoever looks at a lock, and nobody who makes one."""
    with open(f"{_PROC}/{pid}/fdinfo/{descriptor}", "rb") as file:
        flags = next((line.split()[1] for line in file if line.startswith(b"flags:")), b"0")
    return bool(int(flags, 8) & os.O_PATH)


def _identity(pid: int) -> Identity | None:
    """A living process, which its id alone does not tell: that is given again."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            return Identity(pid, file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return None


def _is_dead(pid: int) -> bool:
    """Whether a process has ended, and only waits for its parent to notice."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X", b"x")
    except (OSError, IndexError):
        return True


def _is_git(pid: int) -> bool:
    try:
        with open(f"{_PROC}/{pid}/comm", "rb") as file:
            return file.read().startswith(b"git")
    except OSError:
        return False


def _makes_no_lock(pid: int) -> bool:
    """Whether a git makes no lock of its own: it waits for a command of ours, as the git of `git agentos …` does, or
    watches files."""
    from git_agentos.util import git_command_line  # not at the top: this module is run as a script too

    command = git_command_line.parse(list(map(os.fsdecode, _command_line(pid)))).command or ""
    return command in ("agentos", "fsmonitor--daemon") or command.startswith("agentos-")


def _works_in(pid: int, tops: Sequence[bytes]) -> bool:
    try:
        cwd = os.readlink(os.fsencode(f"{_PROC}/{pid}/cwd"))
    except (FileNotFoundError, ProcessLookupError):
        return False  # it is ending, or has ended: it touches no file any more
    except OSError:
        return True  # it is not to be looked into
    assigned = _command_line(pid)
    with contextlib.suppress(OSError), open(f"{_PROC}/{pid}/environ", "rb") as file:
        assigned += file.read().split(b"\0")
    named = [os.path.join(cwd, word.partition(b"=")[2]) for word in assigned if word.startswith(_PLACE_GIVEN)]
    return any(_below(os.path.normpath(path), top) for path in (cwd, *named, *_open_files(pid)) for top in tops)


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds `path`; None where the system does not tell."""
    mounts = dict(_mounts())
    place = os.fsencode(os.path.realpath(path))
    while place not in mounts:
        if place in (b"/", b""):
            return None
        place = os.path.dirname(place)
    return mounts[place]


def mounted_below(folder: str) -> list[str]:
    """Mount points below `folder`: what is in them lies elsewhere, and must not be deleted with it."""
    top = os.fsencode(os.path.realpath(folder))
    return sorted(os.fsdecode(place) for place, _ in _mounts() if _below(place, top))


def _mounts() -> Iterator[tuple[bytes, str]]:
    """Mount point and type of each mounted file system (proc(5), mountinfo), the one on top last."""
    try:
        with open(f"{_PROC}/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(b" - ")
        place = before.split(b" ")[4]
        for escape, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            place = place.replace(escape, byte)
        yield place, after.split(b" ")[0].decode("ascii", "replace")


# -- running programs ----------------------------------------------------------------------------------------------


def run_shell(command: str, *, cwd: str, env: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Run `command` by `sh -c` in a process group of its own; see `run`."""
    return run(["/bin/sh", "-c", command], cwd=cwd, env=env, timeout=timeout)


def run(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Run a program in a process group of its own, with nothing on stdin, and wait for it.

    After `timeout` seconds, and where it fails, or this process is interrupted, the whole group is ended; what a
    successful one left running goes on. FileNotFoundError where there is no such program.
    """
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(timeout)
        finally:
            if code != 0:
                _end_group(child)
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _MOST_OUTPUT))
        return Ended(code, output.read())


def feed(argv: Sequence[str], data: bytes, *, timeout: float | None = None) -> tuple[int, bytes, bytes]:
    """Run a program that only reads `data` and prints, in an empty environment and at the top of the file system:
    its exit code, stdout and stderr. `TooLate` after `timeout` seconds."""
    with subprocess.Popen(
        argv, cwd=os.sep, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        try:
            out, said = child.communicate(data, timeout)
        except BaseException:
            child.kill()
            raise
        return child.returncode, out, said


def start_piped(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], keep: Sequence[int] = (), stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with what it says in pipes; the caller reaps it. `keep` are descriptors
    that it gets; `stdin` is the one that it reads from, if it has anything to read."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        pass_fds=tuple(keep),
    )


def start_in_background(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    """Start a program that goes on when this process has ended; it stands in `/`, and nobody hears what it says."""
    script = '"$@" </dev/null >/dev/null 2>&1 &'  # the shell ends at once: nobody has to wait for the other
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", *argv],
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ask every process of the child's group to end, and then make it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


# -- deleting folders ----------------------------------------------------------------------------------------------


def remove_in_background(folders: Iterable[str]) -> None:
    """Delete folders, one after the other, in a process that goes on when this one has ended, with low priority.

    If one cannot be deleted, it stays, and so do those after it. The folder that a folder lies in goes too if that
    leaves it empty.
    """
    wanted = [os.path.abspath(folder) for folder in folders]
    if wanted:
        start_in_background([sys.executable or "python3", "-I", "-S", os.path.abspath(__file__), *wanted])


def remove_folder(path: str) -> bool:
    """Delete a folder and everything in it, folders without write permission included; whether it is gone.

    What is mounted below it is left alone.
    """
    if mounted_below(path):
        return False
    if os.path.islink(path) or not os.path.isdir(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return not os.path.lexists(path)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for top, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(top, 0o700)  # before its entries are listed
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _main(folders: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        os.nice(15)
    for folder in folders:
        if not remove_folder(folder):
            return
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(folder))


if __name__ == "__main__":
    _main(sys.argv[1:])
