"""`git agentos hook`: what the installed scripts call if the Python that installed them is gone.

`entry.run` handles it without this module, unless help is asked for.
"""

from typing import Annotated

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument


@command(hidden=True)
def hook(
    ctx: Invocation,
    name: Annotated[str, Argument(metavar="NAME")],
    arguments: Annotated[list[str] | None, Argument(metavar="[ARG...]")] = None,
) -> None:
    """Run the git hook NAME.

    Called by the scripts that 'git agentos hooks install' and 'git agentos guard enable' install.
    """
    from git_agentos.hooks import entry

    raise Exit(entry.main([name, *ctx.paths(arguments)]))
