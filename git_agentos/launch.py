"""The executables, and what the scripts in a repository start.

The watch daemon of the repository does the work if it does such work, since starting Python with our modules takes
longer than most commands. Nothing is imported here but what its client needs.
"""

from __future__ import annotations

import os
import sys

from git_agentos import __version__
from git_agentos.watch import client

TYPE_CHECKING = False  # as in `typing`, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main() -> NoReturn:
    """`git-agentos`, which git also starts for `git agentos`."""
    _run(sys.argv[1:])


def checkpoint() -> NoReturn:
    """`git-agentos-checkpoint`."""
    _run(as_subcommand("checkpoint", sys.argv[1:]))


def restore() -> NoReturn:
    """`git-agentos-restore`."""
    _run(as_subcommand("restore", sys.argv[1:]))


def rollback() -> NoReturn:
    """`git-agentos-rollback`."""
    _run(as_subcommand("rollback", sys.argv[1:]))


def tdd() -> NoReturn:
    """`git-agentos-tdd`."""
    _run(as_subcommand("tdd", sys.argv[1:]))


def worktree() -> NoReturn:
    """`git-agentos-worktree`."""
    _run(as_subcommand("worktree", sys.argv[1:]))


def hook() -> NoReturn:
    """What a git hook starts: NAME GIT-PID [ARG...]."""
    _run(["hook", *sys.argv[1:]])


def as_subcommand(command: str, argv: Sequence[str]) -> list[str]:
    """The arguments of a separate executable as arguments of `git agentos`."""
    return list(argv) if list(argv) == ["--version"] else [command, *argv]


def _run(argv: Sequence[str]) -> NoReturn:
    _protect_standard_streams()
    code = client.run(argv, __version__)
    if code is not None:
        os._exit(code)
    if sys.flags.no_site:  # a client needs no other packages
        import site

        site.main()
    from git_agentos.cli import entry

    entry.execute(argv)


def _protect_standard_streams() -> None:
    """Open a closed stdin, stdout or stderr.

    Otherwise the next file that is opened would get its number, and messages would be written into that file (git does
    the same, `sanitize_stdfds`).
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
