"""`git agentos guard harness` and `guard integrate`: the hooks of the programs that agents run in."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli import quote
from git_agentos.cli.commands.worktree_end import OptionalId
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.output import Text
from git_agentos.errors import UsageError

if TYPE_CHECKING:
    from git_agentos.guard.harness.integration import Integration

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("harness")(harness)
    group.command("integrate")(integrate)


@command
def harness(run: Invocation, name: Name) -> None:
    """Answer a harness's hook: its JSON on stdin, and on stdout what it wants to hear.

    NAME is claude-code, codex, gemini, cursor, copilot or opencode. A command is denied where policy stops it, an edit
    where the file is not the agent's; edits that were made and turns become checkpoints. What is not understood is
    denied. 'guard integrate' puts this into the harness's settings.
    """
    from git_agentos.guard.harness import adapters, handler

    adapters.get(name)
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    caller = handler.Caller(os.path.abspath(run.directory), os.environ, os.getpid(), run.agent)
    try:
        reply = handler.respond(name, data, caller)
    except Exception as error:  # noqa: BLE001 (most harnesses let a tool run whose hook fails)
        from git_agentos.cli import crash

        where = crash.record(error, None)
        reply = handler.refusal(
            name, f"git-agentos: denied: the guard cannot decide: a bug; the traceback is in '{where}'"
        )
    # What is printed is the harness's format, whatever was asked for.
    run.output.json = False
    notes = (reply.stderr.rstrip("\n"),) if reply.stderr else ()
    run.output.show("", {}, lambda _: Text(reply.stdout, reply.stdout, notes=notes))


@command
def integrate(
    run: Invocation,
    name: Name,
    id_: OptionalId = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print what has to be in the settings, and change nothing.")
    ] = False,
    user: Annotated[
        bool, typer.Option("--user", help="The user's own settings, for all folders, instead of this worktree's.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out what was put in.")] = False,
) -> None:
    """Have a harness ask the guard: put its hooks into the harness's settings.

    NAME is claude-code, codex, gemini, cursor, copilot or opencode; ID is the worktree, else it is the one that you are
    in. What is in the settings stays; --remove takes out what was put in, and brings the file back as it was where
    nobody has edited it since. git ignores what is written in the worktree.
    """
    from git_agentos.guard.harness import integration as domain

    if print_ and remove:
        raise UsageError("--print and --remove do not go together")
    if user and id_ is not None:
        raise UsageError("--user and a worktree's ID do not go together")
    root = _settings_root(run, id_, user=user, anywhere=print_)
    if print_:
        shown = domain.preview(name, root, os.environ, user=user)
        run.output.show("guard-integrate", shown, lambda _: Text(shown.settings or ""))
        return
    done = (domain.remove if remove else domain.add)(name, root, os.environ, user=user)
    run.output.show("guard-integrate", done, lambda _: worded(done))


def _settings_root(run: Invocation, id_: str | None, *, user: bool, anywhere: bool) -> str:
    """The folder that the settings are below: a worktree's, the home folder, or `anywhere` the current one."""
    from git_agentos.git import gitfile
    from git_agentos.worktree import guarded

    if user:
        return os.path.expanduser("~")
    if id_ is not None or not anywhere:
        return guarded.find(run.workspace().context, id_).root
    found = gitfile.find(run.directory)
    return found[0] if found is not None else os.path.abspath(run.directory)


def worded(done: "Integration") -> Text:
    """What was done to a harness's settings."""
    where = quote.path(done.path)
    if done.integrated:
        said = (
            f"{done.harness} asks the guard: {where}"
            if done.changed
            else f"{done.harness} asks the guard already: {where}"
        )
        return Text(
            f"{said}\n", f"{where}\n", notes=tuple(f"warning: {each}" for each in done.needs), hints=(done.note,)
        )
    said = (
        f"{done.harness} does not ask the guard any more: {where}" if done.changed else f"nothing of ours is in {where}"
    )
    return Text(f"{said}\n", f"{where}\n")
