"""A pane that shows what commands print about an item: one page at a time, `[` and `]` turn them.

The commands only read, so they are not recorded for `@`; each page has its command as its heading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical

from git_agentos.ui.background import Problem
from git_agentos.ui.commands import Command
from git_agentos.ui.host import Host
from git_agentos.ui.lines import Lines, OneLine
from git_agentos.ui.rows import Rows
from git_agentos.ui.search import SearchedView
from git_agentos.util.named_tuple import NamedTuple

Item = TypeVar("Item")

_PAUSE = 0.1  # seconds without another item before a command is started


class Page(NamedTuple):
    """A page: its name, the command that prints it, and whether it is a patch."""

    name: str
    command: Command
    is_patch: bool = False


class Pages(Vertical):
    """`host` runs the commands."""

    DEFAULT_CSS = """
    Pages { height: 1fr; width: 1fr; }
    """

    _number: ClassVar[str] = "pages"

    def __init__(self, host: Callable[[], Host]) -> None:
        super().__init__()
        self._host = host
        self._pages: Sequence[Page] = ()
        self._page = 0
        self._shown: Page | None = None  # whose text is in the pane

    def compose(self) -> ComposeResult:
        yield OneLine(classes="names")
        yield OneLine(classes="command")
        yield Lines()

    @property
    def lines(self) -> Lines:
        return self.query_one(Lines)

    def replace(self, pages: Sequence[Page]) -> None:
        """Show the pages of an item: the one with the same name as now, or else the first. What a page says is read
        again even if it is the same."""
        name = self._pages[self._page].name if self._pages else None
        self._pages = pages
        self._page = next((number for number, each in enumerate(pages) if each.name == name), 0)
        self._request()

    def turn(self, by: int) -> None:
        """To the page before or after."""
        if self._pages:
            self._page = (self._page + by) % len(self._pages)
            self._request()

    def open(self, name: str) -> None:
        """Show the page of that name, if there is one."""
        for number, each in enumerate(self._pages):
            if each.name == name:
                self._page = number
                self._request()

    def _request(self) -> None:
        name = f"{self._number} {id(self)}"
        if not self._pages:
            self._shown = None
            self._host().background.drop(name)
            for each in self.query(OneLine):
                each.replace()
            self.lines.replace(())
            return
        page = self._pages[self._page]
        self._tell_heading()
        if page != self._shown:
            self.lines.replace(("reading …",))
        commands = self._host().commands
        self._host().background.request(
            name, lambda: commands.text(page.command), lambda found: self._take(page, found), pause=_PAUSE
        )

    def _tell_heading(self) -> None:
        page = self._pages[self._page]
        names = [
            part
            for number, each in enumerate(self._pages)
            for part in ((f" {each.name} ", "bold reverse" if number == self._page else ""), (" ", ""))
        ]
        self.query_one(".names", OneLine).replace(*names)
        self.query_one(".command", OneLine).replace((f"$ {self._host().commands.line(page.command)}", "bold"))

    def _take(self, page: Page, found: Sequence[str] | Problem) -> None:
        if not self.is_attached:
            return
        lines = self.lines
        text = (f"error: {found.message}",) if isinstance(found, Problem) else found
        is_same = page == self._shown
        if is_same and list(text) == list(lines.lines):
            return
        at_end = is_same and lines.scroll_offset.y > 0 and lines.scroll_offset.y >= lines.max_scroll_y
        self._shown = page
        lines.replace(text, paint_patch if page.is_patch else None, keep=is_same)
        if at_end:  # it follows what is written
            lines.action_jump(-1)


class PagedView(SearchedView, Generic[Item]):
    """A view that has a list, and below it the pages of the item under the cursor."""

    DEFAULT_CSS = """
    PagedView Rows { height: 2fr; }
    PagedView Pages { height: 3fr; }
    """

    nothing: ClassVar[str] = ""  # what is said where there is no item

    def __init__(self) -> None:
        super().__init__()
        self._found: Sequence[Item] = ()

    def make_rows(self) -> Rows[Item]:
        """The list, while nothing is in it."""
        raise NotImplementedError

    def pages_of(self, item: Item) -> Sequence[Page]:
        """What there is to see of an item."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.make_rows()
            yield Pages(lambda: self.ui)
        yield from self.compose_search()

    @property
    def rows(self) -> Rows[Item]:
        return self.query_one(Rows)

    @property
    def pages(self) -> Pages:
        return self.query_one(Pages)

    def show(self, found: Sequence[Item]) -> None:
        self._found = found
        self.filter()

    def filter(self) -> None:
        rows = self.rows
        rows.empty = "nothing found" if self._found else self.nothing
        rows.replace([each for each in self._found if self.matches(*rows.cells(each))])

    def show_pages(self) -> None:
        """Show what there is to see now of the item under the cursor."""
        item = self.rows.current
        self.pages.replace(() if item is None else self.pages_of(item))

    def on_rows_moved(self) -> None:
        self.show_pages()

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        message.stop()
        self.pages.lines.focus()

    def turn(self, by: int) -> None:
        self.pages.turn(by)


def paint_patch(_number: int, line: str) -> Sequence[Segment]:
    """A line of a patch: its first character says what it is, a colour as well."""
    if line.startswith(("+++", "---", "diff ", "index ")):
        return (Segment(line, Style(bold=True)),)
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return (Segment(line, Style(color=colours.get(line[:1]))),)
