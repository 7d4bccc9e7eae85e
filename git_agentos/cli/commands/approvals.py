"""`git agentos approvals`: what agents may not do without being asked about, and the answers."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli import authorization as permission
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import approvals as text_approvals
from git_agentos.util import times

if TYPE_CHECKING:
    from git_agentos.guard.approval.approvals import Store
    from git_agentos.workspace import Workspace

Request = Annotated[str, typer.Argument(metavar="REQUEST")]


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="approvals", rich_markup_mode=None)
    group.callback()(approvals)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("grant")(grant)
    group.command("deny")(deny)
    app.add_typer(group)


@command
def approvals(run: Invocation) -> None:
    """Answer what agents ask leave for.

    An agent's git command that needs approval is stopped, and waits here as a request.
    """


@command
def list_(
    run: Invocation,
    everything: Annotated[
        bool, typer.Option("--all", help="Those too that were denied or used, or have expired.")
    ] = False,
) -> None:
    """List what waits, and what is granted and not used yet."""
    from git_agentos.guard.approval import approvals as domain

    approvals_ = domain.read_all(_store(run.workspace(), create=False))
    found = approvals_ if everything else domain.open_only(approvals_)
    run.output.show("approval-list", {"approvals": found}, lambda style: text_approvals.listed(found, style))


@command
def show(run: Invocation, request: Request) -> None:
    """Show one request: what would run, where, and who asks."""
    from git_agentos.guard.approval import approvals as domain

    found = domain.find(_store(run.workspace(), create=False), request)
    run.output.show("approval", found, lambda style: text_approvals.shown(found, style))


@command
def grant(run: Invocation, request: Request) -> None:
    """Let a request's command run, once.

    It holds for an hour (agentos.approvalExpiry), and as long as all that 'approvals show' tells is the same: command
    line, folder, worktree, HEAD, agent, variables, configuration, and the text of a harness. Not for agents.
    """
    from git_agentos.guard.approval import approvals as domain

    workspace = run.workspace()
    asked = times.to_seconds(domain.find(_store(workspace, create=False), request).created_at)
    by = permission.require(run, workspace.context.location, "granting", since=asked)
    found = domain.grant(_store(workspace, create=True), request, by=by)
    run.output.show("approval", found, lambda style: text_approvals.decided(found, style))


@command
def deny(
    run: Invocation,
    request: Request,
    message: Annotated[
        str | None, typer.Option("-m", "--message", metavar="TEXT", help="Tell the agent why.", show_default=False)
    ] = None,
) -> None:
    """Refuse a request, or take back a grant that was not used yet. Not for agents."""
    from git_agentos.guard.approval import approvals as domain

    workspace = run.workspace()
    by = permission.require(run, workspace.context.location, "denying")
    found = domain.deny(_store(workspace, create=True), request, by=by, note=message)
    run.output.show("approval", found, lambda style: text_approvals.decided(found, style))


def _store(workspace: "Workspace", *, create: bool) -> "Store":
    from git_agentos.guard.approval import approvals as domain
    from git_agentos.guard.configuration import settings

    location = workspace.context.location
    expiry = settings.read(location.root, os.environ).approval_expiry
    return domain.open_store(location.common_dir, os.environ, expiry=expiry, create=create)
