"""`report` as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from git_agentos.cli.render.text import retention, run, worktree
from git_agentos.cli.render.text.layout import lines, local_time, relative_time, table
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.report.collection import Report
    from git_agentos.report.lanes import Mark

# The kinds of marks, in the order in which they are shown.
KINDS = ("commit", "merge", "checkpoint", "restore", "turn", "run", "decision", "error")


def report(result: Report, style: Style, page: str | None) -> Text:
    """`report`; with --html, the path of the page. The agents under -q."""
    if page is not None:
        return Text(f"Wrote the report to {quote.path(page)}\n", f"{quote.path(page)}\n")
    sections = (
        ("Conflicts", worktree.conflicts(result.conflicts, style)),
        ("Storage", Text(lines(retention.by_timeline(result.storage, style)))),
        ("Runs", run.listing(result.runs, style)),
    )
    rows = [style.paint("bold", f"Agents{_since(result)}"), *(f"  {row}" for row in _agents(result, style))]
    for title, section in sections:
        shown = str(section.result).splitlines() or section.notes
        rows += ["", style.paint("bold", title), *(f"  {row}".rstrip() for row in shown)]
    warnings = [warning for _, section in sections for warning in section.warnings]
    hints = ("'git agentos report --html FILE' writes an HTML page",) if style.terminal else ()
    return Text(lines(rows), lines(each.id for each in result.agents), warnings=tuple(warnings), hints=hints)


def _since(result: Report) -> str:
    return "" if result.since is None else f", since {local_time(result.since)}"


def _agents(result: Report, style: Style) -> list[str]:
    if not result.agents:
        return ["no agents' worktrees"]
    rows = [
        (
            each.id,
            (each.state, worktree.COLOURS[each.state]),
            quote.line(each.branch or "-"),
            relative_time(each.last_at, style.now) if each.last_at is not None else "-",
            ", ".join(numbers(each.marks)) or "nothing",
        )
        for each in result.agents
    ]
    return table(rows, style, ("AGENT", "STATE", "BRANCH", "LAST", "DID"))


def numbers(marks: Iterable[Mark]) -> list[str]:
    """How many marks of each kind there are."""
    found = Counter(mark.kind for mark in marks)
    return [count(found[kind], kind) for kind in KINDS if found[kind]]
