"""What programs print, where that is easily known: the next command is often given it."""

from __future__ import annotations

import os

from git_agentos.guard.shell import file_programs
from git_agentos.guard.shell.reader import Program
from git_agentos.guard.shell.words import FILE, UNKNOWN, known

# Options of rev-parse, and which of a worktree's git directories each prints.
_REV_PARSE = {"--show-toplevel": 0, "--git-dir": 1, "--absolute-git-dir": 1, "--git-common-dir": 2}
_CURRENT_BRANCH = (
    ["branch", "--show-current"],
    ["rev-parse", "--abbrev-ref", "HEAD"],
    ["symbolic-ref", "--short", "HEAD"],
)
_BRANCH = "ref: refs/heads/"


def of_program(name: str, program: Program) -> str:
    """What a harmless program prints."""
    operands = [word for word in program.argv[1:] if not word.startswith("-")]
    if name in ("cat", "tee"):
        return (program.stdin or "") if not operands or name == "tee" else FILE
    if name in ("which", "whence", "type") and len(operands) == 1:
        return operands[0] + "\n"
    if name in ("dirname", "basename") and operands and known(operands[0]):
        return (os.path.dirname(operands[0]) or "." if name == "dirname" else os.path.basename(operands[0])) + "\n"
    return UNKNOWN


def of_git(program: Program) -> str:
    """What git prints about the place where it runs."""
    words = list(program.argv[1:])
    if program.cwd_unknown or not words or any(key in program.environment for key in ("GIT_DIR", "GIT_WORK_TREE")):
        return UNKNOWN
    own = file_programs.git_directories(program.directory)
    if not own:
        return UNKNOWN
    if words[0] == "rev-parse" and len(words) == 2 and words[1] in _REV_PARSE:
        which = min(_REV_PARSE[words[1]], len(own) - 1)
        return (os.path.dirname(own[0]) if which == 0 else own[which]) + "\n"
    if words in _CURRENT_BRANCH:
        head = file_programs.first_line(os.path.join(own[min(1, len(own) - 1)], "HEAD"))
        if head.startswith(_BRANCH):
            return head.removeprefix(_BRANCH) + "\n"
    return UNKNOWN
