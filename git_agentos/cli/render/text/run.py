"""What `git agentos run` says to a person; see `text` for how."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text import layout as table
from git_agentos.cli.render.text.checkpoint import age, count, local, patch, short
from git_agentos.cli.render.text.worktree import files

if TYPE_CHECKING:
    from git_agentos.run.context import WorkspaceContext
    from git_agentos.run.events import Run, Step
    from git_agentos.run.sealing import Verification
    from git_agentos.worktree.agent_merge import Merge

_COLOURS = {
    "running": "cyan", "interrupted": "yellow", "passed": "green", "failed": "red", "cancelled": "yellow",
    "accepted": "green", "open": "cyan", "tampered": "red",
}  # fmt: skip
_OUTCOMES = {"ok": "green", "failed": "red", "timed-out": "red", "no-changes": "yellow", "protected-branch": "red"}
_SAYS = {"timed-out": "out of time", "no-changes": "no changes", "protected-branch": "touched a protected branch"}
_MOST_BRANCHES = 10
_COLUMNS = ("ID", "STATE", "TASK", "ATTEMPTS", "BASE", "STARTED")


# -- while it goes -----------------------------------------------------------------------------------------------------


def begun(run: Run) -> str:
    """The workspace is ready."""
    if run.context is None:
        return f"run {run.run_id}"
    where = run.context
    return (
        f"run {run.run_id}: on branch '{quote.line(where.branch_name)}' from {quote.line(where.base_ref)} "
        f"({short(where.base_sha)}), in {quote.path(where.worktree_path)}"
    )


def step_begins(run: Run, step: Step) -> str:
    """A step begins."""
    return which(run, step) + (f": {quote.line(step.command)}" if step.command else "")


def step_ended(run: Run, step: Step, style: Style) -> str:
    """A step has ended."""
    return f"{which(run, step)}: {_outcome(step, style)}"


def which(run: Run, step: Step) -> str:
    """The step that is spoken of."""
    return f"[{step.n}] {step.kind}{_attempt(run, step.attempt)}"


def elapsed(seconds: float) -> str:
    """A duration in words: `0:42`, `1:02:03`."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _attempt(run: Run, number: int) -> str:
    return f", attempt {number} of {run.max_attempts}" if run.max_attempts > 1 else ""


def _outcome(step: Step, style: Style) -> str:
    """How a step ended, in a few words."""
    if step.outcome is None:
        return "under way"
    parts = [style.paint(_OUTCOMES.get(step.outcome, "cyan"), _SAYS.get(step.outcome, step.outcome))]
    if step.exit_code:
        parts[0] += f" (exit {step.exit_code})"
    if step.seconds is not None:
        parts.append(elapsed(step.seconds))
    if step.changed:
        parts.append(f"{count(step.changed, 'path')} changed")
    if step.detail:
        parts.append(quote.line(step.detail))
    return ", ".join(parts)


# -- start, resume, cancel, accept -------------------------------------------------------------------------------------


def ended(run: Run) -> Text:
    """After `start`, `resume` and `cancel`: what is true now, where the work is, and what can be done with it."""
    id_ = run.run_id
    lines = [f"Run {id_} {_state(run)}."]
    hints: list[str] = []
    if run.state == "passed":
        lines += _place(run)
        hints.append(f"'git agentos run diff {id_}' shows what it changed")
        if _is_validated(run):
            named = run.context is not None and run.context.base_ref != "HEAD"
            into = f" into '{quote.line(run.context.base_ref)}'" if run.context is not None and named else ""
            hints.append(f"'git agentos run accept {id_}' merges it{into}")
        else:
            lines.append("Nothing has validated it, so it cannot be accepted: give --validate the next time.")
        hints.append(f"'git agentos rollback {id_}' takes all of it back")
    elif run.state == "interrupted":
        lines.append("No process of it is left. Everything up to the step that it was in is saved.")
        lines += _place(run)
        hints.append(f"'git agentos run resume {id_}' goes on with that step")
        hints.append(f"'git agentos rollback {id_}' takes the run back to where it began")
    else:
        lines += _place(run)
        if run.state == "tampered":
            lines.append("What it says of itself cannot be believed, and it cannot be accepted.")
            hints.append(f"'git agentos run verify {id_}' says what was found")
        failed = next((each for each in reversed(run.steps) if each.outcome not in (None, "ok")), None)
        if failed is not None and failed.stdout is not None:
            hints.append(f"'git agentos run logs {id_} --step {failed.n}' shows what the step said")
        if run.context is None:
            pass  # there is nothing to look at, and nothing to take back
        elif run.rolled_back_to is None and _has_changed(run):
            hints.append(f"'git agentos run diff {id_}' shows what it changed")
            if run.archive is None:
                hints.append(f"'git agentos rollback {id_}' takes all of it back")
        elif run.rolled_back_to is not None and run.archive is None:
            what = "what could be saved of it" if run.not_saved else "what it did"
            hints.append(f"'{ours_in(run.context.worktree_path)} undo' brings {what} back")
    return Text(_lines(lines), f"{id_}\n", warnings=_problems(run), hints=tuple(hints))


