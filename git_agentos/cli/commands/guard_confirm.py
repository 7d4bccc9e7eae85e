"""`git agentos guard confirm`: let settings count that make the guard weaker."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli import authorization as permission
from git_agentos.cli import quote
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.output import Style, Text
from git_agentos.errors import UsageError

if TYPE_CHECKING:
    from git_agentos.guard.approval.weaker_settings import Confirmation
    from git_agentos.guard.configuration.confirmation import Unconfirmed


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("confirm")(confirm)


@command
def confirm(
    run: Invocation,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY...]", show_default=False)] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show what is pending and confirmed, and change nothing.")
    ] = False,
) -> None:
    """Confirm settings that make the guard weaker.

    A value of agentos.policy.*, agentos.guard.mode, agentos.protected and the like that makes the guard weaker counts
    for agents once a person has confirmed it; until then the stricter value holds. All that is pending here is
    confirmed, or only KEY. Not for agents: it takes a terminal, or agentos.approvalKey.
    """
    from git_agentos.guard.approval import weaker_settings

    if list_ and keys:
        raise UsageError("--list and KEY do not go together")
    location = run.workspace().context.location
    if list_:
        found = weaker_settings.review(location.root, os.environ)
        run.output.show("confirm", found, lambda style: _listed(found, style))
        return
    by = permission.require(run, location, "confirming")
    before = weaker_settings.review(location.root, os.environ).pending
    done = weaker_settings.confirm(location.root, os.environ, keys or (), by=by)
    new = [each for each in before if each not in done.pending]
    run.output.show("confirm", done, lambda style: _confirmed(done, new, style))


def _listed(found: "Confirmation", style: Style) -> Text:
    lines = [f"{style.paint('yellow', 'pending')}   {_shown(each)}" for each in found.pending]
    lines += [f"{style.paint('green', 'confirmed')} {_shown(each)}" for each in found.confirmed]
    brief = "".join(f"{each.key}\n" for each in found.pending)
    notes = () if lines else ("no setting makes the guard weaker",)
    hints = ("a person confirms what is pending: git agentos guard confirm",) if found.pending else ()
    return Text("".join(f"{line}\n" for line in lines), brief, notes=notes, hints=hints)


def _confirmed(done: "Confirmation", new: "list[Unconfirmed]", style: Style) -> Text:
    lines = [f"{style.paint('green', 'confirmed')} {_shown(each)}" for each in new]
    lines += [f"{style.paint('yellow', 'pending')}   {_shown(each)}" for each in done.pending]
    brief = "".join(f"{each.key}\n" for each in new)
    return Text("".join(f"{line}\n" for line in lines), brief, notes=() if new else ("nothing is pending",))


def _shown(each: "Unconfirmed") -> str:
    from git_agentos.guard.approval import weaker_settings

    return f"{quote.line(weaker_settings.format_setting(each))} ({quote.path(each.source)})"
