"""The keys: with `?`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from git_agentos.ui.lines import Lines
from git_agentos.ui.view import Hint, View

EVERYWHERE = (
    Hint("1-5, tab", "to a view"),
    Hint("j k", "down, up (also the arrows, page up and down, < and >)"),
    Hint("h l", "to the pane on the left, on the right"),
    Hint("[ ]", "what the pane shows: the one before, the next"),
    Hint("enter", "open"),
    Hint("space", "mark"),
    Hint("/", "search: only what has the text is shown; escape leaves it"),
    Hint("z", "undo the last restore"),
    Hint("ctrl-z", "undo the undo"),
    Hint("@", "the commands that were run"),
    Hint("R", "read again"),
    Hint("?", "these keys"),
    Hint("q", "quit"),
)


class Help(ModalScreen[None]):
    """The keys of a view, and those that work everywhere."""

    DEFAULT_CSS = """
    Help { align: center middle; background: transparent; }
    Help > Vertical {
        width: 80; max-width: 95%; height: auto; max-height: 95%; border: round ansi_blue; background: ansi_default;
        padding: 0 1;
    }
    Help Static { width: 100%; height: auto; background: ansi_default; color: ansi_default; }
    Help Lines { height: auto; max-height: 1fr; background: ansi_default; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "leave", "Leave")]

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        view = self._view
        lines = [view.title, *_keys(view.hints), "", "Everywhere", *_keys(EVERYWHERE), ""]
        lines += [f"The same as text: git agentos {view.command}"] if view.command else []
        with Vertical():
            yield Static("Keys; escape leaves", markup=False)
            yield Lines(lines)

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def action_leave(self) -> None:
        self.dismiss()


def _keys(hints: Sequence[Hint]) -> list[str]:
    return [f"  {each.key:<10}{each.does}" for each in hints]
