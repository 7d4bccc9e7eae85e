"""`reference-transaction`: before refs change. What loses commits is judged, and merges before they touch a file."""

from __future__ import annotations

import os
import sys

from git_agentos.guard.assessment import assessor
from git_agentos.guard.assessment.hook_events import RefUpdate
from git_agentos.guard.decision import Assessment
from git_agentos.guard.setup import scripts
from git_agentos.hooks import passed, record, subject, talk, verdict
from git_agentos.hooks.called import Called
from git_agentos.hooks.subject import Subject
from git_agentos.util import git_command_line


def reference_transaction(called: Called) -> int:
    """Decide about the updates on stdin, `<old> <new> <ref>` each, which git is prepared to make."""
    asked = subject.of(called.pid)
    updates = _updates(sys.stdin.buffer.read())
    if len(updates) == 1 and updates[0].name.startswith(scripts.PROBE_REF):
        assessor.assess_ref_updates(updates, asked.call, asked.who, asked.settings)
        talk.tell(scripts.PROBE_REFUSED)
        return verdict.STOP
    merges = is_merge(asked.call.argv) and any(update.name == "ORIG_HEAD" for update in updates)

    def judged(asked: Subject) -> Assessment:
        found = assessor.assess_ref_updates(updates, asked.call, asked.who, asked.settings)
        # The state before the command was saved then; what a rebase is in the middle of is not what to go back to.
        was_saved = found.relies_on_checkpoint and passed.is_noted(asked.common_dir, asked.pid)
        return found._replace(save=None) if was_saved else found

    # A merge moves its own branch and no other afterwards.
    covers = passed.ALL if merges else passed.FILES
    targets = [update.new for update in updates if not update.new.startswith("ref:")]
    code, found = verdict.settle(asked, judged, layer="hook", covers=covers, targets=targets)
    if code == verdict.GO_ON and merges and found.decision.checkpoint is None:
        record.before_merge(asked)
    return code


def is_merge(argv: tuple[str, ...]) -> bool:
    """Whether a git command line is one that merges."""
    return git_command_line.parse(argv).command in ("merge", "pull")


def _updates(data: bytes) -> list[RefUpdate]:
    found = []
    for line in data.split(b"\n"):
        old, _, rest = os.fsdecode(line).partition(" ")
        new, _, name = rest.partition(" ")
        if name:
            found.append(RefUpdate(name, old, new))
    return found
