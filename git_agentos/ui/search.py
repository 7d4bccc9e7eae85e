"""A view in which `/` searches: while a text is in the box at the bottom, only what has it is shown."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from git_agentos.ui.rows import Cell
from git_agentos.ui.view import View


class SearchedView(View):
    """A subclass yields `compose_search()` last, and gives `filter`, which shows what `matches`."""

    DEFAULT_CSS = """
    SearchedView Input { height: 1; border: none; padding: 0; background: ansi_default; display: none; }
    SearchedView Input:focus { border: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", show=False),
        Binding("escape", "leave_search", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.searched = ""  # what is searched for, in small letters; empty: everything is shown

    def filter(self) -> None:
        """Show what matches of what was read."""
        raise NotImplementedError

    def matches(self, *cells: Cell) -> bool:
        """Whether a row with these cells has what is searched for."""
        return any(self.searched in (each if isinstance(each, str) else each[0]).casefold() for each in cells)

    def compose_search(self) -> ComposeResult:
        yield Input(id="search", placeholder="search", select_on_focus=False)

    def action_search(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.searched = event.value.casefold()
        self.filter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._focus()

    def action_leave_search(self) -> None:
        box = self.query_one(Input)
        if box.display:
            box.display, box.value = False, ""
            self._focus()

    def _focus(self) -> None:
        widget = self.find_focus()
        if widget is not None:
            widget.focus()
