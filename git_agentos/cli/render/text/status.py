"""`status` and `doctor` as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.checkpoint import head_line, subject
from git_agentos.cli.render.text.layout import abbrev, counts, lines, relative_time
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.findings import Finding
    from git_agentos.git.filesystem_limits import FileSystem
    from git_agentos.overview import Diagnosis, Overview
    from git_agentos.protection.harnesses import HarnessState
    from git_agentos.watch.control import WatchStatus

_COLOURS = {"error": "red", "warning": "yellow"}
_HARNESS_STATES = {
    "integrated": "asks the guard here",
    "not-integrated": "does not ask the guard here",
    "not-trusted": "integrated, but it does not trust our hooks",
    "not-headless": "integrated, but it reads no hooks where it cannot ask",
    "disabled": "integrated, but hooks are switched off",
    "broken": "integrated, but our hook cannot be started",
    "untried": "integrated, but not known to work",
}


def status(overview: Overview, style: Style) -> Text:
    """`status`."""
    worktree = overview.worktree
    rows = [
        f"Agent '{quote.line(worktree.agent)}', {head_line(worktree.branch, worktree.commit)}",
        f"Worktree: {quote.path(worktree.worktree_path)}",
        f"Changes: {_changes(overview, style)}",
    ]
    if worktree.operation:
        rows.append(f"In progress: {quote.line(worktree.operation)}")
    rows.append(f"Last checkpoint: {_last_checkpoint(overview, style)}")
    rows.append(f"Watched: {_watched(overview.watch, worktree.worktree_path)}")
    hints: list[str] = []
    if worktree.pending_approvals:
        rows.append(f"Waiting for approval: {len(worktree.pending_approvals)}")
        hints.append("'git agentos approvals list' lists the requests")
    if worktree.last_checkpoint is None and not worktree.interrupted:
        hints.append("'git agentos checkpoint' saves the current state")
    for row, hint in _unfinished(overview, style):
        rows.append(row)
        hints.append(hint)
    return Text(lines(rows), hints=tuple(hints))


def _changes(overview: Overview, style: Style) -> str:
    worktree = overview.worktree
    if not worktree.dirty:
        return "none"
    numbers = ((worktree.staged, "staged"), (worktree.unstaged, "not staged"), (worktree.untracked, "untracked"))
    parts = [counts(numbers)] if any(number for number, _ in numbers) else []
    parts += [style.paint("red", f"{worktree.conflicted} in conflict")] if worktree.conflicted else []
    return ", ".join(parts) or "yes"


def _last_checkpoint(overview: Overview, style: Style) -> str:
    last = overview.worktree.last_checkpoint
    if last is None:
        return "none"
    text = f"{style.paint('yellow', abbrev(last.id))}, {relative_time(last.created_at, style.now)} ({last.trigger})"
    return f"{text}: {subject(last)}" if subject(last) else text


def _unfinished(overview: Overview, style: Style) -> list[tuple[str, str]]:
    """What was interrupted, tampered with or is not finished, each with a hint."""
    worktree, runs, workflows = overview.worktree, overview.interrupted_runs, overview.open_workflows
    rows = []
    if worktree.interrupted:
        what = f"{quote.line(worktree.interrupted.kind)} of checkpoint {abbrev(worktree.interrupted.checkpoint)}"
        hint = "'git agentos recover' finishes it, 'git agentos recover --abort' aborts it; nothing is lost"
        rows.append((style.paint("red", f"Interrupted: {what}"), hint))
    if worktree.interrupted_worktrees:
        names = ", ".join(quote.line(each) for each in worktree.interrupted_worktrees)
        hint = "'git agentos worktree repair' finishes or aborts it; nothing is lost"
        rows.append((style.paint("red", f"Interrupted: a command on the worktree {names}"), hint))
    if runs:
        row = style.paint("red", f"Interrupted: {count(len(runs), 'run')}: {', '.join(runs)}")
        hint = f"'git agentos run resume {runs[0]}' continues it, 'git agentos rollback {runs[0]}' rolls it back"
        rows.append((row, hint))
    if problems := overview.guard_problems:
        more = f"; and {len(problems) - 1} more" if problems[1:] else ""
        row = style.paint("red", f"The guard was tampered with: {quote.line(problems[0])}{more}")
        rows.append((row, "'git agentos doctor' lists all of it, 'git agentos doctor --fix' restores the guard"))
    if workflows:
        hint = f"'git agentos tdd status {workflows[0]}' shows what it waits for"
        rows.append((f"Not ended: {count(len(workflows), 'workflow')}: {', '.join(workflows)}", hint))
    return rows


def _watched(watch: WatchStatus | None, root: str) -> str:
    """Whether the watch daemon watches a worktree."""
    if watch is None:
        return "no"
    own = next((each for each in watch.worktrees if each["path"] == root), None)
    if own is None:
        return "no ('git agentos watch start' watches it)"
    if not own["watching"]:
        return f"no: {quote.line(own['reason'])}"
    return f"{count(own['folders'], 'folder')}, by process {watch.pid}"


def _daemon(watch: WatchStatus | None) -> str:
    if watch is None:
        return "not running"
    folders = sum(each["folders"] for each in watch.worktrees)
    return f"process {watch.pid}, {count(folders, 'folder')} of {count(len(watch.worktrees), 'worktree')}"


def doctor(found: Diagnosis, style: Style, *, fix: bool) -> Text:
    """`doctor`."""
    results = found.findings
    rows = [row for each in results for row in finding(each, style)] or ["No problems found."]
    rows += [row for place in found.file_systems for row in _file_system(place)]
    rows.append(f"Watch daemon: {_daemon(found.watch)}")
    rows += map(_harness, found.harnesses)
    hints = () if fix or all(each.fixed for each in results) else ("'git agentos doctor --fix' fixes what it can",)
    return Text(lines(rows), lines(quote.line(each.code) for each in results if not each.fixed), hints=hints)


def _harness(state: HarnessState) -> str:
    """Whether a harness asks the guard."""
    version = f" {quote.line(state.version)}" if state.version else ""
    row = f"{state.name}{version}: {_HARNESS_STATES[state.state]}"
    if state.state == "integrated":
        return row if state.path is not None else f"{row}, by its plugin"
    return f"{row}: {quote.line(state.detail)}"


def _file_system(place: FileSystem) -> Iterator[str]:
    """Where a worktree or git directory is, and what does not work there."""
    row = (
        f"{place.of[:1].upper()}{place.of[1:]}: {quote.line(place.type or 'the system does not name the file system')}"
    )
    yield row + (", with these limits:" if place.limits else "")
    yield from (f"  {each}" for each in place.limits)


def finding(result: Finding, style: Style) -> list[str]:
    """One finding, and its hint unless it was fixed."""
    label, colour = ("fixed", "green") if result.fixed else (result.severity, _COLOURS.get(result.severity, "cyan"))
    row = f"{style.paint(colour, label + ':')} {quote.line(result.message)} [{quote.line(result.code)}]"
    return [row] if result.fixed else [row, *hint_lines(result.hint)]


def hint_lines(hint: str | None) -> list[str]:
    """The hint of a finding, indented."""
    return [f"  {line}" for line in quote.block(hint or "").split("\n") if line]
