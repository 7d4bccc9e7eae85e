"""`git agentos ui`: the terminal interface."""

from typing import Annotated

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import number
from git_agentos.cli.parameters import Option
from git_agentos.errors import UiError, UsageError


@command()
def ui(
    ctx: Invocation,
    web: Annotated[bool, Option("--web", help="Show it in a browser: print the URL, and serve it.")] = False,
    port: Annotated[
        str | None, Option("--port", metavar="N", help="Port for --web (default: one that is free).")
    ] = None,
    allow_approvals: Annotated[
        bool, Option("--allow-approvals", help="With --web, requests can be granted in the browser, too.")
    ] = False,
) -> None:
    """Watch agents on a terminal, and go back in time.

    Shows every agent's worktree. Each action is a command, which is shown before it is run; '?' lists the keys. Needs
    the extra 'ui'.
    """
    if (port is not None or allow_approvals) and not web:
        raise UsageError("--port and --allow-approvals are for --web")
    try:
        if web:
            from git_agentos.ui import web as served
        else:
            from git_agentos.ui import terminal
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("git_agentos"):
            raise
        raise UiError(
            f"the terminal interface needs a package that is not installed: {error.name}",
            "install git-agentos with the extra 'ui': pip install 'git-agentos[ui]'",
        ) from error
    if not web:
        raise Exit(terminal.run(ctx.directory, ctx.agent))
    number_ = number(port, "--port") or 0
    raise Exit(
        served.run(
            ctx.directory,
            ctx.agent,
            lambda url: ctx.output.print(f"{url}\n"),
            port=number_,
            allow_approvals=allow_approvals,
        )
    )
