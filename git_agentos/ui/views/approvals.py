"""Approvals: what agents want to do and may not without a person, and what it would do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from git_agentos.guard import operator
from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import PENDING, Approval
from git_agentos.ui import texts
from git_agentos.ui.commands import Command
from git_agentos.ui.pages import Page, PagedView
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.ui.view import Hint
from git_agentos.util import quote

_COLOURS = {"pending": "yellow", "granted": "green"}
_COLUMNS = (
    Column("REQUEST", 8),
    Column("STATE", 7),
    Column("AGENT", 12, grow=1),
    Column("WANTS", 20, grow=4),
    Column("ASKED", 7),
)


class Approvals(PagedView[Approval]):
    """Requests that are pending, and grants that were not used yet; below, what is asked for."""

    title = "Approvals"
    command = "approvals list"
    hints: ClassVar[tuple[Hint, ...]] = (
        Hint("g", "grant"),
        Hint("d", "deny"),
        Hint("[ ]", "pages"),
        Hint("/", "search"),
    )
    every = 2.0
    nothing = "nobody waits for an approval"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "grant", show=False),
        Binding("d", "deny", show=False),
    ]

    def make_rows(self) -> Rows[Approval]:
        return Rows(_COLUMNS, lambda each: each.id, cells, empty="reading …")

    def pages_of(self, item: Approval) -> Sequence[Page]:
        return pages(item)

    def read(self) -> list[Approval]:
        location = self.open().context.location
        found = approvals.read_all(operator.approval_store(location, create=False))
        return approvals.open_only(found)

    def action_grant(self) -> None:
        request = self.rows.current
        if request is not None and request.state == PENDING:
            command = Command(("approvals", "grant", request.id), asks_person=True)
            self.ui.perform(command, f"Allow this once, for '{quote.line(request.agent_id)}'?\n{wanted(request)}")

    def action_deny(self) -> None:
        request = self.rows.current
        if request is not None:
            what = "Deny this" if request.state == PENDING else "Withdraw this grant"
            command = Command(("approvals", "deny", request.id), asks_person=True)
            self.ui.perform(command, f"{what}, to '{quote.line(request.agent_id)}'?\n{wanted(request)}")


def wanted(request: Approval) -> str:
    """The command line that is asked for, as it would be typed."""
    return quote.line(shlex.join(request.argv))


def pages(request: Approval) -> tuple[Page, ...]:
    """What there is to see of a request: all that it says; what the command would do, or the plan of one of ours that
    has one; and what was saved when it was asked for, which nobody has committed."""
    found = [Page("request", Command(("approvals", "show", request.id)))]
    folder = request.cwd or request.worktree_path
    words = tuple(request.argv)
    if words[:2] == ("git", "agentos") and _has_plan(words[2:]):
        found.append(Page("plan", Command((*words[2:], "--dry-run"), folder)))
    else:
        found.append(Page("effect", Command(("guard", "check", "--", *words), folder)))
    if request.checkpoint is not None:
        found.append(Page("saved", Command(("checkpoint", "show", "--all", request.checkpoint))))
    return tuple(found)


def _has_plan(words: Sequence[str]) -> bool:
    """Whether a command of ours, that is given by its words alone, has a dry run."""
    return words[:1] in (("restore",), ("undo",), ("rollback",), ("revert",), ("forget",)) or words[:2] in (
        ("worktree", "merge"),
        ("worktree", "archive"),
        ("worktree", "remove"),
        ("worktree", "sync"),
        ("worktree", "cleanup"),
    )


def cells(request: Approval) -> list[Cell]:
    """A row; each colour has a word beside it."""
    return [
        request.id[:8],
        (request.state, _COLOURS.get(request.state, "")),
        request.agent_id,
        wanted(request),
        texts.age(request.created_at),
    ]
