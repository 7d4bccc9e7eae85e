"""What `git agentos guard` and `hooks` say of how they stand; see `text` for how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text

if TYPE_CHECKING:
    from git_agentos.findings import Finding
    from git_agentos.guard.setup.checks import GuardStatus, HooksStatus
    from git_agentos.guard.setup.probe import Layer

_WHERE = {
    "fsmonitor": "before files change",
    "hook": "git hooks",
    "shim": "guard exec",
    "harness": "harness hooks",
}
_COLOURS = {"error": "red", "warning": "yellow"}


def guard(found: GuardStatus, style: Style) -> Text:
    """`guard enable`, `disable` and `status`: `on` or `off` under -q."""
    brief = "on\n" if found.enabled else "off\n"
    if not found.enabled:
        lines = [f"The worktree '{found.id}' is not guarded: {quote.path(found.worktree_path)}"]
    else:
        acts = {each.name: each.acts for each in found.layers}
        if not (acts.get("fsmonitor") or acts.get("hook")):
            brief = "broken\n"
        what = "what policy forbids is stopped" if found.mode == "strict" else "what would be lost is saved first"
        how = f"is guarded ({what})" if brief == "on\n" else "is to be guarded, and git does not ask the guard there"
        lines = [f"The worktree '{found.id}' {how}: {quote.path(found.worktree_path)}"]
        lines += _layers(found.layers, style)
    lines += _findings(found.findings, style)
    hints = () if found.enabled else (f"'git agentos guard enable {found.id}' guards it",)
    return Text("".join(f"{line}\n" for line in lines), brief, hints=hints)


def hooks(found: HooksStatus, style: Style) -> Text:
    """`hooks install`, `uninstall` and `status`: `on` or `off` under -q."""
    brief = "on\n" if found.installed else "off\n"
    if found.installed:
        lines = [f"The hooks of git-agentos are installed: {quote.path(found.worktree_path)}"]
        saved = "is saved before a command that loses some" if found.save else "is not saved before it (--save)"
        lines.append(f"Commits, checkouts, merges and rewrites become checkpoints; people's work {saved}.")
        lines += _layers(found.layers, style)
    else:
        lines = [f"The hooks of git-agentos are not installed: {quote.path(found.worktree_path)}"]
    if found.user_hooks:
        whose = f"those of {found.manager}" if found.manager else "your own"
        names = ", ".join(quote.line(name) for name in found.user_hooks)
        how = "run as before" if found.installed else "run by git"
        lines.append(f"Hooks that are {whose} are {how}: {names} ({quote.path(found.user_hooks_path)})")
    lines += _findings(found.findings, style)
    hints = () if found.installed else ("'git agentos hooks install' installs them",)
    return Text("".join(f"{line}\n" for line in lines), brief, hints=hints)


def _layers(layers: Sequence[Layer], style: Style) -> list[str]:
    lines = []
    for each in layers:
        mark = style.paint("green", "acts") if each.acts else style.paint("yellow", "does not act")
        why = f": {quote.line(each.reason)}" if each.reason else ""
        lines.append(f"  {each.name:<10} {mark} ({_WHERE[each.name]}){why}")
    return lines


def _findings(findings: Sequence[Finding], style: Style) -> list[str]:
    lines = []
    for each in findings:
        label = style.paint(_COLOURS.get(each.severity, "cyan"), each.severity + ":")
        lines.append(f"{label} {quote.line(each.message)} [{each.code}]")
        lines += [f"  {line}" for line in quote.block(each.hint or "").split("\n") if line]
    return lines
