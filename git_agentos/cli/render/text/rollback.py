"""What `git agentos rollback` says to a person; see `text` for how."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Text
from git_agentos.cli.render.text.checkpoint import changes, short
from git_agentos.cli.render.text.run import ours_in, point

if TYPE_CHECKING:
    from git_agentos.run.rollback import Rollback


def rolled_back(done: Rollback) -> Text:
    """After `rollback`."""
    where = "where it began" if done.point == "pre_run" else point(done.point)
    what = changes(done.changed, done.removed)
    path = quote.path(done.worktree_path)
    warnings = [f"could not be saved: {quote.path(each.path)} ({quote.line(each.reason)})" for each in done.not_saved]
    if done.dry_run:
        lines = [f"Would take run {done.run_id} back to {where}: {what}."]
        lines += [f"  write   {quote.path(each)}" for each in done.changed]
        lines += [f"  remove  {quote.path(each)}" for each in done.removed]
        lines += [f"The worktree would be made again: {path}"] if done.recreated else []
        lines.append("Nothing was changed.")
        return Text(
            _lines(lines), _lines(quote.path(each) for each in (*done.changed, *done.removed)), (), tuple(warnings)
        )
    lines = [f"Run {done.run_id} is back {'' if done.point == 'pre_run' else 'at '}{where}: {what}."]
    if done.recreated:
        lines.append(f"Its worktree was damaged or gone, and was made again: {path}")
    if done.branch:
        lines.append(f"{path} is on branch '{quote.line(done.branch)}' at {short(done.head)}.")
    elif done.head:
        lines.append(f"HEAD in {path} is detached at {short(done.head)}.")
    hints: tuple[str, ...] = ()
    if done.not_saved:
        hints = (f"'git agentos checkpoint list --agent run-{done.run_id}' shows what was saved of it earlier",)
    if done.saved and done.not_saved:
        lines.append(f"What could be read of it before is saved as {short(done.saved)}.")
        hints = (f"'{ours_in(done.worktree_path)} undo' brings back what could be read", *hints)
    elif done.saved:
        lines.append(
            f"Everything that was there before is saved as {short(done.saved)}, ignored files and commits too."
        )
        hints = (f"'{ours_in(done.worktree_path)} undo' brings it back",)
    return Text(_lines(lines), f"{short(done.saved)}\n" if done.saved else "", (), tuple(warnings), hints)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
