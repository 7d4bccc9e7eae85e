"""Runs and workflows: what state they are in, what they print, and whether their work is accepted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.run import context as runs
from git_agentos.run import query
from git_agentos.run.events import EVENTS, PASSED, RUNNING, TAMPERED, TDD, Run
from git_agentos.ui import texts
from git_agentos.ui.commands import Command, Ran, explain_restore
from git_agentos.ui.pages import Page, PagedView
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.ui.view import Hint
from git_agentos.util import quote
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.tdd.state import Workflow

_WIDE = 120
_COLOURS = {
    "running": "cyan", "open": "cyan", "waiting": "yellow", "interrupted": "yellow", "cancelled": "yellow",
    "aborted": "yellow", "passed": "green", "accepted": "green", "merged": "green", "failed": "red", "tampered": "red",
}  # fmt: skip
_COLUMNS = (
    Column("RUN", 20, grow=2),
    Column("KIND", 4, from_width=_WIDE),
    Column("STATE", 11),
    Column("AT", 10, grow=1),
    Column("ATTEMPT", 7, from_width=_WIDE),
    Column("TASK", 8, grow=2, from_width=_WIDE),
    Column("BASE", 8, grow=1, from_width=_WIDE),
    Column("STARTED", 7),
)


class Shown(NamedTuple):
    """A run, with the workflow that it is of; None where it is none, or that cannot be read."""

    run: Run
    workflow: Workflow | None

    @property
    def state(self) -> str:
        return self.run.state if self.workflow is None else self.workflow.state

    @property
    def may_change(self) -> bool:
        """Whether it may be another one although no file of the run has changed. Where the evidence and the state of a
        workflow contradict each other, one of them may just have been written."""
        return self.state in (RUNNING, TAMPERED) or (self.workflow is not None and self.workflow.node is not None)

    @property
    def words(self) -> Sequence[str]:
        """The decisions that a workflow waits for."""
        return () if self.workflow is None else self.workflow.words


class Runs(PagedView[Shown]):
    """Runs, the newest first; below, what is known of the one under the cursor."""

    title = "Runs"
    command = "run list"
    hints: ClassVar[tuple[Hint, ...]] = (
        Hint("a", "accept, approve"),
        Hint("c", "cancel, abort"),
        Hint("b", "roll back"),
        Hint("t", "retry"),
        Hint("v", "verify"),
        Hint("[ ]", "pages"),
        Hint("/", "search"),
    )
    every = 2.0
    nothing = "no runs: 'git agentos run start' starts one"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", show=False),
        Binding("c", "cancel", show=False),
        Binding("b,r", "roll_back", show=False),
        Binding("t", "retry", show=False),
        Binding("v", "verify", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._seen: object = None  # what the files of all runs were like when they were read
        self._known: tuple[Shown, ...] = ()

    def make_rows(self) -> Rows[Shown]:
        return Rows(_COLUMNS, lambda each: each.run.run_id, cells, empty="reading …")

    def pages_of(self, item: Shown) -> Sequence[Page]:
        return pages(item)

    def read(self) -> tuple[Shown, ...]:
        """The runs; they are read again where a file of one has changed, or one is running. The state of a workflow is
        elsewhere: it is read again until it has ended."""
        context = self.open().context
        seen = _files(context)
        if seen != self._seen or any(each.may_change for each in self._known):
            self._known, self._seen = _read(context), seen
        return self._known

    def took(self) -> None:
        """What a running one prints is read again."""
        at = self.rows.current
        if at is not None and at.state == RUNNING:
            self.show_pages()

    def find_folder(self) -> str | None:
        at = self.rows.current
        return None if at is None or at.run.context is None else at.run.context.worktree_path

    # -- actions -------------------------------------------------------------------------------------------------------

    def action_accept(self) -> None:
        at = self.rows.current
        if at is None:
            return
        id_ = at.run.run_id
        if at.workflow is not None:
            self._decide(at, "approve", f"Merge the work of '{id_}' into '{quote.line(at.workflow.into)}'?", True)
        elif at.state != PASSED:
            self.ui.say(f"run '{id_}' has not passed", "yellow")
        else:
            self.ui.perform(
                Command(("run", "accept", id_), asks_person=True),
                f"Merge the work of '{id_}'?",
                plan=Command(("run", "verify", id_)),
                explain=explain_verified,
            )

    def action_cancel(self) -> None:
        at = self.rows.current
        if at is None:
            return
        if at.workflow is not None:
            self._decide(at, "abort", f"End '{at.run.run_id}', and remove its worktree? It is saved first.", False)
        else:
            self.ui.perform(Command(("run", "cancel", at.run.run_id)), f"End '{at.run.run_id}'?")

    def action_retry(self) -> None:
        at = self.rows.current
        if at is not None and at.workflow is not None:
            self._decide(at, "retry", f"Let '{at.run.run_id}' try again?", True)

    def action_roll_back(self) -> None:
        at = self.rows.current
        if at is not None:
            words = ("rollback", at.run.run_id)
            self.ui.perform(
                Command(words),
                f"Reset '{at.run.run_id}' to its base? Its worktree is saved first; z there undoes it.",
                plan=Command((*words, "--dry-run")),
                explain=explain_restore,
            )

    def action_verify(self) -> None:
        self.pages.open("verify")

    def _decide(self, at: Shown, word: str, question: str, asks_person: bool) -> None:
        """Give a workflow a decision that it waits for."""
        id_ = at.run.run_id
        if word not in at.words:
            waits = f"it waits for: {', '.join(at.words)}" if at.words else "it waits for no decision"
            self.ui.say(f"'{id_}' cannot be given '{word}' now; {waits}", "yellow")
            return
        words = ("tdd", "resume", "--retry", id_) if word == "retry" else ("tdd", word, id_)
        self.ui.perform(Command(words, asks_person=asks_person), question)


def pages(at: Shown) -> tuple[Page, ...]:
    """What there is to see of a run."""
    id_ = at.run.run_id
    found = [Page("run", Command(("run", "show", id_)))]
    if at.workflow is not None:
        found.insert(0, Page("workflow", Command(("tdd", "status", id_))))
    found += [
        Page("output", Command(("run", "logs", id_))),
        Page("changes", Command(("run", "diff", id_)), is_patch=True),
        Page("verify", Command(("run", "verify", id_))),
    ]
    return tuple(found)


def explain_verified(plan: Ran) -> str:
    """What `run verify` has found."""
    found = plan.document or {}
    return (
        f"Its evidence is complete and as it was sealed: {count(found.get('files', 0), 'file')}, "
        f"{count(found.get('commits', 0), 'commit')}."
    )


def cells(at: Shown) -> list[Cell]:
    """A row; each colour has a word beside it."""
    run = at.run
    base = "" if run.context is None else run.context.base_ref
    return [
        (run.run_id, "bold"),
        "run" if run.tool != TDD else "tdd",
        (at.state, _COLOURS.get(at.state, "")),
        _place(at),
        f"{len(run.attempts)} of {run.max_attempts}",
        run.task_id or "-",
        base or "-",
        texts.age(run.started_at),
    ]


def _place(at: Shown) -> str:
    """Where it is: the step or the node, or what it waits for."""
    if at.words:
        return f"for: {', '.join(at.words)}"
    if at.workflow is not None:
        return at.workflow.node or "-"
    if at.run.state != RUNNING:
        return count(len(at.run.steps), "step")
    return f"step {at.run.steps[-1].n} ({at.run.steps[-1].kind})" if at.run.steps else "begins"


def _read(context: OpenWorktree) -> tuple[Shown, ...]:
    found = query.list_runs(context)
    workflows = _workflows(context) if any(each.tool == TDD for each in found) else {}
    return tuple(Shown(each, workflows.get(each.run_id)) for each in found)


def _workflows(context: OpenWorktree) -> Mapping[str, Workflow]:
    """Run -> its workflow; nothing where LangGraph is not installed."""
    try:
        from git_agentos.tdd import query as workflows
    except ImportError:
        return {}
    return {each.run_id: each for each in workflows.list_workflows(context, os.environ)}


def _files(context: OpenWorktree) -> object:
    """What changes when a run does: the files of events."""
    folder = runs.runs_folder(context.location)
    found = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    for name in names:
        try:
            at = os.stat(os.path.join(folder, name, EVENTS))
        except OSError:
            found.append((name, 0, 0))
        else:
            found.append((name, at.st_size, at.st_mtime_ns))
    return tuple(found)
