"""`fleet` and its subcommands as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, duration, limited, lines, relative_time, table
from git_agentos.cli.render.text.layout import counts as counted
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.fleet.acceptance import FleetAcceptance
    from git_agentos.fleet.collection import Collection, RefusedResult
    from git_agentos.fleet.status import ListedFleet, Status, TaskStatus
    from git_agentos.fleet.submission import Submitted
    from git_agentos.fleet.tasks import Task
    from git_agentos.fleet.worker import Done

_COLOURS = {
    "waiting": None, "running": "cyan", "passed": "green", "failed": "red", "lost": "red", "cancelled": "yellow",
}  # fmt: skip
_COLUMNS = ("TASK", "STATE", "ATTEMPTS", "WORKER", "COMMIT", "DETAIL")
_MOST_FILES = 10
_MOST_SKIPPED = 20
_LONGEST = 100  # characters of a detail in a table
_LONGEST_COMMAND = 300
_MOST_SILENT = 5
_COMMAND = "command"  # the engine that does not know what becomes of its workers


def counts(status: Status | ListedFleet) -> str:
    """How many tasks there are of each state: `3 passed, 1 running`."""
    return counted([(number, state) for state, number in status.counts.items()]) or "no task"


def header(status: Status) -> str:
    """A fleet in one line."""
    tasks = count(len(status.tasks), "task")
    return (
        f"fleet {status.id} on {quote.line(status.remote)}: {tasks} by the engine {quote.line(status.engine)}, "
        f"from {abbrev(status.base)}"
    )


def task_line(task: TaskStatus, style: Style) -> str:
    """A task in one line."""
    colour = _COLOURS[task.state]
    state = style.paint(colour, task.state) if colour else task.state
    where = f" on {quote.line(task.worker)}" if task.worker else ""
    detail = f": {quote.line(task.detail)}" if task.detail and task.state != "running" else ""
    return f"{task.id}: {state}{where}{detail}"


def not_begun(tasks: Sequence[str], seconds: float, command: str) -> str:
    """The message that no worker of these tasks has begun, `seconds` after they were handed to the engine."""
    more = len(tasks) - _MOST_SILENT
    listed = ", ".join(tasks[:_MOST_SILENT]) + (f" and {more} more" if more > 0 else "")
    who = "it was" if len(tasks) == 1 else "they were"
    run = _cut(quote.line(command), _LONGEST_COMMAND)
    return f"not begun {duration(int(seconds))} after {who} handed over: {listed}; for '{tasks[0]}' this was run: {run}"


def status(found: Status, style: Style) -> Text:
    """`fleet status`."""
    table_ = table([_row(task, _since(found, style)) for task in found.tasks], style, _COLUMNS)
    rows = [header(found), counts(found), "", *table_]
    return Text(lines(rows), lines(task.id for task in found.tasks))


def _since(found: Status, style: Style) -> str:
    """The detail of a waiting task: since when, with the engine `command`; else empty, since tasks take turns."""
    if found.engine != _COMMAND:
        return ""
    return f"not begun, submitted {relative_time(found.created_at, style.now)}"


def _row(task: TaskStatus, since: str) -> tuple[str | tuple[str, str | None], ...]:
    detail = quote.line(task.detail or (task.outcome if task.outcome != "ok" else None) or "")
    if task.state == "waiting":
        detail = detail or since
    return (
        task.id,
        (task.state, _COLOURS[task.state]),
        str(task.attempts or ""),
        quote.line(task.worker or ""),
        abbrev(task.commit) if task.commit else "",
        _cut(detail, _LONGEST),
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def submitted(done: Submitted, style: Style) -> Text:
    """`fleet submit`."""
    found = done.status
    rows = [f"Fleet {found.id}: {counts(found)}."]
    rows += [task_line(task, style) for task in found.tasks if task.state != "passed"]
    hints = [f"'git agentos fleet status {found.id}' shows all tasks"]
    if done.is_interrupted:
        hints = ["submit the same file again to go on"]
    elif found.counts["lost"]:
        hints.append("submit the same file again to start what was lost")
    return Text(lines(rows), lines(task.id for task in found.tasks if task.state == "passed"), hints=tuple(hints))


def detached(started: Submitted) -> Text:
    """`fleet submit --detach`."""
    found = started.status
    if not started.started:
        return Text(f"Fleet {found.id}: {counts(found)}. There is nothing to start.\n", f"{found.id}\n")
    hint = f"'git agentos fleet status {found.id} --follow' waits for it"
    return Text(f"Fleet {found.id} is running: {counts(found)}.\n", f"{found.id}\n", hints=(hint,))


def planned(plan: Submitted, style: Style) -> Text:
    """`fleet submit --dry-run`: what each worker would run."""
    rows = [header(plan.status)]
    done = len(plan.status.tasks) - len(plan.started)
    if done:
        rows.append(f"{count(done, 'task')} would not be started: {counts(plan.status)}")
    for task in plan.started:
        rows.append(f"would start  {style.paint('bold', task.id)}{_needs(task)}")
        rows += [f"    {each}" for each in _steps(task)]
    rows += [quote.line(each) for each in plan.status.policy]
    return Text(lines(rows), lines(task.id for task in plan.started))


def _needs(task: Task) -> str:
    given = [
        (f"{task.cpus:g} cpus" if task.cpus is not None else ""),
        (f"{task.gpus:g} gpus" if task.gpus else ""),
        (f"{task.memory} bytes of memory" if task.memory is not None else ""),
        *(f"{quote.line(key)}={quote.line(value)}" for key, value in task.labels.items()),
        (f"from {quote.line(task.base)}" if task.base is not None else ""),
    ]
    needs = ", ".join(filter(None, given))
    return f"  ({needs})" if needs else ""


def _steps(task: Task) -> list[str]:
    if task.tdd is not None:
        tdd = task.tdd
        return [f"tdd: issue {quote.line(tdd.issue)}, {quote.path(tdd.lld)}, agent {quote.line(tdd.agent)}"]
    assert task.spec is not None
    rows = [f"{step.kind}: {quote.line(step.command or step.to or step.message or '')}" for step in task.spec.steps]
    if all(step.kind != "validate" for step in task.spec.steps):
        rows.append("no validation: it cannot be accepted")
    return rows


def collected(fleet: str, done: Collection, style: Style) -> Text:
    """`fleet collect`."""
    rows = []
    for each in done.results:
        has = f"{style.paint('yellow', abbrev(each.commit))} on 'fleet/{fleet}/{each.task}', run {each.run_id}"
        rows.append(f"{each.task}: {has}" + (f" ({each.state})" if each.state != "passed" else ""))
        if each.uncommitted:
            has = f"{count(each.uncommitted, 'file')} in no commit, but in checkpoint {abbrev(each.checkpoint)}"
            rows += [
                f"    {has}:",
                f"    git agentos restore --agent run-{each.run_id} --worktree NAME {abbrev(each.checkpoint)}",
            ]
    if not done.results and not done.refused:
        rows = [f"Fleet {fleet} has no result to collect."]
    return Text(lines(rows), lines(each.task for each in done.results), warnings=_refused(done.refused))


def _refused(refused: Sequence[RefusedResult]) -> tuple[str, ...]:
    return tuple(f"the result of '{each.task}' is not used: {quote.line(each.reason)}" for each in refused)


def accepted(fleet: str, done: FleetAcceptance, style: Style) -> Text:
    """`fleet accept`."""
    verb = "would merge" if done.dry_run else "merged"
    rows = [f"{verb} {each.task}  {style.paint('yellow', abbrev(each.commit))}" for each in done.merged]
    for each in done.conflicts:
        rows.append(f"{style.paint('red', each.task)} conflicts:")
        rows += limited(list(each.files), _MOST_FILES)
    target = quote.line(done.target)
    if done.merge_commit is not None:
        rows.append(f"'{target}' is at {style.paint('yellow', abbrev(done.merge_commit))}.")
    elif not done.merged:
        none_is = not done.conflicts and not done.refused
        what = f"Nothing of fleet {fleet} is to be merged" if none_is else "Nothing was merged"
        rows.append(f"{what} into '{target}'{':' if done.skipped else '.'}")
        rows += limited([f"{each.task}: {each.reason}" for each in done.skipped], _MOST_SKIPPED)
    hints = [f"'git merge fleet/{fleet}/{done.conflicts[0].task}' merges it with your help"] if done.conflicts else []
    return Text(
        lines(rows),
        lines(each.task for each in done.merged),
        warnings=(*_refused(done.refused), *map(quote.line, done.warnings)),
        hints=tuple([] if done.dry_run else hints),
    )


def ended(found: Status) -> Text:
    """`fleet end`."""
    return Text(f"Fleet {found.id} has ended: {counts(found)}. One ref of '{quote.line(found.remote)}' keeps it.\n")


def listing(fleets: Sequence[ListedFleet], style: Style) -> Text:
    """`fleet list`."""
    if not fleets:
        return Text("There is no fleet.\n", "")
    rows = [(each.id, counts(each), relative_time(each.created_at, style.now)) for each in fleets]
    return Text(lines(table(rows, style, ("FLEET", "TASKS", "SUBMITTED"))), lines(each.id for each in fleets))


def worked(done: Done) -> Text:
    """`fleet worker`; the id of the result under -q."""
    what, result = f"Task {done.task} of fleet {done.fleet}", abbrev(done.result) if done.result else ""
    hints: tuple[str, ...] = ()
    if done.state == "there":
        rows = [f"{what} has a result already."]
    elif done.state == "refused":
        rows = [f"{what} has another result, {result}: that of this worker does not count."]
        if done.run is not None:
            rows.append(f"Its evidence is kept in {quote.path(done.run.evidence)}.")
    elif done.state == "stopped":
        rows = [f"{what} was interrupted."]
        hints = ("the next worker of the task continues with the step that was interrupted",)
    else:
        state = done.run.state if done.run is not None else ""
        rows = [f"{what} {state}: its result is {result}."]
    return Text(lines(rows), f"{result}\n" if result else "", hints=hints)
