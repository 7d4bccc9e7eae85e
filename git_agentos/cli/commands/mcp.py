"""`git agentos mcp`: a server of the Model Context Protocol."""

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.errors import McpError


@command()
def mcp(ctx: Invocation) -> None:
    """Serve tools for agents on stdin and stdout.

    Speaks the Model Context Protocol (MCP), for a client that starts it. Each tool does what a command does, for the
    worktree of the current folder, and as the same agent. Needs the extra 'mcp'.
    """
    try:
        from git_agentos.mcp import server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("git_agentos"):
            raise
        raise McpError(
            f"the MCP server needs a package that is not installed: {error.name}",
            "install git-agentos with the extra 'mcp': pip install 'git-agentos[mcp]'",
        ) from error
    before = ["-C", ctx.directory] if ctx.directories else []
    server.serve([*before, *(["--as", ctx.agent] if ctx.agent is not None else [])])