def accepted(run: Run, done: Merge, style: Style) -> Text:
    """After `accept`."""
    target = quote.line(done.target)
    if not done.merged:
        lines = [f"Run {run.run_id} is accepted: '{target}' has its work already. Nothing had to be merged."]
        return Text(_lines(lines), f"{short(done.merge_commit)}\n" if done.merge_commit else "", warnings=_told(done))
    commit = style.paint("yellow", short(done.merge_commit))
    lines = [f"Accepted run {run.run_id}: '{target}' is now at {commit}."]
    hints = [f"'git update-ref refs/heads/{target} {short(done.before)}' takes it back"]
    if done.worktree_path is not None:
        lines.append(f"The files in {quote.path(done.worktree_path)} came along; local changes are kept.")
        if done.saved:
            lines.append(f"The state before is saved as {short(done.saved)}.")
        there = quote.line(shlex.quote(done.worktree_path))
        hints = [f"'git -C {there} reset --keep {short(done.before)}' takes it back"]
    if run.archive is not None:
        lines.append(_archived(run))
    elif run.context is not None:
        lines.append(f"The run's worktree stays: {quote.path(run.context.worktree_path)}")
        hints.append(f"'git agentos run cleanup {run.run_id}' archives the worktree, and deletes the branch")
    warnings = (*_told(done), *_problems(run))
    return Text(_lines(lines), f"{short(done.merge_commit)}\n", warnings=warnings, hints=tuple(hints))


def not_accepted(run: Run, done: Merge) -> Text:
    """After `accept`, where there is a conflict: its files alone under -q."""
    target = quote.line(done.target)
    paths = list(dict.fromkeys(path for each in done.conflicts for path in each.files))
    lines = [
        f"Run {run.run_id} is not accepted: its work conflicts with '{target}'. Nothing was changed.",
        *files(paths),
    ]
    hints = (
        f"a new run begins with what is in '{target}' now",
        f"'git agentos run diff {run.run_id} | git apply --3way' brings its changes here, for you to resolve",
    )
    return Text(_lines(lines), _lines(quote.path(path) for path in paths), warnings=_told(done), hints=hints)


def _told(done: Merge) -> tuple[str, ...]:
    return tuple(quote.line(each) for each in done.warnings)


def _state(run: Run) -> str:
    said = {"running": "is at work", "interrupted": "was interrupted", "cancelled": "is cancelled", "open": "is open"}
    said["tampered"] = "was tampered with"
    state = said.get(run.state, run.state if run.state != "accepted" else "is accepted")
    return _because(run, state)


def _because(run: Run, state: str) -> str:
    """A state with its reason, which may begin with the state (`interrupted by SIGINT`)."""
    if run.reason is None:
        return state
    reason = quote.line(run.reason)
    return state + reason.removeprefix(run.state) if reason.startswith(run.state) else f"{state}: {reason}"


