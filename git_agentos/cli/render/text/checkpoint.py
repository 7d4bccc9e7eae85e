"""What each result says to a person.

Whoever reads this may be tired and afraid for their work: say first what is true now, then where the state
before is kept, then the next step. Each function turns a result into `Text`; every name and every text that
is not ours goes through `quote`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text

if TYPE_CHECKING:
    from git_agentos.workspace import (
        Checkpoint,
        Diff,
        FileContent,
        Finding,
        Pick,
        Recovery,
        Restoration,
        Skipped,
        Status,
    )

_MOST_WARNINGS = 10
_DESCRIPTION_WIDTH = 72
_AGES = (
    (31_536_000, "year"),
    (2_592_000, "month"),
    (604_800, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)


def created(made: Checkpoint, style: Style) -> Text:
    """After `checkpoint`: the short id alone on stdout."""
    if made.unchanged:
        notes = [f"nothing has changed since checkpoint {short(made.id)}: no new one was made"]
    elif style.terminal:
        notes = [f"saved the state ({_contents(made)}); nothing was touched"]
    else:
        notes = []
    identifier = f"{short(made.id)}\n"
    hints = (f"'git agentos restore {short(made.id)}' comes back to this state",) if style.terminal else ()
    return Text(identifier, identifier, tuple(notes), _not_saved(made), hints)


def timeline(found: Sequence[Checkpoint], style: Style, *, nothing: str = "no checkpoints") -> Text:
    """`checkpoint list` and `search`: a line each; ids alone under -q."""
    if not found:
        return Text(notes=(nothing,))
    ages = [age(each.created_at, style.now) for each in found]
    several = len({each.timeline for each in found}) > 1
    agents = [_whose(each) if several else "" for each in found]
    widths = [max(map(len, column)) for column in (ages, [each.trigger for each in found], agents)]
    lines = []
    for each, when, agent in zip(found, ages, agents, strict=True):
        columns = [f"{when:<{widths[0]}}", f"{each.trigger:<{widths[1]}}"]
        if several:
            columns.append(f"{agent:<{widths[2]}}")
        columns.append(_subject(each))
        lines.append(f"{style.paint('yellow', short(each.id))}  {'  '.join(columns)}".rstrip())
    return Text(_lines(lines), _lines(short(each.id) for each in found))


def _whose(one: Checkpoint) -> str:
    """The timeline, by which `--agent` finds it, and who made it where that is another."""
    by = f" ({quote.line(one.created_by)})" if one.created_by and one.created_by != one.timeline else ""
    return quote.line(one.timeline or "") + by


def shown(one: Checkpoint, style: Style) -> Text:
    """`checkpoint show`."""
    lines = [style.paint("yellow", f"checkpoint {one.id}")]
    branch = f"on branch '{quote.line(one.branch)}'" if one.branch else "HEAD detached"
    at = f" at commit {short(one.commit)}" if one.commit else ", no commit yet"
    facts = [
        ("Agent", one.created_by),
        ("Date", f"{local(one.created_at)} ({age(one.created_at, style.now)})"),
        ("State", branch + at),
        ("Trigger", one.trigger),
        ("Task", one.task_id),
        ("Run", one.run_id),
        ("Session", one.session_id),
        ("Operation", f"{one.operation} in progress" if one.operation else None),
        *(("Meta", f"{key}={value}") for key, value in sorted((one.meta or {}).items())),
    ]
    lines += [f"{name + ':':<11}{quote.line(str(value))}" for name, value in facts if value]
    if one.description:
        lines += ["", *(f"    {line}".rstrip() for line in quote.block(one.description).split("\n"))]
    for title, names in (
        ("Staged changes", one.staged_changes),
        ("Changes not staged", one.unstaged_changes),
        ("Untracked files", one.untracked_files),
    ):
        if names:
            lines += ["", f"{title}:", *(f"  {quote.path(name)}" for name in names)]
    if one.skipped:
        lines += ["", "Not saved:", *(f"  {quote.path(each.path)} ({quote.line(each.reason)})" for each in one.skipped)]
    return Text(_lines(lines), f"{short(one.id)}\n")


def difference(found: Diff, style: Style, *, stat: bool) -> Text:
    """`checkpoint diff`; the paths alone under -q."""
    return replace(patch(found.patch, style, stat=stat), brief=_lines(quote.path(each.path) for each in found.files))


def patch(data: bytes, style: Style, *, stat: bool) -> Text:
    """A patch byte for byte, made safe and coloured on a terminal; or its statistics."""
    if stat:
        return Text(_stat(data), None)
    if not style.terminal:
        return Text(data, None)
    return Text("\n".join(_paint_patch(quote.contents(data).split("\n"), style)), None)


def contents(file: FileContent, style: Style) -> Text:
    """`checkpoint cat`: the bytes; on a terminal, where they could do harm, with controls made visible."""
    shown = quote.contents(file.content) if style.terminal else file.content
    return Text(shown, shown)


def restored(done: Restoration, *, kept_branch: bool = False, elsewhere: bool = False) -> Text:
    """After `restore`; `elsewhere` for a restore into a new worktree."""
    target = short(done.checkpoint)
    if elsewhere:
        lines = [
            f"Restored checkpoint {target} into a new worktree: {quote.path(done.worktree_path)}",
            f"It is on branch '{quote.line(done.branch)}'." if done.branch else "Its HEAD is detached.",
            "This worktree was not touched.",
        ]
        return Text(_lines(lines), short(done.saved) + "\n" if done.saved else "", warnings=_not_touched(done.skipped))
    if done.dry_run:
        return _planned(done, f"restore checkpoint {target}")
    lines = [
        f"Restored checkpoint {target}: {changes(done.changed, done.removed)}.",
        _whereabouts(done.branch, done.head, kept_branch),
    ]
    return _gone_back(done, lines, "comes back to it")


def undone(done: Restoration) -> Text:
    """After `undo`."""
    target = short(done.checkpoint)
    if done.dry_run:
        return _planned(done, f"go back to checkpoint {target}")
    lines = [
        f"Undone: this is the state of checkpoint {target} again ({changes(done.changed, done.removed)}).",
        _whereabouts(done.branch, done.head, False),
    ]
    return _gone_back(done, lines, "once more comes back to it")


def recovered(done: Recovery) -> Text:
    """After `recover`."""
    lines = []
    if done.outcome == "finished":
        lines.append(f"The interrupted restore of checkpoint {short(done.checkpoint)} is now complete.")
    elif done.outcome == "went-back":
        lines.append("The interrupted restore was taken back: everything is as it was before it.")
    elif not done.cleaned:
        lines.append("Nothing to recover: no restore was interrupted here.")
    else:
        lines.append("No restore was interrupted here.")
    if done.outcome != "nothing" and done.branch:
        lines.append(f"You are on branch '{quote.line(done.branch)}'.")
    if done.saved:
        lines.append(f"The state from before the restore is saved as {short(done.saved)}.")
    lines += [f"Removed '{quote.path(path)}', which a killed command of ours had left." for path in done.cleaned]
    hints = ("'git agentos undo' goes back to the state before the restore",) if done.outcome == "finished" else ()
    return Text(_lines(lines), "", warnings=_not_touched(done.skipped), hints=hints)


def picked(done: Pick) -> Text:
    """After `pick`."""
    number = len(done.picked)
    head = f"HEAD is now at {short(done.head)}." if done.head else ""
    saved = f"The state before is saved as {short(done.saved)}." if done.saved else ""
    if done.state == "aborted":
        return Text(_lines(filter(None, ["The pick is aborted: everything is as it was before it.", head])), "")
    if done.state == "done":
        lines = [f"Picked {count(number, 'commit')}.", head, saved]
        hints = [f"'git agentos restore {short(done.saved)}' goes back to the state before"] if done.saved else []
        return Text(_lines(filter(None, lines)), "", hints=tuple(hints))
    lines = [f"The pick stopped at a conflict in {count(len(done.conflicts), 'path')}:"]
    lines += [f"  {quote.path(path)}" for path in done.conflicts]
    lines += [f"Picked before it: {count(number, 'commit')}."] if number else []
    return Text(
        _lines(filter(None, [*lines, saved])),
        "",
        hints=(
            "edit these paths, 'git add' them, then 'git agentos pick --continue'",
            "or 'git agentos pick --abort' to have everything as it was before",
        ),
    )


def status(
    now: Status, style: Style, runs: Sequence[str] = (), workflows: Sequence[str] = (), guard: Sequence[str] = ()
) -> Text:
    """`status`; `runs` are those that were interrupted, `workflows` those that have not ended, `guard` what somebody
    has changed of the guard."""
    branch = f"on branch '{quote.line(now.branch)}'" if now.branch else "HEAD detached"
    at = f" at commit {short(now.commit)}" if now.commit else ", no commit yet"
    lines = [f"Agent '{quote.line(now.agent)}', {branch}{at}", f"Worktree: {quote.path(now.worktree_path)}"]
    if now.dirty:
        counts = ((now.staged, "staged"), (now.unstaged, "not staged"), (now.untracked, "untracked"))
        parts = [f"{number} {what}" for number, what in counts if number]
        parts += [style.paint("red", f"{now.conflicted} in conflict")] if now.conflicted else []
        lines.append(f"Changes: {', '.join(parts) or 'yes'}")
    else:
        lines.append("Changes: none")
    if now.operation:
        lines.append(f"In progress: {quote.line(now.operation)}")
    last = now.last_checkpoint
    if last is None:
        lines.append("Last checkpoint: none")
    else:
        when = f"{style.paint('yellow', short(last.id))}, {age(last.created_at, style.now)} ({last.trigger})"
        subject = _subject(last)
        lines.append(f"Last checkpoint: {when}{': ' + subject if subject else ''}")
    if now.pending_approvals:
        lines.append(f"Waiting for approval: {len(now.pending_approvals)}")
    hints = ["'git agentos approvals list' shows what waits"] if now.pending_approvals else []
    hints += [] if last is not None or now.interrupted else ["'git agentos checkpoint' saves the state as it is now"]
    if now.interrupted:
        what = f"{quote.line(now.interrupted.kind)} of checkpoint {short(now.interrupted.checkpoint)}"
        lines.append(style.paint("red", f"Interrupted: {what}"))
        hints.append("'git agentos recover' finishes it or goes back; nothing is lost")
    if now.interrupted_worktrees:
        names = ", ".join(quote.line(each) for each in now.interrupted_worktrees)
        lines.append(style.paint("red", f"Interrupted: a command on the worktree {names}"))
        hints.append("'git agentos worktree repair' finishes it or takes it back; nothing is lost")
    if runs:
        lines.append(style.paint("red", f"Interrupted: {count(len(runs), 'run')}: {', '.join(runs)}"))
        hints.append(
            f"'git agentos run resume {runs[0]}' goes on with it, 'git agentos rollback {runs[0]}' takes it back"
        )
    if guard:
        more = f"; and {len(guard) - 1} more" if guard[1:] else ""
        lines.append(style.paint("red", f"The guard was tampered with: {quote.line(guard[0])}{more}"))
        hints.append("'git agentos doctor' tells all of it, and 'git agentos doctor --fix' sets it again")
    if workflows:
        lines.append(f"Not ended: {count(len(workflows), 'workflow')}: {', '.join(workflows)}")
        hints.append(f"'git agentos tdd status {workflows[0]}' says what it waits for")
    return Text(_lines(lines), hints=tuple(hints))


def findings(found: Sequence[Finding], style: Style, *, fix: bool) -> Text:
    """`doctor`."""
    if not found:
        return Text("Nothing is wrong with this repository's set-up.\n")
    colours = {"error": "red", "warning": "yellow"}
    lines = []
    for each in found:
        label = "fixed" if each.fixed else each.severity
        colour = "green" if each.fixed else colours.get(each.severity, "cyan")
        lines.append(f"{style.paint(colour, label + ':')} {quote.line(each.message)} [{quote.line(each.code)}]")
        if each.hint and not each.fixed:
            lines += [f"  {line}" for line in quote.block(each.hint).split("\n")]
    hints = () if fix or all(each.fixed for each in found) else ("'git agentos doctor --fix' mends what it can",)
    return Text(_lines(lines), _lines(quote.line(each.code) for each in found if not each.fixed), hints=hints)


def short(identifier: str | None) -> str:
    """An id as it is shown: eight digits, as in the names of restore branches."""
    return (identifier or "")[:8]


def age(created_at: str, now: float) -> str:
    """How long ago an ISO 8601 time was, in git's words; a time in the future, or none, is shown as it is."""
    try:
        seconds = now - datetime.fromisoformat(created_at).timestamp()
    except ValueError:
        return quote.line(created_at)
    if seconds < -60:
        return quote.line(created_at)
    for length, unit in _AGES:
        if seconds >= length:
            return f"{count(int(seconds // length), unit)} ago"
    return "just now" if seconds < 2 else f"{int(seconds)} seconds ago"


