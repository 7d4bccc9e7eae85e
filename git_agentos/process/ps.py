"""The processes of this machine by ps(1), for systems without /proc: macOS and the BSDs.

The columns are those that POSIX or all of these systems have. ps shows the environment behind the arguments, with a
blank between any two words and no quotes: a value that contains ` NAME=` is read as two.
"""

from __future__ import annotations

import os
import re

from git_agentos.util.named_tuple import NamedTuple

_START_WORDS = 5  # lstart is `Wed Nov 25 16:18:47 2026`
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_BOOT = ("bootsessionuuid", "boottime")
_VARIABLE = r" ([A-Za-z_][A-Za-z0-9_]*)="


class Row(NamedTuple):
    """A process: its number, parent and user, its state as a letter and flags (`Z`: it has ended), when it was started,
    and its name or the path of its program."""

    pid: int
    parent: int
    uid: int
    state: str
    start: str
    name: str


def rows(pid: int | None = None) -> list[Row]:
    """All processes but ps itself, or the one that is named."""
    lines = _run(pid, "pid", "ppid", "uid", "stat", "lstart", "comm").splitlines()
    return [row for row in map(_parse, lines) if row is not None]


def arguments(pid: int) -> str:
    """The arguments of a process, with a blank between any two; empty where there are none."""
    return _run(pid, "args").strip()


def environments(pid: int | None = None) -> dict[int, dict[str, str]]:
    """The environment of each process, by number, or of the one that is named. Other users' are not shown."""
    found: dict[int, dict[str, str]] = {}
    for line in _run(pid, "pid", "args", environment=True).splitlines():
        number, _, words = line.strip().partition(" ")
        pieces = re.split(_VARIABLE, words)
        found[int(number)] = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def boot_id() -> str:
    """The id of this start of the system, which macOS has; else when it was, as the BSDs tell it."""
    return next(filter(None, (output_of(["sysctl", "-n", f"kern.{name}"])[1].strip() for name in _BOOT)), "")


def _parse(line: str) -> Row | None:
    words = line.split(None, 4 + _START_WORDS)
    if len(words) < 4 + _START_WORDS:
        return None
    pid, parent, uid, state, *start = words
    name = start.pop().strip() if len(start) > _START_WORDS else ""
    return Row(int(pid), int(parent), int(uid), state, " ".join(start), name)


def _run(pid: int | None, *columns: str, environment: bool = False) -> str:
    """What ps prints, without a line about itself; empty where it fails."""
    chosen = [word for each in columns for word in ("-o", f"{each}=")]
    chosen += ["-A"] if pid is None else ["-p", str(pid)]
    # The environment is added by `-E` on macOS, and elsewhere by `e` without a dash.
    for option in ("-Eww", "eww") if environment else ("-ww",):
        number, out = output_of(["ps", option, *chosen])
        if out:
            break
    if columns[0] != "pid":
        return out
    return "".join(line for line in out.splitlines(keepends=True) if line.split()[:1] != [str(number)])


def output_of(words: list[str]) -> tuple[int, str]:
    """The number of the process that ran a program of the system, and what it printed; 0 and nothing where there is no
    such program. An agent's PATH does not count."""
    import subprocess  # not loaded where there is /proc

    # Times in English; in another character encoding, letters would be printed as question marks.
    environment = {"PATH": _SYSTEM_PATH, "LC_TIME": "C", "LC_CTYPE": "C.UTF-8"}
    try:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    except OSError:
        return 0, ""
    return started.pid, os.fsdecode(started.communicate()[0])
