"""A list of which only the visible rows are drawn: one of 10,000 is as fast as one of ten.

A row is told from another by its key. When the items are replaced, the cursor stays on the row of the same key, and so
do the marks: an action never gets a row that its user has not seen under the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from git_agentos.util import quote
from git_agentos.util.named_tuple import NamedTuple

Item = TypeVar("Item")
Cell = str | tuple[str, str]
"""The text of a cell, or its text and rich style."""

_GAP = 2
_CURSOR, _MARK, _NONE = ">", "*", " "
_GUTTER = 2


class Column(NamedTuple):
    """A column of so many cells; those that `grow` share what is left. It is shown if the list is at least `from_width`
    cells wide."""

    title: str
    width: int
    grow: int = 0
    from_width: int = 0


class Rows(ScrollView, Generic[Item], can_focus=True):
    """A list with a heading. `key` tells items from one another, `cells` makes the cells of one, a cell for each
    column; `empty` is said where there is none."""

    DEFAULT_CSS = """
    Rows { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("home,less_than_sign", "jump(0)", "First", show=False),
        Binding("end,greater_than_sign", "jump(-1)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
        Binding("space", "mark", "Mark", show=False),
    ]

    class Moved(Message):
        """The cursor is on another item, or the item has changed."""

        def __init__(self, rows: Rows[Any]) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows[Any]:
            return self.rows

    class Chosen(Moved):
        """Enter, or a click on the row of the cursor."""

    class Marked(Moved):
        """The marks have changed."""

    def __init__(
        self,
        columns: Sequence[Column],
        key: Callable[[Item], str],
        cells: Callable[[Item], Sequence[Cell]],
        *,
        empty: str = "nothing",
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._columns, self._key, self.cells = tuple(columns), key, cells
        self.empty = empty
        self._items: Sequence[Item] = ()
        self.cursor = 0
        self.marks: dict[str, Item] = {}

    # -- what is shown -------------------------------------------------------------------------------------------------

    @property
    def items(self) -> Sequence[Item]:
        return self._items

    @property
    def current(self) -> Item | None:
        """The item under the cursor; None if there is none."""
        return self._items[self.cursor] if self._items else None

    def replace(self, items: Sequence[Item]) -> None:
        """Show other items; the cursor stays on the same one. Where that is gone, it stays at the same place."""
        before = self.current
        key = None if before is None else self._key(before)
        self._items = items
        if key is not None and not (self.cursor < len(items) and self._key(items[self.cursor]) == key):
            places = (n for n, each in enumerate(items) if self._key(each) == key)
            self.cursor = next(places, min(self.cursor, max(len(items) - 1, 0)))
        if self.marks:
            there = {self._key(each): each for each in items}
            self.marks = {key: there[key] for key in self.marks if key in there}
        self.virtual_size = Size(self.size.width, len(items) + 1)
        self._follow()
        self.refresh()
        if self.current != before:
            self.post_message(self.Moved(self))

    def put_cursor(self, number: int) -> None:
        """Put the cursor on the item of that number; the nearest one where there is none."""
        number = max(0, min(number, len(self._items) - 1))
        if number != self.cursor:
            self.cursor = number
            self._follow()
            self.refresh()
            self.post_message(self.Moved(self))

    def unmark(self) -> None:
        """Take all marks away."""
        if self.marks:
            self.marks = {}
            self.refresh()
            self.post_message(self.Marked(self))

    # -- keys and mouse ------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        self.put_cursor(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.put_cursor(self.cursor + by * max(self._height - 1, 1))

    def action_jump(self, to: int) -> None:
        self.put_cursor(to % max(len(self._items), 1))

    def action_choose(self) -> None:
        if self._items:
            self.post_message(self.Chosen(self))

    def action_mark(self) -> None:
        item = self.current
        if item is None:
            return
        key = self._key(item)
        if self.marks.pop(key, None) is None:
            self.marks[key] = item
        self.refresh()
        self.post_message(self.Marked(self))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        number = -1 if offset is None else self.scroll_offset.y + offset.y - 1
        if offset is None or offset.y == 0 or not 0 <= number < len(self._items):
            return
        if number == self.cursor and event.chain > 1:
            self.action_choose()
        else:
            self.put_cursor(number)

    # -- drawing -------------------------------------------------------------------------------------------------------

    @property
    def _height(self) -> int:
        """How many items can be seen."""
        return max(self.size.height - 1, 0)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._items) + 1)
        self._follow()

    def on_focus(self) -> None:
        self._tell_terminal()

    def _follow(self) -> None:
        """Scroll so that the cursor is seen."""
        top, height = self.scroll_offset.y, max(self._height, 1)
        wanted = min(max(top, self.cursor - height + 1), self.cursor)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self._tell_terminal()

    def _tell_terminal(self) -> None:
        """Put the terminal's own cursor there as well: a screen reader follows it."""
        if self.has_focus:
            row = self.cursor - self.scroll_offset.y + 1
            self.app.cursor_position = self.content_region.offset + Offset(0, row)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            titles = [(each.title, "bold") for each in self._columns]
            return self._strip("  ", titles, width, Style())
        number = self.scroll_offset.y + y - 1
        if number >= len(self._items):
            text = f"  {self.empty}" if not self._items and y == 1 else ""
            return Strip([Segment(fitted(text, width), Style())], width)
        item = self._items[number]
        is_current = number == self.cursor
        gutter = (_CURSOR if is_current else _NONE) + (_MARK if self._key(item) in self.marks else _NONE)
        style = Style(reverse=True) if is_current and self.has_focus else Style(bold=True) if is_current else Style()
        return self._strip(gutter, self.cells(item), width, style)

    def _strip(self, gutter: str, cells: Sequence[Cell], width: int, style: Style) -> Strip:
        segments = [Segment(gutter, style)]
        for (_, size), cell in zip(self._layout(width), cells, strict=True):
            if not size:
                continue
            text, own = (cell, "") if isinstance(cell, str) else cell
            # What is reversed has no colour: it would be that of the background.
            segments.append(
                Segment(fitted(text, size), style + Style.parse(own) if own and not style.reverse else style)
            )
            segments.append(Segment(" " * _GAP, style))
        return Strip(segments).adjust_cell_length(width, style)

    def _layout(self, width: int) -> list[tuple[Column, int]]:
        """The columns with their widths; 0 for those that are not shown."""
        shown = [each for each in self._columns if width + 1 >= each.from_width]  # the scroll bar takes one
        left = width - _GUTTER - sum(each.width + _GAP for each in shown) + _GAP
        growing = sum(each.grow for each in shown)
        more = {id(each): max(left, 0) * each.grow // growing for each in shown if growing}
        return [(each, each.width + more.get(id(each), 0) if each in shown else 0) for each in self._columns]


def fitted(text: str, width: int) -> str:
    """Text that cannot harm a terminal, in exactly so many cells."""
    shown = quote.line(text)
    if cell_len(shown) > width > 1:
        return set_cell_size(shown, width - 1) + "…"
    return set_cell_size(shown, width)
