"""`rollback` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.render.text.layout import abbrev, lines, not_saved, path_changes
from git_agentos.cli.render.text.run import agentos_in, rollback_target
from git_agentos.cli.text import Text

if TYPE_CHECKING:
    from git_agentos.run.rollback import Rollback


def rolled_back(result: Rollback) -> Text:
    """`rollback`; the checkpoint of the state before under -q."""
    target = "its base" if result.point == "pre_run" else rollback_target(result.point)
    changes = path_changes(result.changed, result.removed)
    path = quote.path(result.worktree_path)
    warnings = tuple(not_saved(((each.path, each.reason) for each in result.not_saved), "could not be saved"))
    if result.dry_run:
        rows = [f"Would reset run {result.run_id} to {target}: {changes}."]
        rows += [f"  write   {quote.path(each)}" for each in result.changed]
        rows += [f"  remove  {quote.path(each)}" for each in result.removed]
        rows += [f"The worktree would be rebuilt: {path}"] if result.recreated else []
        rows.append("Nothing was changed.")
        return Text(lines(rows), lines(map(quote.path, (*result.changed, *result.removed))), warnings=warnings)
    rows = [f"Run {result.run_id} was reset to {target}: {changes}."]
    if result.recreated:
        rows.append(f"Its worktree was damaged or missing, and was rebuilt: {path}")
    if result.branch:
        rows.append(f"{path} is on branch '{quote.line(result.branch)}' at {abbrev(result.head)}.")
    elif result.head:
        rows.append(f"HEAD in {path} is detached at {abbrev(result.head)}.")
    hints: tuple[str, ...] = ()
    if result.saved and result.not_saved:
        rows.append(f"What could be read of the state before is saved as {abbrev(result.saved)}.")
        hints = (f"'{agentos_in(result.worktree_path)} undo' restores what could be read",)
    elif result.saved:
        rows.append(f"The state before is saved as {abbrev(result.saved)}, ignored files and commits included.")
        hints = (f"'{agentos_in(result.worktree_path)} undo' restores it",)
    if result.not_saved:
        hints += (f"'git agentos checkpoint list --agent run-{result.run_id}' lists its earlier checkpoints",)
    return Text(lines(rows), f"{abbrev(result.saved)}\n" if result.saved else "", (), warnings, hints)
