"""Text of any length, of which only the visible lines are drawn; and one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from git_agentos.util import quote

_TAB = 4
_LONGEST = 2000  # characters of a line


class Lines(ScrollView, can_focus=True):
    """Lines that can be scrolled. `paint` colours one when it is drawn."""

    DEFAULT_CSS = """
    Lines { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,less_than_sign", "jump(0)", show=False),
        Binding("end,greater_than_sign", "jump(-1)", show=False),
    ]

    def __init__(self, lines: Sequence[str] = (), *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._lines: Sequence[str] = lines
        self._paint: Callable[[int, str], Sequence[Segment]] | None = None

    @property
    def lines(self) -> Sequence[str]:
        return self._lines

    def replace(
        self, lines: Sequence[str], paint: Callable[[int, str], Sequence[Segment]] | None = None, *, keep: bool = False
    ) -> None:
        """Show other lines, from the first one on; with `keep`, from where it was scrolled to."""
        self._lines, self._paint = lines, paint
        self.virtual_size = Size(self.size.width, len(lines))
        if not keep:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.refresh(layout=self.styles.height is not None and self.styles.height.is_auto)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 (Textual's)
        return len(self._lines)

    def action_scroll(self, by: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, immediate=True)

    def action_page(self, by: int) -> None:
        self.action_scroll(by * max(self.size.height - 1, 1))

    def action_jump(self, to: int) -> None:
        self.scroll_to(y=0 if to == 0 else len(self._lines), animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        width, number = self.size.width, self.scroll_offset.y + y
        if number >= len(self._lines):
            return Strip.blank(width, Style())
        text = self._lines[number][:_LONGEST]
        parts = [Segment(text, Style())] if self._paint is None else self._paint(number, text)
        segments = [Segment(_safe(each.text), each.style or Style()) for each in parts]
        return Strip(segments).crop(0, width).adjust_cell_length(width, Style())


class OneLine(Widget):
    """One line of parts with rich styles."""

    DEFAULT_CSS = """
    OneLine { height: 1; width: 1fr; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 (Textual's names)
        super().__init__(id=id, classes=classes)
        self.parts: Sequence[tuple[str, str]] = ()

    def replace(self, *parts: tuple[str, str]) -> None:
        """Show other parts, each with its style."""
        if parts != self.parts:
            self.parts = parts
            self.refresh()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 (there is one)
        segments = [Segment(quote.line(text), Style.parse(style)) for text, style in self.parts]
        return Strip(segments).crop(0, self.size.width).adjust_cell_length(self.size.width, Style())


def _safe(text: str) -> str:
    return text if text.isprintable() else quote.line(text.replace("\t", " " * _TAB))
