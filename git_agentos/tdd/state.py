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

_OF_CLONE, _CLONE_DIGITS = "@", 12  # in the name of a thread: no id has an '@'
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


def thread_of(id_: str, repository: str) -> str:
    """The thread that has the state of a workflow in a database that others write to: there may be one of this id in
    several clones. `repository` is `database_path.repository_id`."""
    return f"{id_}{_OF_CLONE}{repository[:_CLONE_DIGITS]}"


def id_of(thread: str) -> str:
    """The id of the workflow whose state a thread has."""
    return thread.partition(_OF_CLONE)[0]


def branch_of(issue: str) -> str:
    """The short name of the branch for an issue."""
    return f"feat/issue-{issue}"


class Record(TypedDict, total=False):
    """A node that has ended; the keys are those of `history` in the JSON kind `tdd`. Times are ISO 8601, UTC."""

    n: int  # counts from 1
    node: str  # N0 to N8
    began_at: str
    ended_at: str
    seconds: float
    summary: str  # what happened, for people
    exit_code: int | None  # pytest's, or that of the agent's command; None if no process was run
    next: str  # the node that followed
    vetoes: list[str]  # why an exit code did not count; or the findings of the audit
    changed: list[str]  # the paths that the node changed
    files: dict[str, str]  # sha256 of each frozen file
    red: list[str]  # node ids of the tests that failed as expected
    output: str | None  # a file in the evidence, relative to it
    checkpoint_before: str | None
    checkpoint_after: str | None
    tokens_in: int | None  # as the model reports them; None if nobody counted
    tokens_out: int | None  # the same


class ImplementationState(TypedDict, total=False):
    """The state of the graph, in the order of its channels."""

    issue_id: str
    lld_path: str  # the design document
    lld_content: str  # its text
    context_paths: list[str]  # files that the model is shown
    context_content: dict[str, str]  # path -> text
    worktree_path: str  # of the workflow
    changed_files: list[str]  # paths that differ from the base
    test_output: str  # of the last gate
    test_exit_code: int | None  # of the last gate; None: a veto stood before the run
    retry_count: int  # of N3; the first attempt does not count
    scaffold_retry_count: int  # of N1; the first attempt does not count
    human_decision: str | None  # approve, abort or retry
    error_message: str | None  # why the workflow waits or has failed

    id: str  # of the workflow, and of its run
    repository: str  # `database_path.repository_id`
    machine: str  # where its clone is
    mark: str  # identifies its processes (`process.marked.MARK`)
    protected: list[str]  # patterns of branches
    agent: str  # the name of the model
    into: str  # the branch to merge into
    base_sha: str  # where its branch begins
    branch: str  # its branch
    test_timeout: float  # seconds
    sandbox: bool  # whether tests run in one
    tests: list[str]  # the test files that count
    python: str | None  # a hash of the interpreter at N0
    created_at: str  # ISO 8601, UTC
    collect_error: bool  # pytest ended with 2 while it collected
    vetoes: list[str]  # of the last gate
    feedback: str | None  # for the model's next attempt
    red: list[str]  # this and the next four: what the red gate recorded (`gate.gates.RedRecord`)
    frozen: dict[str, str]
    plugins: list[str]
    skipped: list[str]
    rest: str | None
    red_checkpoint: str | None  # the worktree as the red gate judged it
    tested_before: str | None  # the worktree before the green gate
    tested_after: str | None  # and after it
    green: bool  # the green gate holds, and the audit found no tampering
    findings: list[str]  # of the audit
    conflicts: list[dict[str, Any]]  # of the merge
    merge_commit: str | None
    final_checkpoint: str | None  # of the worktree, before it was removed
    tool: str  # who drives its run, where that is not `git agentos tdd`
    inherited: dict[str, dict[str, Any]]  # by node, what was written in another clone (`inherited_work`)
    history: Annotated[list[Record], operator.add]  # nodes that have ended


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow; the fields are the keys of the JSON kind `tdd`."""

    id: str
    issue_id: str
    state: str  # one of those above
    node: str | None  # the current one or, waiting, the next; None when it has ended or was tampered with
    retry_count: int = 0  # of N3; the first attempt does not count
    scaffold_retry_count: int = 0  # of N1; the first attempt does not count
    branch: str
    worktree_path: str | None  # None once that was removed
    reason: str | None  # why it waits, or what went wrong, for people
    words: list[str]  # the decisions that are possible now: `approve` only if the work is green
    agent: str  # the name of the model
    into: str  # the branch to merge into
    base_sha: str | None  # where its branch begins
    run_id: str  # of the run whose evidence and timeline are the workflow's
    lld_path: str  # the design document
    context_paths: list[str] = field(default_factory=list)  # files that the model is shown
    changed_files: list[str] = field(default_factory=list)  # paths that differ from the base
    test_exit_code: int | None = None  # of the last gate
    tests_passed: bool = False  # the last green gate held, and the audit found no tampering
    vetoes: list[str] = field(default_factory=list)  # of the last gate
    findings: list[str] = field(default_factory=list)  # of the audit
    conflicts: list[dict[str, Any]] = field(default_factory=list)  # of the merge
    human_decision: str | None = None  # approve, abort or retry
    merge_commit: str | None = None
    final_checkpoint: str | None = None  # of the worktree, before it was removed
    created_at: str  # ISO 8601, UTC
    updated_at: str | None = None  # the same
    evidence: str | None  # a folder
    here: bool  # False for a workflow of another clone (that of `machine`), which can only be shown
    machine: str  # where its clone is
    interrupted_by: str | None = None  # the signal that has just ended the command (SIGINT …)
    history: list[Record] = field(default_factory=list)  # nodes that have ended


@dataclass(frozen=True)
class Review:
    """What a person is shown at N6: the workflow, what it would merge as a patch, and the last output of the tests."""

    workflow: Workflow
    patch: bytes
    test_output: str


class Observer(Protocol):
    """Is called with the progress of a workflow, and asks a person for the decision."""

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
