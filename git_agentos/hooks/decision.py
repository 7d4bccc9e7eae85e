"""Deciding about a git command: assess it, enforce the policy, and record what was allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from git_agentos.guard import tampering
from git_agentos.guard.decision import ALLOW, FORBID, Assessment
from git_agentos.guard.enforcement import enforcer
from git_agentos.guard.enforcement.enforcer import Verdict
from git_agentos.hooks import CONTINUE, STOP, allowed, output
from git_agentos.hooks.git_command import GitCommand


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
    that may run is recorded as allowed for `allows` (`allowed.ALL` or `allowed.FILES`).
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
        enforcer.LayerCall(layer, command.pid, settings, hook_caller=command.caller_pid, targets=targets),
    )
    output.to_stderr(verdict.message)
    if not verdict.run:
        return STOP, verdict
    needed_approval = assessment.decision.decision != ALLOW
    allowed.record(command.common_dir, command.pid, allowed.ALL if needed_approval else allows)
    return CONTINUE, verdict
