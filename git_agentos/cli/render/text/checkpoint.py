"""`checkpoint` and its subcommands as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, counts, facts, lines, relative_time, table, time_and_age
from git_agentos.cli.render.text.patch import patch
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.workspace import Checkpoint, Diff, FileContent, Skipped

_MOST_WARNINGS = 10
_SUBJECT_WIDTH = 72


def created(checkpoint: Checkpoint, style: Style) -> Text:
    """`checkpoint`: only the abbreviated id on stdout."""
    id_ = abbrev(checkpoint.id)
    notes: tuple[str, ...] = ()
    if checkpoint.unchanged:
        notes = (f"nothing has changed since checkpoint {id_}: no new checkpoint was created",)
    elif style.terminal:
        notes = (f"saved the state ({_contents(checkpoint)}); nothing was changed",)
    hints = (f"'git agentos restore {id_}' restores this state",) if style.terminal else ()
    warnings = skipped(checkpoint.skipped, "not saved", f"'git agentos checkpoint show {id_}' lists them")
    return Text(f"{id_}\n", f"{id_}\n", notes, warnings, hints)


def listing(checkpoints: Sequence[Checkpoint], style: Style, *, empty: str = "no checkpoints") -> Text:
    """`checkpoint list` and `search`: one line each; ids under -q."""
    if not checkpoints:
        return Text(notes=(empty,))
    several = len({each.timeline for each in checkpoints}) > 1
    rows = [
        (
            (abbrev(each.id), "yellow"),
            relative_time(each.created_at, style.now),
            each.trigger,
            _timeline(each) if several else "",
            subject(each),
        )
        for each in checkpoints
    ]
    return Text(lines(table(rows, style)), lines(abbrev(each.id) for each in checkpoints))


def details(checkpoint: Checkpoint, style: Style) -> Text:
    """`checkpoint show`."""
    rows = [style.paint("yellow", f"checkpoint {checkpoint.id}")]
    values: list[tuple[str, str | None]] = [
        ("Agent", checkpoint.created_by),
        ("Date", time_and_age(checkpoint.created_at, style)),
        ("State", head_line(checkpoint.branch, checkpoint.commit)),
        ("Trigger", checkpoint.trigger),
        ("Task", checkpoint.task_id),
        ("Run", checkpoint.run_id),
        ("Session", checkpoint.session_id),
        ("Operation", f"{checkpoint.operation} in progress" if checkpoint.operation else None),
        *(("Meta", f"{key}={value}") for key, value in sorted((checkpoint.meta or {}).items())),
    ]
    rows += facts([(name, quote.line(value) if value else None) for name, value in values])
    if checkpoint.description:
        rows += ["", *(f"    {line}".rstrip() for line in quote.block(checkpoint.description).split("\n"))]
    for title, names in (
        ("Staged changes", checkpoint.staged_changes),
        ("Changes not staged", checkpoint.unstaged_changes),
        ("Untracked files", checkpoint.untracked_files),
    ):
        if names:
            rows += ["", f"{title}:", *(f"  {quote.path(name)}" for name in names)]
    if checkpoint.skipped:
        reasons = (f"  {quote.path(each.path)} ({quote.line(each.reason)})" for each in checkpoint.skipped)
        rows += ["", "Not saved:", *reasons]
    return Text(lines(rows), f"{abbrev(checkpoint.id)}\n")


def diff(result: Diff, style: Style, *, stat: bool) -> Text:
    """`checkpoint diff`; paths under -q."""
    shown = patch(result.patch, style, stat=stat, numbered=True)
    return shown._replace(quiet=lines(quote.path(each.path) for each in result.files))


def contents(file: FileContent, style: Style) -> Text:
    """`checkpoint cat`: the bytes; on a terminal with visible control characters."""
    shown = quote.contents(file.content) if style.terminal else file.content
    return Text(shown, shown)


def head_line(branch: str | None, commit: str | None) -> str:
    """HEAD's branch and commit."""
    state = f"on branch '{quote.line(branch)}'" if branch else "HEAD detached"
    return state + (f" at commit {abbrev(commit)}" if commit else ", no commit yet")


def subject(checkpoint: Checkpoint) -> str:
    """The first line of the description, truncated."""
    text = quote.line(checkpoint.description.split("\n", 1)[0])
    return text if len(text) <= _SUBJECT_WIDTH else text[: _SUBJECT_WIDTH - 1] + "…"


def skipped(files: Sequence[Skipped], label: str, rest: str) -> tuple[str, ...]:
    """A warning for each skipped file, up to a limit; `rest` says how to list the others."""
    warnings = [f"{label}: {quote.path(each.path)} ({quote.line(each.reason)})" for each in files[:_MOST_WARNINGS]]
    if len(files) > _MOST_WARNINGS:
        warnings.append(f"{label}: {len(files) - _MOST_WARNINGS} more; {rest}")
    return tuple(warnings)


def _timeline(checkpoint: Checkpoint) -> str:
    """The timeline, which `--agent` takes, and who created the checkpoint if that is another agent."""
    creator = checkpoint.created_by
    by = f" ({quote.line(creator)})" if creator and creator != checkpoint.timeline else ""
    return quote.line(checkpoint.timeline or "") + by


def _contents(checkpoint: Checkpoint) -> str:
    numbers = (
        (len(checkpoint.staged_changes), "staged"),
        (len(checkpoint.unstaged_changes), "changed"),
        (len(checkpoint.untracked_files), "untracked"),
    )
    return counts(numbers) or "no changes"
