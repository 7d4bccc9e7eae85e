"""N2, N4 and N5: the arbiter's gates and its audit, and what of their verdicts goes into the state."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

from git_agentos.run import workspace
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.gate import audit, gates
from git_agentos.tdd.gate.pytest_run import Control
from git_agentos.tdd.gate.setup import PytestSetup, prepare
from git_agentos.tdd.gate.uncommitted import Candidate
from git_agentos.tdd.node_run import Begun, Done, Site, Stopped
from git_agentos.tdd.nodes.frame import Update, changed_since, count, do
from git_agentos.tdd.state import N0, N2, N4, N5, PASSED, TIMED_OUT, ImplementationState

_MOST_OUTPUT = 64 << 10  # characters of test output in the state; all of it is in the evidence


def fail_gate(site: Site, state: ImplementationState) -> Update:
    """The tests have to fail, for the right reason. Then they are frozen."""

    def work(begun: Begun) -> Done:
        base = gates.Base(state["base_sha"], state.get("python"))
        verdict = gates.red(
            begun.here,
            _setup(begun),
            state.get("tests", ()),
            base=base,
            candidate=_candidate(begun),
            control=_control(begun),
        )
        done = _judged(begun, verdict)
        record = verdict.record
        if done.holds and record is not None:
            done.update |= {
                "red": list(record.red),
                "frozen": dict(record.frozen),
                "plugins": list(record.plugins),
                "skipped": list(record.skipped or ()),
                "rest": record.rest,
                "red_checkpoint": _checkpoint(begun),
            }
            done.files, done.red = record.frozen, record.red
            done.summary = f"red: {count(len(record.red), 'new test')} failed, as expected"
        return done

    return do(site, state, N2, work, "pytest")


def pass_gate(site: Site, state: ImplementationState) -> Update:
    """The tests that were red have to pass, and no other may fail."""

    def work(begun: Begun) -> Done:
        skipped = state.get("skipped")
        record = gates.RedRecord(
            tuple(state["red"]),
            state["frozen"],
            tuple(state.get("plugins", ())),
            tuple(skipped) if skipped is not None else None,
            state.get("rest"),
        )
        verdict = gates.green(
            begun.here,
            _setup(begun),
            state.get("tests", ()),
            record,
            candidate=_candidate(begun),
            control=_control(begun),
        )
        done = _judged(begun, verdict)
        done.update |= {"green": False, "conflicts": [], "human_decision": None}
        if done.holds:
            # What the tests left behind differs from what they judged by these two (`run.landing`).
            done.update |= {"tested_before": begun.checkpoint, "tested_after": _checkpoint(begun)}
            done.summary = f"green: {count(len(state['red']), 'new test')} passed, and nothing else broke"
        return done

    return do(site, state, N4, work, "pytest")


def _judged(begun: Begun, verdict: gates.Verdict) -> Done:
    tested = verdict.result
    if verdict.interrupted:
        raise Stopped
    if touched := sites.violations(begun):  # the tests run what the model wrote
        told = verdict.feedback + "".join(f"{each}\n" for each in touched)
        verdict = replace(verdict, holds=False, vetoes=(*verdict.vetoes, *touched), feedback=told)
    output = tested.output[-_MOST_OUTPUT:] if tested is not None else ""
    feedback = None
    if not verdict.holds:
        feedback = f"{verdict.feedback}\n\n{output}".strip() if begun.node == N2 else verdict.feedback
    update = {
        "test_output": output,
        "test_exit_code": verdict.exit_code,
        "vetoes": list(verdict.vetoes),
        "collect_error": verdict.collect_error,
        "feedback": feedback,
        "error_message": None,
    }
    return Done(
        update,
        _how(verdict),
        exit_code=verdict.exit_code,
        vetoes=verdict.vetoes,
        output=f"{begun.folder}/stdout" if tested is not None else None,
        holds=verdict.holds,
    )


def _how(verdict: gates.Verdict) -> str:
    """One line on a gate that does not hold."""
    gate = "red" if verdict.gate == "red" else "green"
    code = verdict.exit_code
    if code is None:
        return f"not {gate}: vetoed before the tests were run ({count(len(verdict.vetoes), 'veto', 'vetoes')})"
    how = "the tests took too long" if code == TIMED_OUT else f"exit code {code}"
    if gate == "red" and code == PASSED:
        how = "tests passed prematurely (exit code 0)"
    if verdict.collect_error:
        how += " while collecting"
    more = f", {count(len(verdict.vetoes), 'veto', 'vetoes')}" if verdict.vetoes else ""
    return f"not {gate}: {how}{more}"


def _setup(begun: Begun) -> PytestSetup:
    state = begun.state
    return prepare(
        begun.here,
        begun.site.environment,
        timeout=state["test_timeout"],
        sandbox=state["sandbox"],
        mark=state["mark"],
    )


def _candidate(begun: Begun) -> Candidate:
    """What would be committed, and since when it is being worked on: the first node has made the worktree."""
    ready = next(each for each in begun.state.get("history") or () if each["node"] == N0)
    return Candidate(begun.tree, datetime.fromisoformat(ready["ended_at"]).timestamp())


def _control(begun: Begun) -> Control:
    return Control(os.path.join(begun.path, "stdout"), begun.site.listener.output, begun.site.stop)


def _checkpoint(begun: Begun) -> str:
    """The worktree as it is now, saved."""
    here = workspace.inner(begun.site.context, begun.run)
    said = f"tdd {begun.site.id}: {begun.node} holds"
    return sites.save(here, begun.run, said, node=begun.node, phase="holds").checkpoint.id


def look_over(site: Site, state: ImplementationState) -> Update:
    """Lint, and a look for tampering, in what was changed."""

    def work(begun: Begun) -> Done:
        changed = changed_since(begun.here, state["base_sha"], begun.tree)
        found = audit.audit(begun.here, _setup(begun), state["base_sha"], changed)
        lost = [
            f"{os.fsdecode(each.path)}: it would not be merged, since it is not saved: {each.reason}"
            for each in begun.skipped
        ]
        told = [*map(str, found), *lost]
        tampered = bool(lost) or any(each.kind == "tamper" for each in found)
        feedback = "The audit found, in what you wrote:\n" + "\n".join(told) if told else None
        update: Update = {"findings": told, "green": not tampered, "changed_files": changed, "feedback": feedback}
        said = "nothing found" if not told else f"{count(len(told), 'finding')}"
        return Done(update, said, vetoes=told, holds=not told)

    return do(site, state, N5, work, None)
