"""Who started a git command: the agent above it, the folder it was started in, and the git command it is a step of."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.process import table
from git_agentos.process.table import argv, cwd, environment, executable, parents
from git_agentos.util import git_command_line

# The agent's id, which `guard exec` puts into the environment of the supervisor and so of all processes below it. The
# supervisor adopts orphans, so neither `env -i` nor a double fork leads out.
MARKER = "AGENTOS_GUARD"

# git command -> the git commands that it starts as its own steps: the decision about it covers them. Anything else
# below a git command (an editor, a hook, an alias) is decided about separately.
_GC = frozenset({"pack-refs", "reflog", "repack", "prune", "prune-packed", "worktree", "rerere", "commit-graph", "gc"})
_STEPS: dict[str, frozenset[str]] = {
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
    """The folder in which a process was started; for one that git has started, the folder in which git was started."""
    folder = cwd(pid)
    known = table.parent_and_start(pid)
    if folder is None or known is None or _change_folders(pid):
        return _folder_before_change(pid)
    parent = known[0]
    return _folder_before_change(parent) if _change_folders(parent) and cwd(parent) == folder else folder


def environment_of_guard_exec(pid: int) -> dict[str, str] | None:
    """The environment with which the outermost `guard exec` above `pid` was started; None where there is none."""
    chain = (pid, *parents(pid))
    return next((each for each in reversed(table.environments(chain)) if MARKER in each), None)


# -- git's own processes --------------------------------------------------------------------------------------------


def outermost_git(pid: int) -> int:
    """The git process of which the git process `pid` is a step (`git stash` runs `git reset --hard`); `pid` where it is
    no step."""
    while True:
        found = table.parent_and_start(pid)
        if found is None or not (is_part(argv(pid), argv(found[0])) and same_program(pid, found[0])):
            return pid
        pid = found[0]


def is_inner_step(args: Sequence[str], outer: int, git: str) -> bool:
    """Whether `git ARGS`, which the process `outer` is about to start by PATH as the program `git`, is a step of the
    command of `outer`."""
    return is_part(("/git", *args), argv(outer)) and _same_file(git, executable(outer))


def is_part(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether the git command `inner`, started by the git command `outer`, is a step of it, by their arguments. These
    do not prove which programs the two are (`same_program`).

    git starts its own commands by their full path. An editor, a filter or a pager can have that path too, so only known
    steps count, and no step of a command with a pager.
    """
    if not inner or "/" not in inner[0] or not _is_git(inner[0]) or not outer or not _is_git(outer[0]):
        return False
    above, rest = _subcommand(outer)
    name, words = _subcommand(inner)
    if above == "stash" and rest[:1] in (("list",), ("show",), ("drop",), ("clear",)):
        return False
    if name in ("gc", "maintenance") and above != "maintenance" and "--auto" not in words:
        return False
    return name in _STEPS.get(above, ())


def same_program(one: int, other: int) -> bool:
    """Whether two processes run the same program, by their program files and not by their names (`exec -a git bash`).
    False where that is not known."""
    return _same_file(executable(one), executable(other))


def _folder_before_change(pid: int) -> str | None:
    """The folder in which a git was started, before `-C` changed it: its PWD, if `-C` leads from there to its current
    folder."""
    current = cwd(pid)
    folders = _change_folders(pid)
    start = (environment(pid) or {}).get("PWD", "")
    if current is None or not folders or not os.path.isabs(start) or not os.path.isdir(start):
        return current
    end = os.path.realpath(os.path.join(start, *folders))
    return start if end == current or end.startswith(current.rstrip(os.sep) + os.sep) else current


def _change_folders(pid: int) -> list[str]:
    """The folders of a git's `-C`; empty for other processes."""
    words = argv(pid)
    if not words or os.path.basename(words[0]) != "git":
        return []
    return [option.value for option in git_command_line.parse(words).options if option.name == "-C" and option.value]


def _same_file(one: str, other: str) -> bool:
    """Whether two paths lead to the same file, or to files with the same content: some systems have git twice."""
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
    """git's subcommand and its arguments; empty where options before it start a pager, or are unknown."""
    line = git_command_line.parse(argv)
    if line.command is None or any(option.name in ("-p", "--paginate") for option in line.options):
        return "", ()
    return line.command, line.args
