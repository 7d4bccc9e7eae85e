"""`run` and its subcommands as text; progress of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text import layout
from git_agentos.cli.render.text import patch as patches
from git_agentos.cli.render.text.layout import (
    abbrev,
    clock,
    facts,
    joined,
    lines,
    local_time,
    relative_time,
    table,
    time_and_age,
)
from git_agentos.cli.text import Style, Text
from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.run.context import WorkspaceContext
    from git_agentos.run.events import Run, Step
    from git_agentos.run.sealing import Verification

_COLOURS = {
    "running": "cyan", "interrupted": "yellow", "passed": "green", "failed": "red", "cancelled": "yellow",
    "accepted": "green", "open": "cyan", "tampered": "red",
}  # fmt: skip
_STATES = {
    "running": "is running",
    "interrupted": "was interrupted",
    "cancelled": "is cancelled",
    "open": "is open",
    "tampered": "was tampered with",
    "accepted": "is accepted",
}
_OUTCOME_COLOURS = {
    "ok": "green", "failed": "red", "timed-out": "red", "no-changes": "yellow", "protected-branch": "red",
}  # fmt: skip
_OUTCOMES = {"timed-out": "out of time", "no-changes": "no changes", "protected-branch": "changed a protected branch"}
_COLUMNS = ("ID", "STATE", "TASK", "ATTEMPTS", "BASE", "STARTED")
_MOST_BRANCHES = 10


# -- progress ----------------------------------------------------------------------------------------------------------


def run_header(run: Run) -> str:
    """When the worktree is ready."""
    context = run.context
    if context is None:
        return f"run {run.run_id}"
    return (
        f"run {run.run_id}: on branch '{quote.line(context.branch_name)}' from {_base(context)}, "
        f"in {quote.path(context.worktree_path)}"
    )


def _base(context: WorkspaceContext, form: str = "{} ({})") -> str:
    """The base by its name and its commit; only the commit if the base was given as a commit id."""
    commit = abbrev(context.base_sha)
    return commit if _is_commit(context) else form.format(quote.line(context.base_ref), commit)


def _is_commit(context: WorkspaceContext) -> bool:
    return context.base_ref == context.base_sha


def step_label(run: Run, step: Step) -> str:
    """A step and its attempt: `[3] validate, attempt 1 of 2`."""
    attempt = f", attempt {step.attempt} of {run.max_attempts}" if run.max_attempts > 1 else ""
    return f"[{step.n}] {step.kind}{attempt}"


def step_started(run: Run, step: Step) -> str:
    """When a step starts."""
    return step_label(run, step) + (f": {quote.line(step.command)}" if step.command else "")


def step_ended(run: Run, step: Step, style: Style) -> str:
    """When a step has ended."""
    return f"{step_label(run, step)}: {_outcome(step, style)}"


def _outcome(step: Step, style: Style) -> str:
    if step.outcome is None:
        return "running"
    parts = [style.paint(_OUTCOME_COLOURS.get(step.outcome, "cyan"), _OUTCOMES.get(step.outcome, step.outcome))]
    if step.exit_code:
        parts[0] += f" (exit {step.exit_code})"
    if step.seconds is not None:
        parts.append(clock(step.seconds))
    if step.changed:
        parts.append(f"{count(step.changed, 'path')} changed")
    if step.detail:
        parts.append(quote.line(step.detail))
    return ", ".join(parts)


# -- start, resume, cancel ---------------------------------------------------------------------------------------------


def finished(run: Run) -> Text:
    """`start`, `resume` and `cancel`: the state of the run, where its work is, and what can be done with it."""
    rows = [f"Run {run.run_id} {_state(run)}."]
    if run.state == "passed":
        rows += worktree_lines(run)
        if not _is_validated(run):
            rows.append("It has no validation, so it cannot be accepted: use --validate next time.")
        hints = _hints_if_passed(run)
    elif run.state == "interrupted":
        rows.append("None of its processes is left. Everything up to the interrupted step is saved.")
        rows += worktree_lines(run)
        hints = [
            f"'git agentos run resume {run.run_id}' continues with that step",
            f"'git agentos rollback {run.run_id}' resets the run to its base",
        ]
    else:
        rows += worktree_lines(run)
        if run.state == "tampered":
            rows.append("Its record cannot be trusted, so it cannot be accepted.")
        hints = _hints_if_not_passed(run)
    return Text(lines(rows), f"{run.run_id}\n", warnings=problems(run), hints=tuple(hints))


def _hints_if_passed(run: Run) -> list[str]:
    id_ = run.run_id
    hints = [f"'git agentos run diff {id_}' shows its changes"]
    if _is_validated(run):
        has_branch = run.context is not None and run.context.base_ref != "HEAD" and not _is_commit(run.context)
        into = f" into '{quote.line(run.context.base_ref)}'" if run.context is not None and has_branch else ""
        hints.append(f"'git agentos run accept {id_}' merges it{into}")
    return [*hints, f"'git agentos rollback {id_}' discards its changes"]


def _hints_if_not_passed(run: Run) -> list[str]:
    id_ = run.run_id
    hints = [f"'git agentos run verify {id_}' lists the problems"] if run.state == "tampered" else []
    failed = next((each for each in reversed(run.steps) if each.outcome not in (None, "ok")), None)
    if failed is not None and failed.stdout is not None:
        hints.append(f"'git agentos run logs {id_} --step {failed.n}' prints the output of the step")
    if run.context is None:
        return hints  # there is no worktree
    if run.rolled_back_to is None and _has_changed(run):
        hints.append(f"'git agentos run diff {id_}' shows its changes")
        if run.archive is None:
            hints.append(f"'git agentos rollback {id_}' discards its changes")
    elif run.rolled_back_to is not None and run.archive is None:
        what = "what could be saved of its work" if run.not_saved else "its work"
        hints.append(f"'{agentos_in(run.context.worktree_path)} undo' restores {what}")
    return hints


def _state(run: Run) -> str:
    return _with_reason(run, _STATES.get(run.state, run.state))


def _with_reason(run: Run, state: str) -> str:
    """A state with its reason, which may begin with the state (`interrupted by SIGINT`)."""
    if run.reason is None:
        return state
    reason = quote.line(run.reason)
    return state + reason.removeprefix(run.state) if reason.startswith(run.state) else f"{state}: {reason}"


def worktree_lines(run: Run) -> list[str]:
    """Where the work is, or how to restore it."""
    context = run.context
    if context is None:
        return ["It has no worktree: nothing was changed."]
    if run.archive is not None:
        return [archived(run)]
    path = quote.path(run.left.worktree_path if run.left is not None else context.worktree_path)
    if run.rolled_back_to == "pre_run":
        row = f"Its worktree is as it was before the run, at {abbrev(context.base_sha)}: {path}"
        return [row, *_saved(run, "The work of the run")]
    if run.rolled_back_to is not None:
        row = f"Its worktree was rolled back to {rollback_target(run.rolled_back_to)}: {path}"
        return [row, *_saved(run, "Later work")]
    if not _has_changed(run):
        return [f"It has changed nothing. Its worktree is kept: {path}"]
    return [_work(run, path), *_other_changes(run)]


def _saved(run: Run, subject: str) -> list[str]:
    """Which work of a run that was rolled back can be restored."""
    if not run.not_saved:
        return [f"{subject} is saved, and can be restored."]
    rows = [f"{subject} could not be saved completely:"]
    rows += [f"  {quote.path(each.path)}: {quote.line(each.reason)}" for each in run.not_saved]
    if run.last_saved is not None:
        rows.append(f"The last checkpoint before that is {_last_saved(run)}; later changes to it are not saved.")
    return rows


def _last_saved(run: Run) -> str | None:
    if run.last_saved is None:
        return None
    return abbrev(run.last_saved) + (f" of {local_time(run.last_saved_at)}" if run.last_saved_at else "")


def _left(run: Run) -> str | None:
    """The state in which the run left its worktree."""
    left = run.left
    if left is None:
        return None
    parts = [f"{count(left.changed, 'path')} changed", count(left.commits, "commit")]
    if run.context is not None and left.branch != run.context.branch_name:
        parts.append(f"HEAD {_head(left.branch)}")
    if left.head_sha is None:
        parts.append("the branch is gone")
    if left.ignored:
        parts.append("other ignored files")
    return ", ".join(parts)


def _head(branch: str | None) -> str:
    return f"on branch '{quote.line(branch)}'" if branch is not None else "detached"


def _work(run: Run, path: str) -> str:
    """Where the work of a run is that was not rolled back."""
    own = quote.line(run.context.branch_name) if run.context is not None else ""
    left = run.left
    if left is not None and run.context is not None and left.branch != run.context.branch_name:
        commit = f" at {abbrev(left.head_sha)}" if left.head_sha is not None else ""
        return f"Its worktree is not on its branch '{own}', HEAD is {_head(left.branch)}{commit}: {path}"
    if left is not None and left.head_sha is None:
        return f"Its branch '{own}' is gone, its work is in {path}"
    changed_protected = any(each.outcome == "protected-branch" for each in run.steps)
    is_known = all(each.moved is not None for each in run.steps)
    no_other = is_known and not _moved_branches(run) and not changed_protected
    end = "; no other branch has moved." if no_other else "."
    if left is None or left.changed or left.commits:
        return f"Its work is on branch '{own}', in {path}{end}"
    if left.ignored:
        return f"It has only changed ignored files. Its worktree is kept: {path}"
    return f"Its worktree is in its initial state: {path}{end}"


def _moved_branches(run: Run) -> list[str]:
    return _quoted(name for each in run.steps for name in each.moved or ())


def _quoted(names: Iterable[str]) -> list[str]:
    return [f"'{quote.line(name)}'" for name in sorted(set(names))]


def _other_changes(run: Run) -> list[str]:
    """Other branches and refs that changed during the run."""
    other_refs = _quoted(name for each in run.steps for name in each.moved_refs or ())
    return [
        f"Meanwhile other {kind} were created, moved or deleted: {joined(names, _MOST_BRANCHES)}."
        for kind, names in (("branches", _moved_branches(run)), ("refs", other_refs))
        if names
    ]


def archived(run: Run) -> str:
    """Where the worktree is archived."""
    hint = f"'git agentos worktree create run-{run.run_id} --revive' restores it"
    return f"Its worktree is archived in {abbrev(run.archive)}: {hint}."


def _has_changed(run: Run) -> bool:
    """Whether the run has changed anything, or may have."""
    if any(each.moved or each.moved_refs for each in run.steps):
        return True
    if run.left is None or run.context is None:
        return run.is_external or any(each.changed != 0 for each in run.steps)
    left, context = run.left, run.context
    at_base = (left.branch, left.head_sha) == (context.branch_name, context.base_sha)
    return not (at_base and left.changed == left.commits == 0 and not left.ignored)


def _is_validated(run: Run) -> bool:
    return any(each.kind == "validate" and each.outcome == "ok" for each in run.steps)


def _is_resumable(run: Run) -> bool:
    """Whether an interrupted run can be resumed: it was not rolled back, and its record can be read."""
    return run.rolled_back_to is None and not run.problems


def problems(run: Run) -> tuple[str, ...]:
    """What is wrong with the record of a run."""
    return tuple(quote.line(each) for each in run.problems)


def rollback_target(name: str) -> str:
    """`pre_run`, `step:2`, or a checkpoint's id, abbreviated."""
    return abbrev(name) if is_any_oid(name) else quote.line(name)