def _place(run: Run) -> list[str]:
    """Where the work is now, or how it is brought back."""
    where = run.context
    if where is None:
        return ["It has no worktree: nothing was changed."]
    if run.archive is not None:
        return [_archived(run)]
    path = quote.path(run.left.worktree_path if run.left is not None else where.worktree_path)
    if run.rolled_back_to == "pre_run":
        back = f"Its worktree is as it was before the run, at {short(where.base_sha)}: {path}"
        return [back, *_saved(run, "What the run did")]
    if run.rolled_back_to is not None:
        back = f"Its worktree is back at {point(run.rolled_back_to)}: {path}"
        return [back, *_saved(run, "What was done after it")]
    if not _has_changed(run):
        return [f"It has changed nothing. Its worktree stays: {path}"]
    return [_work(run, where, path), *_moved(run)]


def _saved(run: Run, what: str) -> list[str]:
    """What of a run that was taken back can be brought back."""
    if not run.not_saved:
        return [f"{what} is saved, and can be brought back."]
    lines = [f"{what} could not be saved completely:"]
    lines += [f"  {quote.path(each.path)}: {quote.line(each.reason)}" for each in run.not_saved]
    if run.last_saved is not None:
        lines.append(f"The last checkpoint from before that is {_last_saved(run)}; later changes to it are not saved.")
    return lines


def _last_saved(run: Run) -> str | None:
    """The last checkpoint from before something was lost."""
    if run.last_saved is None:
        return None
    return short(run.last_saved) + (f" of {local(run.last_saved_at)}" if run.last_saved_at else "")


def _left(run: Run) -> str | None:
    """How the run left its worktree."""
    left = run.left
    if left is None:
        return None
    parts = [f"{count(left.changed, 'path')} changed", count(left.commits, "commit")]
    if run.context is not None and left.branch != run.context.branch_name:
        on = f"on branch '{quote.line(left.branch)}'" if left.branch is not None else "detached"
        parts.append(f"HEAD {on}")
    if left.head_sha is None:
        parts.append("the branch is gone")
    if left.ignored:
        parts.append("other ignored files")
    return ", ".join(parts)


def _work(run: Run, where: WorkspaceContext, path: str) -> str:
    """Where the work of a run is that was not taken back."""
    left = run.left
    own = quote.line(where.branch_name)
    trespassed = any(each.outcome == "protected-branch" for each in run.steps)
    moved = sorted({name for each in run.steps for name in each.moved or ()})
    is_known = all(each.moved is not None for each in run.steps)
    rest = "; no other branch has moved." if is_known and not moved and not trespassed else "."
    if left is not None and left.branch != where.branch_name:
        on = f"on branch '{quote.line(left.branch)}'" if left.branch is not None else "detached"
        at = f" at {short(left.head_sha)}" if left.head_sha is not None else ""
        return f"Its worktree is not on its branch '{own}', HEAD is {on}{at}: {path}"
    if left is not None and left.head_sha is None:
        return f"Its branch '{own}' is gone, its work is in {path}"
    if left is not None and left.changed == left.commits == 0 and left.ignored:
        return f"It has changed ignored files, and nothing else. Its worktree stays: {path}"
    if left is not None and left.changed == left.commits == 0:
        return f"Its worktree is as it was in the beginning: {path}{rest}"
    return f"Its work is on branch '{own}', in {path}{rest}"


def _moved(run: Run) -> list[str]:
    """What else moved while the run was at work."""
    lines = []
    moved = sorted({name for each in run.steps for name in each.moved or ()})
    if moved:
        shown = ", ".join(f"'{quote.line(name)}'" for name in moved[:_MOST_BRANCHES])
        more = f" and {len(moved) - _MOST_BRANCHES} more" if len(moved) > _MOST_BRANCHES else ""
        lines.append(f"Meanwhile other branches were made, moved or deleted: {shown}{more}.")
    others = sorted({name for each in run.steps for name in each.moved_refs or ()})
    if others:
        shown = ", ".join(f"'{quote.line(name)}'" for name in others[:_MOST_BRANCHES])
        more = f" and {len(others) - _MOST_BRANCHES} more" if len(others) > _MOST_BRANCHES else ""
        lines.append(f"Meanwhile other refs were made, moved or deleted: {shown}{more}.")
    return lines


