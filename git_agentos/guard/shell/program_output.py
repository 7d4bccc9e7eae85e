"""What programs print, where that is easily known: the next command is often given it."""

from __future__ import annotations

import os

from git_agentos.git import gitfile
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell.reader import Program
from git_agentos.guard.shell.words import FILE, known
from git_agentos.util import files

_CURRENT_BRANCH = (
    ["branch", "--show-current"],
    ["rev-parse", "--abbrev-ref", "HEAD"],
    ["symbolic-ref", "--short", "HEAD"],
)
_BRANCH = b"ref: refs/heads/"


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
    is_given = any(key in program.environment for key in ("GIT_DIR", "GIT_WORK_TREE"))
    found = None if program.cwd_unknown or is_given else gitfile.find(program.directory)
    if found is None or not words:
        return UNKNOWN
    root, git_dir = found
    if words == ["rev-parse", "--show-toplevel"]:
        return root + "\n"
    if words in (["rev-parse", "--git-dir"], ["rev-parse", "--absolute-git-dir"]):
        return git_dir + "\n"
    if words == ["rev-parse", "--git-common-dir"]:
        return gitfile.common_dir(git_dir) + "\n"
    if words in _CURRENT_BRANCH:
        try:
            head = files.read(os.path.join(git_dir, "HEAD"), limit=gitfile.LONGEST)
        except OSError:
            return UNKNOWN
        return os.fsdecode(head.removeprefix(_BRANCH)) if head.startswith(_BRANCH) else UNKNOWN
    return UNKNOWN
