"""Judged and enforced: the way of every hook that decides. 0 lets git go on, 3 stops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from git_agentos.guard import tampering
from git_agentos.guard.decision import ALLOW, FORBID, Assessment
from git_agentos.guard.enforcement import enforcer
from git_agentos.guard.enforcement.enforcer import Verdict
from git_agentos.hooks import passed, talk
from git_agentos.hooks.subject import Subject

GO_ON, STOP = 0, 3


def settle(
    subject: Subject, judge: Callable[[Subject], Assessment], *, layer: str, covers: str, targets: Sequence[str] = ()
) -> tuple[int, Verdict]:
    """Judge the command and act on it, and say what there is to say: the exit code and the verdict.

    `targets` are the commits that refs are about to be moved to.

    A command that needed leave and has it is noted as one that has passed altogether; any other that goes on as one
    whose `covers` (`passed.ALL` or `passed.FILES`) need not be asked about again.
    """
    settings = subject.settings
    assessment = judge(subject)
    edited = None
    if subject.location is not None and subject.who.agent is not None:
        edited = tampering.report(subject.location, subject.who.agent, subject.call.environment)
    talk.tell(f"git-agentos: {edited} ({tampering.HINT})" if edited else "")
    if edited and assessment.decision.decision == FORBID:
        # Who edits the guard is not trusted with what is saved only.
        settings = settings._replace(mode="strict")
    found = enforcer.enforce(
        subject.call,
        assessment,
        subject.who,
        enforcer.LayerCall(layer, subject.pid, settings, hook_caller=subject.asking, targets=targets),
    )
    talk.tell(found.message)
    if not found.run:
        return STOP, found
    needed_leave = assessment.decision.decision != ALLOW
    passed.note(subject.common_dir, subject.pid, passed.ALL if needed_leave else covers)
    return GO_ON, found