def _archived(run: Run) -> str:
    back = f"'git agentos worktree create run-{run.run_id} --revive' brings it back"
    return f"Its worktree is archived in {short(run.archive)}: {back}."


def _has_changed(run: Run) -> bool:
    """Whether there is anything to look at or to take back; where it is not known, there may be."""
    if any(each.moved or each.moved_refs for each in run.steps):
        return True
    if run.left is None or run.context is None:
        return run.is_external or any(each.changed != 0 for each in run.steps)
    left, where = run.left, run.context
    is_there = (left.branch, left.head_sha) == (where.branch_name, where.base_sha)
    return not (is_there and left.changed == left.commits == 0 and not left.ignored)


def _is_validated(run: Run) -> bool:
    return any(each.kind == "validate" and each.outcome == "ok" for each in run.steps)


def _is_settled(run: Run) -> bool:
    """An interrupted run that nobody waits for: it was taken back, or its record cannot be read."""
    return run.rolled_back_to is not None or bool(run.problems)


def _problems(run: Run) -> tuple[str, ...]:
    return tuple(quote.line(each) for each in run.problems)


def point(name: str) -> str:
    """`pre_run`, `step:2`, or a checkpoint's id, shortened."""
    return short(name) if len(name) == 40 and ":" not in name else quote.line(name)


def ours_in(path: str) -> str:
    """The words of a command of ours in another worktree."""
    return f"git -C {quote.line(shlex.quote(path))} agentos"


# -- list, show, logs, diff, verify ------------------------------------------------------------------------------------


def ids(found: Sequence[str]) -> Text:
    """`list -q`."""
    return Text(_lines(found), _lines(found))


def listing(found: Sequence[Run], style: Style) -> Text:
    """`list`: a table."""
    if not found:
        return Text(notes=("no runs",), hints=("'git agentos run start --agent COMMAND' makes one",))
    rows = [_row(each, style) for each in found]
    lines = table.lines(_COLUMNS, rows, [_COLOURS.get(each.state, "cyan") for each in found], style)
    waiting = next((each.run_id for each in found if each.state == "interrupted" and not _is_settled(each)), None)
    hints = (
        (f"'git agentos run resume {waiting}' goes on with it, 'git agentos rollback {waiting}' takes it back",)
        if waiting is not None
        else ()
    )
    return Text(_lines(lines), _lines(each.run_id for each in found), hints=hints)


def _row(run: Run, style: Style) -> tuple[str, ...]:
    where = run.context
    state = "damaged" if where is None and run.problems and run.state == "interrupted" else run.state
    state += ", rolled back" if run.rolled_back_to is not None else ""
    return (
        run.run_id,
        state,
        quote.line(run.task_id or "-"),
        f"{len(run.attempts)} of {run.max_attempts}",
        f"{quote.line(where.base_ref)} ({short(where.base_sha)})" if where is not None else "-",
        age(run.started_at, style.now),
    )


