"""A workflow as one HTML page: how it stands, its way through the graph, and the evidence; see `html`."""

from __future__ import annotations

import html as escaping
from collections.abc import Iterable
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style
from git_agentos.cli.render.html import page as html
from git_agentos.cli.render.html.page import Section, Tile
from git_agentos.cli.render.text import layout as text
from git_agentos.cli.render.text import tdd as text_tdd
from git_agentos.cli.render.text.layout import clock
from git_agentos.cli.render.text.patch import patch_lines

if TYPE_CHECKING:
    from git_agentos.cli.render.text.tdd import Evidence
    from git_agentos.tdd.state import Record, Review, Workflow

_MOST_BYTES = 256 << 10  # of one output or patch
_STYLE = """
.way{display:flex;flex-wrap:wrap;gap:.35rem;list-style:none;margin:0 0 1rem;padding:0;counter-reset:step}
.way a{display:block;color:var(--ink);text-decoration:none;background:var(--card);border:1px solid var(--line);
border-bottom:3px solid var(--dot,var(--entry));border-radius:.5rem;padding:.25rem .6rem;font-size:.85rem}
.way a:focus-visible{outline:2px solid var(--decision);outline-offset:2px}
.good{--dot:var(--checkpoint);border-left-color:var(--checkpoint)}
.back{--dot:var(--commit);border-left-color:var(--commit)}
.bad{--dot:var(--error);border-left-color:var(--error)}
.card h3{margin:0;color:var(--ink);font-size:1rem}
.veto{color:var(--error);font-weight:600}
pre{margin:.4rem 0 0;padding:.6rem .7rem;background:var(--tint);border-radius:.5rem;overflow-x:auto;max-height:32rem;
font:.82rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;
overflow-wrap:normal;unicode-bidi:isolate;tab-size:4}
pre:focus-visible{outline:2px solid var(--decision);outline-offset:2px}
.add{color:var(--checkpoint)}.del{color:var(--error)}.hunk{color:var(--decision)}.head{font-weight:600}
.hash{font-size:.75rem}
.facts{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem .9rem}
.facts dl{margin:0}
@media print{details>*{display:block}pre{max-height:none;white-space:pre-wrap}}"""
_STATES = {
    "running": "At work",
    "waiting": "Waits for a decision",
    "interrupted": "Interrupted",
    "merged": "Merged",
    "aborted": "Aborted",
    "tampered": "Cannot be believed",
}


def workflow(found: Review, evidence: Evidence) -> str:
    """The page."""
    it = found.workflow
    rounds = [each for each in it.history if each["exit_code"] is not None]
    spent = sum(each["seconds"] for each in it.history)
    return html.page(
        title=f"Workflow {it.id}",
        eyebrow=f"Workflow {it.id}: {_STATES.get(it.state, it.state)}",
        heading=f"Issue {it.issue_id}",
        when=html.span(it.created_at, it.updated_at or it.created_at),
        tiles=(
            Tile(str(len(it.history)), "node done" if len(it.history) == 1 else "nodes done"),
            Tile(clock(spent), "at work"),
            Tile(str(len(rounds)), "exit code" if len(rounds) == 1 else "exit codes"),
            Tile(str(it.scaffold_retry_count + it.retry_count), "retries"),
            Tile(str(_count_vetoes(it)), "vetoes", hot=_count_vetoes(it) > 0),
            Tile(str(len(it.findings)), "found in the audit", hot=bool(it.findings)),
        ),
        strip=_way(it),
        sections=(
            Section("how", "How it stands", None, _facts(it)),
            Section("history", "History", len(it.history), _history(it, evidence)),
            Section("tests", "What the tests said last", None, _said(found.test_output.encode("utf-8", "replace"))),
            Section("change", "The change", len(it.changed_files), _whole_change(found)),
        ),
        style=_STYLE,
    )


def _count_vetoes(it: Workflow) -> int:
    return sum(len(each["vetoes"]) for each in it.history)


def _way(it: Workflow) -> str:
    """The nodes in the order in which they were done."""
    if not it.history:
        return ""
    steps = "".join(
        f'<li><a class="{text_tdd.grade(each)}" href="#n{each["n"]}">{html.line(text_tdd.node(each["node"]))}</a></li>'
        for each in it.history
    )
    return f'<ol class="way" aria-label="The way through the graph">{steps}</ol>'


