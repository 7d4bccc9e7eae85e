"""Timeline: what an agent did, in one stream as `log timeline` has it, with what each event changed."""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from git_agentos.errors import WorktreeError
from git_agentos.ui import patches
from git_agentos.ui.background import Problem
from git_agentos.ui.changes import Changes, comparison_of
from git_agentos.ui.commands import Command, explain_restore
from git_agentos.ui.lines import Lines, OneLine
from git_agentos.ui.patches import Line
from git_agentos.ui.rows import Cell, Column, Rows
from git_agentos.ui.screens.files import Files
from git_agentos.ui.search import SearchedView
from git_agentos.ui.stream import Item, Reader, Stream, density
from git_agentos.ui.view import Hint
from git_agentos.util import quote
from git_agentos.workspace import Workspace

_KINDS = {"commit": "yellow", "restore": "cyan"}
_TYPES = {"error": "red", "decision": "cyan", "nudge": "yellow", "turn": "magenta"}
_WORDS = {"turn": "prompt"}
_COLUMNS = (Column("WHEN", 11), Column("WHAT", 10), Column("ID", 8), Column("", 10, grow=1))
_BLOCKS = " ▁▂▃▄▅▆▇█"
_DAY = 86_400
_PAUSE = 0.12  # seconds without a key until a preview is made
_SHORT = 12  # digits of an id in a command
_WIDE = 100
_MODES = ("what it changed", "what differs now")


