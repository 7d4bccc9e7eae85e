"""The matrix of who conflicts with whom: a cell for each pair has the number of files, and a colour that grows with it.

Columns are numbered as the rows are. The cursor is on a pair; the arrows and `hjkl` move it. At the last column, `l`
goes on to the pane on the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from git_agentos.ui.rows import fitted

_NAME, _CELL = 18, 4  # cells of a terminal
_NONE, _SELF = "·", "-"
# From how many files on a pair has which colour; the number stands there as well.
_HEAT = ((10, "white on red"), (4, "black on yellow"), (1, "black on cyan"))


class Matrix(ScrollView, can_focus=True):
    """Agents against agents."""

    DEFAULT_CSS = """
    Matrix { height: 1fr; width: 1fr; overflow-x: auto; overflow-y: auto; scrollbar-size: 1 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1, 0)", show=False),
        Binding("k,up", "move(-1, 0)", show=False),
        Binding("l,right", "move(0, 1)", show=False),
        Binding("h,left", "move(0, -1)", show=False),
        Binding("home,less_than_sign", "jump(0)", show=False),
        Binding("end,greater_than_sign", "jump(-1)", show=False),
    ]

    class Moved(Message):
        """The cursor is on another pair."""

    def __init__(self) -> None:
        super().__init__()
        self._agents: Sequence[str] = ()
        self._files: Mapping[frozenset[str], Sequence[str]] = {}
        self._row, self._column = 0, 1

    @property
    def row(self) -> str | None:
        """The agent of the row under the cursor."""
        return self._agents[self._row] if self._agents else None

    @property
    def pair(self) -> tuple[str, str] | None:
        """The two agents under the cursor; None where there are no two."""
        if len(self._agents) < 2:
            return None
        return self._agents[self._row], self._agents[self._column]

    def replace(self, agents: Sequence[str], files: Mapping[frozenset[str], Sequence[str]]) -> None:
        """Show these agents, and the files in which pairs of them conflict; the cursor stays on the same two."""
        before = self.pair
        self._agents, self._files = agents, files
        if before is not None and {*before} <= {*agents}:
            self._row, self._column = agents.index(before[0]), agents.index(before[1])
        else:
            self._row = min(self._row, max(len(agents) - 1, 0))
            self._column = min(self._column, max(len(agents) - 1, 0))
        self.virtual_size = Size(_NAME + _CELL * len(agents), len(agents) + 1)
        self.refresh()
        if self.pair != before:
            self.post_message(self.Moved())

    def action_move(self, down: int, right: int) -> None:
        if right > 0 and self._column >= len(self._agents) - 1:
            self.app.action_pane(1)  # type: ignore[attr-defined]  # the application has it
            return
        self._go(self._row + down, self._column + right)

    def action_jump(self, to: int) -> None:
        self._go(to % max(len(self._agents), 1), self._column)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        row = self.scroll_offset.y + offset.y - 1
        column = (self.scroll_offset.x + offset.x - _NAME) // _CELL
        if 0 <= row < len(self._agents):
            self._go(row, column)

    def _go(self, row: int, column: int) -> None:
        most = len(self._agents) - 1
        row, column = max(0, min(row, most)), max(0, min(column, most))
        if (row, column) == (self._row, self._column) or most < 0:
            return
        self._row, self._column = row, column
        left, width = _NAME + _CELL * column, self.size.width
        x = min(max(self.scroll_offset.x, left + _CELL - width), left - _NAME)
        y = min(max(self.scroll_offset.y, row + 2 - self.size.height), row)
        self.scroll_to(x=x, y=y, animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        width, number = self.size.width, self.scroll_offset.y + y - 1
        if y == 0:
            # The heading scrolls sideways only.
            segments = [Segment(fitted("", _NAME), Style(bold=True))]
            segments += [self._title(each) for each in range(len(self._agents))]
        elif number < len(self._agents):
            segments = self._line(number)
        else:
            text = "  no agents to compare" if y == 1 and not self._agents else ""
            segments = [Segment(fitted(text, width), Style())]
        name, cells = Strip(segments[:1]), Strip(segments[1:])
        shown = [*name, *cells.crop(self.scroll_offset.x, self.scroll_offset.x + max(width - _NAME, 0))]
        return Strip(shown).adjust_cell_length(width, Style())

    def _title(self, number: int) -> Segment:
        return Segment(f"{number + 1:>{_CELL - 1}} ", Style(bold=True, underline=number == self._column))

    def _line(self, number: int) -> list[Segment]:
        is_current = number == self._row
        name = fitted(f"{'>' if is_current else ' '}{number + 1:>2} {self._agents[number]}", _NAME - 1) + " "
        segments = [Segment(name, Style(bold=is_current))]
        for other, id_ in enumerate(self._agents):
            files = len(self._files.get(frozenset((self._agents[number], id_)), ()))
            text = _SELF if other == number else str(files) if files else _NONE
            heat = next((style for least, style in _HEAT if files >= least), "")
            style = Style.parse(heat) if heat else Style()
            if is_current and other == self._column:
                shown, style = f"[{text:>{_CELL - 2}}]", style + Style(bold=True, reverse=self.has_focus and not heat)
            else:
                shown = f"{text:>{_CELL - 1}} "
            segments.append(Segment(shown, style))
        return segments
