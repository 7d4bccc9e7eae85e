"""The state of a workflow: what the graph keeps, its nodes and limits, and the workflow as it is shown.

The state holds only what JSON can hold, so that any checkpointer can keep it. Counters are here and nowhere else: a
process that resumes has no memory of its own.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, Protocol, TypedDict

from git_agentos.errors import UsageError
from git_agentos.run import context as run_context

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


class ExitCode(IntEnum):
    """pytest's exit codes (`pytest.ExitCode`), and ours for a run that took too long."""

    TIMED_OUT = -1
    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    INTERNAL_ERROR = 3
    BAD_USAGE = 4
    NOTHING_COLLECTED = 5


# The decisions of a person at N6.
APPROVE, ABORT, RETRY = "approve", "abort", "retry"

# The states of a workflow.
RUNNING, WAITING, INTERRUPTED, MERGED, ABORTED = "running", "waiting", "interrupted", "merged", "aborted"
TAMPERED = "tampered"  # its state or its record is not as it was written; it is never merged

_ISSUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")


def check_issue(text: str) -> str:
    """A well-formed issue id, without the `#` that people write before a number; UsageError otherwise."""
    issue = text.removeprefix("#")
    if not _ISSUE.match(issue) or issue.endswith((".lock", ".")) or ".." in issue:
        raise UsageError(
            f"'{text}' is not an issue id",
            "use up to 40 letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return issue


def new_id(issue: str) -> str:
    """The id of a new workflow (`<issue>-<6 hex digits>`), which no other clone or machine has."""
    return run_context.check_id(f"{issue}-{os.urandom(3).hex()}")


def issue_of(id_: str) -> str:
    """The issue that the id of a workflow names."""
    return id_.rpartition("-")[0]


def branch_of(issue: str) -> str:
    """The short name of the branch for an issue."""
    return f"feat/issue-{issue}"


class Record(TypedDict, total=False):
    """A node that has ended; the keys are those of `history` in the JSON kind `tdd`.

    `n` counts from 1. `exit_code` is pytest's, or that of the agent's command; None if no process was run. `next` is
    the node that followed. `vetoes` are the reasons why an exit code did not count, or the findings of the audit;
    `changed` the paths that the node changed, `files` the sha256 of each frozen file, `red` the node ids of the tests
    that failed as expected. `output` is a file in the evidence, relative to it. Times are ISO 8601, UTC.
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

    `test_exit_code` is that of the last gate (None: a veto stood before the run); `vetoes` and `collect_error` (exit 2
    while collecting) belong to the same run. `feedback` is for the model's next attempt. `*_retry_count` count retries,
    not first attempts. `human_decision` is one of `approve`, `abort`, `retry`.

    Then: `mark` identifies the processes of the workflow (`process.contained.MARK`), `protected` are patterns of
    branches, `python` is a hash of the interpreter at N0, `red`, `frozen`, `plugins`, `skipped` and `rest` are what the
    red gate recorded (`gate.gates.RedRecord`). `red_checkpoint` is the worktree as that gate judged it, `tested_before`
    and `tested_after` are the worktree around the green one. `green`: the green gate holds, and the audit found no
    tampering.
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


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow; the fields are the keys of the JSON kind `tdd`.

    `state` is one of those above, `node` the current one or (waiting) the next; None when it has ended or was tampered
    with (then all that is known is what the record of its run says). `reason` tells people why it waits, or what went
    wrong. `words` are the decisions that are possible now (`approve` only if the work is green). `worktree_path` is
    None once that was removed; `run_id` names the run whose evidence and timeline are the workflow's. `evidence` is a
    folder. `here` is False for a workflow of another clone (that of `machine`), which can only be shown.
    `tests_passed`: the last green gate held, and the audit found no tampering; `findings` are those of the audit;
    `interrupted_by` is the signal that has just ended the command (SIGINT …).
    """

    id: str
    issue_id: str
    state: str
    node: str | None
    retry_count: int = 0
    scaffold_retry_count: int = 0
    branch: str
    worktree_path: str | None
    reason: str | None
    words: list[str]
    agent: str
    into: str
    base_sha: str | None
    run_id: str
    lld_path: str
    context_paths: list[str] = field(default_factory=list)
    changed_files: list[str] = field(default_factory=list)
    test_exit_code: int | None = None
    tests_passed: bool = False
    vetoes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    human_decision: str | None = None
    merge_commit: str | None = None
    final_checkpoint: str | None = None
    created_at: str
    updated_at: str | None = None
    evidence: str | None
    here: bool
    machine: str
    interrupted_by: str | None = None
    history: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class Review:
    """What a person is shown at N6: the workflow, what it would merge as a patch, and the last output of the tests."""

    workflow: Workflow
    patch: bytes
    test_output: str


class Observer(Protocol):
    """Is told about the progress of a workflow, and asked for the decision of a person."""

    def began(self, workflow: Workflow) -> None:
        """The workflow starts, or is resumed."""

    def node_begins(self, workflow: Workflow, node: str) -> None:
        """A node starts."""

    def output(self, line: bytes) -> None:
        """An agent or the tests wrote a line; secrets are removed."""

    def node_ended(self, workflow: Workflow, record: Record) -> None:
        """A node has ended."""

    def ask(self, review: Review) -> str | None:
        """A person's decision at N6, as it was typed; None if nobody can be asked (the workflow then waits)."""


def possible_decisions(state: ImplementationState) -> Sequence[str]:
    """The decisions that a person can make at N6: work that is not green cannot be approved."""
    return (APPROVE, ABORT, RETRY) if state.get("green") else (ABORT, RETRY)