def local(created_at: str) -> str:
    try:
        moment = datetime.fromisoformat(created_at)
    except ValueError:
        return created_at
    local = time.localtime(moment.astimezone(UTC).timestamp())
    return time.strftime("%Y-%m-%d %H:%M:%S %z", local)


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _subject(one: Checkpoint) -> str:
    subject = quote.line(one.description.split("\n", 1)[0])
    return subject if len(subject) <= _DESCRIPTION_WIDTH else subject[: _DESCRIPTION_WIDTH - 1] + "…"


def _contents(made: Checkpoint) -> str:
    counts = (
        (len(made.staged_changes), "staged"),
        (len(made.unstaged_changes), "changed"),
        (len(made.untracked_files), "untracked"),
    )
    parts = [f"{number} {what}" for number, what in counts if number]
    return ", ".join(parts) or "no changes"


def changes(changed: Sequence[str], removed: Sequence[str]) -> str:
    """What became of files, in a few words."""
    parts = [f"{count(len(changed), 'path')} written"] if changed else []
    parts += [f"{len(removed)} removed"] if removed else []
    return ", ".join(parts) or "no file had to change"


def _whereabouts(branch: str | None, head: str | None, kept: bool) -> str:
    if branch:
        return f"You are {'still ' if kept else ''}on branch '{quote.line(branch)}'."
    return f"HEAD is detached at {short(head)}." if head else "HEAD has no commit yet."


