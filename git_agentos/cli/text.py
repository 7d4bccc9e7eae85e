"""Text for people: a result as text, and the style in which it is rendered."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_COLOURS = {"yellow": "33", "red": "31", "green": "32", "cyan": "36", "bold": "1"}


@dataclass(frozen=True)
class Style:
    """How text is rendered: with colours, for a terminal, and with ages relative to `now`."""

    colour: bool = False
    terminal: bool = False
    now: float = field(default_factory=time.time)

    def paint(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[m" if self.colour else text


@dataclass(frozen=True)
class Text:
    """A result as text. `result` goes to stdout (bytes as they are), the rest to stderr.

    Under `-q`, `quiet` is printed instead of `result` (None: `result` is), without notes and hints; warnings stay.
    """

    result: str | bytes = ""
    quiet: str | bytes | None = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
