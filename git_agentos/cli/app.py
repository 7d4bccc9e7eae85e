"""The commands as one typer application, made of what their functions declare (`parameters`).

Each command lives in a module of its own, `commands/NAME.py`. If the command line names a command for certain, only
that module is loaded.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from git_agentos import __version__
from git_agentos.cli import command as commands
from git_agentos.cli.command import (
    AFTER_DASHES,
    AGENT,
    COMMAND_LINE,
    COMMANDS,
    DIRECTORY,
    JSON,
    QUIET,
    Command,
    Group,
)
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument, Option, Parameter
from git_agentos.cli.text import Text
from git_agentos.guard.policy import command_table
from git_agentos.guard.policy.command_table import COMMON_VALUED


def build(only: str | None = None) -> typer.Typer:
    """The application with all commands, or with `only` that one if there is such a command."""
    app = typer.Typer(
        add_completion=False,
        add_help_option=False,
        invoke_without_command=True,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_function(commands.Group(root)))
    for name in (only,) if only in COMMANDS else COMMANDS:
        _add(app, commands.load(name))
    return app


def parser(only: str | None = None) -> Any:
    """The application as click's group; `Any`, since typer carries its own copy of click and exports no type of it."""
    group = get_command(build(only))
    _keep_words_as_they_are(group)
    return group


class _Word:
    """Converts a word of the command line to what it is already: a string."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 (typer's names)
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _keep_words_as_they_are(command_: Any) -> None:
    """Replace typer's conversion of words by pydantic (0.29).

    pydantic refuses the surrogates that stand for bytes that are not UTF-8, so not every file could be named, and
    importing it takes longer than a checkpoint. `tests/cli/test_startup.py` fails if a newer typer ignores this.
    """
    for parameter in command_.params:
        parameter.get_runtime_param = _Word
    for subcommand in getattr(command_, "commands", {}).values():
        _keep_words_as_they_are(subcommand)


def root(
    ctx: Invocation,
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    """Save and restore the complete state of a Git worktree.

    A checkpoint saves HEAD, the index, the files, the untracked files and an operation in progress without
    changing any of them. Every restore can be undone: 'git agentos undo'.
    """
    if version:
        ctx.output.show("version", {"version": __version__}, lambda _: Text(f"git-agentos version {__version__}\n"))
        raise commands.Exit
    if ctx.subcommand is None:
        raise commands.NoCommand


# -- typer's side of a command -----------------------------------------------------------------------------------------


def _add(parent: typer.Typer, command_: Command) -> None:
    if not isinstance(command_, Group):
        parent.command(command_.name, hidden=command_.hidden, cls=_PARSERS.get(command_.rest))(_function(command_))
        return
    takes_words = any(isinstance(each.declaration, Argument) for each in command_.signature.parameters)
    app = typer.Typer(name=command_.name, rich_markup_mode=None, cls=_OperandGroup if takes_words else None)
    app.callback(invoke_without_command=command_.runs_alone)(_function(command_))
    for subcommand in command_.subcommands.values():
        _add(app, subcommand)
    parent.add_typer(app)


class _DashesParser(TyperCommand):
    """Keeps the words after `--` apart: typer would take the first of them for an operand before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.obj.after_dashes, args = args[at + 1 :], args[:at]
        return super().parse_args(ctx, args)


class _CommandParser(TyperCommand):
    """Ends our options at `--`, and at the first word that is not an option: the rest is the command's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = 0
        while end < len(args) and args[end] != "--" and args[end].startswith("-") and args[end] != "-":
            end += 2 if args[end] in COMMON_VALUED else 1
        own, words = args[:end], args[end:]
        ctx.obj.after_dashes = words[1:] if words[:1] == ["--"] else words
        return super().parse_args(ctx, own)


class _OperandGroup(TyperGroup):
    """A group that has operands of its own: the first word is one unless it names a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        row = command_table.table()[tuple(ctx.command_path.split()[2:])]
        first = next(iter(command_table.read([*row.path, *args]).request.path[len(row.path) :]), None)
        if first is not None:
            ctx.meta[_WITHOUT_OPERANDS] = True
        else:
            ctx.allow_interspersed_args = True
        return list(super().parse_args(ctx, args))

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        if _WITHOUT_OPERANDS not in ctx.meta:
            return list(found)
        return [each for each in found if each.param_type_name != "argument"]


_WITHOUT_OPERANDS = "git_agentos.without_operands"
_PARSERS: dict[str | None, type[TyperCommand]] = {AFTER_DASHES: _DashesParser, COMMAND_LINE: _CommandParser}


def _show_help(context: typer.Context, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    raise commands.HelpRequested(context.command_path)


def _typer_option(option: Option) -> Any:
    return typer.Option(*option.declared, metavar=option.metavar, help=option.help)


_HELP = typer.Option(
    "-h", "--help", help="Show this help.", is_eager=True, expose_value=False, callback=_show_help
)  # fmt: skip
_COMMON: tuple[tuple[str, object, object], ...] = (
    ("common_directory", Annotated[list[str] | None, _typer_option(DIRECTORY)], None),
    ("common_agent", Annotated[str | None, _typer_option(AGENT)], None),
    ("common_json", Annotated[bool, _typer_option(JSON)], False),
    ("common_quiet", Annotated[bool, _typer_option(QUIET)], False),
    ("common_help", Annotated[bool, _HELP], False),
)
COMMON_NAMES = frozenset(name for name, _, _ in _COMMON)


def _function(command_: Command) -> Callable[..., None]:
    """A function for typer that has the common options as well, and calls the command's."""

    def call(context: typer.Context, **values: Any) -> None:
        invocation: Invocation = context.obj
        common = {name: values.pop(name, None) for name in COMMON_NAMES}
        commands.apply_common(
            invocation,
            directories=common["common_directory"],
            agent=common["common_agent"],
            json=bool(common["common_json"]),
            quiet=bool(common["common_quiet"]),
        )
        invocation.subcommand = context.invoked_subcommand
        command_.call(invocation, context.command_path.split()[2:], values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    found = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    found += map(_parameter, command_.signature.parameters)
    found += [inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in _COMMON]
    call.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]  # typer reads the options here
    call.__annotations__ = {}
    call.__name__, call.__doc__ = command_.name, command_.help
    return call


def _parameter(each: Parameter) -> inspect.Parameter:
    declared = each.declaration
    info = _typer_option(declared) if isinstance(declared, Option) else typer.Argument(metavar=declared.metavar)
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[each.type, info]
    )