def _gone_back(done: Restoration, lines: list[str], back: str) -> Text:
    hints: tuple[str, ...] = ()
    brief = ""
    if done.saved:
        lines.append(f"The state you had before is saved as {short(done.saved)}.")
        hints = (f"'git agentos undo' {back}",)
        brief = f"{short(done.saved)}\n"
    return Text(_lines(lines), brief, warnings=_not_touched(done.skipped), hints=hints)


def _planned(done: Restoration, what: str) -> Text:
    lines = [f"Would {what}: {changes(done.changed, done.removed)}."]
    lines += [f"  write   {quote.path(path)}" for path in done.changed]
    lines += [f"  remove  {quote.path(path)}" for path in done.removed]
    if done.branch:
        lines.append(f"You would be on branch '{quote.line(done.branch)}'.")
    lines.append("Nothing was changed.")
    brief = _lines(quote.path(path) for path in (*done.changed, *done.removed))
    return Text(_lines(lines), brief, warnings=_not_touched(done.skipped))


def _not_saved(made: Checkpoint) -> tuple[str, ...]:
    return _skipped(made.skipped, "not saved", f"'git agentos checkpoint show {short(made.id)}' names them")


def _not_touched(skipped: Sequence[Skipped]) -> tuple[str, ...]:
    return _skipped(skipped, "left as it is", "'--json' names them")


