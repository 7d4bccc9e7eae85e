"""`forget` and `storage` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, lines, size, table
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.retention.forgetting import Forgotten
    from git_agentos.retention.storage import Storage

_MOST = 20
_BAR = 30  # columns
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WORDS = {
    "manual": "created by request",
    "milestone": "milestones",
    "archive": "of archived or removed worktrees",
    "newest": "the newest of their worktrees",
    "undo": "needed by 'undo'",
    "interrupted": "needed by an interrupted command",
    "run": "needed by a run",
    "workflow": "needed by a workflow",
    "enclosing": "needed by the repository around this one",
    "unreadable": "damaged",
}


def forgotten(done: Forgotten) -> Text:
    """`forget`."""
    rows = [f"forgotten  {abbrev(oid)}" for oid in done.forgotten[:_MOST]]
    if len(done.forgotten) > _MOST:
        rows.append(f"and {len(done.forgotten) - _MOST} more")
    rows += [f"rewritten  {abbrev(each.old)} is {abbrev(each.new)} now" for each in done.rewritten[:_MOST]]
    if len(done.rewritten) > _MOST:
        rows.append(f"and {len(done.rewritten) - _MOST} more")
    would = "would be " if done.dry_run else ""
    rows.append(
        f"{count(len(done.forgotten), 'checkpoint')} {would}forgotten, {len(done.kept)} kept;"
        f" {size(done.freed_bytes)} {would}freed"
        if not done.rewritten
        else f"{count(len(done.rewritten), 'checkpoint')} {would}rewritten; {size(done.freed_bytes)} {would}freed"
    )
    reasons: dict[str, int] = {}
    for each in done.protected:
        reasons[each.reason] = reasons.get(each.reason, 0) + 1
    for kept in done.reasons:
        for rule in kept.rules:
            reasons[rule] = reasons.get(rule, 0) + 1
    rows += [f"  {number} {_WORDS.get(reason, f'by the rule {reason}')}" for reason, number in reasons.items()]
    return Text(
        lines(rows),
        quiet=lines([*done.forgotten, *(each.new for each in done.rewritten)]),
        warnings=tuple(f"not forgotten: {quote.line(each)}" for each in done.unreachable),
    )


def storage(found: Storage, style: Style) -> Text:
    """`storage`."""
    text = by_timeline(found, style)
    for head, each in (
        ("freed by the rules", [(size(rule.freeable_bytes), rule.rule) for rule in found.rules]),
        ("largest paths", [(size(path.bytes), quote.path(path.path)) for path in found.largest]),
        (
            "largest checkpoints",
            [(size(one.bytes), f"{abbrev(one.id)}  {quote.line(one.timeline)}") for one in found.largest_checkpoints],
        ),
    ):
        if each:
            text += ["", style.paint("bold", head), *(f"  {row}" for row in table(each, style))]
    return Text(lines(text), quiet=f"{found.total_bytes}\n")


def by_timeline(found: Storage, style: Style) -> list[str]:
    """What is taken in all, by each timeline, and by the rest of the repository."""
    rows = parts(found)
    most = max((number for _, number, _ in rows), default=0)
    text = [f"{size(found.total_bytes)} in all{_budget(found)}"]
    if rows:
        text += table(
            [(quote.line(name), size(number), _bar(number, most), note) for name, number, note in rows], style
        )
    if found.archives_bytes:
        text.append(f"{size(found.archives_bytes)} of that is in archives of worktrees")
    return text


def parts(found: Storage) -> list[tuple[str, int, str]]:
    """What takes room: its name, its bytes, and a note."""
    rows: list[tuple[str, int, str]] = [
        (
            each.timeline,
            each.bytes,
            f"{count(each.checkpoints, 'checkpoint')}, {size(each.freeable_bytes)} can be freed",
        )
        for each in found.timelines
    ]
    rows += [
        (name, number, "")
        for name, number in (
            ("runs", found.runs_bytes),
            ("databases", found.databases_bytes),
            ("kept folders", found.kept_bytes),
            ("pool", found.pool_bytes),
        )
        if number
    ]
    return rows


def _budget(found: Storage) -> str:
    return "" if found.budget_bytes is None else f", of {size(found.budget_bytes)} in agentos.diskBudget"


def _bar(number: int, most: int) -> str:
    """A bar whose length is the share of the largest."""
    eighths = 0 if not most else max(1, round(number * _BAR * 8 / most))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
