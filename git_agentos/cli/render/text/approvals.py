"""Requests for approval in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text.checkpoint import age, short

if TYPE_CHECKING:
    from git_agentos.guard.approval.approvals import Approval

# Variables by which a command does something else than its words say, and those that are set for good.
_TELLING = ("GIT_", "SSH_ASKPASS", "LD_", "DYLD_", "BASH_", "EDITOR", "VISUAL", "PAGER")
_USUAL = ("GIT_TERMINAL_PROMPT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_COLOURS = {"pending": "yellow", "granted": "green", "denied": "red"}


def listed(found: Sequence[Approval], style: Style) -> Text:
    """`approvals list`."""
    if not found:
        return Text("", "", notes=("nothing waits for approval",))
    lines = []
    for each in found:
        state = style.paint(_COLOURS.get(each.state, "cyan"), each.state)
        when = age(each.created_at, style.now)
        asked = f"{quote.line(each.agent_id)}, {when}: {command(each)}{_given(each)}"
        lines.append(f"{style.paint('yellow', each.id)} {state} {asked}")
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
        *_rows("Text", (found.text or "").splitlines()),
        *_rows("Variables", found.environment),
        *_rows("Settings", found.configuration),
        ("Checkpoint", short(found.checkpoint) if found.checkpoint else ""),
        ("Asked", age(found.created_at, style.now)),
        ("Decided", _decision(found, style)),
        ("Message", quote.line(found.note or "")),
        ("Signed", "" if found.signed else "no: it was filed where there is no key, as in a sandbox"),
    ]
    state = style.paint(_COLOURS.get(found.state, "cyan"), found.state)
    lines = [f"Request {style.paint('yellow', found.id)}: {state}"]
    lines += [f"{name + ':' if name else '':<12}{value}" for name, value in rows if value]
    hints = (f"git agentos approvals grant {found.id}, or deny {found.id}",) if found.state == "pending" else ()
    return Text("".join(f"{line}\n" for line in lines), f"{found.id}\n", hints=hints)


def decided(found: Approval, style: Style) -> Text:
    """`approvals grant` and `approvals deny`."""
    what = {"granted": "Granted", "denied": "Denied"}.get(found.state, found.state.capitalize())
    until = f", once, until {quote.line(found.expires_at)}" if found.state == "granted" and found.expires_at else ""
    result = f"{what} {style.paint('yellow', found.id)}: {command(found)}{_given(found)}{until}\n"
    notes = ("the agent has to run the same command again",) if found.state == "granted" else ()
    return Text(result, f"{found.id}\n", notes=notes)


def command(found: Approval) -> str:
    """The command line as it would be typed."""
    return quote.line(shlex.join(found.argv))


def _rows(name: str, items: Sequence[str]) -> list[tuple[str, str]]:
    """One row for each item, the first with the name."""
    return [("" if n else name, quote.line(item)) for n, item in enumerate(items)]


def _given(found: Approval) -> str:
    """The variables that are set for git or this command: what is shown of the environment in a list."""
    names = [each.partition("=")[0] for each in found.environment]
    given = [name for name in names if name.startswith(_TELLING) and name not in _USUAL]
    parts = [*given, *(("a harness's text",) if found.text is not None and len(found.text.splitlines()) > 1 else ())]
    return f" (with {quote.line(', '.join(parts))})" if parts else ""


def _head(found: Approval) -> str:
    at = short(found.head) if found.head else "no commit yet"
    return f"{at} on {quote.line(found.branch.removeprefix('refs/heads/'))}" if found.branch else at


def _decision(found: Approval, style: Style) -> str:
    if found.decided_at is None:
        return ""
    until = f", until {quote.line(found.expires_at)}" if found.state == "granted" and found.expires_at else ""
    return f"{age(found.decided_at, style.now)} (by {quote.line(found.decided_by or '?')}){until}"
