"""`git agentos ui`: the terminal interface."""

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.errors import UiError


@command()
def ui(ctx: Invocation) -> None:
    """Watch agents on a terminal, and go back in time.

    Shows every agent's worktree. Each action is a command, which is shown before it is run; '?' lists the keys. Needs
    the extra 'ui'.
    """
    try:
        from git_agentos.ui import terminal
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("git_agentos"):
            raise
        raise UiError(
            f"the terminal interface needs a package that is not installed: {error.name}",
            "install git-agentos with the extra 'ui': pip install 'git-agentos[ui]'",
        ) from error
    raise Exit(terminal.run(ctx.directory, ctx.agent))
