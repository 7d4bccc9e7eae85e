"""`approvals` and its subcommands as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import abbrev, facts, lines, relative_time
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.guard.approval.approvals import Approval

# Variables that change what a command does, and those of them that are harmless.
_INFLUENTIAL = ("GIT_", "SSH_ASKPASS", "LD_", "DYLD_", "BASH_", "EDITOR", "VISUAL", "PAGER")
_HARMLESS = ("GIT_TERMINAL_PROMPT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_COLOURS = {"pending": "yellow", "granted": "green", "denied": "red"}


def listing(requests: Sequence[Approval], style: Style) -> Text:
    """`approvals list`; ids under -q."""
    if not requests:
        return Text("", "", notes=("no approval requests",))
    rows = [
        f"{style.paint('yellow', each.id)} {_state(each, style)} {quote.line(each.agent_id)}, "
        f"{relative_time(each.created_at, style.now)}: {command(each)}{_influences(each)}"
        for each in requests
    ]
    pending = next((each for each in requests if each.state == "pending"), None)
    hints = (f"'git agentos approvals show {pending.id}' shows details",) if pending is not None else ()
    return Text(lines(rows), lines(each.id for each in requests), hints=hints)


def details(request: Approval, style: Style) -> Text:
    """`approvals show`."""
    folder = request.cwd if request.cwd != request.worktree_path else None
    values = [
        ("Command", command(request)),
        ("Operations", ", ".join(request.operations) or request.operation),
        ("Reason", quote.line(request.reason or "")),
        ("Instead", quote.line(request.instead or "")),
        ("Agent", quote.line(request.agent_id)),
        ("Worktree", quote.path(request.worktree_path)),
        ("Folder", quote.path(folder) if folder else ""),
        ("HEAD", _head(request)),
        *_rows("Text", (request.text or "").splitlines()),
        *_rows("Variables", request.environment),
        *_rows("Settings", request.configuration),
        ("Checkpoint", abbrev(request.checkpoint)),
        ("Created", relative_time(request.created_at, style.now)),
        ("Decided", _decision(request, style)),
        ("Message", quote.line(request.note or "")),
        ("Signed", "" if request.signed else "no: it was filed where there is no key, as in a sandbox"),
    ]
    rows = [f"Request {style.paint('yellow', request.id)}: {_state(request, style)}", *facts(values)]
    hint = f"git agentos approvals grant {request.id}, or deny {request.id}"
    return Text(lines(rows), f"{request.id}\n", hints=(hint,) if request.state == "pending" else ())


def decided(request: Approval, style: Style) -> Text:
    """`approvals grant` and `approvals deny`."""
    granted = request.state == "granted"
    label = {"granted": "Granted", "denied": "Denied"}.get(request.state, request.state.capitalize())
    until = f", once, until {quote.line(request.expires_at)}" if granted and request.expires_at else ""
    row = f"{label} {style.paint('yellow', request.id)}: {command(request)}{_influences(request)}{until}"
    notes = ("the agent has to run the same command again",) if granted else ()
    return Text(f"{row}\n", f"{request.id}\n", notes=notes)


def command(request: Approval) -> str:
    """The command line as it would be typed."""
    return quote.line(shlex.join(request.argv))


def _state(request: Approval, style: Style) -> str:
    return style.paint(_COLOURS.get(request.state, "cyan"), request.state)


def _rows(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """One row for each value, the first with the name."""
    return [("" if n else name, quote.line(value)) for n, value in enumerate(values)]


def _influences(request: Approval) -> str:
    """The variables and the text that change what the command does, for the list."""
    names = [each.partition("=")[0] for each in request.environment]
    parts = [name for name in names if name.startswith(_INFLUENTIAL) and name not in _HARMLESS]
    if request.text is not None and len(request.text.splitlines()) > 1:
        parts.append("a harness's text")
    return f" (with {quote.line(', '.join(parts))})" if parts else ""


def _head(request: Approval) -> str:
    commit = abbrev(request.head) if request.head else "no commit yet"
    return f"{commit} on {quote.line(request.branch.removeprefix('refs/heads/'))}" if request.branch else commit


def _decision(request: Approval, style: Style) -> str:
    if request.decided_at is None:
        return ""
    until = f", until {quote.line(request.expires_at)}" if request.state == "granted" and request.expires_at else ""
    return f"{relative_time(request.decided_at, style.now)} (by {quote.line(request.decided_by or '?')}){until}"