def _facts(it: Workflow) -> str:
    waits = it.state in ("waiting", "tampered")
    what = (f"<li><code>{html.line(text_tdd.command(it, word))}</code> {_what(it, word)}</li>" for word in it.words)
    rows = (
        ("why", html.block(it.reason) if it.reason else ""),
        ("what now", f"<ul>{''.join(what)}</ul>" if waits and it.words else ""),
        ("tests", html.line(text_tdd.tests(it, Style()))),
        ("vetoes", _list(html.block(each) for each in it.vetoes)),
        ("audit", _list(html.block(each) for each in it.findings)),
        ("conflicts", _list(html.path(str(name)) for each in it.conflicts for name in each.get("files", ()))),
        ("decided", html.line(it.human_decision) if it.human_decision else ""),
        ("merged", f"{html.short(it.merge_commit)} in {html.line(it.into)}" if it.merge_commit else ""),
        ("agent", html.line(it.agent)),
        ("design", html.path(it.lld_path) if it.lld_path else ""),
        ("context", _list(html.path(each) for each in it.context_paths)),
        ("branch", html.line(it.branch) + " from " + html.line(it.into)),
        ("base", html.short(it.base_sha) if it.base_sha else ""),
        ("worktree", html.path(it.worktree_path) if it.worktree_path else ""),
        ("evidence", html.path(it.evidence) if it.evidence else ""),
        ("checkpoint", html.short(it.final_checkpoint) if it.final_checkpoint else ""),
    )
    return f'<div class="facts">{html.facts(rows)}</div>'


def _what(it: Workflow, word: str) -> str:
    return html.line(text_tdd.effect(it, word))


def _list(values: Iterable[str]) -> str:
    """Values that are HTML already."""
    shown = "".join(f"<li>{each}</li>" for each in values)
    return f"<ul>{shown}</ul>" if shown else ""


def _history(it: Workflow, evidence: Evidence) -> str:
    if not it.history:
        return '<p class="empty">No node has been done yet.</p>'
    return "\n".join(_record(each, evidence) for each in it.history)


def _record(record: Record, evidence: Evidence) -> str:
    n = record["n"]
    exited = f", exit {record['exit_code']}" if record["exit_code"] is not None else ""
    before, after = record["checkpoint_before"], record["checkpoint_after"]
    tokens = (record["tokens_in"], record["tokens_out"])
    hashes = "".join(
        f'<li>{html.path(path)} <code class="hash">{html.line(digest)}</code></li>'
        for path, digest in record["files"].items()
    )
    rows = (
        ("red", _list(html.line(each) for each in record["red"])),
        ("changed", _list(html.path(each) for each in record["changed"])),
        ("checkpoints", f"{html.short(before)} before, {html.short(after)} after" if before and after else ""),
        ("tokens", f"{tokens[0]} in, {tokens[1]} out" if None not in tokens else ""),
    )
    vetoes = "".join(f'<p class="veto">Veto: {html.block(each)}</p>' for each in record["vetoes"])
    said, changed = evidence.outputs.get(n, b""), evidence.patches.get(n, b"")
    grade = text_tdd.grade(record)
    return (
        f'<article class="card {grade}" id="n{n}"><h3>{n}. {html.line(text_tdd.node(record["node"]))}</h3>'
        f'<p class="what">{html.block(record["summary"])}</p>'
        f'<p class="meta">{html.stamp(record["began_at"])}, {clock(record["seconds"])}{exited}; '
        f"next: {html.line(text_tdd.node(record['next']))}</p>{vetoes}{html.facts(rows)}"
        + _folded(
            f"{text.count(len(record['files']), 'frozen file')}, by SHA-256", f"<ul>{hashes}</ul>" if hashes else ""
        )
        + _folded("What was said", _said(said) if said.strip() else "")
        + _folded("What was changed", _patch(changed) if changed else "")
        + "</article>"
    )


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>" if body else ""


def _whole_change(found: Review) -> str:
    if not found.patch:
        return '<p class="empty">Nothing is changed.</p>'
    names = "".join(f"<li>{html.path(each)}</li>" for each in found.workflow.changed_files)
    return f'<ul class="rows">{names}</ul>{_patch(found.patch)}'


def _said(data: bytes) -> str:
    """What a process said, with controls made visible; of a long one, how it began and how it ended."""
    if not data.strip():
        return '<p class="empty">Nothing.</p>'
    return f'<pre tabindex="0">{escaping.escape(_shown(data))}</pre>'


def _shown(data: bytes) -> str:
    half = _MOST_BYTES // 2
    if len(data) > _MOST_BYTES:
        left = len(data) - _MOST_BYTES
        data = data[:half] + f"\n… {left} bytes are left out here\n".encode() + data[-half:]
    return quote.contents(data)


def _patch(data: bytes) -> str:
    """A patch, coloured: what a line is follows from the counts in its hunk's header, not from how it begins."""
    lines = []
    for kind, line in patch_lines(_shown(data).rstrip("\n").split("\n")):
        shown = escaping.escape(line)
        lines.append(f'<span class="{kind}">{shown}</span>' if kind else shown)
    return '<pre tabindex="0">' + "\n".join(lines) + "</pre>"
