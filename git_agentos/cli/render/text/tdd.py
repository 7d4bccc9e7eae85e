"""What `git agentos tdd` says to a person; see `text` for how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text import layout as table
from git_agentos.cli.render.text.checkpoint import age, count, local, patch, short
from git_agentos.cli.render.text.run import elapsed

if TYPE_CHECKING:
    from git_agentos.tdd.state import Record, Review, Workflow

_COLOURS = {
    "running": "cyan",
    "waiting": "yellow",
    "interrupted": "yellow",
    "merged": "green",
    "aborted": "red",
    "tampered": "red",
}
_SAYS = {
    "running": "is at work",
    "waiting": "waits for a decision",
    "interrupted": "was interrupted",
    "merged": "is merged",
    "aborted": "is aborted",
    "tampered": "cannot be believed",
}
_COLUMNS = ("ID", "STATE", "ISSUE", "NODE", "BRANCH", "INTO", "STARTED")
_WHAT = {
    "approve": "merges it into '{into}'",
    "abort": "takes everything back, and saves it first",
    "retry": "gives it another round",
}
_MOST_PATCH = 200  # lines of a patch at the prompt
_MOST_SAID = 40  # lines of what the tests said
_MOST_FILES = 50


@dataclass(frozen=True)
class Evidence:
    """What is kept of the nodes, by their number: what was said, and what was changed."""

    outputs: Mapping[int, bytes] = field(default_factory=dict)
    patches: Mapping[int, bytes] = field(default_factory=dict)


# -- while it goes -----------------------------------------------------------------------------------------------------


def began(workflow: Workflow) -> str:
    """The workflow has been made, or is gone on with."""
    where = f", in {quote.path(workflow.worktree_path)}" if workflow.worktree_path else ""
    at = f" ({short(workflow.base_sha)})" if workflow.base_sha else ""
    origin = f"'{quote.line(workflow.branch)}' from {quote.line(workflow.into)}{at}"
    what = f"workflow {workflow.id}, issue {quote.line(workflow.issue_id)}"
    return f"{what}: on branch {origin}{where}; agent {quote.line(workflow.agent)}"


def node(name: str | None) -> str:
    """A node as it is called: `N2 fail gate`."""
    if name is None or name.startswith("__"):
        return "the end"
    return quote.line(name.replace("_", " "))


def node_head(workflow: Workflow, name: str) -> str:
    """A node that is under way."""
    return f"[{len(workflow.history) + 1}] {node(name)}"


def node_ended(record: Record, style: Style) -> str:
    """A node that has ended: one line, and one for each veto."""
    parts = [_summary(record, style), elapsed(record["seconds"])]
    if record["changed"]:
        parts.append(f"{count(len(record['changed']), 'path')} changed")
    lines = [f"[{record['n']}] {node(record['node'])}: {', '.join(parts)}; next: {node(record['next'])}"]
    return "\n".join([*lines, *_vetoes(record["vetoes"], style)])


def _summary(record: Record, style: Style) -> str:
    said = quote.line(record["summary"])
    if record["exit_code"] is not None and "exit" not in said:
        said += f" (exit {record['exit_code']})"
    return style.paint({"good": "green", "back": "yellow", "bad": "red"}[grade(record)], said)


def grade(record: Record) -> str:
    """Whether a node went well (`good`), has to be done again (`back`), or was vetoed or failed so that a person has to
    decide (`bad`)."""
    node, next_ = record["node"], record["next"]
    failed = next_.startswith("N6") and node < "N5"
    if record["vetoes"] or failed:
        return "bad"
    return "good" if next_.startswith("__") or next_ > node else "back"


def _vetoes(vetoes: Iterable[str], style: Style) -> list[str]:
    return [f"    {style.paint('red', 'veto:')} {quote.line(each)}" for each in vetoes]


# -- what a person is asked --------------------------------------------------------------------------------------------


def policy(lines: Iterable[str]) -> list[str]:
    """The data policy, as it is shown before anything is sent."""
    return [quote.line(each) for each in lines]


CONSENT = "Type 'yes' to send it, anything else to stop: "


def review(found: Review, style: Style) -> list[str]:
    """What is looked at before the decision at N6: the change, what the tests said, the audit, and the words."""
    workflow = found.workflow
    whole = f"'git agentos tdd show {workflow.id}' shows all of it"
    lines = ["", style.paint("bold", f"Review of workflow {workflow.id}, issue {quote.line(workflow.issue_id)}"), ""]
    lines += _patch(found.patch, style, whole)
    lines += ["", style.paint("bold", "Tests"), tests(workflow, style), *_vetoes(workflow.vetoes, style)]
    lines += _end_of(found.test_output.encode("utf-8", "surrogateescape"), _MOST_SAID, whole)
    lines += ["", style.paint("bold", "Audit"), *_findings(workflow, style)]
    lines += _conflicts(workflow, style)
    if workflow.reason:
        lines += ["", f"It is here because: {quote.line(workflow.reason)}"]
    lines += ["", *(f"  {word:<9}{what(workflow, word)}" for word in workflow.words)]
    if "approve" not in workflow.words:
        lines.append("It cannot be approved: its tests have not passed as they should.")
    return lines


def question(workflow: Workflow) -> str:
    """The prompt at N6."""
    return f"{_either(workflow.words)}: "


def again(workflow: Workflow, word: str) -> str:
    """After a word that does not count."""
    said = f"'{quote.line(word)}' is no answer" if word else "that is no answer"
    return f"{said}: type exactly {_either(workflow.words)}, or end the input to decide later"


def what(workflow: Workflow, word: str) -> str:
    """What a word does."""
    return _WHAT[word].format(into=quote.line(workflow.into))


def _either(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _patch(data: bytes, style: Style, whole: str) -> list[str]:
    if not data:
        return ["Nothing is changed."]
    stat = patch(data, style, stat=True).result
    shown = quote.contents(data) if not style.terminal else str(patch(data, style, stat=False).result)
    lines = shown.rstrip("\n").split("\n")
    left = len(lines) - _MOST_PATCH
    rest = [f"… {count(left, 'more line')}; {whole}"] if left > 0 else []
    return [*str(stat).rstrip("\n").split("\n"), "", *lines[:_MOST_PATCH], *rest]


def _end_of(data: bytes, most: int, whole: str) -> list[str]:
    """The last lines of what was said, set apart from what is ours."""
    lines = quote.contents(data).rstrip("\n").split("\n") if data.strip() else []
    left = len(lines) - most
    head = [f"  … {count(left, 'line')} before; {whole}"] if left > 0 else []
    return [*head, *(f"  | {each}" for each in lines[-most:])]


def tests(workflow: Workflow, style: Style) -> str:
    """Whether the last green gate held, and the exit code of the last run."""
    code = workflow.test_exit_code
    if workflow.tests_passed:
        return f"{style.paint('green', 'passed')}: pytest exited with {code}, and nothing spoke against it"
    return f"{style.paint('red', 'not passed')}: {'no run of them counts' if code is None else _exited(code)}"


def _exited(code: int) -> str:
    if code == -1:
        return "they took too long, and were ended"
    return f"pytest exited with {code}" + (", which alone is not enough" if code == 0 else "")


def _findings(workflow: Workflow, style: Style) -> list[str]:
    if workflow.findings:
        return [f"  {style.paint('yellow', 'found:')} {quote.line(each)}" for each in workflow.findings]
    return ["nothing was found" if workflow.tests_passed else "not done: it comes after the tests have passed"]


def _conflicts(workflow: Workflow, style: Style) -> list[str]:
    if not workflow.conflicts:
        return []
    names = dict.fromkeys(str(name) for each in workflow.conflicts for name in each.get("files", ()))
    head = style.paint("red", f"It conflicts with '{quote.line(workflow.into)}' in {count(len(names), 'path')}:")
    return ["", head, *(f"  {quote.path(name)}" for name in names)]


# -- run, resume, approve, abort ---------------------------------------------------------------------------------------


def ended(workflow: Workflow, style: Style) -> Text:
    """After a command that has worked on one: what is true now, and what can be done."""
    id_ = workflow.id
    lines = [_headline(workflow, style)]
    hints: list[str] = []
    if workflow.state == "waiting":
        lines += [f"Tests {tests(workflow, style)}.", *_vetoes(workflow.vetoes, style)]
        lines += [f"    {style.paint('yellow', 'found:')} {quote.line(each)}" for each in workflow.findings]
        lines += [*_conflicts(workflow, style)[1:], *_work(workflow)]
        hints += [f"'git agentos tdd show {id_}' shows what was done, the tests and the change"]
        hints += [f"'{command(workflow, word)}' {what(workflow, word)}" for word in workflow.words]
    elif workflow.state == "tampered":
        lines += _work(workflow)
        hints += _next(workflow)
    elif workflow.state in ("interrupted", "running"):
        lines += ["Everything up to the node that it was in is saved.", *_work(workflow)]
        hints += [f"'git agentos tdd resume {id_}' goes on with that node"]
    else:
        lines += _gone(workflow)
        hints += [f"'git agentos tdd show {id_}' shows what was done"]
        if workflow.worktree_path is None:
            hints.append(f"'git agentos worktree create run-{workflow.run_id} --revive' brings its worktree back")
    return Text(_lines(lines), f"{id_}\n", hints=tuple(hints))


def command(workflow: Workflow, word: str) -> str:
    """The command that says a word."""
    return f"git agentos tdd {'resume --retry' if word == 'retry' else word} {workflow.id}"


def _headline(workflow: Workflow, style: Style) -> str:
    said = style.paint(_COLOURS.get(workflow.state, "cyan"), _SAYS.get(workflow.state, workflow.state))
    if workflow.state == "merged":
        commit = f": '{quote.line(workflow.into)}' has it, in {short(workflow.merge_commit)}"
        return f"Workflow {workflow.id} {said}{commit if workflow.merge_commit else ''}."
    at = f" at {node(workflow.node)}" if workflow.state == "interrupted" else ""
    why = f": {quote.line(workflow.reason)}" if workflow.reason and workflow.state != "aborted" else ""
    return f"Workflow {workflow.id} {said}{at}{why}."


def _work(workflow: Workflow) -> list[str]:
    """Where the work is."""
    if workflow.worktree_path is None:
        return []
    number = len(workflow.changed_files)
    changed = f"{count(number, 'changed path')}, " if number else ""
    return [f"Its work ({changed}on branch '{quote.line(workflow.branch)}') is in {quote.path(workflow.worktree_path)}"]


def _gone(workflow: Workflow) -> list[str]:
    """What has become of worktree and branch."""
    if workflow.worktree_path is not None:
        return [f"Its worktree is still there: {quote.path(workflow.worktree_path)}"]
    saved = f"; everything is saved as {short(workflow.final_checkpoint)}" if workflow.final_checkpoint else ""
    return [f"Its worktree and the branch '{quote.line(workflow.branch)}' are gone{saved}."]


# -- list, status, show, graph -----------------------------------------------------------------------------------------


def ids(found: Sequence[str]) -> Text:
    """`list -q`."""
    return Text(_lines(found), _lines(found))


def listing(found: Sequence[Workflow], style: Style) -> Text:
    """`list`: a table."""
    if not found:
        return Text(notes=("no workflows",), hints=("'git agentos tdd run --issue ID --lld PATH' starts one",))
    rows = [_row(each, style) for each in found]
    lines = table.lines(_COLUMNS, rows, [_COLOURS.get(each.state, "cyan") for each in found], style)
    waiting = next((each for each in found if each.here and each.state == "waiting"), None)
    stopped = next((each for each in found if each.here and each.state == "interrupted"), None)
    hints = [f"'git agentos tdd show {waiting.id}' shows what is to be decided"] if waiting is not None else []
    hints += [f"'git agentos tdd resume {stopped.id}' goes on with it"] if stopped is not None else []
    return Text(_lines(lines), _lines(each.id for each in found), hints=tuple(hints))


def _row(workflow: Workflow, style: Style) -> tuple[str, ...]:
    return (
        workflow.id,
        workflow.state if workflow.here else f"{workflow.state}, elsewhere",
        quote.line(workflow.issue_id),
        node(workflow.node).split(" ", 1)[0] if workflow.node is not None else "-",
        quote.line(workflow.branch),
        quote.line(workflow.into),
        age(workflow.created_at, style.now),
    )


def status(workflow: Workflow, style: Style) -> Text:
    """`status`: a fact a line."""
    lines = _facts(workflow, style)
    lines += [*_vetoes(workflow.vetoes, style), *_conflicts(workflow, style)]
    return Text(_lines(lines), f"{workflow.state}\n", hints=_next(workflow))


def details(found: Review, evidence: Evidence, style: Style) -> Text:
    """`show`: the facts, the whole history with its evidence, and the change."""
    workflow = found.workflow
    lines = _facts(workflow, style)
    for record in workflow.history:
        lines += ["", *_record(record, evidence, style)]
    lines += _conflicts(workflow, style)
    lines += ["", style.paint("bold", f"What it changes since {short(workflow.base_sha) or 'its base'}")]
    shown = patch(found.patch, style, stat=False).result if style.terminal else quote.contents(found.patch)
    lines += str(shown).rstrip("\n").split("\n") if found.patch else ["nothing"]
    return Text(_lines(lines), f"{workflow.id}\n", hints=_next(workflow))


def page_written(workflow: Workflow, path: str) -> Text:
    """`show --html`."""
    return Text(f"The page of workflow {workflow.id}: {quote.path(path)}\n", f"{path}\n")


def graph(mermaid: str) -> Text:
    """`graph`: as it is drawn, for whatever draws it."""
    drawn = mermaid if mermaid.endswith("\n") else mermaid + "\n"
    return Text(drawn, drawn)


def _facts(workflow: Workflow, style: Style) -> list[str]:
    state = style.paint(_COLOURS.get(workflow.state, "cyan"), workflow.state)
    decided = f"'{quote.line(workflow.human_decision)}'" if workflow.human_decision else None
    merged = f"'{quote.line(workflow.into)}' has it, in {short(workflow.merge_commit)}"
    base = f" at {short(workflow.base_sha)}" if workflow.base_sha else ""
    rows = [
        ("Workflow", workflow.id),
        ("Issue", quote.line(workflow.issue_id)),
        ("State", f"{state}: {quote.line(workflow.reason)}" if workflow.reason else state),
        ("Node", node(workflow.node) if workflow.node else None),
        ("Tests", tests(workflow, style)),
        ("Audit", "; ".join(_findings(workflow, style)).strip() if workflow.findings else None),
        ("Retries", f"{workflow.scaffold_retry_count} of the tests, {workflow.retry_count} of the code"),
        ("Decided", decided),
        ("Merged", merged if workflow.merge_commit else None),
        ("Agent", quote.line(workflow.agent)),
        ("Design", quote.path(workflow.lld_path) if workflow.lld_path else None),
        ("Context", ", ".join(quote.path(each) for each in workflow.context_paths) or None),
        ("Branch", f"{quote.line(workflow.branch)}, from {quote.line(workflow.into)}{base}"),
        ("Worktree", quote.path(workflow.worktree_path) if workflow.worktree_path else None),
        ("Changed", _names(workflow.changed_files)),
        ("Evidence", quote.path(workflow.evidence) if workflow.evidence else None),
        ("Started", f"{local(workflow.created_at)} ({age(workflow.created_at, style.now)})"),
        ("Checkpoint", f"{short(workflow.final_checkpoint)} (its last)" if workflow.final_checkpoint else None),
        ("Elsewhere", None if workflow.here else f"it is that of a clone on '{quote.line(workflow.machine)}'"),
    ]
    return [f"{name + ':':<12}{value}" for name, value in rows if value]


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    return ", ".join(quote.path(each) for each in paths[:_MOST_FILES]) + more


def _next(workflow: Workflow) -> tuple[str, ...]:
    if not workflow.here:
        return ()
    if workflow.state in ("waiting", "tampered"):
        return tuple(f"'{command(workflow, word)}' {what(workflow, word)}" for word in workflow.words)
    if workflow.state == "interrupted":
        return (f"'git agentos tdd resume {workflow.id}' goes on with it",)
    return ()


def _record(record: Record, evidence: Evidence, style: Style) -> list[str]:
    """One node that has been done, with everything that is kept of it."""
    began, n = record["began_at"], record["n"]
    head = f"== {n}. {node(record['node'])}, {local(began)}, {elapsed(record['seconds'])}; next: {node(record['next'])}"
    lines = [style.paint("bold", head), f"   {_summary(record, style)}", *_vetoes(record["vetoes"], style)]
    before, after = record["checkpoint_before"], record["checkpoint_after"]
    tokens = (record["tokens_in"], record["tokens_out"])
    rows: list[tuple[str, Iterable[str]]] = [
        ("changed", map(quote.path, record["changed"])),
        ("red", map(quote.line, record["red"])),
        ("frozen", (f"{quote.line(digest)}  {quote.path(path)}" for path, digest in record["files"].items())),
        ("tokens", [f"{tokens[0]} in, {tokens[1]} out"] if None not in tokens else []),
        ("checkpoints", [f"{short(before)} before, {short(after)} after"] if before and after else []),
    ]
    for name, values in rows:
        lines += [f"   {name if at == 0 else '':<12} {value}" for at, value in enumerate(values)]
    said, changed = evidence.outputs.get(n, b""), evidence.patches.get(n, b"")
    if said.strip():
        where = f" ({quote.path(record['output'])})" if record["output"] else ""
        lines += [f"   output{where}", *(f"   | {each}" for each in quote.contents(said).rstrip("\n").split("\n"))]
    if changed:
        lines += ["   change", *(f"   {each}" for each in _painted(changed, style))]
    return lines


def _painted(data: bytes, style: Style) -> list[str]:
    shown = patch(data, style, stat=False).result if style.terminal else quote.contents(data)
    return str(shown).rstrip("\n").split("\n")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
