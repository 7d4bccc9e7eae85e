"""Which processes use a folder: stand in it, have it as their root, run a program from it, or have a file in it open.

Processes that may not be read are left out. Where there is no /proc, `lsof` tells current directories, roots and
programs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

from git_agentos.process import table

_KINDS_OF_LSOF = {b"cwd": "cwd", b"rtd": "root", b"txt": "exe"}


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
    """For each of `folders`, the live processes whose current directory is in it, by pid. All processes are read once,
    however many folders there are."""
    if not table.has_proc():
        return {folder: [each for each in find(folder) if each.how == "cwd"] for folder in folders}
    ancestors = set(table.parents(os.getpid()))
    tops = {folder: os.path.realpath(folder) for folder in folders}
    found: dict[str, list[Occupant]] = {folder: [] for folder in tops}
    for pid in table.pids():
        cwd = table.link(pid, "cwd") if pid != os.getpid() else None
        if cwd is None:
            continue
        for folder, top in tops.items():
            if is_below(cwd, top):
                found[folder].append(Occupant(pid, table.title(pid), "cwd", cwd, pid in ancestors))
    return found


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
    try:
        ended = subprocess.run(
            ["lsof", "-w", "-d", "cwd,rtd,txt", "-F", "pcfn"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return []
    return parse_lsof(ended.stdout, top, ancestors)


def parse_lsof(out: bytes, top: str, ancestors: set[int]) -> list[Occupant]:
    """The occupants of `top` by the output of `lsof -F pcfn`: lines that begin with the field's letter."""
    found: dict[int, Occupant] = {}
    pid, name, how = 0, "?", "open"
    for line in out.split(b"\n"):
        field, value = line[:1], line[1:]
        if field == b"p":
            pid = int(value)
        elif field == b"c":
            name = os.fsdecode(value)
        elif field == b"f":
            how = _KINDS_OF_LSOF.get(value, "open")
        elif field == b"n" and pid != os.getpid() and pid not in found and is_below(os.fsdecode(value), top):
            found[pid] = Occupant(pid, name, how, os.fsdecode(value), pid in ancestors)
    return [found[pid] for pid in sorted(found)]
