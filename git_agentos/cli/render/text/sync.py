"""`sync` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, counts, lines, table
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.sync.results import Synchronisation, SyncStatus, Transferred
    from git_agentos.sync.scan import HeldBack


def synchronised(done: Synchronisation) -> Text:
    """`sync`."""
    would = "would be " if done.dry_run else ""
    rows = [f"{would}pushed   {_row(each)}" for each in done.pushed]
    rows += [f"{would}fetched  {_row(each)}" for each in done.fetched]
    if not rows and not done.held_back and not done.refused:
        rows.append(f"Nothing is new here or on {quote.line(done.remote)}.")
    warnings = [f"held back  {_held_back(each)}" for each in done.held_back]
    warnings += [f"refused  {quote.line(each.timeline)}: {quote.line(each.reason)}" for each in done.refused]
    hints = []
    if any(each.fingerprint is not None for each in done.held_back):
        hints.append("what is no secret: git agentos sync --allow FINGERPRINT")
    if any(each.fingerprint is None for each in done.held_back):
        hints.append("an archive with ignored files (.env and others) does not leave this machine")
    quiet = lines(f"{each.host}/{each.timeline}" for each in (*done.pushed, *done.fetched))
    return Text(lines(rows), quiet, warnings=tuple(warnings), hints=tuple(hints))


def _row(each: Transferred) -> str:
    number = "" if each.checkpoints is None else f"  {count(each.checkpoints, 'checkpoint')}"
    return f"{quote.line(each.timeline)}  {quote.line(each.host)}{number}"


def _held_back(each: HeldBack) -> str:
    what = f"{abbrev(each.checkpoint)} of {quote.line(each.timeline)}"
    if each.path is None:
        return f"{what}: it has ignored files"
    where = quote.path(each.path) + (f":{each.line}" if each.line is not None else "")
    return f"{what}: {quote.line(each.kind)} in {where}  {quote.line(each.fingerprint or '')}"


def status(found: SyncStatus, style: Style) -> Text:
    """`sync status`."""
    rows = []
    for each in found.timelines:
        behind = [(each.behind, "behind")] if each.behind is not None else []
        words = counts([(each.ahead, "ahead"), *behind, (each.held_back, "held back")])
        if each.behind is None:
            words = ", ".join(filter(None, (words, "new there")))
        rows.append((quote.line(each.timeline), quote.line(each.host), words or "the same"))
    head = f"This clone is {quote.line(found.host)}; the remote is {quote.line(found.remote)}."
    shown = [head, *(table(rows, style) if rows else [])]
    return Text(lines(shown), lines(each.timeline for each in found.timelines if each.ahead or each.behind != 0))
