"""N1 to N5: a model writes tests and code, the gates judge them, the audit follows.

What a model changed is read from git, whatever it says about it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import RestoreOptions
from git_agentos.tdd import inherited_work
from git_agentos.tdd.context import prompts
from git_agentos.tdd.gate import audit, frozen_files, gates, pytest_config
from git_agentos.tdd.gate.pytest_run import Control
from git_agentos.tdd.gate.setup import PytestSetup, prepare
from git_agentos.tdd.models import selection
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD, ModelResult, Request
from git_agentos.tdd.node_run import (
    Interrupted,
    NodeResult,
    NodeRun,
    Session,
    Update,
    changed_files,
    run_node,
    unlock,
)
from git_agentos.tdd.state import N0, N1, N2, N3, N4, N5, ExitCode, ImplementationState
from git_agentos.util import files, times
from git_agentos.util.values import count

_MAX_TEST_BYTES = 256 << 10  # of a test file that a model is shown; the prompt bounds it once more
_MAX_OUTPUT = 64 << 10  # characters of test output in the state; the evidence has all of it


# -- N1 and N3: a model writes -----------------------------------------------------------------------------------------


def scaffold_tests(session: Session, state: ImplementationState) -> Update:
    """The model writes tests, and stubs of what they call."""
    retries = _retries(state, N1, "scaffold_retry_count", (N2,))
    prompt = prompts.scaffold(
        state["issue_id"], state["lld_content"], state["context_content"], feedback=state.get("feedback")
    )

    def work(node_run: NodeRun) -> NodeResult:
        result = _write(node_run, SCAFFOLD, prompt, ())
        result.update |= {"scaffold_retry_count": retries, "red": [], "frozen": {}, "red_checkpoint": None}
        return result

    return run_node(session, state, N1, work, state["agent"])


def implement(session: Session, state: ImplementationState) -> Update:
    """The model writes code. Frozen files that the last attempt changed are restored first."""
    retries = _retries(state, N3, "retry_count", (N4, N5))

    def work(node_run: NodeRun) -> NodeResult:
        patterns = frozen_files.test_patterns(pytest_config.read_options(node_run.worktree.location.root))
        _restore_frozen(node_run)
        # Tests that existed before were named by nobody, and are not sent to the model.
        tests = [path for path in state.get("changed_files", ()) if frozen_files.is_test(path, patterns)]
        prompt = prompts.implement(
            state["issue_id"],
            state["lld_content"],
            state["context_content"],
            _read_texts(node_run.worktree, tests),
            failures=state.get("test_output", ""),
            feedback=state.get("feedback"),
        )
        result = _write(node_run, IMPLEMENT, prompt, tuple(frozen_files.paths(state["frozen"])))
        result.update |= {"retry_count": retries}
        return result

    return run_node(session, state, N3, work, state["agent"])


def _retries(state: ImplementationState, node: str, count_: str, after: Sequence[str]) -> int:
    """How often a node will have been tried again; what was written elsewhere had its own number of tries."""
    tries: int = state.get(count_, 0)  # type: ignore[assignment]  # the key of a number
    if inherited_work.of_node(state, node) is not None:
        return tries
    return tries + 1 if _last_node(state) in after else 0


def _last_node(state: ImplementationState) -> str | None:
    history = state.get("history") or []
    return history[-1]["node"] if history else None


def _write(node_run: NodeRun, task: str, prompt: str, frozen: tuple[str, ...]) -> NodeResult:
    """Take over what the model has written in another clone, or let it write."""
    state = node_run.state
    taken = inherited_work.take(node_run) if not node_run.violations_before else None
    if taken is None:
        result = _ask_model(node_run, task, prompt, frozen)
        result.update |= inherited_work.without(state, N1, N3)  # code of another clone is not for other tests
        return result
    result = _model_node_result(node_run, task, ModelResult(None))
    result.summary = f"{result.summary} ({taken})"
    result.update |= inherited_work.without(state, node_run.node)
    return result


def _ask_model(node_run: NodeRun, task: str, prompt: str, frozen: tuple[str, ...]) -> NodeResult:
    """Let the model do its task, and check protected branches afterwards."""
    session, state = node_run.session, node_run.state
    if node_run.violations_before:
        return _model_node_result(node_run, task, ModelResult(None))
    changed = changed_files(node_run.worktree, state["base_sha"], node_run.tree)
    request = Request(
        node=task,
        issue_id=state["issue_id"],
        attempt=sum(each["node"] == node_run.node for each in state.get("history") or ()),
        prompt=prompt,
        run=node_run.run,
        worktree=node_run.worktree,
        changed=tuple(each for each in changed if each not in frozen),
        folder=node_run.path,
        show=session.observer.output,
        stop=session.stop,
        mark=state["mark"],
    )
    result = selection.choose(state["agent"], node_run.worktree.settings, session.environment).work(request)
    if result.interrupted:
        raise Interrupted
    unlock(session, killed=False)
    return _model_node_result(node_run, task, result)


def _model_node_result(node_run: NodeRun, task: str, result: ModelResult) -> NodeResult:
    violations = node_run.violations()
    error = "; ".join(violations) if violations else result.error
    update: Update = {
        "error_message": error,
        "feedback": None,
        "green": False,
        "tested_before": None,
        "tested_after": None,
        "findings": [],
        "conflicts": [],
        "human_decision": None,
    }
    summary = "tests written" if task == SCAFFOLD else "code written"
    if error is not None or result.exit_code:
        summary = error or f"the agent ended with exit code {result.exit_code}"
    return NodeResult(
        update,
        summary,
        exit_code=result.exit_code,
        output=f"{node_run.folder}/stdout",
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        holds=error is None,
    )


def _restore_frozen(node_run: NodeRun) -> None:
    """Restore what was frozen to the state in which the red gate held; new files among it are removed."""
    frozen, checkpoint = node_run.state["frozen"], node_run.state.get("red_checkpoint")
    worktree = node_run.worktree
    now = frozen_files.hash_inputs(worktree.location.root, frozen_files.whole_files(frozen))
    changed = {name: "" for name in {*frozen, *now} if frozen.get(name) != now.get(name)}
    paths = [os.fsencode(path) for path in frozen_files.paths(changed)]
    if not paths or checkpoint is None:
        return
    metadata = worktree.metadata(trigger="before_restore", description="frozen tests", run_id=node_run.run.run_id)
    commands.restore(worktree, metadata, checkpoint, RestoreOptions(paths=paths))


def _read_texts(worktree: OpenWorktree, paths: Sequence[str]) -> Mapping[str, str]:
    texts = {}
    for path in paths:
        full = os.path.join(worktree.location.root, path)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            try:
                texts[path] = files.read(full, limit=_MAX_TEST_BYTES).decode("utf-8")
            except files.TooLargeError:
                texts[path] = f"[… {os.path.getsize(full):,} bytes, too many to be shown …]"
    return texts


# -- N2 and N4: the gates ----------------------------------------------------------------------------------------------


def fail_gate(session: Session, state: ImplementationState) -> Update:
    """The tests have to fail, for the right reason. Then they are frozen."""

    def work(node_run: NodeRun) -> NodeResult:
        verdict = gates.red(
            node_run.worktree,
            _setup(node_run),
            state.get("tests", ()),
            base=gates.Base(state["base_sha"], state.get("python")),
            candidate=_candidate(node_run),
            control=_control(node_run),
        )
        result = _gate_result(node_run, verdict)
        record = verdict.record
        if result.holds and record is not None:
            result.update |= {**record.to_json(), "red_checkpoint": _save_verdict(node_run)}
            result.files, result.red = record.frozen, record.red
            result.summary = f"red: {count(len(record.red), 'new test')} failed, as expected"
        return result

    return run_node(session, state, N2, work, "pytest")


def pass_gate(session: Session, state: ImplementationState) -> Update:
    """The tests that were red have to pass, and no other may fail."""

    def work(node_run: NodeRun) -> NodeResult:
        verdict = gates.green(
            node_run.worktree,
            _setup(node_run),
            state.get("tests", ()),
            gates.RedRecord.from_json(state),
            candidate=_candidate(node_run),
            control=_control(node_run),
        )
        result = _gate_result(node_run, verdict)
        result.update |= {"green": False, "conflicts": [], "human_decision": None}
        if result.holds:
            # `run.accept` compares these two: what the tests left behind is not part of what they judged.
            result.update |= {"tested_before": node_run.checkpoint, "tested_after": _save_verdict(node_run)}
            result.summary = f"green: {count(len(state['red']), 'new test')} passed, and nothing else broke"
        return result

    return run_node(session, state, N4, work, "pytest")


def _gate_result(node_run: NodeRun, verdict: gates.Verdict) -> NodeResult:
    if verdict.interrupted:
        raise Interrupted
    if violations := node_run.violations():  # the tests run what the model wrote
        feedback = verdict.feedback + "".join(f"{each}\n" for each in violations)
        verdict = replace(verdict, holds=False, vetoes=(*verdict.vetoes, *violations), feedback=feedback)
    output = verdict.result.output[-_MAX_OUTPUT:] if verdict.result is not None else ""
    model_feedback = None
    if not verdict.holds:
        is_red = node_run.node == N2
        model_feedback = f"{verdict.feedback}\n\n{output}".strip() if is_red else verdict.feedback
    update = {
        "test_output": output,
        "test_exit_code": verdict.exit_code,
        "vetoes": list(verdict.vetoes),
        "collect_error": verdict.collect_error,
        "feedback": model_feedback,
        "error_message": None,
    }
    return NodeResult(
        update,
        _gate_summary(verdict),
        exit_code=verdict.exit_code,
        vetoes=verdict.vetoes,
        output=f"{node_run.folder}/stdout" if verdict.result is not None else None,
        holds=verdict.holds,
    )


def _gate_summary(verdict: gates.Verdict) -> str:
    """One line about a gate that does not hold."""
    code = verdict.exit_code
    vetoes = count(len(verdict.vetoes), "veto", "vetoes")
    if code is None:
        return f"not {verdict.gate}: vetoed before the tests were run ({vetoes})"
    how = "the tests took too long" if code == ExitCode.TIMED_OUT else f"exit code {code}"
    if verdict.gate == gates.RED and code == ExitCode.PASSED:
        how = "tests passed prematurely (exit code 0)"
    if verdict.collect_error:
        how += " while collecting"
    return f"not {verdict.gate}: {how}" + (f", {vetoes}" if verdict.vetoes else "")


def _setup(node_run: NodeRun) -> PytestSetup:
    state = node_run.state
    return prepare(
        node_run.worktree,
        node_run.session.environment,
        timeout=state["test_timeout"],
        sandbox=state["sandbox"],
        mark=state["mark"],
    )


def _candidate(node_run: NodeRun) -> gates.Candidate:
    """What would be committed, and since when it is being worked on: N0 created the worktree."""
    created = next(each for each in node_run.state.get("history") or () if each["node"] == N0)
    return gates.Candidate(node_run.tree, times.to_seconds(created["ended_at"]))


def _control(node_run: NodeRun) -> Control:
    session = node_run.session
    return Control(os.path.join(node_run.path, "stdout"), session.observer.output, session.stop)


def _save_verdict(node_run: NodeRun) -> str:
    """A checkpoint of the worktree as the gate has judged it."""
    session = node_run.session
    description = f"tdd {session.id}: {node_run.node} holds"
    return session.save(session.worktree(), description, node_run.node, "holds").checkpoint.id


# -- N5: the audit -----------------------------------------------------------------------------------------------------


def audit_changes(session: Session, state: ImplementationState) -> Update:
    """Compile, lint and search for tampering in what was changed."""

    def work(node_run: NodeRun) -> NodeResult:
        changed = changed_files(node_run.worktree, state["base_sha"], node_run.tree)
        findings = audit.audit(node_run.worktree, _setup(node_run), state["base_sha"], changed)
        unsaved = [
            f"{os.fsdecode(each.path)}: it would not be merged, since it is not saved: {each.reason}"
            for each in node_run.skipped
        ]
        texts = [*map(str, findings), *unsaved]
        tampered = bool(unsaved) or any(each.kind == audit.TAMPER for each in findings)
        feedback = "The audit found, in what you wrote:\n" + "\n".join(texts) if texts else None
        update: Update = {"findings": texts, "green": not tampered, "changed_files": changed, "feedback": feedback}
        summary = count(len(texts), "finding") if texts else "nothing found"
        return NodeResult(update, summary, vetoes=texts, holds=not texts)

    return run_node(session, state, N5, work, None)
