"""Which process stands above which: who started a git command, and which command it is a part of.

A process is known by its number and the time it was started (`Process`), since numbers are used again. What is read of
others comes from /proc, and what may not be read counts as not there; where there is no /proc, `ps` tells parents,
start times and arguments, and nothing is known of environments and places.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from git_agentos.util import git_command_line

# What `guard exec` puts into the environment of the process that supervises an agent, and so of all below it: the
# agent's id. The supervisor is started with it, and takes in what is orphaned below, so that no `env -i` and no
# double fork gets rid of it.
MARKER = "AGENTOS_GUARD"
_PROC = "/proc"
_DEPTH = 512  # ancestors looked at; nobody nests deeper, and a loop must not hang us

# Which git command runs which other one itself, as a part of what it was told to do: that one's decision covers it.
# Anything else below a git command (an editor, a hook, an alias) is a command of its own.
_GC = frozenset({"pack-refs", "reflog", "repack", "prune", "prune-packed", "worktree", "rerere", "commit-graph", "gc"})
_PARTS: dict[str, frozenset[str]] = {
    "stash": frozenset(
        {"reset", "clean", "checkout", "checkout-index", "read-tree", "update-index", "apply", "add", "restore"}
    ),
    "worktree": frozenset({"reset", "branch", "update-ref", "symbolic-ref", "checkout", "submodule"}),
    "gc": _GC,
    "maintenance": _GC | {"fetch", "pack-objects", "multi-pack-index"},
    "repack": frozenset({"pack-objects", "prune-packed"}),
    "commit": frozenset({"gc", "maintenance"}),
    "fetch": frozenset({"gc", "maintenance", "fetch"}),
    "pull": frozenset({"fetch", "merge", "rebase", "submodule"}),
    "merge": frozenset({"gc", "maintenance", "stash", "read-tree"}),
    "rebase": frozenset({"am", "stash", "checkout", "commit", "merge", "read-tree", "gc", "maintenance", "notes"}),
    "am": frozenset({"apply", "gc", "maintenance", "notes"}),
    "cherry-pick": frozenset({"commit", "read-tree"}),
    "revert": frozenset({"commit", "read-tree"}),
}


class Process(NamedTuple):
    """A process, for as long as the system runs: `start` tells it from others that get the same number."""

    pid: int
    start: str


def identify(pid: int) -> Process | None:
    """The process that has the number `pid` now; None where there is none."""
    found = _parent_and_start(pid)
    return None if found is None else Process(pid, found[1])


def parents(pid: int) -> list[int]:
    """The processes that `pid` was started by, from its parent up to the first."""
    found: list[int] = []
    while len(found) < _DEPTH:
        known = _parent_and_start(pid)
        if known is None or known[0] <= 0 or known[0] in found:
            break
        pid = known[0]
        found.append(pid)
    return found


def can_be_ended(pid: int) -> bool:
    """Whether a signal can end a process: not the first of its container, and none of another user's."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return pid != 1


def has_proc() -> bool:
    """Whether this system tells what processes were started with."""
    return os.path.isdir(f"{_PROC}/self")


def argv(pid: int) -> tuple[str, ...]:
    """The arguments of a process; empty where it is gone, has none, or may not be looked into.

    `ps` does not tell where one argument ends: there they are split at spaces.
    """
    try:
        with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
            return tuple(os.fsdecode(word) for word in file.read().split(b"\0")[:-1])
    except OSError:
        return () if has_proc() else tuple(_ps(pid, "args").split())


def environment(pid: int) -> dict[str, str] | None:
    """The environment that a process was started with; None where it may not be read."""
    try:
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            data = file.read()
    except OSError:
        return None
    pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


def cwd(pid: int) -> str | None:
    """Where a process stands; None where it may not be looked into, or its folder is gone."""
    try:
        found = os.readlink(f"{_PROC}/{pid}/cwd")
    except OSError:
        return None
    return None if found.endswith(" (deleted)") and not os.path.isdir(found) else found


def started_in(pid: int) -> str | None:
    """The folder that a process was started in: where it stands, or where the git was started that runs it there."""
    place = cwd(pid)
    known = _parent_and_start(pid)
    if place is None or known is None or _sent_to(pid):
        return _sent_from(pid)
    return _sent_from(known[0]) if _sent_to(known[0]) and cwd(known[0]) == place else place


def below_guard_exec(pid: int) -> str | None:
    """What `guard exec` calls the agent that `pid` works for, if it or a process above it was started by it; None where
    none was."""
    found = environment_of_guard_exec(pid)
    return None if found is None else found[MARKER]


