"""The processes of this machine: parents, arguments, environments, folders, and who is alive.

Read from /proc. What may not be read counts as not there. Where there is no /proc, it is read from ps(1) (`ps`), which
knows no folders and open files.

Standard library only, and subprocess only where there is no /proc: the supervisor imports it, and so does every hook.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from git_agentos.process import ps
from git_agentos.util.named_tuple import NamedTuple

_PROC = "/proc"
_MAX_ANCESTORS = 512  # nobody nests deeper, and a loop must not hang us
_DEAD = (b"Z", b"X", b"x")
_ENDED = "Z"
# Fields of /proc/PID/stat (proc(5)), counted from the one after the name.
_STATE, _PARENT, _THREADS, _START = 0, 1, 17, 19


class Process(NamedTuple):
    """A process. `start` is when it was started, in a unit of the system's: numbers are used again."""

    pid: int
    start: str


# The process whose work this one does; 0: its own.
_served = 0


def own_pid() -> int:
    """The process that does what is done here: this one, or the command or hook that the watch daemon does it for.

    Who acts is found out by it: its parents, its arguments, its folder.
    """
    return _served or os.getpid()


def own_parent() -> int:
    """The process that has started `own_pid`; 0 where it has ended."""
    return (_parent(_served) or 0) if _served else os.getppid()


def serve(pid: int) -> None:
    """Do the work of the process `pid` from now on. Its rights have to be this one's (`confinement`)."""
    global _served  # noqa: PLW0603 (of this process, as its number is)
    _served = pid


def has_proc() -> bool:
    """Whether this system tells what processes were started with."""
    return os.path.isdir(f"{_PROC}/self")


def pids() -> list[int]:
    """All processes, by number."""
    if not has_proc():
        return sorted(row.pid for row in ps.rows())
    return sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())


def identify(pid: int) -> Process | None:
    """The process that has the number `pid` now; None where there is none."""
    found = parent_and_start(pid)
    return None if found is None else Process(pid, found[1])


def parents(pid: int) -> list[int]:
    """The processes that `pid` was started by, from its parent up to the first."""
    above = None if has_proc() else {row.pid: row.parent for row in ps.rows()}
    found: list[int] = []
    while len(found) < _MAX_ANCESTORS:
        parent = _parent(pid) if above is None else above.get(pid)
        if parent is None or parent <= 0 or parent in found:
            break
        pid = parent
        found.append(pid)
    return found


def parent_and_start(pid: int) -> tuple[int, str] | None:
    """The parent of a process, and when it was started; None where there is no such process."""
    fields = stat_fields(pid)
    if fields is not None:
        return int(fields[_PARENT]), fields[_START].decode("ascii")
    return None if has_proc() else next(((row.parent, row.start) for row in ps.rows(pid)), None)


