"""The hooks that git runs before it does something, and that can stop it.

fsmonitor                            core.fsmonitor: git calls it before it changes any file
reference-transaction                before refs change
pre-commit, pre-merge-commit,
pre-rebase, pre-push                 before a commit, a merge commit, a rebase, a push
unlock                               after the core.fsmonitor script has killed a git
"""

from __future__ import annotations

import contextlib
import os
import sys

from git_agentos.git import stale_locks
from git_agentos.guard.assessment import assessor
from git_agentos.guard.assessment.hook_events import RefUpdate
from git_agentos.guard.decision import Assessment
from git_agentos.guard.setup import scripts
from git_agentos.hooks import CONTINUE, STOP, HookCall, decision, git_command, output, pending, recorders
from git_agentos.hooks.git_command import GitCommand
from git_agentos.process import table
from git_agentos.util import git_command_line


def fsmonitor(hook: HookCall) -> int:
    """Decide about a git command before it changes a file.

    Pending checkpoints of earlier commands are recorded first, since they must contain the files as they are now.
    """
    command = git_command.read(hook.pid)
    if command.location is not None:
        pending.record(command.location)
    code, _ = decision.decide(command, _assess_command, layer="fsmonitor", allows=decision.FILES)
    return code


def unlock(hook: HookCall) -> int:
    """Remove the index.lock of a git that was killed, if no living process can be its owner."""
    location = git_command.locate_worktree()
    if location is None or table.identify(hook.pid) is not None:
        return CONTINUE
    lock = stale_locks.Candidate(os.path.join(location.git_dir, "index.lock"), stale_locks.everywhere(location))
    with contextlib.suppress(OSError):
        stale_locks.remove(location, [lock])
    return CONTINUE


def pre_commit(hook: HookCall) -> int:
    """Decide about a commit, by the branch and by the index that is committed; then record the state before it."""
    command = git_command.read(hook.pid)

    def assess(command: GitCommand) -> Assessment:
        return assessor.assess_commit(command.with_index(), command.who, command.settings)

    code, _ = decision.decide(command, assess, layer="hook", allows=decision.FILES)
    if code == CONTINUE:
        recorders.before_commit(command)
    return code


def pre_rebase(hook: HookCall) -> int:
    """Decide about a rebase before it begins."""
    return _decide_whole(hook.pid)


def pre_merge_commit(hook: HookCall) -> int:
    """Decide about a merge before it is committed; the worktree is merged already."""
    return _decide_whole(hook.pid)


def _decide_whole(pid: int) -> int:
    code, _ = decision.decide(git_command.read(pid), _assess_command, layer="hook", allows=decision.FILES)
    return code


def _assess_command(command: GitCommand) -> Assessment:
    return assessor.assess_git(command.call, command.who, command.settings)


def pre_push(hook: HookCall) -> int:
    """Decide about a push: `args` are the remote's name and URL, stdin has `<local ref> <oid> <remote ref> <oid>` for
    each pushed ref; options are on the command line."""
    name, url = (*hook.args, "", "")[:2]
    lines = [os.fsdecode(line) for line in sys.stdin.buffer.read().split(b"\n") if line]

    def assess(command: GitCommand) -> Assessment:
        return assessor.assess_push(lines, name or url, command.call, command.who, command.settings)

    code, _ = decision.decide(git_command.read(hook.pid), assess, layer="hook", allows=decision.FILES)
    return code


def reference_transaction(hook: HookCall) -> int:
    """Decide about prepared ref updates (lines `<old> <new> <ref>` on stdin): those that lose commits, and merges
    before they change a file."""
    command = git_command.read(hook.pid)
    updates = _updates(sys.stdin.buffer.read())
    if len(updates) == 1 and updates[0].name.startswith(scripts.PROBE_REF):
        assessor.assess_ref_updates(updates, command.call, command.who, command.settings)
        output.to_stderr(scripts.PROBE_REFUSED)
        return STOP
    merges = is_merge(command.call.argv) and any(update.name == "ORIG_HEAD" for update in updates)

    def assess(command: GitCommand) -> Assessment:
        found = assessor.assess_ref_updates(updates, command.call, command.who, command.settings)
        # The state before the command was saved then; do not save the middle of a rebase.
        was_saved = found.relies_on_checkpoint and decision.was_allowed(command.common_dir, command.pid)
        return found._replace(save=None) if was_saved else found

    # Afterwards, a merge moves only its own branch.
    allows = decision.ALL if merges else decision.FILES
    targets = [update.new for update in updates if not update.new.startswith("ref:")]
    code, verdict = decision.decide(command, assess, layer="hook", allows=allows, targets=targets)
    if code == CONTINUE and merges and verdict.decision.checkpoint is None:
        recorders.before_merge(command)
    return code


def is_merge(argv: tuple[str, ...]) -> bool:
    """Whether a git command line merges."""
    return git_command_line.parse(argv).command in ("merge", "pull")


def _updates(data: bytes) -> list[RefUpdate]:
    found = []
    for line in data.split(b"\n"):
        old, _, rest = os.fsdecode(line).partition(" ")
        new, _, name = rest.partition(" ")
        if name:
            found.append(RefUpdate(name, old, new))
    return found
