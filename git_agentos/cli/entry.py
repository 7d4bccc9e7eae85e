"""Runs a command line: the one boundary where errors become messages and exit codes.

Start-up is most of what a checkpoint of a small repository costs, so nothing heavy is imported here: a plain
`checkpoint` first starts git's scan, which then runs beside the imports, and only the module of the command at hand is
loaded. A line that is understood for certain is run without typer (`direct`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from git_agentos.cli.prescan import Prescan, prescan

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.cli.output import Output
    from git_agentos.git.scan import Scan

# Errors of the machine: they are reported as such, not as bugs.
_MACHINE_ERRORS = (
    "EACCES EPERM EROFS ENOSPC EDQUOT EFBIG EIO EMFILE ENFILE ENOENT ENOTDIR ELOOP ENAMETOOLONG ESTALE EBUSY ENOMEM "
    "EISDIR ENOTEMPTY ENXIO"
).split()

# Commands that change the worktree, and the errors that they raise before they change anything: the message says so.
_CHANGING = ("restore", "undo", "pick")
_RAISED_BEFORE = ("checkpoint-not-found", "checkpoint-format", "missing-objects", "incomplete-capture", "interrupted")
_CHECK_STATUS = "'git agentos status' shows whether anything was interrupted"


def run(argv: Sequence[str], start_scan: Callable[[str], Scan] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code. `start_scan` starts a scan of the
    worktree that a folder is in; without it, git scans the whole worktree."""
    scanned = prescan(argv)
    if scanned.command == "hook" and argv[0] == "hook" and len(argv) > 1 and not argv[1].startswith("-"):
        # Everything after the hook's name comes from git; none of it is an option of git-agentos.
        from git_agentos.hooks import entry

        return entry.main(list(argv[1:]))
    invocation: Invocation | None = None
    try:
        scan = _early_scan(scanned.directory, start_scan) if scanned.needs_scan else None
        from git_agentos.cli import invocation as invocations
        from git_agentos.cli.output import Output

        invocation = invocations.Invocation(Output.standard(json=scanned.json), scan, argv)
        with invocation.output.show_warnings():
            return _run(argv, scanned, invocation)
    except KeyboardInterrupt:
        return _interrupted(_output(invocation, scanned.json))
    except Exception as error:  # noqa: BLE001 (the one boundary: what nobody caught becomes a message)
        directory = scanned.directory if invocation is None else invocation.directory
        return _failed(error, _output(invocation, scanned.json), scanned.command, directory)
    finally:
        if invocation is not None:
            invocation.close()


def _run(argv: Sequence[str], scanned: Prescan, invocation: Invocation) -> int:
    """Run the command, a plain line without typer; returns the exit code."""
    from git_agentos.cli import command, direct

    try:
        call = direct.find(scanned.line)
        if call is not None:
            call.run(invocation)
        else:
            from git_agentos.cli.execution import execute

            execute(argv, scanned, invocation)
    except command.Exit as end:
        return end.code
    return 0


def _early_scan(directory: str, start: Callable[[str], Scan] | None) -> Scan | None:
    """Start git's scan; if it cannot start, the command reports the error after its options were checked."""
    from git_agentos.errors import AgentosError
    from git_agentos.git.scan import Scan

    try:
        return (start or Scan.start)(directory)
    except AgentosError:
        return None


def _output(invocation: Invocation | None, json: bool) -> Output:
    """Where an error is reported: the command's own output, which knows the options, if the command got that far."""
    from git_agentos.cli.output import Output

    return Output.standard(json=json) if invocation is None else invocation.output


def _interrupted(output: Output) -> int:
    from git_agentos.errors import AgentosError

    error = AgentosError("interrupted", _CHECK_STATUS)
    error.kind, error.exit_code = "cancelled", 130
    return output.fail(error)


def _failed(error: Exception, output: Output, command: str | None, directory: str) -> int:
    import errno

    from git_agentos.errors import AgentosError, storage_error
    from git_agentos.util.files import NotRegularError

    if isinstance(error, AgentosError):
        return output.fail(error, nothing_changed=command in _CHANGING and error.kind in _RAISED_BEFORE)
    is_of_machine = isinstance(error, OSError) and errno.errorcode.get(error.errno or 0) in _MACHINE_ERRORS
    if isinstance(error, OSError) and (is_of_machine or isinstance(error, NotRegularError)):
        subject = f": '{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else ""
        message = f"{(error.strerror or 'a file operation failed').lower()}{subject}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            message = storage_error(error).message
        system = AgentosError(message, _CHECK_STATUS)
        system.kind = "system"
        return output.fail(system)
    from git_agentos.cli import crash

    path = crash.record(error, _state_dir(directory))
    bug = AgentosError(
        f"this is a bug in git-agentos: {type(error).__name__}: {error}",
        f"the traceback is in '{path}': please report it\n{_CHECK_STATUS}",
    )
    bug.kind, bug.exit_code = "bug", 70
    return output.fail(bug)


def _state_dir(directory: str) -> str | None:
    """The worktree's own state folder, for the traceback of a bug."""
    from git_agentos.git.location import locate

    try:
        return locate(directory).state_dir
    except Exception:  # noqa: BLE001 (a second error must not hide the first)
        return None


def main() -> NoReturn:
    """Run the command line of this process."""
    execute(sys.argv[1:])


def execute(argv: Sequence[str]) -> NoReturn:
    """Run a command line in a process of its own."""
    # A short-lived process creates no garbage worth collecting; imports alone would trigger dozens of collections.
    gc.disable()
    exit_now(run(argv))


def exit_now(code: int) -> NoReturn:
    """End the process without the interpreter's clean-up, which takes longer than many a checkpoint.

    Everything was written, flushed and closed before; no command leaves work to an exit handler.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
