"""`run accept`, `run cleanup` and `rollback` as text."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, limited, lines, not_saved, path_changes
from git_agentos.cli.render.text.run import agentos_in, archived, problems, rollback_target
from git_agentos.cli.render.text.worktree import checked_out
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.run.cleanup import Cleaned, Cleanup
    from git_agentos.run.events import Run
    from git_agentos.run.rollback import Rollback
    from git_agentos.worktree.agent_merge import Merge

_MOST_FILES = 20


def accepted(run: Run, merge: Merge, style: Style) -> Text:
    """`accept`; the commit under -q."""
    id_, target, before = run.run_id, quote.line(merge.target), abbrev(merge.before)
    commit = abbrev(merge.merge_commit)
    if not merge.merged:
        row = f"Run {id_} is accepted: '{target}' has its work already. Nothing had to be merged."
        return Text(lines([row]), f"{commit}\n" if commit else "", warnings=_merge_warnings(merge))
    rows = [f"Accepted run {id_}: '{target}' is now at {style.paint('yellow', commit)}.", *checked_out(merge)]
    hints = [f"'git update-ref refs/heads/{target} {before}' undoes the merge"]
    if merge.worktree_path is not None:
        folder = quote.line(shlex.quote(merge.worktree_path))
        hints = [f"'git -C {folder} reset --keep {before}' undoes the merge"]
    if run.archive is not None:
        rows.append(archived(run))
    elif run.context is not None:
        rows.append(f"The run's worktree is kept: {quote.path(run.context.worktree_path)}")
        hints.append(f"'git agentos run cleanup {id_}' archives the worktree, and deletes the branch")
    warnings = (*_merge_warnings(merge), *problems(run))
    return Text(lines(rows), f"{commit}\n", warnings=warnings, hints=tuple(hints))


def not_accepted(run: Run, merge: Merge) -> Text:
    """`accept` with a conflict; the files under -q."""
    target = quote.line(merge.target)
    paths = list(dict.fromkeys(path for each in merge.conflicts for path in each.files))
    row = f"Run {run.run_id} is not accepted: its work conflicts with '{target}'. Nothing was changed."
    hints = (
        f"a new run starts at the current state of '{target}'",
        f"'git agentos run diff {run.run_id} | git apply --3way' applies its changes here, for you to resolve",
    )
    rows = [row, *limited(paths, _MOST_FILES)]
    return Text(lines(rows), lines(map(quote.path, paths)), warnings=_merge_warnings(merge), hints=hints)


def _merge_warnings(merge: Merge) -> tuple[str, ...]:
    return tuple(quote.line(each) for each in merge.warnings)


def cleaned_up(result: Cleanup, style: Style) -> Text:
    """`cleanup`: one line for each run; the ids of those that were cleaned up under -q."""
    rows = [_cleaned(each, style, dry_run=result.dry_run) for each in result.cleaned]
    rows += [
        f"{style.paint('yellow', 'skipped:')} run {each.run_id}: {quote.line(each.reason)}" for each in result.kept
    ]
    if not rows:
        return Text("Nothing to clean up.\n")
    if result.dry_run:
        rows.append("Nothing was changed.")
    warnings = not_saved((each.path, each.reason) for one in result.cleaned for each in one.not_saved)
    first = next((each for each in result.cleaned if each.get_back), None)
    hints: tuple[str, ...] = ()
    if first is not None and len(result.cleaned) == 1:
        hints = (f"'{quote.line(first.get_back[0])}' restores it",)
    elif first is not None:
        number = count(len(result.cleaned), "run")
        hints = (f"'git agentos worktree create run-RUN --revive' restores one of the {number}",)
    return Text(lines(rows), lines(each.run_id for each in result.cleaned), (), tuple(warnings), hints)


def _cleaned(result: Cleaned, style: Style, *, dry_run: bool) -> str:
    parts = []
    if result.path is not None:
        checkpoint = f" in {style.paint('yellow', abbrev(result.archive))}" if result.archive is not None else ""
        parts.append(f"{'would archive' if dry_run else 'archived'} {quote.path(result.path)}{checkpoint}")
    branch = f"branch '{quote.line(result.branch)}'"
    if result.branch_deleted:
        parts.append(f"{'would delete' if dry_run else 'deleted'} {branch} ({abbrev(result.branch_sha)})")
    elif result.branch_sha is not None:
        parts.append(f"{branch} is kept")
    return f"Run {result.run_id}: {', '.join(parts)}"


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
