"""`worktree cleanup` and `worktree sync` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, limited, lines
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.worktree.base_update import WorktreeSync
    from git_agentos.worktree.cleanup import WorktreeCleanup

_MOST_FILES = 20


def cleaned(result: WorktreeCleanup, style: Style) -> Text:
    """`cleanup`: what was archived and what is kept, with the reasons; the ids of what was archived under -q."""
    verb = "Would archive" if result.dry_run else "Archived"
    branch = "would be deleted" if result.dry_run else "is deleted"
    rows = []
    for each in result.archived:
        saved = f" (saved as {style.paint('yellow', abbrev(each.archive))})" if each.archive is not None else ""
        rows.append(f"{verb} '{each.id}': {quote.line(each.reason)}{saved}")
        rows += [f"  its branch {branch}"] if each.branch_deleted else []
    if not rows:
        rows.append("Nothing to archive.")
    rows += [f"Kept '{each.id}': {quote.line(each.reason)}" for each in result.kept]
    ids = [each.id for each in result.archived]
    hints = (f"'git agentos worktree create {ids[0]} --revive' restores it",) if ids and not result.dry_run else ()
    return Text(lines(rows), lines(ids), hints=hints)


def synced(result: WorktreeSync, style: Style) -> Text:
    """`sync`: which branches moved, which conflict, and which were left alone; the ids of the first under -q."""
    rows = []
    for each in result.synced:
        if each.after is None:
            rows.append(f"Would sync '{each.id}'.")
        else:
            tip = style.paint("yellow", abbrev(each.after))
            rows.append(f"Synced '{each.id}': {abbrev(each.before)} to {tip} (saved as {abbrev(each.saved)})")
    for conflict in result.conflicts:
        what = "changes that are not committed are in the way" if conflict.uncommitted else "it conflicts with its base"
        rows.append(f"{style.paint('red', 'conflict')} in '{conflict.id}': {what}:")
        rows += limited(conflict.files, _MOST_FILES)
    rows += [f"Skipped '{each.id}': {quote.line(each.reason)}" for each in result.skipped]
    if not rows:
        rows.append("There are no agents' worktrees.")
    ids = [each.id for each in result.synced]
    hints = []
    if ids and not result.dry_run:
        hints.append("'git agentos undo' in a worktree undoes its sync")
    if any(not each.uncommitted for each in result.conflicts):
        hints.append("have the agent merge its base in its worktree and resolve the conflict ('git merge')")
    if any(each.uncommitted for each in result.conflicts):
        hints.append("commit these changes in the worktree, then try again")
    return Text(lines(rows), lines(ids), hints=tuple(hints))
