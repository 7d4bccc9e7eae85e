"""The commands as one typer application, and usage errors in git's style.

Each command lives in a module of its own that has `register(app)`. Where the command line names one for
certain, only that module is loaded.
"""

import importlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from git_agentos import __version__
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.output import Text
from git_agentos.cli.prescan import Look
from git_agentos.errors import UsageError

# In the order in which help lists them: name of the command and of its module are one.
COMMANDS = (
    "checkpoint", "restore", "undo", "recover", "pick", "worktree", "run", "rollback", "tdd", "log", "memory", "guard",
    "approvals", "hooks", "hook", "db", "status", "doctor", "completion",
)  # fmt: skip


def build(only: str | None = None, *, creates: bool = False) -> typer.Typer:
    """The application with all commands, or with `only` that one if there is such a command.

    With `creates`, a plain `checkpoint` is all that it has to understand: typer takes longer to prepare the
    subcommands than to parse the line.
    """
    app = typer.Typer(
        add_completion=False,
        add_help_option=False,
        invoke_without_command=True,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(root)
    if creates:
        from git_agentos.cli.commands import checkpoint

        checkpoint.register_creation(app)
        return app
    for name in (only,) if only in COMMANDS else COMMANDS:
        importlib.import_module(f"git_agentos.cli.commands.{name}").register(app)
    return app


def parser(only: str | None = None, *, creates: bool = False) -> Any:
    """The application as click's group; `Any`, since typer carries its own copy of click and exports no type of it."""
    group = get_command(build(only, creates=creates))
    _take_words_as_they_are(group)
    return group


class _Word:
    """What typer is to make of a word of the command line: nothing, it stays the string that it is."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 (typer's names)
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _take_words_as_they_are(command_: Any) -> None:
    """Keep typer (0.29) from sending each word through pydantic.

    That refuses the surrogates which stand for bytes that are not UTF-8, so that not every file could be named,
    and importing it takes longer than a checkpoint. A typer that no longer looks at this attribute converts as
    before, and `tests/cli/test_startup.py` tells.
    """
    for each in command_.params:
        each._runtime_param = _Word()
    for below in getattr(command_, "commands", {}).values():
        _take_words_as_they_are(below)


@command
def root(
    run: Invocation,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Save the complete state of a worktree, and bring any saved state back.

    A checkpoint holds HEAD, the index, the files, the untracked files and an operation in progress, and
    taking one touches none of them. Every restore can be undone: 'git agentos undo'.
    """
    if version:
        run.output.show("version", {"version": __version__}, lambda _: Text(f"git-agentos version {__version__}\n"))
        raise typer.Exit
    if run.subcommand is None:
        from git_agentos.cli import command_tree as tree

        raise UsageError("no command given", f"{tree.usage(tree.root())}\n'git agentos -h' lists the commands")


def execute(argv: Sequence[str], seen: Look, invocation: Invocation) -> int:
    """Parse `argv`, run what it names, and return the exit code; errors are AgentosErrors."""
    application = parser(seen.command, creates=seen.creates)
    try:
        # Not `application()`: typer's own ending takes a broken pipe anywhere, in a pipe to git too, for a
        # reader that closed stdout.
        with application.make_context("git agentos", list(argv), obj=invocation) as context:
            application.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        raise _usage(error, seen.command) from None
    return 0


def _usage(error: typer.TyperException, only: str | None) -> UsageError:
    """typer's complaint in git's style: lower case, no full stop, and the usage line as the hint."""
    from git_agentos.cli import command_tree as tree

    message = error.format_message().strip().rstrip(".")
    message, _, guess = message.partition(". Did you mean ")
    message, _, options = message.partition(" (Possible options: ")
    hints = []
    if guess or options:
        hints.append("did you mean " + (guess.rstrip("?") or options.rstrip(")")) + "?")
    context = getattr(error, "ctx", None)
    path = context.command_path.split()[len(tree.PROGRAM) :] if context is not None else [only or ""]
    hints.insert(0, tree.usage(tree.find(path)))
    return UsageError(message[:1].lower() + message[1:], "\n".join(hints))
