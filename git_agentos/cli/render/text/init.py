"""`init` as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import lines
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.protection.commands import Protection
    from git_agentos.protection.layers import Layer

_NAMES = {
    "git-commands": "git reset --hard, checkout --force, clean",
    "refs": "git branch -D, tag -d, stash clear",
    "history": "commits, merges, rebases, switches",
    "files": "rm -rf, editors and scripts",
    "new-worktrees": "the same in new worktrees",
    "ignored-files": "changes of ignored files, such as .env",
    "removed-worktrees": "git worktree remove --force",
    "lost-disk": "the loss of this disk or machine",
}
_WIDTH = 80
_FIRST = 43  # columns of what is protected from


def set_up(result: Protection, style: Style) -> Text:
    """`init`; under -q, the files that were written."""
    rows = list(_table(result.layers, style))
    if result.written:
        rows += [
            "",
            "Would write:" if result.dry_run else "Written:",
            *(f"  {quote.path(each)}" for each in result.written),
        ]
    elif not result.dry_run:
        rows += ["", "Nothing had to be written: everything was set up already."]
    if result.suggestions:
        rows += ["", "Suggested, for new worktrees:"]
        for each in result.suggestions:
            rows += [f"  {quote.line(each.command)}", f"    {quote.line(each.reason)}"]
    notes = tuple(
        f"not written, since it is outside of the repository: {quote.path(each)}" for each in result.not_written
    )
    hints = ("git agentos init --yes writes it",) if result.not_written and not result.dry_run else ()
    if not result.dry_run:
        hints = (*hints, "'git agentos init --remove' restores everything as it was")
    return Text(lines(rows), lines(map(quote.path, result.written)), notes=notes, hints=hints)


def taken_back(result: Protection, style: Style) -> Text:
    """`init --remove`; under -q, the files that were restored or removed."""
    if result.dry_run:
        rows = ["Would restore:" if result.removed else "Nothing would be restored: init has set up nothing here."]
    elif result.removed:
        rows = ["Restored as they were before:"]
    else:
        rows = ["There was nothing to restore: init has set up nothing here."]
    rows += [f"  {quote.path(each)}" for each in result.removed if each not in result.edited]
    if result.edited:
        what = "would be" if result.dry_run else "were"
        rows.append(f"Edited since: only the lines of git-agentos {what} removed from them:")
        rows += [f"  {quote.path(each)}" for each in result.edited]
    rows += ["", *_table(result.layers, style)]
    notes = ("checkpoints stay in the repository",) if result.removed and not result.dry_run else ()
    return Text(lines(rows), lines(map(quote.path, result.removed)), notes=notes)


def _table(layers: Sequence[Layer], style: Style) -> Iterator[str]:
    for acts, head, colour in ((True, "Protected from", "green"), (False, "Not protected from", "yellow")):
        rows = [each for each in layers if each.acts == acts]
        if rows:
            yield style.paint(colour, head)
        for each in rows:
            name = _NAMES.get(each.name, f"commands and edits of {each.name}")
            first, *rest = textwrap.wrap(
                quote.line(each.detail), _WIDTH - _FIRST - 2, break_long_words=False, break_on_hyphens=False
            ) or [""]
            yield f"  {quote.line(name):<{_FIRST - 2}}  {first}".rstrip()
            yield from (f"  {'':<{_FIRST - 2}}  {line}" for line in rest)
