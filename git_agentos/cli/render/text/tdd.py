"""`tdd` and its subcommands as text; progress and review of a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from git_agentos.cli.render.text import layout
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
from git_agentos.cli.render.text.patch import coloured, statistics
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.tdd.gate.command import GateResult
    from git_agentos.tdd.state import Record, Review, Workflow

_COLOURS = {
    "running": "cyan",
    "waiting": "yellow",
    "interrupted": "yellow",
    "merged": "green",
    "aborted": "red",
    "tampered": "red",
}
_STATES = {
    "running": "is running",
    "waiting": "waits for a decision",
    "interrupted": "was interrupted",
    "merged": "is merged",
    "aborted": "is aborted",
    "tampered": "cannot be trusted",
}
_GRADE_COLOURS = {"good": "green", "back": "yellow", "bad": "red"}
_COLUMNS = ("ID", "STATE", "ISSUE", "NODE", "BRANCH", "INTO", "STARTED")
_EFFECTS = {
    "approve": "merges it into '{into}'",
    "abort": "saves everything, then removes the worktree and the branch",
    "retry": "starts another round",
}
_MOST_PATCH_LINES = 200  # at the prompt
_MOST_OUTPUT_LINES = 40
_MOST_FILES = 50

CONSENT = "Type 'yes' to send it, anything else to stop: "


@dataclass(frozen=True)
class NodeOutputs:
    """The output and the patch of each node, by its number."""

    outputs: Mapping[int, bytes] = field(default_factory=dict)
    patches: Mapping[int, bytes] = field(default_factory=dict)


# -- progress ----------------------------------------------------------------------------------------------------------


def header(workflow: Workflow) -> str:
    """When a workflow was created, or is continued."""
    path = f", in {quote.path(workflow.worktree_path)}" if workflow.worktree_path else ""
    base = f" ({abbrev(workflow.base_sha)})" if workflow.base_sha else ""
    branch = f"on branch '{quote.line(workflow.branch)}' from {quote.line(workflow.into)}{base}{path}"
    agent = quote.line(workflow.agent)
    return f"workflow {workflow.id}, issue {quote.line(workflow.issue_id)}: {branch}; agent {agent}"


def node(name: str | None) -> str:
    """A node's name as it is shown: `N2 fail gate`."""
    if name is None or name.startswith("__"):
        return "the end"
    return quote.line(name.replace("_", " "))


def node_label(workflow: Workflow, name: str) -> str:
    """The node that is running."""
    return f"[{len(workflow.history) + 1}] {node(name)}"


def node_ended(record: Record, style: Style) -> str:
    """When a node has ended: one line, and one for each veto."""
    parts = [_summary(record, style), clock(record["seconds"])]
    if record["changed"]:
        parts.append(f"{count(len(record['changed']), 'path')} changed")
    row = f"[{record['n']}] {node(record['node'])}: {', '.join(parts)}; next: {node(record['next'])}"
    return "\n".join([row, *_vetoes(record["vetoes"], style)])


def _summary(record: Record, style: Style) -> str:
    summary = quote.line(record["summary"])
    if record["exit_code"] is not None and "exit" not in summary:
        summary += f" (exit {record['exit_code']})"
    return style.paint(_GRADE_COLOURS[grade(record)], summary)


def grade(record: Record) -> str:
    """`good`; `back` if the workflow goes back to an earlier node; `bad` if there is a veto, or a person has to decide
    because the node failed."""
    name, following = record["node"], record["next"]
    failed = following.startswith("N6") and name < "N5"
    if record["vetoes"] or failed:
        return "bad"
    return "good" if following.startswith("__") or following > name else "back"


def _vetoes(vetoes: Iterable[str], style: Style) -> list[str]:
    return [f"    {style.paint('red', 'veto:')} {quote.line(each)}" for each in vetoes]


# -- prompts -----------------------------------------------------------------------------------------------------------


def policy(rows: Iterable[str]) -> list[str]:
    """The data policy, before anything is sent."""
    return [quote.line(each) for each in rows]


def review(result: Review, style: Style) -> list[str]:
    """What a person sees before deciding at N6: the change, the tests, the audit, and the choices."""
    workflow = result.workflow
    rest = f"'git agentos tdd show {workflow.id}' shows all of it"
    rows = ["", style.paint("bold", f"Review of workflow {workflow.id}, issue {quote.line(workflow.issue_id)}"), ""]
    rows += _limited_patch(result.patch, style, rest)
    rows += ["", style.paint("bold", "Tests"), tests(workflow, style), *_vetoes(workflow.vetoes, style)]
    rows += _tail(result.test_output.encode("utf-8", "surrogateescape"), rest)
    rows += ["", style.paint("bold", "Audit"), *_findings(workflow, style)]
    rows += _conflicts(workflow, style)
    if workflow.reason:
        rows += ["", f"Reason for the review: {quote.line(workflow.reason)}"]
    rows += ["", *(f"  {choice:<9}{effect(workflow, choice)}" for choice in workflow.words)]
    if "approve" not in workflow.words:
        rows.append("It cannot be approved: its tests have not passed.")
    return rows


