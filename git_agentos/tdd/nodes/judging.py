"""N2, N4 and N5: the arbiter's gates and its audit, and what of their verdicts goes into the state."""

from __future__ import annotations

import os
from dataclasses import replace

from git_agentos.run.snapshot import run_context
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.gate import audit, gates, setup, uncommitted
from git_agentos.tdd.node_run import Begun, Done, Site, Stopped
from git_agentos.tdd.nodes.frame import Update, changed_since, count, do
from git_agentos.tdd.state import N0, N2, N4, N5, PASSED, TIMED_OUT, ImplementationState
from git_agentos.util import times

_MOST_OUTPUT = 64 << 10  # characters of test output in the state; all of it is in the evidence


def fail_gate(site: Site, state: ImplementationState) -> Update:
    """The tests have to fail, for the right reason. What they are is frozen then."""

    def work(begun: Begun) -> Done:
        verdict = gates.red(
            _ground(begun),
            state["base_sha"],
            state.get("tests", ()),
            python=state.get("python"),
            work=_work(begun),
            output=os.path.join(begun.path, "stdout"),
            show=site.listener.output,
            stop=site.stop,
        )
        done = _judged(begun, verdict)
        if done.holds:
            done.update |= {
                "red": list(verdict.red),
                "frozen": dict(verdict.frozen),
                "plugins": list(verdict.plugins),
                "skipped": list(verdict.skipped),
                "rest": verdict.rest,
                "red_checkpoint": _checkpoint(begun),
            }
            done.files, done.red = verdict.frozen, verdict.red
            done.summary = f"red: {count(len(verdict.red), 'new test')} failed, as it should be"
        return done

    return do(site, state, N2, work, "pytest")


def pass_gate(site: Site, state: ImplementationState) -> Update:
    """The tests that were red have to pass, and no other may fail."""

    def work(begun: Begun) -> Done:
        verdict = gates.green(
            _ground(begun),
            state["red"],
            state["frozen"],
            state.get("plugins", ()),
            state.get("tests", ()),
            skipped=state.get("skipped"),
            rest=state.get("rest"),
            work=_work(begun),
            output=os.path.join(begun.path, "stdout"),
            show=site.listener.output,
            stop=site.stop,
        )
        done = _judged(begun, verdict)
        done.update |= {"green": False, "conflicts": [], "human_decision": None}
        if done.holds:
            # What validation left behind is told from what was validated by these two (`run.landing`).
            done.update |= {"tested_before": begun.checkpoint, "tested_after": _checkpoint(begun)}
            done.summary = f"green: {count(len(state['red']), 'new test')} passed, and nothing else broke"
        return done

    return do(site, state, N4, work, "pytest")


def _judged(begun: Begun, verdict: gates.Verdict) -> Done:
    tested = verdict.tested
    if any(each is not None and each.interrupted for each in (tested, verdict.canary)):
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


def _ground(begun: Begun) -> setup.Ground:
    state = begun.state
    return setup.of(
        begun.here,
        begun.site.environment,
        timeout=state["test_timeout"],
        sandbox=state["sandbox"],
        mark=state["mark"],
    )


def _work(begun: Begun) -> uncommitted.Work:
    """What would be committed, and since when it is being worked on: the first node has made the worktree."""
    ready = next(each for each in begun.state.get("history") or () if each["node"] == N0)
    return uncommitted.Work(begun.tree, times.to_seconds(ready["ended_at"]))


def _checkpoint(begun: Begun) -> str:
    """The worktree as it is now, saved."""
    here = run_context(begun.site.context, begun.run)
    said = f"tdd {begun.site.id}: {begun.node} holds"
    return sites.save(here, begun.run, said, node=begun.node, phase="holds").checkpoint.id


def look_over(site: Site, state: ImplementationState) -> Update:
    """Lint, and a look for tampering, in what was changed."""

    def work(begun: Begun) -> Done:
        changed = changed_since(begun.here, state["base_sha"], begun.tree)
        found = audit.audit(_ground(begun), state["base_sha"], changed)
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
