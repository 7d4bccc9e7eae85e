"""A table on the terminal: columns as wide as they have to be, and the state, which is the second, in its colour."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.cli.output import Style


def lines(head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str], style: Style) -> list[str]:
    """The lines of a table; `colours` has that of each row's second cell."""
    every = [head, *rows]
    widths = [max(len(row[n]) for row in every) for n in range(len(head))]
    found = []
    for number, row in enumerate(every):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number == 0:
            cells = [style.paint("bold", cell) for cell in cells]
        else:
            cells[1] = style.paint(colours[number - 1], cells[1])
        found.append("  ".join(cells).rstrip())
    return found
