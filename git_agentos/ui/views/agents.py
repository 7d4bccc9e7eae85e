"""Agents: every worktree of the repository, with what its agent does, has changed and waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult

from git_agentos.errors import WorktreeError
from git_agentos.ui import texts
from git_agentos.ui.background import Problem
from git_agentos.ui.known_conflicts import number_of_each
from git_agentos.ui.roster import Agent, Roster
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.ui.search import SearchedView
from git_agentos.ui.view import Hint
from git_agentos.workspace import Workspace
from git_agentos.worktree.conflicts import Conflicts
from git_agentos.worktree.status import Dirty

_STATES = {"active": "green", "complete": "cyan", "archived": "yellow", "broken": "red"}
_WIDE = 120
_UNKNOWN = "-"
_COLUMNS = (
    Column("AGENT", 14, grow=2),
    Column("STATE", 8),
    Column("WORK", 4),
    Column("BRANCH", 12, grow=3, from_width=_WIDE),
    Column("TASK", 8, grow=2, from_width=_WIDE),
    Column("BASE", 9, from_width=_WIDE),
    Column("CHANGES", 18, grow=2),
    Column("SAVED", 8, from_width=_WIDE),
    Column("APPROVALS", 9, from_width=_WIDE),
    Column("CONFLICTS", 9, from_width=_WIDE),
)


class Agents(SearchedView):
    """A row for each agent, archived ones too. Enter: its timeline."""

    title = "Agents"
    command = "worktree list"
    hints: ClassVar[tuple[Hint, ...]] = (Hint("enter", "timeline"), Hint("/", "search"))

    def __init__(self) -> None:
        super().__init__()
        self._roster: Roster | None = None
        self._opened: Workspace | None = None  # what the roster is of
        self._found: Sequence[Agent] = ()
        self._heads: object = None  # the commits by which conflicts are looked for

    def compose(self) -> ComposeResult:
        yield Rows[Agent](_COLUMNS, lambda each: each.id, cells, empty="reading …")
        yield from self.compose_search()

    def on_unmount(self) -> None:
        if self._roster is not None:
            self._roster.close()

    @property
    def rows(self) -> Rows[Agent]:
        return self.query_one(Rows)

    def find_folder(self) -> str | None:
        agent = self.rows.current
        if agent is not None and agent.path is None:
            raise WorktreeError(f"the worktree '{agent.id}' is {agent.state}: it has no folder")
        return agent.path if agent is not None else None

    def read(self) -> tuple[Agent, ...]:
        workspace = self.open()
        if self._roster is not None and self._opened is workspace:
            return self._roster.look()
        if self._roster is not None:
            self._roster.close()
        self._roster, self._opened, self._heads = Roster(workspace.context), workspace, None
        return self._roster.look(scan=False)  # all rows are shown first, and then what has changed in each

    def show(self, found: Sequence[Agent]) -> None:
        self._found = found
        self.filter()

    def filter(self) -> None:
        nobody = "no agents' worktrees: 'git agentos worktree create ID' creates one"
        self.rows.empty = "nothing found" if self._found else nobody
        self.rows.replace([each for each in self._found if self.matches(*cells(each))])

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        message.stop()
        agent = self.rows.current
        if agent is not None:
            self.ui.show_timeline(agent.id)

    def took(self) -> None:
        """Go on where a look has not scanned all; then look for conflicts, when commits have changed."""
        roster = self._roster
        if roster is not None and not roster.is_whole:
            self.look(now=True)
            return
        if roster is None or roster.heads == self._heads:
            return
        self._heads = roster.heads

        def looked(found: Conflicts | Problem) -> None:
            if isinstance(found, Problem):
                self._heads = None  # tried again with the next look
                return
            roster.conflicts = number_of_each(found)
            self.look(now=True)

        known = self.ui.conflicts
        self.ui.background.request("conflicts of agents", lambda: known.find(self.ui.open_workspace().context), looked)


def cells(agent: Agent) -> list[Cell]:
    """A row; each colour has a word beside it."""
    base = f"+{agent.ahead} -{agent.behind}" if agent.ahead is not None and agent.behind is not None else _UNKNOWN
    conflicts = _UNKNOWN if agent.conflicts is None else str(agent.conflicts)
    return [
        (agent.id, "bold"),
        (agent.state, _STATES.get(agent.state, "")),
        ("busy", "green") if agent.busy else "idle",
        agent.branch or _UNKNOWN,
        agent.task or _UNKNOWN,
        base,
        _changes(agent.changes),
        texts.age(agent.checkpoint.created_at) if agent.checkpoint is not None else _UNKNOWN,
        (str(agent.approvals), "yellow") if agent.approvals else "0",
        (conflicts, "red") if agent.conflicts else conflicts,
    ]


def _changes(changes: Dirty | None) -> Cell:
    if changes is None:
        return _UNKNOWN
    numbers = (
        (changes.conflicted, "conflicted"),
        (changes.staged, "staged"),
        (changes.unstaged, "changed"),
        (changes.untracked, "new"),
    )
    text = ", ".join(f"{number} {label}" for number, label in numbers if number)
    return (text, "red") if changes.conflicted else (text, "yellow") if text else "clean"