def children(pid: int) -> list[int]:
    """The children of a process, ended ones that were not waited for included."""
    if not has_proc():
        return [row.pid for row in ps.rows() if row.parent == pid]
    found: list[int] = []
    try:
        for thread in os.listdir(f"{_PROC}/{pid}/task"):
            with open(f"{_PROC}/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:
        # The kernel was built without that file, or the process is gone.
        return [each for each in pids() if _parent(each) == pid] if os.path.isdir(f"{_PROC}/{pid}") else []
    except OSError:
        return []
    return found


def descendants(pid: int) -> list[int]:
    """The living processes that descend from one."""
    if not has_proc():
        return _descendants(pid, ps.rows())
    found: list[int] = []
    remaining = children(pid)
    while remaining:
        each = remaining.pop()
        if each not in found:
            found.append(each)
            remaining += children(each)
    return [each for each in found if is_alive(each)]


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended; one that waits for its parent to notice has."""
    if not has_proc():
        return any(not row.state.startswith(_ENDED) for row in ps.rows(pid))
    fields = stat_fields(pid)
    return fields is not None and (fields[_STATE] not in _DEAD or int(fields[_THREADS]) > 1)


def can_be_ended(pid: int) -> bool:
    """Whether a signal can end a process: not the first of its container, and none of another user's."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return pid != 1


def with_variable(name: str, value: str) -> list[int]:
    """The living processes that were started with a variable set to `value`, by number."""
    if not has_proc():
        return [pid for pid, found in ps.environments().items() if found.get(name) == value and is_alive(pid)]
    assignment = os.fsencode(f"{name}={value}")
    return [pid for pid in pids() if assignment in (read(pid, "environ") or b"").split(b"\0") and is_alive(pid)]


def boot_id() -> str:
    """The id of this start of the system: after the next one, process numbers and start times begin again. Empty where
    the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return "" if has_proc() else ps.boot_id()


# -- one process -----------------------------------------------------------------------------------------------------


def argv(pid: int) -> tuple[str, ...]:
    """The arguments of a process; empty where it is gone, has none, or may not be read.

    `ps` does not tell where one argument ends: there they are split at spaces.
    """
    data = read(pid, "cmdline")
    if data is not None:
        return tuple(os.fsdecode(word) for word in data.split(b"\0")[:-1])
    return () if has_proc() else tuple(ps.arguments(pid).split())


def environment(pid: int) -> dict[str, str] | None:
    """The environment that a process was started with; None where it may not be read."""
    data = read(pid, "environ")
    if data is None:
        return None if has_proc() else ps.environments(pid).get(pid)
    pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


def environments(pids: Sequence[int]) -> list[dict[str, str]]:
    """The environment of each process, in their order; empty where it may not be read. One look, where there is no
    /proc."""
    if has_proc():
        return [environment(pid) or {} for pid in pids]
    found = ps.environments()
    return [found.get(pid, {}) for pid in pids]


def cwd(pid: int) -> str | None:
    """The current directory of a process; None where it may not be read, or the folder is gone."""
    found = link(pid, "cwd")
    return None if found is None or (found.endswith(" (deleted)") and not os.path.isdir(found)) else found


def executable(pid: int) -> str:
    """A path that leads to the file that a process was started from, whatever the process calls itself."""
    return f"{_PROC}/{pid}/exe"


def name(pid: int) -> str:
    """The name of a process as the kernel has it, maybe cut to 15 bytes; empty where it is not known."""
    if not has_proc():
        return next((os.path.basename(row.name) for row in ps.rows(pid)), "")
    return os.fsdecode((read(pid, "comm") or b"").strip())


def title(pid: int) -> str:
    """A process for people: the first words of its command line, else its name."""
    words = argv(pid)[:4]
    return " ".join((os.path.basename(words[0]), *words[1:])) if words else name(pid) or "?"


def open_files(pid: int) -> Iterator[tuple[str, str]]:
    """The descriptors of a process, and where each leads."""
    try:
        descriptors = os.listdir(f"{_PROC}/{pid}/fd")
    except OSError:
        return
    for descriptor in descriptors:
        target = link(pid, f"fd/{descriptor}")
        if target is not None:
            yield descriptor, target


def read(pid: int, file: str) -> bytes | None:
    """The content of `/proc/PID/FILE`; None where it may not be read, or the process is gone."""
    try:
        with open(f"{_PROC}/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return None


def field(pid: int, file: str, name: str) -> str | None:
    """The value of a line `NAME: VALUE` of `/proc/PID/FILE`; None where there is none."""
    prefix = f"{name}:".encode()
    for line in (read(pid, file) or b"").splitlines():
        if line.startswith(prefix):
            return os.fsdecode(line[len(prefix) :].strip())
    return None


def link(pid: int, file: str) -> str | None:
    """Where `/proc/PID/FILE` leads; None where it may not be read."""
    try:
        return os.readlink(f"{_PROC}/{pid}/{file}")
    except OSError:
        return None


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of `/proc/PID/stat` after the name, the state first; None where there is no such process."""
    data = read(pid, "stat")
    fields = data.rpartition(b")")[2].split() if data is not None else []
    return fields if len(fields) > _START else None


def _descendants(pid: int, rows: Sequence[ps.Row]) -> list[int]:
    """The living processes that descend from one, by a single look at all."""
    found: list[int] = []
    above = {pid}
    while above:
        below = [row for row in rows if row.parent in above and row.pid not in found]
        found += [row.pid for row in below]
        above = {row.pid for row in below}
    ended = {row.pid for row in rows if row.state.startswith(_ENDED)}
    return [each for each in found if each not in ended]


def _parent(pid: int) -> int | None:
    fields = stat_fields(pid)
    return None if fields is None else int(fields[_PARENT])
