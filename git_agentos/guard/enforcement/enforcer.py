"""Acts on an assessment: checkpoint, approval, log. Every layer calls this before a command runs, or is stopped.

    allow               runs; with something to save, after a checkpoint
    approve, forbid     with `agentos.guard.mode = save`, if all that it loses can be saved: a checkpoint, and it runs
    approve             with a grant: a checkpoint, the grant is used up, it runs; else a request, and it stops
    forbid              a checkpoint, and it stops

The checkpoint of a command that runs holds the ignored files that it may lose. That of a stopped command does not: they
are not at risk, and a timeline can be published. What a message says about the worktree was checked before.

An agent's command stops if it would lose what cannot be saved. A person's command always runs, with a warning. A
command that runs by a grant has passed, with everything below it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError, GuardError
from git_agentos.git import gitfile
from git_agentos.git.location import Location, locate
from git_agentos.guard import messages
from git_agentos.guard.approval import approvals
from git_agentos.guard.configuration import confirmation
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, Assessment, Decision, SaveScope
from git_agentos.guard.enforcement import safeguard
from git_agentos.guard.enforcement.safeguard import FSMONITOR, HARNESS, SHIM, LayerCall, Safeguard, SavePlan
from git_agentos.guard.identity import ILL_FORMED, Identity
from git_agentos.process import table
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.guard.approval.approvals import Approval, ApprovalRequest, Store
    from git_agentos.guard.call import Call
    from git_agentos.guard.enforcement.aftermath import Aftermath

_BEFORE_START = (SHIM, HARNESS)  # these layers see a command before it is started
_PAUSE = 0.5  # seconds between two looks at a request that is waited for


class Verdict(NamedTuple):
    """Whether the command runs. `decision` is the assessment's, with the checkpoint that was created; `approval` is the
    id of the grant that let it run or of the pending request; `message` is for stderr, lines without a final newline,
    empty if there is nothing to say."""

    run: bool
    decision: Decision
    approval: str | None
    message: str


def enforce(call: Call, assessment: Assessment, identity: Identity, layer: LayerCall) -> Verdict:
    """Do what `assessment` requires before `call` may run, and decide whether it may."""
    if assessment.decision.decision == ALLOW and assessment.save is None:
        return Verdict(True, assessment.decision, None, "")
    return _Enforcement(call, assessment, identity, layer).verdict()


class _Enforcement:
    """One command that may lose something or needs approval."""

    def __init__(self, call: Call, assessment: Assessment, identity: Identity, layer: LayerCall) -> None:
        self.call = call
        self.assessment = assessment
        self.identity = identity
        self.layer = layer
        self.location = self._locate()
        self.safeguard = Safeguard(call, assessment, identity, self.location, layer)
        self.notes = self.safeguard.notes

    def verdict(self) -> Verdict:
        """The verdict, after everything is done that it requires."""
        if self.identity.agent is None:
            return self._persons()
        passed = None
        if self.location is not None:
            passed = approvals.active_grant(self.location.common_dir, self.layer.pid, self.call.environment)
        if passed is not None:
            return self._already_granted(passed)
        if self.decision.decision == ALLOW:
            return self._allowed()
        if self.layer.settings.mode == "save" and self.assessment.fully_saved and self.safeguard.is_on:
            return self._saved()
        if self.decision.decision == APPROVE:
            return self._with_approval()
        return self._forbidden()

    @property
    def decision(self) -> Decision:
        """The decision, with the checkpoint that was created."""
        saved = self.safeguard.checkpoint
        return self.assessment.decision._replace(checkpoint=saved.id if saved is not None else None)

    # -- the outcomes --------------------------------------------------------------------------------------------------

    def _persons(self) -> Verdict:
        """A person's command is never stopped."""
        if not self._is_saved_first:
            return Verdict(True, self.decision, None, "")
        self.safeguard.create(safeguard.RUNS_ANYWAY)
        lines = self._recovery_lines()
        message = ""
        if self.safeguard.incomplete:
            reason = self.safeguard.incomplete
            message = messages.message(f"warning: '{self._command}' runs, and what it loses is not saved: {reason}")
        elif lines:
            message = messages.message(f"saved what '{self._command}' may lose", lines)
        self._log("saved", run=True)
        if message:
            message = "\n".join([message, *(f"  {note}" for note in self.notes)])
        return self._verdict(True, message=message)

    def _already_granted(self, passed: approvals.ActiveGrant) -> Verdict:
        """A part of a command that was let through. Another command line than the granted one may still be risky."""
        if self._is_saved_first and passed.command_digest != approvals.command_digest(self.call.argv):
            self.safeguard.create(safeguard.RUNS)
            if self.safeguard.incomplete:
                return self._stop(f"a checkpoint cannot hold what it would lose: {self.safeguard.incomplete}")
        return self._verdict(True, approval=passed.id)

    def _allowed(self) -> Verdict:
        if not self.safeguard.is_on:
            return Verdict(True, self.decision, None, "")
        if self.layer.name == HARNESS and self.assessment.save == SaveScope() and not self.decision.operations:
            return self._as_a_precaution()
        relies = self.assessment.relies_on_checkpoint
        if relies and self.layer.hold:
            return self._verdict(True)
        if relies:
            self._log_before("allowed")
        self.safeguard.create(safeguard.RUNS if relies else safeguard.ALLOWED)
        if self.safeguard.checkpoint is None or (relies and self.safeguard.incomplete):
            return self._stop(f"what it may lose cannot be saved: {self.safeguard.incomplete}")
        if not (relies and self._loses_the_log):
            self._log("allowed", run=True)
        left_out = self.assessment.save.left_out if self.assessment.save is not None else ""
        message = messages.message(f"before '{self._command}': {left_out}") if left_out else ""
        return self._verdict(True, message=message)

    def _as_a_precaution(self) -> Verdict:
        """Before a program that may change files. If nothing has changed since the newest checkpoint, what creates
        checkpoints is not imported."""
        from git_agentos.guard.enforcement import unchanged

        digest = unchanged.digest_of(self.location) if self.location is not None else ""
        if self.location is None or unchanged.is_saved(self.location, digest):
            return self._verdict(True)
        self.safeguard.create(safeguard.ALLOWED)
        if self.safeguard.checkpoint is None and self.safeguard.unreadable:
            return self._verdict(True, message=messages.message(f"warning: before '{self._command}'", self.notes))
        if self.safeguard.checkpoint is None:
            return self._stop(f"what it may lose cannot be saved: {self.safeguard.incomplete}")
        context = self.safeguard.context()
        if context is not None:
            unchanged.note(self.location, digest, f"refs/agentos/timelines/{context.worktree_id}")
        return self._verdict(True)

    def _saved(self) -> Verdict:
        if self.layer.hold:
            return self._verdict(True)
        self._log_before("saved")
        self.safeguard.create(safeguard.RUNS)
        if self.safeguard.incomplete:
            return self._stop(f"a checkpoint cannot hold what it would lose: {self.safeguard.incomplete}")
        if not self._loses_the_log:
            self._log("saved", run=True)
        first = f"saved what '{self._command}' may lose, and let it run"
        return self._verdict(True, message=messages.message(first, self._recovery_lines()))

    def _forbidden(self) -> Verdict:
        self.safeguard.create(self._stopped_plan)
        self._log("forbidden", run=False)
        return self._verdict(False, message=self._stopped_message(self.decision.reason, self._rule()))

    def _stop(self, reason: str) -> Verdict:
        self.safeguard.create(self._stopped_plan)
        self._log("stopped", run=False, reason=reason)
        return self._verdict(False, message=self._stopped_message(reason, self._rule()))

    # -- approval ------------------------------------------------------------------------------------------------------

    def _with_approval(self) -> Verdict:
        if self.location is None:
            return self._stop(
                f"{self.decision.reason or 'it needs approval'}; outside of a repository it cannot be approved"
            )
        store = approvals.open_store(
            self.location.common_dir, self.call.environment, expiry=self.layer.settings.approval_expiry
        )
        asked = self._asked(self.location)
        by_harness = self.layer.name == HARNESS
        found = approvals.find_grant(store, asked, by_harness=by_harness)
        if found is not None:
            return self._verdict(True, approval=found.id) if self.layer.hold else self._granted(store, asked, found)
        self.safeguard.create(self._stopped_plan)
        asked = asked._replace(checkpoint=self.decision.checkpoint)
        try:
            found = approvals.file_request(store, asked, by_harness=by_harness, on_new=self._tell)
        except GuardError as error:
            if error.hint:
                self.notes.append(error.hint)
            return self._stop(error.message)
        if self.layer.on_wait is not None and found.state != approvals.DENIED:
            grant = f"git agentos approvals grant {found.id}"
            self.layer.on_wait(messages.message(f"'{self._command}' waits for approval: {grant}"))
            found = _wait(store, found)
            if found.state == approvals.GRANTED:
                return self._granted(store, asked, found)
        return self._refused(found)

    def _granted(self, store: Store, asked: ApprovalRequest, found: Approval) -> Verdict:
        if self._is_saved_first:
            self._log_before("granted", approval=found.id)
            self.safeguard.create(safeguard.RUNS)
            if self.safeguard.incomplete:
                lost = self.safeguard.incomplete
                return self._stop(f"it is granted, but a checkpoint cannot hold what it would lose: {lost}")
        if self.layer.name == HARNESS:
            used = approvals.note_harness_use(store, found)
        else:
            process = table.identify(self.layer.pid)
            used = process is not None and approvals.use(store, found, process)
        if not used:
            return self._refused(approvals.file_request(store, asked, on_new=self._tell))
        if not self._loses_the_log:
            self._log("granted", run=True, approval=found.id)
        return self._verdict(True, approval=found.id)

    def _tell(self, found: Approval) -> None:
        """Tell the user's own command that an approval is wanted."""
        from git_agentos import notification

        assert self.location is not None
        message = f"{found.agent_id} wants approval of '{self._command}': git agentos approvals grant {found.id}"
        details = {"operations": list(found.operations), "argv": found.argv, "reason": found.reason}
        what = notification.Notification(
            notification.APPROVAL, found.id, message, found.worktree_path, found.agent_id, details
        )
        notification.send(self.location, what)

    def _refused(self, found: Approval) -> Verdict:
        if found.state == approvals.DENIED:
            self._log("denied", run=False, approval=found.id)
            note = f": {messages.printable(found.note)}" if found.note else ""
            message = self._stopped_message(self.decision.reason, f"request {found.id} was denied{note}")
            return self._verdict(False, found.id, message)
        self._log("waits for approval", run=False, approval=found.id)
        lines = [
            self._rule(),
            (
                f"request {found.id}: git agentos approvals grant {found.id} "
                "(ask the person or orchestrator that runs you)"
            ),
            "when it is granted, run the same command again",
            _UNKNOWN_HINT if self.call.unknown else "",
            *self._state_lines(),
            self._instead(),
            *self.notes,
        ]
        return self._verdict(False, found.id, messages.approval_message(self.call.argv, self.decision.reason, lines))

    def _asked(self, location: Location) -> ApprovalRequest:
        """The request: what a grant of it is bound to, and what is shown of it."""
        from git_agentos.git import refs
        from git_agentos.guard.approval import inputs
        from git_agentos.guard.policy import git_line
        from git_agentos.guard.policy.commands.stash import OF_ENTRIES

        call = self.call
        head = refs.read_head(location)
        names = tuple(self.decision.operations)
        cwd = os.path.realpath(call.cwd)
        asked = approvals.ApprovalRequest(
            operation=names[0] if names else "unknown",
            operations=names,
            argv=tuple(messages.redacted(call.argv)),
            command_digest=approvals.command_digest(("unknown", call.text or "") if call.unknown else call.argv),
            # git changes to the root before it runs a hook, so the root may not be the folder of the command.
            cwd=cwd if self.layer.name in _BEFORE_START or cwd != location.root else None,
            worktree=location.root,
            head=head.commit,
            branch=head.ref,
            agent=self.identity.agent or ILL_FORMED,
            reason=self.decision.reason or "",
            instead=self.decision.instead or "",
        )
        options = git_line.parse(call.argv, call.environment).location_options if call.argv else ()
        # The shim was given a PATH without its own folder; the git that it becomes is started with the whole of it.
        pid = self.layer.pid
        started = table.environment(pid) if self.layer.name == SHIM and pid != table.own_pid() else None
        asked = inputs.with_inputs(asked, call, location, options, started.get("PATH") if started else None)
        save = self.assessment.save
        of_entries = save is not None and not OF_ENTRIES.isdisjoint(names)
        return inputs.with_stash_entries(asked, save.commits if save is not None and of_entries else ())

    # -- the state -----------------------------------------------------------------------------------------------------

    def _locate(self) -> Location | None:
        for path in dict.fromkeys((self.assessment.root, self.call.cwd)):
            if path is not None:
                known = self.layer.location
                if known is not None and gitfile.find(path) == (path, known.git_dir) and path == known.root:
                    return known
                try:
                    return locate(path, use_environment=False)
                except AgentosError:
                    continue
        return None

    @property
    def _is_saved_first(self) -> bool:
        return self.assessment.save is not None and self.safeguard.is_on

    @property
    def _can_be_stopped(self) -> bool:
        """Whether the layer can stop the command: `core.fsmonitor` does so by ending the git process that called it."""
        layer = self.layer
        return layer.name != FSMONITOR or layer.hook_caller is None or table.can_be_ended(layer.hook_caller)

    @property
    def _stopped_plan(self) -> SavePlan:
        return safeguard.STOPPED if self._can_be_stopped else safeguard.RUNS_ANYWAY

    def _aftermath(self) -> Aftermath | None:
        """What the command has changed already; None if that cannot be known."""
        from git_agentos.guard.enforcement import aftermath

        layer = self.layer
        if layer.name in _BEFORE_START or (layer.name == FSMONITOR and layer.hook_caller == layer.pid):
            return aftermath.Aftermath()  # git asks core.fsmonitor before it writes anything
        context = self.safeguard.context()
        if context is None:
            return None
        if aftermath.may_write_files(self.call.argv) and self.safeguard.checkpoint is None:
            if not self.safeguard.is_on:
                return None
            self.safeguard.create_of(SaveScope(), safeguard.STOPPED)
        return aftermath.find_changes(context, layer.pid, self.call.argv, self.safeguard.checkpoint, layer.targets)

    # -- messages ------------------------------------------------------------------------------------------------------

    @property
    def _command(self) -> str:
        return messages.command_line(self.call.argv)

    def _stopped_message(self, reason: str | None, first: str) -> str:
        lines = [first, *self._state_lines(), self._instead(), *self.notes]
        if self._can_be_stopped:
            return messages.stopped_message(self.call.argv, reason, lines)
        return messages.message(
            f"'{self._command}' cannot be stopped: {messages.printable(reason or 'it may lose work')}", lines
        )

    def _rule(self) -> str:
        if self.identity.agent == ILL_FORMED:
            return "AGENTOS_AGENT_ID is not a valid agent id; the command is treated as an agent's"
        rule = self.decision.rule
        return f"rule: {rule}" if rule is not None else ""

    def _instead(self) -> str:
        return f"instead: {messages.printable(self.decision.instead)}" if self.decision.instead else ""

    def _state_lines(self) -> list[str]:
        """The state of the worktree after the command was stopped, or went on though it should not have."""
        if not self._can_be_stopped:
            first = "its process cannot be ended (process 1, or another user's), so it goes on"
            return [first, *self._recovery_lines()]
        try:
            found = self._aftermath()
        except (AgentosError, OSError):
            found = None
        return messages.state_lines(self.decision.checkpoint, None if found is None else found.lines())

    def _recovery_lines(self) -> list[str]:
        saved = self.safeguard.checkpoint
        if saved is None:
            return []
        commits = self.assessment.save.commits if self.assessment.save is not None else ()
        return messages.recovery_lines(saved.id, self.decision.operations, commits)

    def _verdict(self, run: bool, approval: str | None = None, message: str = "") -> Verdict:
        notice = confirmation.notice(self.layer.settings.pending) if self.identity.agent is not None else ""
        if notice:
            notice = messages.printable(notice)
            message = f"{message}\n  {notice}" if message else messages.message(notice)
        return Verdict(run, self.decision, approval, message)

    # -- the log -------------------------------------------------------------------------------------------------------

    @property
    def _loses_the_log(self) -> bool:
        """Whether the command may delete the log along with all ignored files: then the checkpoint must carry the
        entry, which is written first."""
        save = self.assessment.save
        return save is not None and save.everything_ignored and self.safeguard.is_on

    def _log_before(self, outcome: str, *, approval: str | None = None) -> None:
        if self._loses_the_log:
            self._log(outcome, run=True, approval=approval)

    def _log(self, outcome: str, *, run: bool, approval: str | None = None, reason: str | None = None) -> None:
        """Write to the agent's log, and to a person's if there is one. Errors stop nothing."""
        details: dict[str, object] = {
            "decision": self.decision.decision, "operations": list(self.decision.operations),
            "rule": self.decision.rule, "reason": reason or self.decision.reason,
            "argv": messages.redacted(self.call.argv), "layer": self.layer.name, "identity": self.identity.source,
            "run": run, "approval": approval,
        }  # fmt: skip
        try:
            with self.safeguard.collect_warnings():
                self._write_entry(outcome, details)
        except (AgentosError, OSError) as error:
            self.notes.append(f"warning: this was not written to the log: {messages.printable(str(error))}")

    def _write_entry(self, outcome: str, details: dict[str, object]) -> None:
        context = self.safeguard.context()
        if context is None:
            return
        from git_agentos import log

        if self.identity.agent is None and not context.has_database:
            return
        names = ", ".join(self.decision.operations) or self.decision.decision
        summary = f"guard: {outcome}: {names}: {self._command}"
        log.try_add(context, "decision", summary, details=details, checkpoint_id=self.decision.checkpoint)


_UNKNOWN_HINT = (
    "what it runs is known only at run time, so a grant is for this whole text alone; better rewrite it:"
    " correct its syntax, and write out what variables and substitutions stand for"
)


def _wait(store: Store, found: Approval) -> Approval:
    while found.state == approvals.PENDING:
        time.sleep(_PAUSE)
        found = approvals.find(store, found.id)
    return found


__all__ = ["APPROVE", "FORBID", "HARNESS", "LayerCall", "Verdict", "enforce"]
