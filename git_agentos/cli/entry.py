"""The executables, and the one boundary where errors become messages and exit codes.

Start-up is most of what a checkpoint of a small repository costs, so nothing heavy is imported here: a plain
`checkpoint` first starts git's scan, which then runs beside the imports of typer and pygit2, and only the
module of the command at hand is loaded.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from git_agentos.cli.prescan import look

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.cli.output import Output
    from git_agentos.git.scan import Scan

# What the machine, not this program, did wrong: a file's error that is told as such and not as a bug.
_ENVIRONMENTAL = (
    "EACCES EPERM EROFS ENOSPC EDQUOT EFBIG EIO EMFILE ENFILE ENOENT ENOTDIR ELOOP ENAMETOOLONG ESTALE EBUSY ENOMEM "
    "EISDIR ENOTEMPTY ENXIO"
).split()

# Whoever asked for one of these wants to know that it did not happen by half; these errors come before it begins.
_CHANGING = ("restore", "undo", "pick")
_REFUSED_BEFORE = ("checkpoint-not-found", "checkpoint-format", "missing-objects", "incomplete-capture", "interrupted")


def main() -> NoReturn:
    """`git-agentos`, which git also starts for `git agentos`."""
    _start()
    _leave(run(sys.argv[1:]))


def checkpoint() -> NoReturn:
    """`git-agentos-checkpoint`."""
    _start()
    _leave(run(_under("checkpoint", sys.argv[1:])))


def restore() -> NoReturn:
    """`git-agentos-restore`."""
    _start()
    _leave(run(_under("restore", sys.argv[1:])))


def rollback() -> NoReturn:
    """`git-agentos-rollback`."""
    _start()
    _leave(run(_under("rollback", sys.argv[1:])))


def tdd() -> NoReturn:
    """`git-agentos-tdd`."""
    _start()
    _leave(run(_under("tdd", sys.argv[1:])))


def worktree() -> NoReturn:
    """`git-agentos-worktree`."""
    _start()
    _leave(run(_under("worktree", sys.argv[1:])))


def run(argv: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    seen = look(argv)
    if seen.command == "hook" and argv[0] == "hook" and len(argv) > 1 and not argv[1].startswith("-"):
        # Behind the hook's name everything is git's, and none of it an option of ours.
        from git_agentos.hooks import entry

        return entry.main(list(argv[1:]))
    invocation: Invocation | None = None
    try:
        scan = _early_scan(seen.directory) if seen.creates else None
        from git_agentos.cli import invocation as common
        from git_agentos.cli.output import Output

        invocation = common.Invocation(Output.standard(json=seen.json), scan, argv)
        from git_agentos.cli.app import execute

        with invocation.output.telling():
            return execute(argv, seen, invocation)
    except KeyboardInterrupt:
        return _interrupted(_output(invocation, seen.json))
    except Exception as error:  # noqa: BLE001 (the one boundary: what nobody caught becomes a message)
        directory = seen.directory if invocation is None else invocation.directory
        return _failed(error, _output(invocation, seen.json), seen.command, directory)
    finally:
        if invocation is not None:
            invocation.close()


def _early_scan(directory: str) -> Scan | None:
    """git's scan, started; where it cannot start, the command says why once its options are known to be right."""
    from git_agentos.errors import AgentosError
    from git_agentos.git.scan import Scan

    try:
        return Scan.start(directory)
    except AgentosError:
        return None


def _under(command: str, argv: Sequence[str]) -> list[str]:
    """The arguments of a separate executable, as arguments of the whole."""
    return list(argv) if list(argv) == ["--version"] else [command, *argv]


def _output(invocation: Invocation | None, json: bool) -> Output:
    """Where to tell an error: the command's own output, which knows the options, if it came that far."""
    from git_agentos.cli.output import Output

    return Output.standard(json=json) if invocation is None else invocation.output


def _interrupted(output: Output) -> int:
    from git_agentos.errors import AgentosError

    error = AgentosError("interrupted", "'git agentos status' says whether anything is left to finish")
    error.kind, error.exit_code = "cancelled", 130
    return output.fail(error)


def _failed(error: Exception, output: Output, command: str | None, directory: str) -> int:
    import errno

    from git_agentos.errors import AgentosError
    from git_agentos.util.files import NotRegularError

    if isinstance(error, AgentosError):
        return output.fail(error, nothing_changed=command in _CHANGING and error.kind in _REFUSED_BEFORE)
    is_of_machine = isinstance(error, OSError) and errno.errorcode.get(error.errno or 0) in _ENVIRONMENTAL
    if isinstance(error, OSError) and (is_of_machine or isinstance(error, NotRegularError)):
        subject = f": '{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else ""
        told = AgentosError(
            f"{(error.strerror or 'a file operation failed').lower()}{subject}",
            "'git agentos status' says whether anything is left to finish",
        )
        told.kind = "system"
        return output.fail(told)
    from git_agentos.cli import crash

    where = crash.record(error, _state_dir(directory))
    bug = AgentosError(
        f"this is a bug in git-agentos: {type(error).__name__}: {error}",
        f"the traceback is in '{where}': please report it\n"
        "'git agentos status' says whether anything is left to finish",
    )
    bug.kind, bug.exit_code = "bug", 70
    return output.fail(bug)


def _state_dir(directory: str) -> str | None:
    """The worktree's own folder of ours, for what is kept of a bug."""
    from git_agentos.git.location import locate

    try:
        return locate(directory).state_dir
    except Exception:  # noqa: BLE001 (a second error must not hide the first)
        return None


def _start() -> None:
    """Give this process what it needs before anything else is imported."""
    # A closed stdin, stdout or stderr would give its number to the next file that is opened, and what is
    # meant for people would be written into it (git does the same, `sanitize_stdfds`).
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # A short life makes no garbage worth looking for; imports alone would trigger dozens of collections.
    gc.disable()


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter apart: that alone takes longer than many a checkpoint.

    Everything was written, flushed and closed by then; no command leaves work to an exit handler.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
