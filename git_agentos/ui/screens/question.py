"""A command that is to be run, what it would do, and the question: `y`, or `n` and escape for no."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from git_agentos.ui.lines import Lines
from git_agentos.util import quote


class Question(ModalScreen[bool]):
    """`line` is the command as a user would type it, `plan` what it would do; True for yes."""

    DEFAULT_CSS = """
    Question { align: center middle; background: transparent; }
    Question > Vertical {
        width: 90%; max-width: 110; height: auto; max-height: 90%; border: round ansi_blue; background: ansi_default;
        padding: 0 1;
    }
    Question Static { width: 100%; height: auto; background: ansi_default; color: ansi_default; }
    Question #command { text-style: bold; padding: 0 0 0 2; }
    Question Lines { height: auto; max-height: 14; margin: 1 0; background: ansi_default; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("q,ctrl+c,enter,r,z,g,d,space", "nothing", show=False),  # neither a yes nor a no
    ]

    def __init__(self, question: str, line: str, plan: str = "") -> None:
        super().__init__()
        self._question, self.line, self._plan = question, line, plan

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(quote.block(self._question), markup=False)
            yield Static(f"$ {self.line}", id="command", markup=False)
            if self._plan:
                yield Lines(self._plan.splitlines())
            yield Static("y yes   n no", markup=False)

    def on_mount(self) -> None:
        for each in self.query(Lines):
            each.focus()

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    def action_nothing(self) -> None:
        """The key of an action must not answer by accident."""
