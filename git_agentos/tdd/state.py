"""What a workflow knows, and how it is shown: the state of the graph, its nodes and limits, and the workflow as told.

The state holds only what JSON can hold, so that any checkpointer can keep it. Counters are here and nowhere else: a
resumed process has no memory of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

# The nodes of the graph, by the names that routes, records and the drawn graph use.
N0 = "N0_load_context"
N1 = "N1_scaffold_tests"
N2 = "N2_fail_gate"
N3 = "N3_implement"
N4 = "N4_pass_gate"
N5 = "N5_audit"
N6 = "N6_human_review"
N7 = "N7_merge"
N8 = "N8_clean_up"
END = "__end__"  # LangGraph's own name for it
NODES = (N0, N1, N2, N3, N4, N5, N6, N7, N8)

MAX_SCAFFOLD_RETRIES = 3
MAX_RETRIES = 3

# pytest's exit codes (`pytest.ExitCode`), and ours for a run that was ended because it took too long.
PASSED, FAILED, INTERRUPTED, INTERNAL_ERROR, BAD_USAGE, NOTHING_COLLECTED = 0, 1, 2, 3, 4, 5
TIMED_OUT = -1

# What a person may say at N6; all else is asked again.
APPROVE, ABORT, RETRY = "approve", "abort", "retry"

# The states of a workflow.
RUNNING, WAITING, STOPPED, MERGED, ABORTED = "running", "waiting", "interrupted", "merged", "aborted"
TAMPERED = "tampered"  # its state or its record is not as it was written; it is never merged


class Record(TypedDict, total=False):
    """One node that has been done; the keys are those of `history` in the JSON kind `tdd`.

    `n` counts from 1. `exit_code` is pytest's, or that of the agent's command; None where no process was run. `next` is
    the node that followed. `vetoes` are why an exit code did not count, or what the audit found; `changed` the paths
    that the node changed, `files` the sha256 of each frozen file, `red` the node ids that failed as they should.
    `output` is a file in the evidence, relative to it. Times are ISO 8601, UTC.
    """

    n: int
    node: str
    began_at: str
    ended_at: str
    seconds: float
    summary: str
    exit_code: int | None
    next: str
    vetoes: list[str]
    changed: list[str]
    files: dict[str, str]
    red: list[str]
    output: str | None
    checkpoint_before: str | None
    checkpoint_after: str | None
    tokens_in: int | None
    tokens_out: int | None


class ImplementationState(TypedDict, total=False):
    """The state of the graph.

    `test_exit_code` is that of the last gate (None: it was not run, since a veto stood before); `vetoes` and
    `collect_error` (exit 2 while collecting) belong to the same run. `feedback` is what the model is told next.
    `*_retry_count` count retries, not first tries. `human_decision` is one of `approve`, `abort`, `retry`.
    """

    issue_id: str
    lld_path: str
    lld_content: str
    context_paths: list[str]
    context_content: dict[str, str]
    worktree_path: str
    changed_files: list[str]
    test_output: str
    test_exit_code: int | None
    retry_count: int
    scaffold_retry_count: int
    human_decision: str | None
    error_message: str | None

    id: str
    repository: str
    machine: str
    mark: str
    protected: list[str]
    agent: str
    into: str
    base_sha: str
    branch: str
    test_timeout: float
    sandbox: bool
    tests: list[str]
    python: str | None
    created_at: str
    collect_error: bool
    vetoes: list[str]
    feedback: str | None
    red: list[str]
    frozen: dict[str, str]
    plugins: list[str]
    skipped: list[str]
    rest: str | None
    red_checkpoint: str | None
    tested_before: str | None
    tested_after: str | None
    green: bool
    findings: list[str]
    conflicts: list[dict[str, Any]]
    merge_commit: str | None
    final_checkpoint: str | None
    history: Annotated[list[Record], operator.add]


@dataclass(frozen=True)
class Workflow:
    """A workflow; the fields are the keys of the JSON kind `tdd`.

    `state` is one of those above, `node` the one it is at or (waiting) before; None when it has ended, or its state
    cannot be believed (`tampered`: then what is known is what its run's record says). `reason` is for
    people: why it waits, or what went wrong. `words` is what may be said now (`approve` only where the work is green).
    `worktree_path` is None once that was removed; `run_id` names the run whose evidence and timeline are the
    workflow's. `evidence` is a folder. `here` is False for a workflow of another clone (that of `machine`), which can
    be looked at and no more. `tests_passed` says whether the last green gate held and the audit found no tampering;
    `findings` are those of the audit; `interrupted_by` is the signal that has just ended the command (SIGINT …).
    """

    id: str
    issue_id: str
    state: str
    node: str | None
    retry_count: int
    scaffold_retry_count: int
    branch: str
    worktree_path: str | None
    reason: str | None
    words: list[str]
    agent: str
    into: str
    base_sha: str | None
    run_id: str
    lld_path: str
    context_paths: list[str]
    changed_files: list[str]
    test_exit_code: int | None
    tests_passed: bool
    vetoes: list[str]
    findings: list[str]
    conflicts: list[dict[str, Any]]
    human_decision: str | None
    merge_commit: str | None
    final_checkpoint: str | None
    created_at: str
    updated_at: str | None
    evidence: str | None
    here: bool
    machine: str
    interrupted_by: str | None
    history: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class Review:
    """What a person is shown at N6: the workflow, what it would merge as a patch, and what the tests last said."""

    workflow: Workflow
    patch: bytes
    test_output: str


def words(state: ImplementationState) -> Sequence[str]:
    """What may be said at N6: work that is not green cannot be approved."""
    return (APPROVE, ABORT, RETRY) if state.get("green") else (ABORT, RETRY)
