"""`git agentos why`: which turn, checkpoint and commit a line comes from."""

import os
from typing import TYPE_CHECKING, Annotated

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument
from git_agentos.cli.render.text import turns as render

if TYPE_CHECKING:
    from git_agentos.workspace import Workspace


@command()
def why(ctx: Invocation, file: Annotated[str, Argument(metavar="FILE[:LINE]")]) -> None:
    """Show which turn and checkpoint each line comes from.

    Also for lines that are not committed, and after commits, merges and rebases. A turn is only named if no other can
    have written the line. With LINE, shows the line of this number.
    """
    from git_agentos.why import explain

    workspace = ctx.workspace()
    path, line = _split(workspace, file)
    result = explain.why(workspace.context, path, line)
    ctx.output.show("why", result, lambda style: render.explained(result, style))


def _split(workspace: "Workspace", file: str) -> tuple[bytes, int | None]:
    """The path, and the number behind its last colon, unless that is a part of the file's name."""
    name, _, number = file.rpartition(":")
    if name and number.isdecimal() and number.isascii() and len(number) < 10:
        whole = os.path.join(workspace.root, *workspace.relative([file]))
        if not os.path.lexists(whole):
            return os.fsencode(workspace.relative([name])[0]), int(number)
    return os.fsencode(workspace.relative([file])[0]), None
