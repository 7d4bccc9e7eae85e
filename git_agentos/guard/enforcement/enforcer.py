"""Acting on a judgement: checkpoint, approval, log. What every layer calls before a command runs, or does not.

    allow               runs; with something to save, after a checkpoint
    approve, forbid     `agentos.guard.mode = save`, and all that it loses can be saved: a checkpoint, and it runs
    approve             a grant for it: a checkpoint, the grant is used up, it runs; else a request, and it stops
    forbid              a checkpoint, and it stops

The checkpoint of a command that runs holds the ignored files that it may lose. That of one that is stopped does not:
they are not at risk, and a timeline can be published. What a message says of the worktree was looked at before.

What an agent would lose and cannot be saved stops its command; a person's command always runs, with a warning. One
that runs by a grant has passed, with everything below it.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from git_agentos.errors import AgentosError, GuardError, IncompleteCaptureError
from git_agentos.git.location import Location, locate
from git_agentos.guard import messages
from git_agentos.guard.approval import approvals, weaker_settings
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, Assessment, Decision, SaveScope
from git_agentos.guard.identity import ILL_FORMED, Identity
from git_agentos.process import table

if TYPE_CHECKING:
    from git_agentos.checkpoint.model import Checkpoint, Skipped
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.guard.approval.approvals import Approval, ApprovalRequest, Store
    from git_agentos.guard.call import Call
    from git_agentos.guard.configuration.settings import GuardSettings
    from git_agentos.guard.enforcement.aftermath import Aftermath

HARNESS = "harness"
LAYERS = ("fsmonitor", "hook", "shim", HARNESS)
_GIVEN_HERE = ("shim", HARNESS)  # these see a command where it was given
_PAUSE = 0.5  # seconds between two looks at a request that is waited for


class SavePlan(NamedTuple):
    """What the checkpoint before a command is to hold: `ignored` files that it may lose, files however large they are
    (`whole`); `complete` asks for none rather than for one that does not hold everything."""

    ignored: bool
    whole: bool
    complete: bool


_RUNS = SavePlan(ignored=True, whole=True, complete=True)
_RUNS_ANYWAY = SavePlan(ignored=True, whole=True, complete=False)
_ALLOWED = SavePlan(ignored=True, whole=False, complete=False)
_STOPPED = SavePlan(ignored=False, whole=False, complete=False)


class Verdict(NamedTuple):
    """Whether the command runs. `decision` is the judgement's, with the checkpoint that was taken; `approval` the id of
    the grant that let it run or of the request that waits; `message` what to tell on stderr, lines without a final
    newline, empty where there is nothing to tell."""

    run: bool
    decision: Decision
    approval: str | None
    message: str


def enforce(
    call: Call,
    assessment: Assessment,
    identity: Identity,
    *,
    layer: str,
    pid: int,
    settings: GuardSettings,
    wait: bool = False,
    tell: Callable[[str], None] | None = None,
    hold: bool = False,
    asking: int | None = None,
    targets: Sequence[str] = (),
) -> Verdict:
    """Do what `judgement` takes before `call` may run, and say whether it may.

    `layer` is one of `LAYERS`; `pid` the process that the command is, or will be (the shim becomes git). With `wait`,
    an operation that needs approval waits for it, and `tell` is told so. With `hold`, a grant for it is found and not
    used, and nothing is saved yet: for a command that runs together with others or not at all. In a git hook, `asking`
    is the git process that called it, and `targets` are the commits that refs are about to be moved to.
    """
    if assessment.decision.decision == ALLOW and assessment.save is None:
        return Verdict(True, assessment.decision, None, "")
    case = _Case(call, assessment, identity, layer, pid, settings, tell if wait else None)
    case.hold = hold
    case.asking = asking
    case.targets = targets
    return case.verdict()


class _Case:
    """One command that may lose something or needs leave."""

    def __init__(
        self,
        call: Call,
        assessment: Assessment,
        identity: Identity,
        layer: str,
        pid: int,
        settings: GuardSettings,
        waiting: Callable[[str], None] | None,
    ) -> None:
        self.call = call
        self.assessment = assessment
        self.decision = assessment.decision
        self.identity = identity
        self.layer = layer
        self.pid = pid
        self.settings = settings
        self.waiting = waiting
        self.hold = False
        self.asking: int | None = None
        self.targets: Sequence[str] = ()
        self.location = self._locate()
        self.context: OpenWorktree | None = None
        self.present: Checkpoint | None = None  # the checkpoint that was taken
        self.incomplete = ""  # why a checkpoint does not hold everything, or could not be taken
        self.unreadable = False  # that is because something in the worktree cannot be read
        self.notes: list[str] = []

    def verdict(self) -> Verdict:
        if self.identity.agent is None:
            return self._of_person()
        passed = None
        if self.location is not None:
            passed = approvals.active_grant(self.location.common_dir, self.pid, self.call.environment)
        if passed is not None:
            return self._passed(passed)
        if self.decision.decision == ALLOW:
            return self._allowed()
        if self.settings.mode == "save" and self.assessment.fully_saved and self._saves():
            return self._saved()
        if self.decision.decision == APPROVE:
            return self._with_approval()
        return self._forbidden()

    # -- the ways it can go --------------------------------------------------------------------------------------------

    def _of_person(self) -> Verdict:
        """Nothing of a person's is ever stopped."""
        if self.assessment.save is None or not self._saves():
            return Verdict(True, self.decision, None, "")
        self._save(_RUNS_ANYWAY)
        lines = self._way_back()
        if self.incomplete:
            said = messages.message(
                f"warning: '{self._command}' runs, and what it loses is not saved: {self.incomplete}"
            )
        else:
            said = messages.message(f"saved what '{self._command}' may lose", lines) if lines else ""
        self._log("saved", run=True)
        return self._verdict(True, message=self._with_notes(said))

    def _passed(self, passed: approvals.ActiveGrant) -> Verdict:
        """A part of a command that was let through. What is another command line than that may still be risky."""
        if (
            self.assessment.save is not None
            and self._saves()
            and passed.command_digest != approvals.command_digest(self.call.argv)
        ):
            self._save(_RUNS)
            if self.incomplete:
                return self._stop(f"it would lose what cannot be saved: {self.incomplete}")
        return self._verdict(True, approval=passed.id)

    def _allowed(self) -> Verdict:
        if not self._saves():
            return Verdict(True, self.decision, None, "")
        if self.layer == HARNESS and self.assessment.save == SaveScope() and not self.decision.operations:
            return self._as_a_precaution()
        relies = self.assessment.relies_on_checkpoint
        if relies and self.hold:
            return self._verdict(True)
        if relies:
            self._log_before("allowed")
        self._save(_RUNS if relies else _ALLOWED)
        if self.decision.checkpoint is None or (relies and self.incomplete):
            return self._stop(f"what it may lose cannot be saved: {self.incomplete}")
        if not (relies and self._takes_the_log):
            self._log("allowed", run=True)
        left_out = self.assessment.save.left_out if self.assessment.save is not None else ""
        said = messages.message(f"before '{self._command}': {left_out}") if left_out else ""
        return self._verdict(True, message=said)

    def _as_a_precaution(self) -> Verdict:
        """Before a program that may change files: where nothing has changed since the newest checkpoint, that is found
        out without loading what makes one."""
        from git_agentos.guard.enforcement import unchanged

        seen = unchanged.digest_of(self.location) if self.location is not None else ""
        if self.location is None or unchanged.is_saved(self.location, seen):
            return self._verdict(True)
        self._save(_ALLOWED)
        if self.decision.checkpoint is None and self.unreadable:
            return self._verdict(True, message=messages.message(f"warning: before '{self._command}'", self.notes))
        if self.decision.checkpoint is None:
            return self._stop(f"what it may lose cannot be saved: {self.incomplete}")
        context = self._open()
        if context is not None:
            unchanged.note(self.location, seen, f"refs/agentos/timelines/{context.worktree_id}")
        return self._verdict(True)

    def _saved(self) -> Verdict:
        if self.hold:
            return self._verdict(True)
        self._log_before("saved")
        self._save(_RUNS)
        if self.incomplete:
            return self._stop(f"it would lose what cannot be saved: {self.incomplete}")
        if not self._takes_the_log:
            self._log("saved", run=True)
        said = messages.message(f"saved what '{self._command}' may lose, and let it run", self._way_back())
        return self._verdict(True, message=said)

    def _forbidden(self) -> Verdict:
        self._save(self._stopped_save)
        self._log("forbidden", run=False)
        lines = [self._rule(), *self._present_state(), self._instead(), *self.notes]
        return self._verdict(False, message=self._stopped(self.decision.reason, lines))

    def _stop(self, reason: str) -> Verdict:
        self._save(self._stopped_save)
        self._log("stopped", run=False, because=reason)
        lines = [self._rule(), *self._present_state(), self._instead(), *self.notes]
        return self._verdict(False, message=self._stopped(reason, lines))

    def _stopped(self, reason: str | None, lines: Sequence[str]) -> str:
        if self._can_be_stopped:
            return messages.stopped_message(self.call.argv, reason, lines)
        return messages.message(
            f"'{self._command}' cannot be stopped: {messages.printable(reason or 'it may lose work')}", lines
        )

    # -- approval ------------------------------------------------------------------------------------------------------

    def _with_approval(self) -> Verdict:
        if self.location is None:
            return self._stop(
                f"{self.decision.reason or 'it needs approval'}, and outside of a repository nobody can be asked"
            )
        store = self._store(self.location)
        asked = self._asked(self.location)
        found = approvals.find_grant(store, asked, by_harness=self.layer == HARNESS)
        if found is not None:
            return self._verdict(True, approval=found.id) if self.hold else self._granted(store, asked, found)
        self._save(self._stopped_save)
        asked = asked._replace(checkpoint=self.decision.checkpoint)
        try:
            found = approvals.file_request(store, asked, by_harness=self.layer == HARNESS)
        except GuardError as error:
            if error.hint:
                self.notes.append(error.hint)
            return self._stop(error.message)
        if self.waiting is not None and found.state != approvals.DENIED:
            self.waiting(
                messages.message(f"'{self._command}' waits for approval: git agentos approvals grant {found.id}")
            )
            found = self._wait(store, found)
            if found.state == approvals.GRANTED:
                return self._granted(store, asked, found)
        return self._refused(found)

    def _granted(self, store: Store, asked: ApprovalRequest, found: Approval) -> Verdict:
        if self.assessment.save is not None and self._saves():
            self._log_before("granted", approval=found.id)
            self._save(_RUNS)
            if self.incomplete:
                return self._stop(f"it is granted, and would lose what cannot be saved: {self.incomplete}")
        if self.layer == HARNESS:
            used = approvals.note_harness_use(store, found)
        else:
            process = table.identify(self.pid)
            used = process is not None and approvals.use(store, found, process)
        if not used:
            return self._refused(approvals.file_request(store, asked))
        if not self._takes_the_log:
            self._log("granted", run=True, approval=found.id)
        return self._verdict(True, approval=found.id)

    def _wait(self, store: Store, found: Approval) -> Approval:
        while found.state == approvals.PENDING:
            time.sleep(_PAUSE)
            found = approvals.find(store, found.id)
        return found

    def _refused(self, found: Approval) -> Verdict:
        if found.state == approvals.DENIED:
            self._log("denied", run=False, approval=found.id)
            note = f": {messages.printable(found.note)}" if found.note else ""
            lines = [f"request {found.id} was denied{note}", *self._present_state(), self._instead(), *self.notes]
            return self._verdict(False, found.id, self._stopped(self.decision.reason, lines))
        self._log("waits for approval", run=False, approval=found.id)
        lines = [
            self._rule(),
            f"request {found.id}: git agentos approvals grant {found.id} (not by you: by whoever runs you)",
            "when it is granted, run the same command again",
            self._not_known(),
            *self._present_state(),
            self._instead(),
            *self.notes,
        ]
        return self._verdict(False, found.id, messages.approval_message(self.call.argv, self.decision.reason, lines))

    def _store(self, location: Location) -> Store:
        return approvals.open_store(location.common_dir, self.call.environment, expiry=self.settings.approval_expiry)

    def _asked(self, location: Location) -> ApprovalRequest:
        from git_agentos.git import refs
        from git_agentos.guard.approval import inputs
        from git_agentos.guard.policy import git_line
        from git_agentos.guard.policy.commands.stash import OF_ENTRIES

        call = self.call
        head = refs.read_head(location)
        names = tuple(self.decision.operations)
        asked = approvals.ApprovalRequest(
            operation=names[0] if names else "unknown",
            operations=names,
            argv=tuple(messages.redacted(call.argv)),
            command_digest=approvals.command_digest(("unknown", call.text or "") if call.unknown else call.argv),
            cwd=self._folder(location),
            worktree=location.root,
            head=head.commit,
            branch=head.ref,
            agent=self.identity.agent or ILL_FORMED,
            reason=self.decision.reason or "",
            instead=self.decision.instead or "",
        )
        where = git_line.parse(call.argv, call.environment).location_options if call.argv else ()
        # The shim was given a PATH without its own folder; the git that it becomes is started with the whole of it.
        started = table.environment(self.pid) if self.layer == "shim" and self.pid != os.getpid() else None
        asked = inputs.with_inputs(asked, call, location, where, started.get("PATH") if started else None)
        save = self.assessment.save
        of_entries = save is not None and not OF_ENTRIES.isdisjoint(names)
        return inputs.with_stash_entries(asked, save.commits if save is not None and of_entries else ())

    def _folder(self, location: Location) -> str | None:
        """Where the command was given. git goes to the root before it runs a hook: that one may be none."""
        found = os.path.realpath(self.call.cwd)
        return found if self.layer in _GIVEN_HERE or found != location.root else None

    def _not_known(self) -> str:
        if not self.call.unknown:
            return ""
        return (
            "what it runs cannot be known before it runs, so a grant is for this whole text alone; better rewrite it:"
            " correct its syntax, and write out what variables and substitutions stand for"
        )

    # -- saving and telling --------------------------------------------------------------------------------------------

    def _locate(self) -> Location | None:
        for path in dict.fromkeys((self.assessment.root, self.call.cwd)):
            if path is not None:
                try:
                    return locate(path, use_environment=False)
                except AgentosError:
                    continue
        return None

    def _saves(self) -> bool:
        return self.settings.auto_on("beforeRisky", person=self.identity.agent is None)

    def _open(self) -> OpenWorktree | None:
        """The worktree, opened when it is needed: pygit2 is not loaded before."""
        if self.context is None and self.location is not None:
            from git_agentos.guard.enforcement import saving

            self.context = saving.context_at(self.location, self.identity.agent, self.call.environment)
        return self.context

    @property
    def _can_be_stopped(self) -> bool:
        """Whether the layer can stop the command at all: `core.fsmonitor` does so by ending the git that called it."""
        return self.layer != "fsmonitor" or self.asking is None or table.can_be_ended(self.asking)

    @property
    def _stopped_save(self) -> SavePlan:
        return _STOPPED if self._can_be_stopped else _RUNS_ANYWAY

    def _save(self, plan: SavePlan) -> None:
        """Take the checkpoint that the judgement asks for, and note in `incomplete` what it does not hold."""
        wanted = self.assessment.save
        if wanted is None or not self._saves() or (plan is _STOPPED and self.decision.checkpoint is not None):
            return
        try:
            self._take(wanted, plan)
        except (AgentosError, OSError) as error:
            self.incomplete = str(error)
            self.unreadable = isinstance(error, IncompleteCaptureError)
            self.notes.append(f"no checkpoint could be taken: {messages.printable(str(error))}")

    def _take(self, wanted: SaveScope, plan: SavePlan) -> None:
        context = self._open()
        if context is None:
            self.incomplete = "the worktree that it works in is not known"
            return
        from git_agentos.checkpoint.model import SkipReason
        from git_agentos.guard.enforcement import saving

        cleans = any(name.startswith("clean") for name in self.decision.operations)

        def is_needed(item: Skipped) -> bool:
            return (cleans or item.kind is not SkipReason.OTHER_WORKTREE) and wanted.may_touch(os.fsencode(item.path))

        meta = {"command": messages.command_line(self.call.argv, most=2000), "layer": self.layer}
        with self._listening():
            saved = saving.save(
                context,
                wanted if plan.ignored else SaveScope(commits=wanted.commits),
                description=f"before {self._command}",
                meta=meta,
                whole=plan.whole,
                needed=is_needed if plan.complete else None,
            )
        if saved.checkpoint is not None:
            self.decision = replace(self.decision, checkpoint=saved.checkpoint.id)
            self.present = saved.checkpoint
        missing = [item for item in saved.skipped if is_needed(item)]
        if missing and plan is not _STOPPED:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            self.incomplete = messages.printable(f"'{missing[0].path}'{more} ({missing[0].reason})")

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """What the domain warns of becomes a part of what is told."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        self.notes += [f"warning: {messages.printable(str(each.message))}" for each in heard]

    @property
    def _command(self) -> str:
        return messages.command_line(self.call.argv)

    def _rule(self) -> str:
        if self.identity.agent == ILL_FORMED:
            return "AGENTOS_AGENT_ID is no agent id: whoever sets it counts as an agent"
        rule = self.decision.rule
        return f"rule: {rule}" if rule is not None else ""

    def _instead(self) -> str:
        return f"instead: {messages.printable(self.decision.instead)}" if self.decision.instead else ""

    def _present_state(self) -> list[str]:
        """What there is to say of the worktree where the command is stopped, or goes on though it should not."""
        if not self._can_be_stopped:
            return ["its process cannot be ended (process 1, or another user's), so it goes on", *self._way_back()]
        try:
            found = self._aftermath()
        except (AgentosError, OSError):
            found = None
        saved = self.decision.checkpoint
        return messages.state_lines(saved, None if found is None else found.lines())

    def _aftermath(self) -> Aftermath | None:
        """What the command has changed already; None where that cannot be known."""
        from git_agentos.guard.enforcement import aftermath

        if self.layer in _GIVEN_HERE or (self.layer == "fsmonitor" and self.asking == self.pid):
            return aftermath.Aftermath()  # it was not started; git asks core.fsmonitor before it writes anything
        context = self._open()
        if context is None:
            return None
        if aftermath.may_write_files(self.call.argv) and self.present is None:
            if not self._saves():
                return None
            self._take(SaveScope(), _STOPPED)
        return aftermath.find_changes(context, self.pid, self.call.argv, self.present, self.targets)

    def _way_back(self) -> list[str]:
        saved = self.decision.checkpoint
        if saved is None:
            return []
        commits = self.assessment.save.commits if self.assessment.save is not None else ()
        return messages.recovery_lines(saved, self.decision.operations, commits)

    def _with_notes(self, said: str) -> str:
        return "\n".join([said, *(f"  {note}" for note in self.notes)]) if said and self.notes else said

    @property
    def _takes_the_log(self) -> bool:
        """Whether the command may delete the log along with all that is ignored: then the checkpoint has to carry the
        entry, which is written first."""
        save = self.assessment.save
        return save is not None and save.everything_ignored and self._saves()

    def _log_before(self, outcome: str, *, approval: str | None = None) -> None:
        if self._takes_the_log:
            self._log(outcome, run=True, approval=approval)

    def _log(self, outcome: str, *, run: bool, approval: str | None = None, because: str | None = None) -> None:
        """Tell the agent's log. A person's has an entry where there is a log; what goes wrong stops nothing."""
        try:
            with self._listening():
                self._write(outcome, run, approval, because)
        except (AgentosError, OSError) as error:
            self.notes.append(f"warning: this was not written to the log: {messages.printable(str(error))}")

    def _write(self, outcome: str, run: bool, approval: str | None, because: str | None) -> None:
        context = self._open()
        if context is None:
            return
        from git_agentos import log

        if self.identity.agent is None and not log.is_open(context):
            return
        decision = self.decision
        details = {
            "decision": decision.decision, "operations": list(decision.operations), "rule": decision.rule,
            "reason": because or decision.reason, "argv": messages.redacted(self.call.argv), "layer": self.layer,
            "identity": self.identity.source, "run": run, "approval": approval,
        }  # fmt: skip
        names = ", ".join(decision.operations) or decision.decision
        summary = f"guard: {outcome}: {names}: {self._command}"
        log.try_add(context, "decision", summary, details=details, checkpoint_id=decision.checkpoint)

    def _verdict(self, run: bool, approval: str | None = None, message: str = "") -> Verdict:
        return Verdict(run, self.decision, approval, self._with_unconfirmed(message))

    def _with_unconfirmed(self, message: str) -> str:
        """What is told, and which settings do not count that make the guard weaker."""
        notice = weaker_settings.notice(self.settings.pending) if self.identity.agent is not None else ""
        if not notice:
            return message
        return f"{message}\n  {messages.printable(notice)}" if message else messages.message(messages.printable(notice))


__all__ = ["APPROVE", "FORBID", "HARNESS", "LAYERS", "Verdict", "enforce"]
