"""Text for people: a result as text, and the style in which it is rendered."""

from __future__ import annotations

import time

from git_agentos.util.named_tuple import NamedTuple

_COLOURS = {"yellow": "33", "red": "31", "green": "32", "cyan": "36", "bold": "1"}


class Style:
    """How text is rendered: with colours, for a terminal, and with ages relative to `now`."""

    def __init__(self, *, colour: bool = False, terminal: bool = False, now: float | None = None) -> None:
        self.colour = colour
        self.terminal = terminal
        self.now = time.time() if now is None else now

    def paint(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[m" if self.colour else text


class Text(NamedTuple):
    """A result as text. `result` goes to stdout (bytes as they are), the rest to stderr.

    Under `-q`, `quiet` is printed instead of `result` (None: `result` is), without notes and hints; warnings stay.
    """

    result: str | bytes = ""
    quiet: str | bytes | None = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
