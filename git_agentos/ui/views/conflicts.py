"""Conflicts: which agents' branches conflict with which, where, and in which order to merge them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from git_agentos.ui.commands import Command, Ran
from git_agentos.ui.known_conflicts import number_of_each
from git_agentos.ui.lines import Lines
from git_agentos.ui.matrix import Matrix
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.ui.search import SearchedView
from git_agentos.ui.view import Hint
from git_agentos.util import quote
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import count
from git_agentos.worktree.conflicts import Conflict, Conflicts

_COLUMNS = (Column("MERGE", 5), Column("AGENT", 14, grow=1), Column("CONFLICTS WITH", 14))


class InOrder(NamedTuple):
    """An agent in the order of merging; `conflicts` is the number of those that it conflicts with."""

    place: int
    id: str
    conflicts: int


class ConflictsView(SearchedView):
    """The matrix on the left; the files of the pair under the cursor and the order on the right."""

    title = "Conflicts"
    command = "worktree conflicts"
    hints: ClassVar[tuple[Hint, ...]] = (Hint("m", "merge"), Hint("/", "search"))

    DEFAULT_CSS = """
    ConflictsView Matrix { width: 3fr; }
    ConflictsView Vertical { width: 2fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("m", "merge", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self._found: Conflicts | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Matrix()
            with Vertical():
                yield Lines()
                yield Rows[InOrder](_COLUMNS, lambda each: each.id, _cells, empty="reading …")
        yield from self.compose_search()

    def read(self) -> Conflicts:
        return self.ui.conflicts.find(self.open().context)

    def show(self, found: Conflicts) -> None:
        self._found = found
        self.filter()

    def filter(self) -> None:
        """Those that match, and those that conflict with them."""
        found = self._found
        if found is None:
            return
        shown = {each.id for each in found.agents if self.matches(each.id)}
        shown |= {id_ for each in found.pairs if not shown.isdisjoint((each.a, each.b)) for id_ in (each.a, each.b)}
        agents = [each.id for each in found.agents if each.id in shown]
        self.query_one(Matrix).replace(agents, {frozenset((each.a, each.b)): each.files for each in found.pairs})
        number, rows = number_of_each(found), self.query_one(Rows)
        rows.empty = "nothing found" if found.agents else "nothing to merge"
        places = [InOrder(place, id_, number.get(id_, 0)) for place, id_ in enumerate(found.order, 1)]
        rows.replace([each for each in places if each.id in shown])
        self._tell_pair()

    def on_matrix_moved(self) -> None:
        self._tell_pair()

    def _tell_pair(self) -> None:
        found, pair = self._found, self.query_one(Matrix).pair
        if found is None:
            return
        lines = [f"{each.id} is left out: {each.reason}" for each in found.left_out]
        if pair is None:
            lines += ["There are no two agents to compare."]
        else:
            both = {*pair}
            conflict = next((each for each in found.pairs if {each.a, each.b} == both), None)
            lines += _described(pair, conflict)
        self.query_one(Lines).replace(lines)

    def action_merge(self) -> None:
        """Merge the agent of the row under the cursor: in the order where that has the keys, else in the matrix."""
        rows = self.query_one(Rows)
        at = rows.current.id if rows.has_focus and rows.current is not None else self.query_one(Matrix).row
        if at is not None:
            words = ("worktree", "merge", at)
            plan = Command((*words, "--dry-run"))
            self.ui.perform(Command(words), f"Merge '{quote.line(at)}'?", plan=plan, explain=explain_merge)


def explain_merge(plan: Ran) -> str:
    """What a merge would do, by the document of its dry run."""
    found = plan.document or {}
    rows = [f"into {quote.line(str(found.get('target')))}, which is at {str(found.get('before'))[:8]}"]
    for each in found.get("sources", []):
        rows.append(f"{quote.line(each['id'])} ({each['commit'][:8]}): {each['state']}")
        if each.get("uncommitted"):
            rows.append(f"  {count(each['uncommitted'], 'file')} not committed there stay out of the merge")
    return "\n".join(rows)


def _described(pair: tuple[str, str], conflict: Conflict | None) -> list[str]:
    a, b = pair
    if a == b:
        return [f"{a}"]
    if conflict is None:
        return [f"{a} and {b} do not conflict."]
    return [f"{a} and {b} conflict in {count(len(conflict.files), 'file')}:", *conflict.files, "", *conflict.messages]


def _cells(at: InOrder) -> Sequence[Cell]:
    number = f"{at.conflicts} others" if at.conflicts != 1 else "1 other"
    return [str(at.place), at.id, (number, "red") if at.conflicts else "none"]