def _skipped(skipped: Sequence[Skipped], what: str, rest: str) -> tuple[str, ...]:
    told = [f"{what}: {quote.path(each.path)} ({quote.line(each.reason)})" for each in skipped[:_MOST_WARNINGS]]
    if len(skipped) > _MOST_WARNINGS:
        told.append(f"{what}: {len(skipped) - _MOST_WARNINGS} more; {rest}")
    return tuple(told)


_PATCH_COLOURS = {"del": "red", "add": "green", "hunk": "cyan", "head": "bold"}


def _paint_patch(lines: Sequence[str], style: Style) -> list[str]:
    """git's colours."""
    return [style.paint(_PATCH_COLOURS[kind], line) if kind else line for kind, line in patch_lines(lines)]


def patch_lines(lines: Iterable[str]) -> Iterator[tuple[str | None, str]]:
    """The lines of a patch with what each is: `add`, `del`, `hunk`, `head`, or None. That follows from the counts in
    its hunk's header, not from how it begins."""
    old = new = 0
    for line in lines:
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            yield {"-": "del", "+": "add"}.get(line[:1]), line
        elif line.startswith("@@ "):
            old, new = _hunk(line)
            yield "hunk", line
        else:
            yield ("head" if line and not line.startswith("\\") else None), line


def _hunk(header: str) -> tuple[int, int]:
    """The line counts in `@@ -a,b +c,d @@`."""
    words = header.split(" ")
    counts = [int(word.partition(",")[2] or "1") for word in words[1:3]]
    return counts[0], counts[1]


