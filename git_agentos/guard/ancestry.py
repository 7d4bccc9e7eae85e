"""Who started a git command: the agent above it, the folder it was started in, and the git command it is a step of."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.process import table
from git_agentos.process.table import argv, cwd, environment, executable, parents
from git_agentos.util import git_command_line

# What `guard exec` puts into the environment of the process that supervises an agent, and so of all below it: the
# agent's id. The supervisor is started with it, and takes in what is orphaned below, so that no `env -i` and no
# double fork gets rid of it.
MARKER = "AGENTOS_GUARD"

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


def started_in(pid: int) -> str | None:
    """The folder that a process was started in: where it stands, or where the git was started that runs it there."""
    place = cwd(pid)
    known = table.parent_and_start(pid)
    if place is None or known is None or _sent_to(pid):
        return _sent_from(pid)
    return _sent_from(known[0]) if _sent_to(known[0]) and cwd(known[0]) == place else place


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
        found = table.parent_and_start(pid)
        if found is None or not (is_part(argv(pid), argv(found[0])) and same_program(pid, found[0])):
            return pid
        pid = found[0]


def is_inner_step(args: Sequence[str], outer: int, git: str) -> bool:
    """Whether `git ARGS`, which the process `outer` is about to start by PATH as the program `git`, is a step of what
    that one was told to do."""
    return is_part(("/git", *args), argv(outer)) and _same_file(git, executable(outer))


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
    return _same_file(executable(one), executable(other))


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
