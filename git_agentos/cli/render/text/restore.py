"""`restore`, `undo`, `recover` and `pick` as text.

The reader may fear for their work: first what is true now, then where the state before is saved, then the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli.render.text.checkpoint import skipped
from git_agentos.cli.render.text.layout import abbrev, lines, path_changes
from git_agentos.cli.text import Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.workspace import Pick, Recovery, Restoration


def restored(result: Restoration, *, kept_branch: bool = False, elsewhere: bool = False) -> Text:
    """`restore`; `elsewhere` for a restore into a new worktree."""
    target = abbrev(result.checkpoint)
    if elsewhere:
        rows = [
            f"Restored checkpoint {target} into a new worktree: {quote.path(result.worktree_path)}",
            f"It is on branch '{quote.line(result.branch)}'." if result.branch else "Its HEAD is detached.",
            "This worktree was not changed.",
        ]
        quiet = f"{abbrev(result.saved)}\n" if result.saved else ""
        return Text(lines(rows), quiet, warnings=_not_changed(result))
    if result.saved is None and not result.changed and not result.removed and kept_branch:
        return Text(lines(["Nothing was chosen; nothing was changed."]), "")
    if result.dry_run:
        return _dry_run(result, f"restore checkpoint {target}")
    rows = [
        f"Restored checkpoint {target}: {path_changes(result.changed, result.removed)}.",
        _head(result, kept_branch=kept_branch),
    ]
    return _after_restore(result, rows, "returns to it")


def undone(result: Restoration) -> Text:
    """`undo`."""
    target = abbrev(result.checkpoint)
    if result.dry_run:
        return _dry_run(result, f"return to checkpoint {target}")
    changes = path_changes(result.changed, result.removed)
    rows = [f"Undone: the state is that of checkpoint {target} again ({changes}).", _head(result)]
    return _after_restore(result, rows, "again returns to it")


def recovered(result: Recovery) -> Text:
    """`recover`."""
    rows = []
    hints: tuple[str, ...] = ()
    if result.outcome == "finished":
        rows.append(f"The interrupted restore of checkpoint {abbrev(result.checkpoint)} is now complete.")
        hints = ("'git agentos undo' returns to the state before the restore",)
    elif result.outcome == "went-back":
        rows.append("The interrupted restore was aborted: everything is as it was before it.")
    elif not result.cleaned:
        rows.append("Nothing to recover: no restore was interrupted here.")
    else:
        rows.append("No restore was interrupted here.")
    if result.outcome != "nothing" and result.branch:
        rows.append(f"You are on branch '{quote.line(result.branch)}'.")
    if result.saved:
        rows.append(f"The state before the restore is saved as {abbrev(result.saved)}.")
    rows += [f"Removed '{quote.path(path)}', left behind by a killed git-agentos command." for path in result.cleaned]
    return Text(lines(rows), "", warnings=_not_changed(result), hints=hints)


def picked(result: Pick) -> Text:
    """`pick`."""
    number = len(result.picked)
    saved = abbrev(result.saved)
    head_row = [f"HEAD is now at {abbrev(result.head)}."] if result.head else []
    hints: tuple[str, ...] = ()
    saved_row = [f"The state before is saved as {saved}."] if saved else []
    if result.state == "aborted":
        return Text(lines(["The pick was aborted: everything is as it was before it.", *head_row]), "")
    if result.state == "done":
        if saved:
            hints = (f"'git agentos restore {saved}' returns to the state before",)
        return Text(lines([f"Picked {count(number, 'commit')}.", *head_row, *saved_row]), "", hints=hints)
    rows = [f"The pick stopped at a conflict in {count(len(result.conflicts), 'path')}:"]
    rows += [f"  {quote.path(path)}" for path in result.conflicts]
    rows += [f"Picked before it: {count(number, 'commit')}."] if number else []
    hints = (
        "edit these paths, 'git add' them, then run 'git agentos pick --continue'",
        "'git agentos pick --abort' aborts the pick",
    )
    return Text(lines([*rows, *saved_row]), "", hints=hints)


def _head(result: Restoration, *, kept_branch: bool = False) -> str:
    if result.branch:
        return f"You are {'still ' if kept_branch else ''}on branch '{quote.line(result.branch)}'."
    return f"HEAD is detached at {abbrev(result.head)}." if result.head else "HEAD has no commit yet."


def _after_restore(result: Restoration, rows: list[str], effect: str) -> Text:
    if not result.saved:
        return Text(lines(rows), "", warnings=_not_changed(result))
    saved = abbrev(result.saved)
    rows.append(f"The state before is saved as {saved}.")
    return Text(lines(rows), f"{saved}\n", warnings=_not_changed(result), hints=(f"'git agentos undo' {effect}",))


def _dry_run(result: Restoration, action: str) -> Text:
    rows = [f"Would {action}: {path_changes(result.changed, result.removed)}."]
    rows += planned(result)
    if result.branch:
        rows.append(f"You would be on branch '{quote.line(result.branch)}'.")
    rows.append("Nothing was changed.")
    quiet = lines(quote.path(path) for path in (*result.changed, *result.removed))
    return Text(lines(rows), quiet, warnings=_not_changed(result))


def planned(result: Restoration) -> list[str]:
    """What a dry run would write and remove."""
    rows = [f"  write   {quote.path(path)}" for path in result.changed]
    return rows + [f"  remove  {quote.path(path)}" for path in result.removed]


def _not_changed(result: Restoration | Recovery) -> tuple[str, ...]:
    return skipped(result.skipped, "not changed", "'--json' lists them")