def agentos_in(path: str) -> str:
    """The beginning of a `git agentos` command in another worktree."""
    return f"git -C {quote.line(shlex.quote(path))} agentos"


# -- list, show, logs, diff, verify ------------------------------------------------------------------------------------


def listing(runs: Sequence[Run], style: Style) -> Text:
    """`list`: a table; ids under -q."""
    if not runs:
        return Text(notes=("no runs",), hints=("'git agentos run start --agent COMMAND' starts one",))
    rows = table([_row(each, style) for each in runs], style, _COLUMNS)
    waiting = next((each.run_id for each in runs if each.state == "interrupted" and _is_resumable(each)), None)
    hints: tuple[str, ...] = ()
    if waiting is not None:
        hints = (f"'git agentos run resume {waiting}' continues it, 'git agentos rollback {waiting}' rolls it back",)
    return Text(lines(rows), lines(each.run_id for each in runs), hints=hints)


def _row(run: Run, style: Style) -> tuple[layout.Cell, ...]:
    context = run.context
    state = "damaged" if context is None and run.problems and run.state == "interrupted" else run.state
    state += ", rolled back" if run.rolled_back_to is not None else ""
    return (
        run.run_id,
        (state, _COLOURS.get(run.state, "cyan")),
        quote.line(run.task_id or "-"),
        f"{len(run.attempts)} of {run.max_attempts}",
        _base(context) if context is not None else "-",
        relative_time(run.started_at, style.now),
    )


