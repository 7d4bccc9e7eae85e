"""A workflow as an HTML page: its state, its way through the graph, and the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from git_agentos.cli.render.html import page
from git_agentos.cli.render.html.page import Section, Tile
from git_agentos.cli.render.text import tdd as text
from git_agentos.cli.render.text.layout import clock
from git_agentos.cli.render.text.patch import patch_lines
from git_agentos.cli.text import Style
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.tdd.state import Review

_MOST_BYTES = 256 << 10  # of one output or patch
_STATES = {
    "running": "Running",
    "waiting": "Waits for a decision",
    "interrupted": "Interrupted",
    "merged": "Merged",
    "aborted": "Aborted",
    "tampered": "Cannot be trusted",
}


def workflow(review: Review, results: text.NodeOutputs) -> str:
    """The page."""
    found = review.workflow
    history = found.history
    exit_codes = sum(each["exit_code"] is not None for each in history)
    vetoes = sum(len(each["vetoes"]) for each in history)
    ended = found.updated_at or found.created_at
    can_choose = found.state in ("waiting", "tampered")
    return page.render(
        "workflow.html",
        title=f"Workflow {found.id}",
        eyebrow=f"Workflow {found.id}: {_STATES.get(found.state, found.state)}",
        heading=f"Issue {found.issue_id}",
        tiles=(
            Tile(str(len(history)), "node done" if len(history) == 1 else "nodes done"),
            Tile(clock(sum(each["seconds"] for each in history)), "running time"),
            Tile(str(exit_codes), "exit code" if exit_codes == 1 else "exit codes"),
            Tile(str(found.scaffold_retry_count + found.retry_count), "retries"),
            Tile(str(vetoes), "vetoes", vetoes > 0),
            Tile(str(len(found.findings)), "audit findings", bool(found.findings)),
        ),
        sections=(
            Section("state", "State", None),
            Section("history", "History", len(history)),
            Section("tests", "Output of the last test run", None),
            Section("change", "The change", len(found.changed_files)),
        ),
        review=review,
        workflow=found,
        results=results,
        choices=[(text.command(found, each), text.effect(found, each)) for each in found.words] if can_choose else [],
        conflicts=[str(name) for each in found.conflicts for name in each.get("files", ())],
        tests=text.tests(found, Style()),
        duration=page.time_between(found.created_at, ended),
        clock=clock,
        grade=text.grade,
        node=text.node,
        patch=_patch,
        output=_output,
    )


def _output(data: bytes) -> Markup:
    return page.contents(_shortened(data))


def _shortened(data: bytes) -> bytes:
    """The beginning and the end of long data."""
    if len(data) <= _MOST_BYTES:
        return data
    half = _MOST_BYTES // 2
    note = f"\n… {len(data) - _MOST_BYTES} bytes are left out here\n".encode()
    return data[:half] + note + data[-half:]


def _patch(data: bytes) -> Markup:
    """A patch with its lines marked by their kind."""
    rows = patch_lines(quote.contents(_shortened(data)).rstrip("\n").split("\n"))
    marked = (Markup('<span class="{}">{}</span>').format(kind, row) if kind else escape(row) for kind, row in rows)
    return Markup("\n").join(marked)
