"""What `git agentos run cleanup` says to a person; see `text` for how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text.checkpoint import count, short

if TYPE_CHECKING:
    from git_agentos.run.cleanup import Cleaned, Cleanup


def cleaned(done: Cleanup, style: Style) -> Text:
    """After `cleanup`: a line for each run; the ids of those that were cleaned up under -q."""
    lines = [line for each in done.cleaned for line in _lines(each, style, dry_run=done.dry_run)]
    lines += [f"{style.paint('yellow', 'left:')} run {each.run_id}: {quote.line(each.reason)}" for each in done.kept]
    if not lines:
        return Text("Nothing had to be cleaned up.\n")
    if done.dry_run:
        lines.append("Nothing was changed.")
    warnings = [
        f"not saved: {quote.path(each.path)} ({quote.line(each.reason)})"
        for one in done.cleaned
        for each in one.not_saved
    ]
    first = next((each for each in done.cleaned if each.get_back), None)
    hints = (
        [f"'{quote.line(first.get_back[0])}' brings it back"] if first is not None and len(done.cleaned) == 1 else []
    )
    if first is not None and len(done.cleaned) > 1:
        hints = [
            f"'git agentos worktree create run-RUN --revive' brings one of the {count(len(done.cleaned), 'run')} back"
        ]
    ids = "".join(f"{each.run_id}\n" for each in done.cleaned)
    return Text("".join(f"{line}\n" for line in lines), ids, (), tuple(warnings), tuple(hints))


def _lines(each: Cleaned, style: Style, *, dry_run: bool) -> list[str]:
    said = []
    if each.path is not None:
        where = f" in {style.paint('yellow', short(each.archive))}" if each.archive is not None else ""
        said.append(f"{'would archive' if dry_run else 'archived'} {quote.path(each.path)}{where}")
    branch = f"branch '{quote.line(each.branch)}'"
    if each.branch_deleted:
        said.append(f"{'would delete' if dry_run else 'deleted'} {branch} ({short(each.branch_sha)})")
    elif each.branch_sha is not None:
        said.append(f"{branch} stays")
    return [f"Run {each.run_id}: {', '.join(said)}"]
