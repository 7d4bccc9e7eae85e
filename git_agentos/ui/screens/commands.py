"""The commands that were run, the newest first: with `@`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from git_agentos.ui.commands import Ran
from git_agentos.ui.lines import Lines

_EMPTY = "No command was run yet: each action here is one."


class CommandLog(ModalScreen[None]):
    """Each command with its time, exit code and duration, as a user would type it, and what it said if it failed."""

    DEFAULT_CSS = """
    CommandLog { align: center middle; background: transparent; }
    CommandLog > Vertical {
        width: 95%; height: 90%; border: round ansi_blue; background: ansi_default; padding: 0 1;
    }
    CommandLog Static { width: 100%; height: auto; background: ansi_default; color: ansi_default; }
    CommandLog Lines { height: 1fr; background: ansi_default; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,at", "leave", "Leave")]

    def __init__(self, ran: Sequence[Ran]) -> None:
        super().__init__()
        self._ran = ran

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Commands that were run, the newest first; escape leaves", markup=False)
            yield Lines([line for each in reversed(self._ran) for line in described(each)] or [_EMPTY])

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def action_leave(self) -> None:
        self.dismiss()


def described(ran: Ran) -> list[str]:
    """A command in a few lines."""
    when = time.strftime("%H:%M:%S", time.localtime(ran.began))
    lines = [f"{when}  exit {ran.code}  {ran.seconds:.1f} s  $ {ran.line}"]
    more = [f"error: {ran.message}"] if ran.message is not None else []
    more += [f"hint: {ran.hint}"] if ran.hint is not None else []
    more += ran.said.strip().splitlines()
    return [*lines, *(f"          {each}" for each in more)]
