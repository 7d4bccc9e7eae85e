"""Deciding about a git command: assess it, enforce the policy, and record what was allowed.

The records are one small file for each git process, so that scripts start Python once per command:
`<common dir>/agentos/guard/passed/<pid>.<start time>` contains `all`, or `files` if the decision covers only changes of
files, and changes of refs are still decided. Pid and start time identify a process until the next boot. The file is
neither secret nor a proof: a process that can write it can edit the hooks as well (docs/security.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from git_agentos.guard import tampering
from git_agentos.guard.decision import ALLOW, FORBID, Assessment
from git_agentos.guard.enforcement import enforcer
from git_agentos.guard.enforcement.enforcer import Verdict
from git_agentos.guard.setup import scripts
from git_agentos.hooks import CONTINUE, STOP, output
from git_agentos.hooks.git_command import GitCommand
from git_agentos.process import table
from git_agentos.util import directories

ALL, FILES = "all", "files"


def decide(
    command: GitCommand,
    assess: Callable[[GitCommand], Assessment],
    *,
    layer: str,
    allows: str,
    targets: Sequence[str] = (),
) -> tuple[int, Verdict]:
    """Decide about the command, and print the message. Returns the exit code and the verdict.

    `targets` are the commits to which refs will move. An approved command is recorded as allowed completely; any other
    that may run is recorded as allowed for `allows` (`ALL` or `FILES`).
    """
    settings = command.settings
    assessment = assess(command)
    edited = None
    if command.location is not None and command.who.agent is not None:
        edited = tampering.report(command.location, command.who.agent, command.call.environment)
    output.to_stderr(f"git-agentos: {edited} ({tampering.HINT})" if edited else "")
    if edited and assessment.decision.decision == FORBID:
        # Files of the guard were edited: forbid even in save mode.
        settings = settings._replace(mode="strict")
    verdict = enforcer.enforce(
        command.call,
        assessment,
        command.who,
        enforcer.LayerCall(
            layer, command.pid, settings, hook_caller=command.caller_pid, targets=targets, location=command.location
        ),
    )
    output.to_stderr(verdict.message)
    if not verdict.run:
        return STOP, verdict
    needed_approval = assessment.decision.decision != ALLOW
    record_allowed(command.common_dir, command.pid, ALL if needed_approval else allows)
    return CONTINUE, verdict


# -- records -----------------------------------------------------------------------------------------------------------


def record_allowed(common_dir: str, pid: int, what: str) -> None:
    """Record that the git process `pid` was allowed. If that cannot be written, the next hook decides again."""
    process = table.identify(pid)
    if process is None or not table.has_proc():
        return
    with contextlib.suppress(OSError):
        folder = directories.make_own(os.path.join(scripts.folder(common_dir), "passed"))
        _drop_ended(folder)
        path = os.path.join(folder, f"{process.pid}.{process.start}")
        with open(path, "w", encoding="ascii", opener=_no_link) as file:
            file.write(what + "\n")


def was_allowed(common_dir: str, pid: int) -> bool:
    """Whether an earlier hook of the git process `pid` allowed it."""
    process = table.identify(pid)
    folder = os.path.join(scripts.folder(common_dir), "passed")
    return process is not None and os.path.lexists(os.path.join(folder, f"{process.pid}.{process.start}"))


def _drop_ended(folder: str) -> None:
    for entry in os.scandir(folder):
        pid, _, start = entry.name.partition(".")
        found = table.identify(int(pid)) if pid.isdigit() else None
        if found is None or found.start != start:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