def environment_of_guard_exec(pid: int) -> dict[str, str] | None:
    """The environment of the `guard exec` that `pid` runs below: what it was when nothing below had changed it. The
    outermost one counts. None where there is none."""
    for each in reversed((pid, *parents(pid))):
        found = environment(each)
        if found is not None and MARKER in found:
            return found
    return None


# -- git's own processes --------------------------------------------------------------------------------------------


def outermost_git(pid: int) -> int:
    """The git process that was told to do what the git process `pid` does: itself, or the one that runs it as a part of
    its own work (`git stash` runs `git reset --hard`)."""
    while True:
        found = _parent_and_start(pid)
        if found is None or not (is_part(argv(pid), argv(found[0])) and same_program(pid, found[0])):
            return pid
        pid = found[0]


def is_inner_step(args: Sequence[str], outer: int, git: str) -> bool:
    """Whether `git ARGS`, which the process `outer` is about to start by PATH as the program `git`, is a step of what
    that one was told to do."""
    return is_part(("/git", *args), argv(outer)) and _same_file(git, _executable(outer))


def is_part(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether the git command `inner`, started by the git command `outer`, is a step of what that one was told to do,
    by their arguments: which programs these two are, they do not prove (`same_program`).

    git starts its own commands by their whole path. That is no proof (an editor, a filter or a pager could be given as
    that path), so only the steps that git is known to take count, and none of a command that shows something page by
    page.
    """
    if not inner or "/" not in inner[0] or not _is_git(inner[0]) or not outer or not _is_git(outer[0]):
        return False
    above, rest = _subcommand(outer)
    name, words = _subcommand(inner)
    if above == "stash" and rest[:1] in (("list",), ("show",), ("drop",), ("clear",)):
        return False
    if name in ("gc", "maintenance") and above != "maintenance" and "--auto" not in words:
        return False
    return name in _PARTS.get(above, ())


def same_program(one: int, other: int) -> bool:
    """Whether two processes run the same program, by the files that they were started from and not by what they call
    themselves (`exec -a git bash`). False where the system does not tell."""
    return _same_file(_executable(one), _executable(other))


def _sent_from(pid: int) -> str | None:
    """The folder that a git was started in, which `-C` may have sent elsewhere: what its PWD says, if `-C` leads from
    there to where it stands."""
    place = cwd(pid)
    folders = _sent_to(pid)
    start = (environment(pid) or {}).get("PWD", "")
    if place is None or not folders or not os.path.isabs(start) or not os.path.isdir(start):
        return place
    end = os.path.realpath(os.path.join(start, *folders))
    return start if end == place or end.startswith(place.rstrip(os.sep) + os.sep) else place


def _sent_to(pid: int) -> list[str]:
    """The folders of a git's `-C`; empty for other processes."""
    words = argv(pid)
    if not words or os.path.basename(words[0]) != "git":
        return []
    return [option.value for option in git_command_line.parse(words).options if option.name == "-C" and option.value]


def _executable(pid: int) -> str:
    return f"{_PROC}/{pid}/exe"


def _same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file, or to files with the same content: some systems have git twice."""
    try:
        if os.path.samefile(one, other):
            return True
        if os.path.getsize(one) != os.path.getsize(other):
            return False
        with open(one, "rb") as first, open(other, "rb") as second:
            while chunk := first.read(1 << 20):
                if chunk != second.read(1 << 20):
                    return False
            return True
    except OSError:
        return False


def _is_git(program: str) -> bool:
    name = os.path.basename(program)
    return name == "git" or name.startswith("git-")


def _subcommand(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """git's subcommand and what follows; empty where options before it make it show pages, or are not known."""
    line = git_command_line.parse(argv)
    if line.command is None or any(option.name in ("-p", "--paginate") for option in line.options):
        return "", ()
    return line.command, line.args


def _parent_and_start(pid: int) -> tuple[int, str] | None:
    """The parent of a process, and when it was started, in whatever unit the system tells."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), fields[19].decode("ascii")
    except (OSError, ValueError, IndexError):
        if has_proc():
            return None
    parent, _, start = _ps(pid, "ppid", "lstart").partition(" ")
    return (int(parent), " ".join(start.split())) if parent.isdigit() else None


def _ps(pid: int, *columns: str) -> str:
    from git_agentos import processes  # what starts programs is not loaded where files tell

    return processes.ps(pid, *columns)