def details(run: Run, style: Style) -> Text:
    """`show`: facts, then the steps."""
    rows = facts(_facts(run, style))
    if run.steps:
        rows += ["", f"Steps ({count(len(run.attempts), 'attempt')} of at most {run.max_attempts}):"]
    for step in run.steps:
        before = f" [step:{step.n} is {abbrev(step.checkpoint_before)}]" if step.checkpoint_before else ""
        rows.append(f"  {step.n}. {step.kind}, attempt {step.attempt}: {_outcome(step, style)}{before}")
        if step.command:
            rows.append(f"     {quote.line(step.command)}")
    return Text(lines(rows), f"{run.run_id}\n", warnings=problems(run), hints=_next_steps(run))


def _facts(run: Run, style: Style) -> list[tuple[str, str | None]]:
    context = run.context
    into = f"into '{quote.line(run.accepted_into)}'" if run.accepted_into else None
    merged = f"{into} as {abbrev(run.merge_commit)}" if into and run.merge_commit else into
    final = f"{abbrev(run.final_checkpoint)} (its last, with the evidence)" if run.final_checkpoint else None
    return [
        ("Run", run.run_id),
        ("State", _with_reason(run, style.paint(_COLOURS.get(run.state, "cyan"), run.state))),
        ("Rolled back", f"to {rollback_target(run.rolled_back_to)}" if run.rolled_back_to else None),
        ("Accepted", merged),
        ("Task", quote.line(run.task_id) if run.task_id else None),
        ("Agent", quote.line(context.agent_id) if context else None),
        ("Driven by", quote.line(run.tool) if run.is_external and run.tool else None),
        ("Base", _base(context, "{} at {}") if context else None),
        ("Branch", quote.line(context.branch_name) if context else None),
        ("Worktree", quote.path(context.worktree_path) if context and run.here else None),
        ("Archived", f"in {abbrev(run.archive)}" if run.archive else None),
        ("Evidence", quote.path(run.evidence) if run.here else "a copy in git, of a record that was not made here"),
        ("Started", time_and_age(run.started_at, style)),
        ("Ended", time_and_age(run.ended_at, style) if run.ended_at else None),
        ("Left", _left(run)),
        ("Not saved", ", ".join(quote.path(each.path) for each in run.not_saved)),
        ("Last saved", _last_saved(run)),
        ("Process", str(run.process) if run.process is not None else None),
        ("Guarded", "yes" if run.guarded else "no"),
        ("Protected", ", ".join(quote.line(each) for each in run.protected) or "none"),
        ("Checkpoint", final),
    ]