class Timeline(SearchedView):
    """The events on the left, newest first; on the right what the event under the cursor changed."""

    DEFAULT_CSS = """
    Timeline #panes { layout: vertical; height: 1fr; }
    Timeline #preview { border-top: solid ansi_blue; }
    Timeline.wide #panes { layout: horizontal; }
    Timeline.wide #preview { border-top: none; border-left: solid ansi_blue; }
    """

    title = "Timeline"
    command = "log timeline [AGENT]"
    every = 2.0
    hints: ClassVar[tuple[Hint, ...]] = (
        Hint("r", "restore"),
        Hint("f", "files, hunks"),
        Hint("w", "worktree"),
        Hint("space", "compare"),
        Hint("[ ]", "preview"),
        Hint("/", "search"),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restore", show=False),
        Binding("f", "files", show=False),
        Binding("w", "worktree", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._agent: str | None = None
        self._reader: tuple[Workspace, str | None, Reader] | None = None
        self._stream: Stream | None = None
        self._mode = 0
        self._previewed: object = None

    def compose(self) -> ComposeResult:
        yield OneLine(id="day")
        with Container(id="panes"):
            yield Rows[Item](_COLUMNS, lambda each: each.key, cells, empty="reading …")
            yield Lines(id="preview")
        yield from self.compose_search()

    # -- what is shown -------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows[Item]:
        return self.query_one(Rows)

    def choose(self, agent: str) -> None:
        """Show the timeline of an agent."""
        if agent != self._agent:
            self._agent, self._stream = agent, None
            self.rows.unmark()
            self.rows.empty = "reading …"
            self.rows.replace(())
            self.query_one("#preview", Lines).replace(())
            self._previewed = None

    def read(self) -> Stream:
        workspace, agent = self.open(), self._agent
        if self._reader is None or self._reader[:2] != (workspace, agent):
            self._reader = (workspace, agent, Reader(workspace, agent))
        return self._reader[2].read()

    def show(self, found: Stream) -> None:
        if self._agent is not None and found.agent != self._agent:
            return  # another agent has been chosen meanwhile
        self._stream = found
        self.filter()

    def took(self) -> None:
        if self._stream is not None and not self._stream.is_whole:
            self.look(now=True)

    def filter(self) -> None:
        items, text = self._stream.items if self._stream is not None else (), self.searched
        self.rows.empty = "nothing found" if text else "no events yet"
        self.rows.replace([each for each in items if text in each.text] if text else items)
        self._draw_day()

    def find_folder(self) -> str | None:
        if self._stream is not None and self._stream.folder is None:
            raise WorktreeError(f"the worktree '{self._stream.agent}' has no folder")
        return self._stream.folder if self._stream is not None else None

    def _draw_day(self) -> None:
        """The density of the day of the event under the cursor: when something was done, and when it was quiet."""
        item, stream, line = self.rows.current, self._stream, self.query_one("#day", OneLine)
        if stream is None:
            return
        if item is None:
            line.replace((f" {stream.agent}", "bold"))
            return
        local = time.localtime(item.at)
        begin = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 0, 0, 0, 0, 0, -1))
        moments = [-each.at for each in stream.items]  # the newest first
        first, last = bisect.bisect_left(moments, -(begin + _DAY)), bisect.bisect_right(moments, -begin)
        head = f" {stream.agent}  {time.strftime('%Y-%m-%d', local)}  0h "
        tail = f" 24h  {last - first} that day, {len(stream.items)}{'' if stream.is_whole else '+'} in all"
        width = max(min(self.size.width - len(head) - len(tail) - 1, 96), 0)
        numbers = density([-each for each in moments[first:last]], begin, begin + _DAY, width)
        most = max(numbers, default=0) or 1
        strip = "".join(_BLOCKS[-(-each * (len(_BLOCKS) - 1) // most)] for each in numbers)
        here = place(item.at, begin, width)
        parts = [(head, "bold"), (strip[:here], "green")]
        if width:
            parts += [(strip[here : here + 1], "reverse green"), (strip[here + 1 :], "green")]
        line.replace(*parts, (tail, ""))

    # -- the preview ---------------------------------------------------------------------------------------------------

    def on_rows_moved(self, message: Rows.Moved) -> None:
        message.stop()
        self._draw_day()
        self._preview()

    def on_rows_marked(self, message: Rows.Marked) -> None:
        message.stop()
        self._preview()

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        message.stop()
        self.query_one("#preview", Lines).focus()

    def turn(self, by: int) -> None:
        self._mode = (self._mode + by) % len(_MODES)
        self._preview()

    def _preview(self) -> None:
        """Ask for the preview of what is chosen; it is made once no key has been pressed for a moment."""
        item, stream = self.rows.current, self._stream
        if item is None or stream is None:
            self.ui.background.drop("preview")
            self.query_one("#preview", Lines).replace(())
            self._previewed = None
            return
        marked = [each for each in self.rows.marks.values() if each.link is not None]
        changes = Changes(item, stream.folder, now=self._mode == 1)
        if len(marked) == 2:
            older, newer = sorted(marked, key=lambda each: each.at)
            changes = Changes(newer, stream.folder, older=older)
        if changes == self._previewed:
            return
        self._previewed = changes
        self.ui.background.request(
            "preview", lambda: comparison_of(changes, self.ui.open_workspace), self._show_preview, pause=_PAUSE
        )

    def _show_preview(self, found: list[Line] | Problem) -> None:
        lines = [Line("text", f"error: {found.message}", style="red")] if isinstance(found, Problem) else found

        def paint(number: int, _: str) -> Sequence[Segment]:
            return patches.paint(lines[number])

        self.query_one("#preview", Lines).replace([each.text for each in lines], paint)

    def action_leave_search(self) -> None:
        if not self.query_one(Input).display:
            self.rows.unmark()
        super().action_leave_search()

    # -- actions -------------------------------------------------------------------------------------------------------

    def action_restore(self) -> None:
        found = self._chosen()
        if found is None:
            return
        item, stream = found
        words = ("restore", *spec(item, stream))
        self.ui.perform(
            Command(words, stream.folder),
            f"Restore the state of {_when(item)} ({_first_line(item)}) in '{stream.agent}'?",
            plan=Command((*words, "--dry-run"), stream.folder),
            explain=explain_restore,
        )

    def action_files(self) -> None:
        found = self._chosen()
        if found is not None:
            item, stream = found
            assert stream.folder is not None
            self.app.push_screen(Files(spec(item, stream), stream.folder, self.ui))

    def action_worktree(self) -> None:
        found = self._chosen(needs_folder=False)
        if found is None:
            return
        item, stream = found
        id_ = item.event.checkpoint_id or ""
        name = f"{stream.agent}-{id_[:8]}"
        words = ("restore", *spec(item, stream), "--worktree", name)
        self.ui.perform(Command(words, stream.folder), f"Open this state as the new worktree '{name}'?")

    def _chosen(self, *, needs_folder: bool = True) -> tuple[Item, Stream] | None:
        """The checkpoint under the cursor; says why there is none to restore."""
        item, stream = self.rows.current, self._stream
        if item is None or stream is None:
            return None
        if item.link is None:
            self.ui.say("there is no checkpoint in this row", "yellow")
            return None
        if needs_folder and stream.folder is None:
            self.ui.say(f"'{stream.agent}' has no folder: w opens this state as a worktree", "yellow")
            return None
        return item, stream

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _WIDE, "wide")
        self._draw_day()


def place(moment: float, begin: float, width: int) -> int:
    """Where a moment is on a strip of so many cells for the day that begins at `begin` (seconds)."""
    return min(int((moment - begin) / _DAY * width), width - 1)


def spec(item: Item, stream: Stream) -> tuple[str, ...]:
    """The words that name a checkpoint in a command that is run in the folder of a timeline's worktree."""
    assert item.link is not None
    id_ = item.link.checkpoint[:_SHORT]
    other = stream.folder is None or item.link.timeline != stream.own
    return (id_, "--agent", item.link.timeline) if other else (id_,)


def cells(item: Item) -> list[Cell]:
    """A row."""
    event: Any = item.event
    is_entry = event.kind == "entry"
    kind = event.type if is_entry else event.kind
    style = _KINDS.get(event.kind) or _TYPES.get(event.type or "", "") if is_entry or event.kind in _KINDS else ""
    summary = _first_line(item)
    if event.kind == "checkpoint":
        summary = f"{summary} ({event.type})" if summary else f"({event.type})"
    return [_when(item), (_WORDS.get(kind, kind), style), "" if is_entry else event.id[:8], summary]


def _first_line(item: Item) -> str:
    return quote.line(item.event.summary.split("\n", 1)[0])


def _when(item: Item) -> str:
    return time.strftime("%m-%d %H:%M", time.localtime(item.at))
