"""Requests for approval in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.text import age, short

if TYPE_CHECKING:
    from git_agentos.guard.approval.approvals import Approval

_COLOURS = {"pending": "yellow", "granted": "green", "denied": "red"}


def listed(found: Sequence[Approval], style: Style) -> Text:
    """`approvals list`."""
    if not found:
        return Text("", "", notes=("nothing waits for approval",))
    lines = []
    for each in found:
        state = style.paint(_COLOURS.get(each.state, "cyan"), each.state)
        when = age(each.created_at, style.now)
        lines.append(f"{style.paint('yellow', each.id)} {state} {quote.line(each.agent_id)}, {when}: {command(each)}")
    waiting = next((each for each in found if each.state == "pending"), None)
    hints = (f"'git agentos approvals show {waiting.id}' tells more",) if waiting is not None else ()
    return Text("".join(f"{line}\n" for line in lines), "".join(f"{each.id}\n" for each in found), hints=hints)


def shown(found: Approval, style: Style) -> Text:
    """`approvals show`."""
    rows = [
        ("Command", command(found)),
        ("Operations", ", ".join(found.operations) or found.operation),
        ("Reason", quote.line(found.reason or "")),
        ("Instead", quote.line(found.instead or "")),
        ("Agent", quote.line(found.agent_id)),
        ("Worktree", quote.path(found.worktree_path)),
        ("Folder", quote.path(found.cwd) if found.cwd and found.cwd != found.worktree_path else ""),
        ("HEAD", _head(found)),
        ("Checkpoint", short(found.checkpoint) if found.checkpoint else ""),
        ("Asked", age(found.created_at, style.now)),
        ("Decided", _decision(found, style)),
        ("Message", quote.line(found.note or "")),
    ]
    state = style.paint(_COLOURS.get(found.state, "cyan"), found.state)
    lines = [f"Request {style.paint('yellow', found.id)}: {state}"]
    lines += [f"{name + ':':<12}{value}" for name, value in rows if value]
    hints = (f"git agentos approvals grant {found.id}, or deny {found.id}",) if found.state == "pending" else ()
    return Text("".join(f"{line}\n" for line in lines), f"{found.id}\n", hints=hints)


def decided(found: Approval, style: Style) -> Text:
    """`approvals grant` and `approvals deny`."""
    what = {"granted": "Granted", "denied": "Denied"}.get(found.state, found.state.capitalize())
    until = f", once, until {quote.line(found.expires_at)}" if found.state == "granted" and found.expires_at else ""
    result = f"{what} {style.paint('yellow', found.id)}: {command(found)}{until}\n"
    notes = ("the agent has to run the same command again",) if found.state == "granted" else ()
    return Text(result, f"{found.id}\n", notes=notes)


def command(found: Approval) -> str:
    """The command line as it would be typed."""
    return quote.line(shlex.join(found.argv))


def _head(found: Approval) -> str:
    at = short(found.head) if found.head else "no commit yet"
    return f"{at} on {quote.line(found.branch.removeprefix('refs/heads/'))}" if found.branch else at


def _decision(found: Approval, style: Style) -> str:
    if found.decided_at is None:
        return ""
    until = f", until {quote.line(found.expires_at)}" if found.state == "granted" and found.expires_at else ""
    return f"{age(found.decided_at, style.now)} (by {quote.line(found.decided_by or '?')}){until}"
