"""`git agentos approvals`: list, show, grant and deny approval requests."""

from typing import TYPE_CHECKING, Annotated

from git_agentos.cli import authorization
from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import approvals as render
from git_agentos.util import times

if TYPE_CHECKING:
    from git_agentos.guard.approval.documents import Store
    from git_agentos.workspace import Workspace

Request = Annotated[str, Argument(metavar="REQUEST")]


@group()
def approvals(ctx: Invocation) -> None:
    """Grant or deny approval requests.

    An agent's git command that needs approval is stopped and files a request.
    """


@approvals.command()
def list_(
    ctx: Invocation,
    everything: Annotated[bool, Option("--all", help="Include denied, used and expired requests.")] = False,
) -> None:
    """List pending and unused requests."""
    from git_agentos.guard.approval import approvals as domain

    requests = domain.read_all(_store(ctx.workspace(), create=False))
    result = requests if everything else domain.open_only(requests)
    ctx.output.show("approval-list", {"approvals": result}, lambda style: render.listing(result, style))


@approvals.command()
def show(ctx: Invocation, request: Request) -> None:
    """Show a request: the command, its folder, its agent."""
    from git_agentos.guard.approval import approvals as domain

    result = domain.find(_store(ctx.workspace(), create=False), request)
    ctx.output.show("approval", result, lambda style: render.details(result, style))


@approvals.command()
def grant(ctx: Invocation, request: Request) -> None:
    """Allow a request once.

    The grant expires after an hour (agentos.approvalExpiry), and it is valid only while everything that 'approvals
    show' lists is unchanged: command line, folder, worktree, HEAD, agent, variables, configuration, and the text of a
    harness. Not for agents.
    """
    from git_agentos.guard.approval import approvals as domain

    workspace = ctx.workspace()
    created = times.to_seconds(domain.find(_store(workspace, create=False), request).created_at)
    by = authorization.require_operator(ctx, workspace.context.location, "granting", since=created)
    result = domain.grant(_store(workspace, create=True), request, by=by)
    ctx.output.show("approval", result, lambda style: render.decided(result, style))


@approvals.command()
def deny(
    ctx: Invocation,
    request: Request,
    message: Annotated[str | None, Option("-m", "--message", metavar="TEXT", help="Tell the agent why.")] = None,
) -> None:
    """Deny a request, or withdraw an unused grant. Not for agents."""
    from git_agentos.guard.approval import approvals as domain

    workspace = ctx.workspace()
    by = authorization.require_operator(ctx, workspace.context.location, "denying")
    result = domain.deny(_store(workspace, create=True), request, by=by, note=message)
    ctx.output.show("approval", result, lambda style: render.decided(result, style))


def _store(workspace: "Workspace", *, create: bool) -> "Store":
    from git_agentos.guard import operator

    return operator.approval_store(workspace.context.location, create=create)