def _stat(patch: bytes) -> str:
    """`--stat`, from the patch itself: path, lines added and removed, and the sums."""
    files: list[tuple[str, int, int, bool]] = []
    name, added, removed, binary = "", 0, 0, False
    old = new = 0
    for raw in patch.split(b"\n"):
        if old > 0 or new > 0:
            first = raw[:1]
            old -= first in (b"-", b" ", b"")
            new -= first in (b"+", b" ", b"")
            added += first == b"+"
            removed += first == b"-"
        elif raw.startswith(b"diff --git "):
            if name:
                files.append((name, added, removed, binary))
            added, removed, binary = 0, 0, False
            name = _from_header(raw)
        elif raw.startswith(b"@@ "):
            old, new = _hunk(raw.decode("ascii", "replace"))
        elif raw.startswith((b"+++ ", b"--- ")) and not raw.endswith(b" /dev/null"):
            name = _strip_side(raw[4:])
        elif raw.startswith((b"Binary files ", b"GIT binary patch")):
            binary = True
    if name:
        files.append((name, added, removed, binary))
    if not files:
        return ""
    width = max(len(each[0]) for each in files)
    lines = [f" {path:<{width}} | {'Bin' if bin_ else f'+{plus} -{minus}'}" for path, plus, minus, bin_ in files]
    plus, minus = sum(each[1] for each in files), sum(each[2] for each in files)
    return _lines([*lines, f" {count(len(files), 'path')} changed, {plus} added, {minus} removed lines"])


def _from_header(raw: bytes) -> str:
    """The path in `diff --git a/PATH b/PATH`, for a file that has no other line that names it."""
    both = raw[len(b"diff --git ") :]
    return _strip_side(both[len(both) // 2 + 1 :])


def _strip_side(raw: bytes) -> str:
    """A name as the patch has it, without the `a/` or `b/`; names that git quoted stay quoted."""
    text = raw.rstrip(b"\t").decode("utf-8", "surrogateescape")
    if text.startswith('"') and text.endswith('"'):
        return '"' + quote.line(text[1:])[2:]
    return quote.path(text[2:])