def details(run: Run, style: Style) -> Text:
    """`show`: a fact a line, then the steps."""
    where = run.context
    into = f"into '{quote.line(run.accepted_into)}'" if run.accepted_into else None
    facts = [
        ("Run", run.run_id),
        ("State", _because(run, style.paint(_COLOURS.get(run.state, "cyan"), run.state))),
        ("Rolled back", f"to {point(run.rolled_back_to)}" if run.rolled_back_to else None),
        ("Accepted", f"{into} as {short(run.merge_commit)}" if into and run.merge_commit else into),
        ("Task", quote.line(run.task_id) if run.task_id else None),
        ("Agent", quote.line(where.agent_id) if where else None),
        ("Driven by", quote.line(run.tool) if run.is_external and run.tool else None),
        ("Base", f"{quote.line(where.base_ref)} at {short(where.base_sha)}" if where else None),
        ("Branch", quote.line(where.branch_name) if where else None),
        ("Worktree", quote.path(where.worktree_path) if where else None),
        ("Archived", f"in {short(run.archive)}" if run.archive else None),
        ("Evidence", quote.path(run.evidence)),
        ("Started", f"{local(run.started_at)} ({age(run.started_at, style.now)})"),
        ("Ended", f"{local(run.ended_at)} ({age(run.ended_at, style.now)})" if run.ended_at else None),
        ("Left", _left(run)),
        ("Not saved", ", ".join(quote.path(each.path) for each in run.not_saved) or None),
        ("Last saved", _last_saved(run)),
        ("Process", str(run.process) if run.process is not None else None),
        ("Guarded", "yes" if run.guarded else "no"),
        ("Protected", ", ".join(quote.line(each) for each in run.protected) or "none"),
        (
            "Checkpoint",
            f"{short(run.final_checkpoint)} (its last, with the evidence)" if run.final_checkpoint else None,
        ),
    ]
    lines = [f"{name + ':':<13}{value}" for name, value in facts if value]
    if run.steps:
        lines += ["", f"Steps ({count(len(run.attempts), 'attempt')} of at most {run.max_attempts}):"]
    for step in run.steps:
        before = f" [step:{step.n} is {short(step.checkpoint_before)}]" if step.checkpoint_before else ""
        lines.append(f"  {step.n}. {step.kind}, attempt {step.attempt}: {_outcome(step, style)}{before}")
        if step.command:
            lines.append(f"     {quote.line(step.command)}")
    hints: tuple[str, ...] = ()
    if run.state == "interrupted" and not _is_settled(run):
        back = f"'git agentos rollback {run.run_id}' takes it back to where it began"
        hints = (f"'git agentos run resume {run.run_id}' goes on with it", back)
    elif run.state == "open" and run.tool == "tdd":
        hints = (f"'git agentos tdd show {run.run_id}' tells what it waits for",)
    elif run.state == "passed" and _is_validated(run):
        hints = (f"'git agentos run accept {run.run_id}' merges it",)
        if run.archive is not None:
            revive = f"'git agentos worktree create run-{run.run_id} --revive' brings its worktree back"
            hints = (revive, f"after that, {hints[0]}")
    return Text(_lines(lines), f"{run.run_id}\n", warnings=_problems(run), hints=hints)


def logs(found: Sequence[tuple[Step, bytes, bytes]], style: Style) -> Text:
    """`logs`: what the commands said, a heading for each step; made safe on a terminal, without headings under -q."""
    if not found:
        return Text(notes=("no command of the run has said anything yet",))
    parts, bare = [], []
    for step, out, err in found:
        said = b"".join(_whole(part, style) for part in (out, err))
        head = f"== step {step.n}: {step.kind}, attempt {step.attempt}, {_outcome(step, Style())}"
        parts += [style.paint("bold", head).encode("utf-8", "surrogateescape") + b"\n", said]
        bare.append(said)
    return Text(b"".join(parts), b"".join(bare))


def _whole(data: bytes, style: Style) -> bytes:
    """Bytes that end in a line's end; on a terminal, nothing in them that it would obey."""
    shown = quote.contents(data).encode("utf-8", "surrogateescape") if style.terminal else data
    return shown if not shown or shown.endswith(b"\n") else shown + b"\n"


def difference(data: bytes, style: Style, *, stat: bool) -> Text:
    """`diff`."""
    if not data:
        return Text(notes=("the run has changed nothing",))
    return patch(data, style, stat=stat)


def verified(found: Verification, style: Style) -> Text:
    """`verify`."""
    if found.ok:
        checked = f"{count(found.files, 'file')}, {count(found.commits, 'commit')}"
        lines = [f"The evidence of run {found.run_id} is complete and as it was sealed: {checked}."]
        if found.final_checkpoint:
            lines.append(f"Checkpoint {short(found.final_checkpoint)} vouches for it.")
        return Text(_lines(lines), f"{short(found.final_checkpoint)}\n")
    bad = style.paint("red", "does not hold")
    lines = [f"The evidence of run {found.run_id} {bad}: {count(len(found.problems), 'problem')}."]
    lines += [f"  {quote.line(each)}" for each in found.problems]
    hints = (
        (f"checkpoint {short(found.final_checkpoint)} carries the evidence as it was sealed",)
        if found.final_checkpoint
        else ()
    )
    return Text(_lines(lines), _lines(quote.line(each) for each in found.problems), hints=hints)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