def _next_steps(run: Run) -> tuple[str, ...]:
    id_ = run.run_id
    if not run.here:
        return (
            f"'git agentos run diff {id_}' shows its changes",
            "'git agentos fleet accept' merges the results of a fleet",
        )
    if run.state == "interrupted" and _is_resumable(run):
        return (f"'git agentos run resume {id_}' continues it", f"'git agentos rollback {id_}' resets it to its base")
    if run.state == "open" and run.tool == "tdd":
        return (f"'git agentos tdd show {id_}' shows what it waits for",)
    if run.state != "passed" or not _is_validated(run):
        return ()
    accept = f"'git agentos run accept {id_}' merges it"
    if run.archive is None:
        return (accept,)
    return (f"'git agentos worktree create run-{id_} --revive' restores its worktree", f"then {accept}")


def logs(outputs: Sequence[tuple[Step, bytes, bytes]], style: Style) -> Text:
    """`logs`: a heading and the output for each step, made safe on a terminal; without headings under -q."""
    if not outputs:
        return Text(notes=("no command of the run has written any output yet",))
    parts, bare = [], []
    for step, out, err in outputs:
        output = _whole_lines(out, style) + _whole_lines(err, style)
        head = f"== step {step.n}: {step.kind}, attempt {step.attempt}, {_outcome(step, Style())}"
        parts += [style.paint("bold", head).encode("utf-8", "surrogateescape") + b"\n", output]
        bare.append(output)
    return Text(b"".join(parts), b"".join(bare))


def _whole_lines(data: bytes, style: Style) -> bytes:
    """Output that ends with a line end; on a terminal with visible control characters."""
    shown = quote.contents(data).encode("utf-8", "surrogateescape") if style.terminal else data
    return shown if not shown or shown.endswith(b"\n") else shown + b"\n"


def diff(patch: bytes, style: Style, *, stat: bool) -> Text:
    """`diff`."""
    return patches.patch(patch, style, stat=stat) if patch else Text(notes=("the run has changed nothing",))


def verified(result: Verification, style: Style) -> Text:
    """`verify`."""
    final = abbrev(result.final_checkpoint)
    if result.ok:
        checked = f"{count(result.files, 'file')}, {count(result.commits, 'commit')}"
        rows = [f"The evidence of run {result.run_id} is complete and unchanged since it was sealed: {checked}."]
        rows += [f"Checkpoint {final} records its hash."] if final else []
        rows += ["It was rewritten: 'git agentos forget' has removed something from it."] if result.rewritten else []
        return Text(lines(rows), f"{final}\n")
    failed = style.paint("red", "does not verify")
    problems = [quote.line(each) for each in result.problems]
    rows = [f"The evidence of run {result.run_id} {failed}: {count(len(problems), 'problem')}."]
    rows += [f"  {each}" for each in problems]
    hints = (f"checkpoint {final} has the evidence as it was sealed",) if final else ()
    return Text(lines(rows), lines(problems), hints=hints)