def question(workflow: Workflow) -> str:
    """The prompt at N6."""
    return f"{_join_or(workflow.words)}: "


def invalid_answer(workflow: Workflow, answer: str) -> str:
    """After an answer that is not one of the choices."""
    problem = f"'{quote.line(answer)}' is not an answer" if answer else "no answer"
    return f"{problem}: type exactly {_join_or(workflow.words)}, or end the input to decide later"


def effect(workflow: Workflow, choice: str) -> str:
    """The effect of a choice."""
    return _EFFECTS[choice].format(into=quote.line(workflow.into))


def _join_or(choices: Sequence[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def _patch_rows(data: bytes, style: Style) -> list[str]:
    shown = coloured(data, style) if style.terminal else quote.contents(data)
    return shown.rstrip("\n").split("\n")


def _limited_patch(data: bytes, style: Style, rest: str) -> list[str]:
    if not data:
        return ["Nothing is changed."]
    rows = _patch_rows(data, style)
    left = len(rows) - _MOST_PATCH_LINES
    more = [f"… {count(left, 'more line')}; {rest}"] if left > 0 else []
    return [*statistics(data).rstrip("\n").split("\n"), "", *rows[:_MOST_PATCH_LINES], *more]


def _tail(data: bytes, rest: str) -> list[str]:
    """The last lines of some output, marked as such."""
    rows = quote.contents(data).rstrip("\n").split("\n") if data.strip() else []
    left = len(rows) - _MOST_OUTPUT_LINES
    more = [f"  … {count(left, 'line')} before; {rest}"] if left > 0 else []
    return [*more, *(f"  | {each}" for each in rows[-_MOST_OUTPUT_LINES:])]


def tests(workflow: Workflow, style: Style) -> str:
    """Whether the last green gate held, and the exit code of the last test run."""
    code = workflow.test_exit_code
    if workflow.tests_passed:
        return f"{style.paint('green', 'passed')}: pytest exited with {code}, no veto"
    return f"{style.paint('red', 'not passed')}: {'there is no valid test run' if code is None else _exited(code)}"


def _exited(code: int) -> str:
    if code == -1:
        return "they took too long, and were ended"
    return f"pytest exited with {code}" + (", which alone is not enough" if code == 0 else "")


def _findings(workflow: Workflow, style: Style) -> list[str]:
    if workflow.findings:
        return [f"  {style.paint('yellow', 'found:')} {quote.line(each)}" for each in workflow.findings]
    return ["no findings" if workflow.tests_passed else "not done: the audit follows tests that pass"]


def _conflicts(workflow: Workflow, style: Style) -> list[str]:
    if not workflow.conflicts:
        return []
    names = dict.fromkeys(str(name) for each in workflow.conflicts for name in each.get("files", ()))
    title = style.paint("red", f"It conflicts with '{quote.line(workflow.into)}' in {count(len(names), 'path')}:")
    return ["", title, *(f"  {quote.path(name)}" for name in names)]


# -- run, resume, approve, abort ---------------------------------------------------------------------------------------


def finished(workflow: Workflow, style: Style) -> Text:
    """After a command has worked on a workflow: its state, and the next steps."""
    id_ = workflow.id
    show = f"'git agentos tdd show {id_}' shows its history and its changes"
    rows = [_headline(workflow, style)]
    hints = list(next_steps(workflow))
    if workflow.state == "waiting":
        rows += [f"Tests {tests(workflow, style)}.", *_vetoes(workflow.vetoes, style)]
        rows += [f"    {style.paint('yellow', 'found:')} {quote.line(each)}" for each in workflow.findings]
        rows += [*_conflicts(workflow, style)[1:], *_worktree(workflow)]
        hints = [show, *(_choice(workflow, each) for each in workflow.words)]
    elif workflow.state == "tampered":
        rows += _worktree(workflow)
    elif workflow.state in ("interrupted", "running"):
        rows += ["Everything up to the interrupted node is saved.", *_worktree(workflow)]
        hints = [_resume(workflow)]
    else:
        rows += _cleanup(workflow)
        hints = [show]
        if workflow.worktree_path is None:
            hints.append(f"'git agentos worktree create run-{workflow.run_id} --revive' restores its worktree")
    return Text(lines(rows), f"{id_}\n", hints=tuple(hints))


def command(workflow: Workflow, choice: str) -> str:
    """The command that makes a choice."""
    return f"git agentos tdd {'resume --retry' if choice == 'retry' else choice} {workflow.id}"


def _choice(workflow: Workflow, choice: str) -> str:
    return f"'{command(workflow, choice)}' {effect(workflow, choice)}"


def _resume(workflow: Workflow) -> str:
    return f"'git agentos tdd resume {workflow.id}' continues with that node"


def _headline(workflow: Workflow, style: Style) -> str:
    state = style.paint(_COLOURS.get(workflow.state, "cyan"), _STATES.get(workflow.state, workflow.state))
    if workflow.state == "merged":
        commit = f" into '{quote.line(workflow.into)}', as {abbrev(workflow.merge_commit)}"
        return f"Workflow {workflow.id} {state}{commit if workflow.merge_commit else ''}."
    at = f" at {node(workflow.node)}" if workflow.state == "interrupted" else ""
    why = f": {quote.line(workflow.reason)}" if workflow.reason and workflow.state != "aborted" else ""
    return f"Workflow {workflow.id} {state}{at}{why}."


def _worktree(workflow: Workflow) -> list[str]:
    """Where the work is."""
    if workflow.worktree_path is None:
        return []
    number = len(workflow.changed_files)
    changed = f"{count(number, 'changed path')}, " if number else ""
    return [f"Its work ({changed}on branch '{quote.line(workflow.branch)}') is in {quote.path(workflow.worktree_path)}"]


def _cleanup(workflow: Workflow) -> list[str]:
    """What happened to worktree and branch at the end."""
    if workflow.worktree_path is not None:
        return [f"Its worktree still exists: {quote.path(workflow.worktree_path)}"]
    saved = f"; everything is saved as {abbrev(workflow.final_checkpoint)}" if workflow.final_checkpoint else ""
    return [f"Its worktree and the branch '{quote.line(workflow.branch)}' were removed{saved}."]


# -- list, status, show, graph -----------------------------------------------------------------------------------------


def listing(workflows: Sequence[Workflow], style: Style) -> Text:
    """`list`: a table; ids under -q."""
    if not workflows:
        return Text(notes=("no workflows",), hints=("'git agentos tdd run --issue ID --lld PATH' starts one",))
    rows = table([_row(each, style) for each in workflows], style, _COLUMNS)
    waiting = next((each for each in workflows if each.here and each.state == "waiting"), None)
    interrupted = next((each for each in workflows if each.here and each.state == "interrupted"), None)
    hints = [f"'git agentos tdd show {waiting.id}' shows what is to be decided"] if waiting is not None else []
    hints += [f"'git agentos tdd resume {interrupted.id}' continues it"] if interrupted is not None else []
    return Text(lines(rows), lines(each.id for each in workflows), hints=tuple(hints))


def _row(workflow: Workflow, style: Style) -> tuple[layout.Cell, ...]:
    state = workflow.state if workflow.here else f"{workflow.state}, elsewhere"
    return (
        workflow.id,
        (state, _COLOURS.get(workflow.state, "cyan")),
        quote.line(workflow.issue_id),
        node(workflow.node).split(" ", 1)[0] if workflow.node is not None else "-",
        quote.line(workflow.branch),
        quote.line(workflow.into),
        relative_time(workflow.created_at, style.now),
    )


def status(workflow: Workflow, style: Style) -> Text:
    """`status`; the state under -q."""
    rows = [*facts(_facts(workflow, style)), *_vetoes(workflow.vetoes, style), *_conflicts(workflow, style)]
    return Text(lines(rows), f"{workflow.state}\n", hints=next_steps(workflow))


def details(result: Review, results: NodeOutputs, style: Style) -> Text:
    """`show`: the facts, the history with its evidence, and the change."""
    workflow = result.workflow
    rows = facts(_facts(workflow, style))
    for record in workflow.history:
        rows += ["", *_record(record, results, style)]
    rows += _conflicts(workflow, style)
    rows += ["", style.paint("bold", f"Changes since {abbrev(workflow.base_sha) or 'its base'}")]
    rows += _patch_rows(result.patch, style) if result.patch else ["none"]
    return Text(lines(rows), f"{workflow.id}\n", hints=next_steps(workflow))


def page_written(workflow: Workflow, path: str) -> Text:
    """`show --html`."""
    return Text(f"Wrote the page of workflow {workflow.id} to {quote.path(path)}\n", f"{path}\n")


def graph(mermaid: str) -> Text:
    """`graph`: for a program that draws it."""
    diagram = mermaid if mermaid.endswith("\n") else mermaid + "\n"
    return Text(diagram, diagram)


def _facts(workflow: Workflow, style: Style) -> list[tuple[str, str | None]]:
    state = style.paint(_COLOURS.get(workflow.state, "cyan"), workflow.state)
    merged = f"into '{quote.line(workflow.into)}' as {abbrev(workflow.merge_commit)}"
    base = f" at {abbrev(workflow.base_sha)}" if workflow.base_sha else ""
    final = f"{abbrev(workflow.final_checkpoint)} (its last)" if workflow.final_checkpoint else None
    return [
        ("Workflow", workflow.id),
        ("Issue", quote.line(workflow.issue_id)),
        ("State", f"{state}: {quote.line(workflow.reason)}" if workflow.reason else state),
        ("Node", node(workflow.node) if workflow.node else None),
        ("Tests", tests(workflow, style)),
        ("Audit", "; ".join(_findings(workflow, style)).strip() if workflow.findings else None),
        ("Retries", f"{workflow.scaffold_retry_count} of the tests, {workflow.retry_count} of the code"),
        ("Decided", f"'{quote.line(workflow.human_decision)}'" if workflow.human_decision else None),
        ("Merged", merged if workflow.merge_commit else None),
        ("Agent", quote.line(workflow.agent)),
        ("Design", quote.path(workflow.lld_path) if workflow.lld_path else None),
        ("Context", ", ".join(quote.path(each) for each in workflow.context_paths)),
        ("Branch", f"{quote.line(workflow.branch)}, from {quote.line(workflow.into)}{base}"),
        ("Worktree", quote.path(workflow.worktree_path) if workflow.worktree_path else None),
        ("Changed", joined([quote.path(each) for each in workflow.changed_files], _MOST_FILES)),
        ("Evidence", quote.path(workflow.evidence) if workflow.evidence else None),
        ("Started", time_and_age(workflow.created_at, style)),
        ("Checkpoint", final),
        ("Elsewhere", None if workflow.here else f"it belongs to a clone on '{quote.line(workflow.machine)}'"),
    ]


def next_steps(workflow: Workflow) -> tuple[str, ...]:
    """The commands that continue or end a workflow."""
    if not workflow.here:
        return ()
    if workflow.state in ("waiting", "tampered"):
        return tuple(_choice(workflow, each) for each in workflow.words)
    return (_resume(workflow),) if workflow.state == "interrupted" else ()


def _record(record: Record, results: NodeOutputs, style: Style) -> list[str]:
    """One node of the history with its evidence."""
    n = record["n"]
    times = f"{local_time(record['began_at'])}, {clock(record['seconds'])}"
    title = style.paint("bold", f"== {n}. {node(record['node'])}, {times}; next: {node(record['next'])}")
    rows = [title, f"   {_summary(record, style)}", *_vetoes(record["vetoes"], style)]
    before, after = record["checkpoint_before"], record["checkpoint_after"]
    tokens = (record["tokens_in"], record["tokens_out"])
    values: list[tuple[str, Iterable[str]]] = [
        ("changed", map(quote.path, record["changed"])),
        ("red", map(quote.line, record["red"])),
        ("frozen", (f"{quote.line(digest)}  {quote.path(path)}" for path, digest in record["files"].items())),
        ("tokens", [f"{tokens[0]} in, {tokens[1]} out"] if None not in tokens else []),
        ("checkpoints", [f"{abbrev(before)} before, {abbrev(after)} after"] if before and after else []),
    ]
    for name, items in values:
        rows += [f"   {name if at == 0 else '':<12} {item}" for at, item in enumerate(items)]
    output, patch = results.outputs.get(n, b""), results.patches.get(n, b"")
    if output.strip():
        path = f" ({quote.path(record['output'])})" if record["output"] else ""
        rows += [f"   output{path}", *(f"   | {row}" for row in quote.contents(output).rstrip("\n").split("\n"))]
    if patch:
        rows += ["   change", *(f"   {row}" for row in _patch_rows(patch, style))]
    return rows


# -- gate --------------------------------------------------------------------------------------------------------------


def gate(result: GateResult, style: Style) -> Text:
    """`gate red` and `gate green`: whether the gate holds, why not, and its tests; those tests under -q."""
    names = [quote.line(each) for each in result.red]
    if result.holds:
        rows = [f"{style.paint('green', result.gate)}: {_gate_summary(result)}", *(f"  {each}" for each in names)]
        return Text(lines(rows), lines(names))
    reason = "the tests were not run" if result.exit_code is None else f"exit {result.exit_code}"
    reason = "interrupted" if result.interrupted else reason
    rows = [f"{style.paint('red', f'not {result.gate}')}: {reason}"]
    rows += [f"  {quote.line(each)}" for each in result.feedback.splitlines()]
    return Text(lines(rows), "")


def _gate_summary(result: GateResult) -> str:
    number = len(result.red)
    if result.gate == "red":
        fail = "fails" if number == 1 else "fail"
        return f"{count(number, 'new test')} {fail} as required, {count(len(result.frozen), 'file')} frozen"
    return f"{count(number, 'test')} that {'was' if number == 1 else 'were'} red and all others pass"
