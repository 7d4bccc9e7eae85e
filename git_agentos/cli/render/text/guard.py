"""`guard` and `hooks` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import lines
from git_agentos.cli.render.text.status import finding
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.guard.configuration.confirmation import Confirmation, Unconfirmed
    from git_agentos.guard.decision import Decision
    from git_agentos.guard.diagnosis.checks import GuardStatus, HooksStatus
    from git_agentos.guard.diagnosis.probe import Layer
    from git_agentos.guard.harness.integration import Integration

_LAYERS = {
    "fsmonitor": "before files change",
    "hook": "git hooks",
    "shim": "guard exec",
    "harness": "harness hooks",
}


def guard(status: GuardStatus, style: Style) -> Text:
    """`guard enable`, `disable` and `status`; `on`, `off` or `broken` under -q."""
    path = quote.path(status.worktree_path)
    findings = [row for each in status.findings for row in finding(each, style)]
    if not status.enabled:
        rows = [f"The worktree '{status.id}' is not guarded: {path}", *findings]
        return Text(lines(rows), "off\n", hints=(f"'git agentos guard enable {status.id}' enables the guard",))
    acts = {each.name: each.acts for each in status.layers}
    if acts.get("fsmonitor") or acts.get("hook"):
        quiet = "on\n"
        effect = "what policy forbids is stopped" if status.mode == "strict" else "what would be lost is saved first"
        state = f"is guarded ({effect})"
    else:
        quiet = "broken\n"
        state = "should be guarded, but git does not ask the guard there"
    rows = [f"The worktree '{status.id}' {state}: {path}", *_layers(status.layers, style), *findings]
    return Text(lines(rows), quiet)


def hooks(status: HooksStatus, style: Style) -> Text:
    """`hooks install`, `uninstall` and `status`; `on` or `off` under -q."""
    path = quote.path(status.worktree_path)
    rows = [f"The hooks of git-agentos are {'' if status.installed else 'not '}installed: {path}"]
    if status.installed:
        saved = "is saved before destructive commands" if status.save else "is not saved before those (--save)"
        rows.append(f"Commits, checkouts, merges and rewrites become checkpoints; people's work {saved}.")
        rows += _layers(status.layers, style)
    if status.user_hooks:
        owner = f"of {status.manager}" if status.manager else "of your own"
        names = ", ".join(quote.line(name) for name in status.user_hooks)
        effect = "still run" if status.installed else "are run by git"
        rows.append(f"Hooks {owner} {effect}: {names} ({quote.path(status.user_hooks_path)})")
    rows += [row for each in status.findings for row in finding(each, style)]
    hints = () if status.installed else ("'git agentos hooks install' installs them",)
    return Text(lines(rows), "on\n" if status.installed else "off\n", hints=hints)


def _layers(layers: Sequence[Layer], style: Style) -> list[str]:
    rows = []
    for each in layers:
        acts = style.paint("green", "acts") if each.acts else style.paint("yellow", "does not act")
        reason = f": {quote.line(each.reason)}" if each.reason else ""
        rows.append(f"  {each.name:<10} {acts} ({_LAYERS[each.name]}){reason}")
    return rows


def decision(result: Decision, *, saved: bool = False) -> Text:
    """`guard check`; the decision alone under -q. `saved`: it is allowed because a checkpoint is created first."""
    operations = f": {quote.line(', '.join(result.operations))}" if result.operations else ""
    rows = [result.decision + operations]
    for name, value in (("why", result.reason), ("rule", result.rule), ("instead", result.instead)):
        if value is not None:
            rows.append(f"  {name}: {quote.line(value)}")
    if saved:
        rows.append("  why: a checkpoint is created first, so it can be undone")
    return Text(lines(rows), f"{result.decision}\n")


def settings(result: Confirmation, style: Style) -> Text:
    """`guard confirm --list`; pending keys under -q."""
    rows = [*_pending(result, style), *(_confirmed(each, style) for each in result.confirmed)]
    notes = () if rows else ("no setting makes the guard weaker",)
    hints = ("a person confirms pending settings: git agentos guard confirm",) if result.pending else ()
    return Text(lines(rows), lines(each.key for each in result.pending), notes=notes, hints=hints)


def confirmed(result: Confirmation, new: Sequence[Unconfirmed], style: Style) -> Text:
    """`guard confirm`; the keys that were confirmed under -q."""
    rows = [*(_confirmed(each, style) for each in new), *_pending(result, style)]
    return Text(lines(rows), lines(each.key for each in new), notes=() if new else ("nothing is pending",))


def _pending(result: Confirmation, style: Style) -> list[str]:
    return [f"{style.paint('yellow', 'pending')}   {_setting(each)}" for each in result.pending]


def _confirmed(setting: Unconfirmed, style: Style) -> str:
    return f"{style.paint('green', 'confirmed')} {_setting(setting)}"


def _setting(setting: Unconfirmed) -> str:
    from git_agentos.guard.configuration import confirmation

    return f"{quote.line(confirmation.format_setting(setting))} ({quote.path(setting.source)})"


def integrated(result: Integration) -> Text:
    """`guard integrate`."""
    path = quote.path(result.path)
    if not result.integrated:
        change = f"{result.harness} no longer asks the guard" if result.changed else "our hooks are not in the settings"
        return Text(f"{change}: {path}\n", f"{path}\n")
    change = f"{result.harness} asks the guard" + ("" if result.changed else " already")
    notes = tuple(f"warning: {each}" for each in result.needs)
    return Text(f"{change}: {path}\n", f"{path}\n", notes=notes, hints=(result.note,))
