"""The decorators that make a function a command of `git agentos`.

A command's function takes the `Invocation` and its own options. The options that every command has are declared once,
here, and accepted at every level of the command line, before and after the subcommand's name. A parameter whose type is
a NamedTuple (`options`) stands for one option for each of its fields.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand

from git_agentos.cli.invocation import Invocation

P = ParamSpec("P")
Function = Callable[Concatenate[Invocation, P], None]


class HelpRequested(Exception):
    """`--help` was given for the command at `command_path` (`git agentos checkpoint list`)."""

    def __init__(self, command_path: str) -> None:
        super().__init__(command_path)
        self.command_path = command_path


class NoCommand(Exception):
    """No command was given."""


class Command:
    """One command without subcommands."""

    def __init__(self, function: Function[P], hidden: bool, parser: type[TyperCommand] | None) -> None:
        self.name = function.__name__.strip("_")
        self._function = _with_common_options(function)
        self._hidden = hidden
        self._parser = parser

    def add_to(self, parent: typer.Typer) -> None:
        """Add the command to a typer application."""
        parent.command(self.name, hidden=self._hidden, cls=self._parser)(self._function)


class Group:
    """A command with subcommands; with `runs_alone` it can be called without one."""

    def __init__(self, function: Function[P], runs_alone: bool) -> None:
        self.name = function.__name__.strip("_")
        self._function = _with_common_options(function)
        self._runs_alone = runs_alone
        self._subcommands: list[Command | Group] = []

    def command(
        self, *, hidden: bool = False, parser: type[TyperCommand] | None = None
    ) -> Callable[[Function[P]], Command]:
        """Make a function a subcommand."""

        def decorate(function: Function[P]) -> Command:
            subcommand = Command(function, hidden, parser)
            self._subcommands.append(subcommand)
            return subcommand

        return decorate

    def group(self) -> "Callable[[Function[P]], Group]":
        """Make a function a subcommand that has subcommands itself."""

        def decorate(function: Function[P]) -> Group:
            subgroup = Group(function, runs_alone=False)
            self._subcommands.append(subgroup)
            return subgroup

        return decorate

    def add_to(self, parent: typer.Typer, *, with_subcommands: bool = True) -> None:
        """Add the command to a typer application."""
        app = typer.Typer(name=self.name, rich_markup_mode=None)
        app.callback(invoke_without_command=self._runs_alone)(self._function)
        for subcommand in self._subcommands if with_subcommands else ():
            subcommand.add_to(app)
        parent.add_typer(app)


def command(*, hidden: bool = False) -> Callable[[Function[P]], Command]:
    """Make a function a command of `git agentos`; its name is the function's."""
    return lambda function: Command(function, hidden, None)


def group(*, runs_alone: bool = False) -> Callable[[Function[P]], Group]:
    """Make a function a command of `git agentos` that has subcommands."""
    return lambda function: Group(function, runs_alone)


def root(function: Function[P]) -> Callable[..., None]:
    """Give the common options to `git agentos` itself."""
    return _with_common_options(function)


def _show_help(context: typer.Context, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    raise HelpRequested(context.command_path)


_DIRECTORY = Annotated[list[str] | None, typer.Option("-C", metavar="PATH", help="Work as if started in PATH.")]
_AGENT = Annotated[str | None, typer.Option("--as", metavar="ID", help="Act as agent ID.")]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_QUIET = Annotated[bool, typer.Option("-q", "--quiet", help="Print only ids.")]
_HELP = Annotated[
    bool, typer.Option("-h", "--help", help="Show this help.", is_eager=True, expose_value=False, callback=_show_help)
]
_COMMON: tuple[tuple[str, object, object], ...] = (
    ("common_directory", _DIRECTORY, None),
    ("common_agent", _AGENT, None),
    ("common_json", _JSON, False),
    ("common_quiet", _QUIET, False),
    ("common_help", _HELP, False),
)
COMMON_NAMES = frozenset(name for name, _, _ in _COMMON)


def _with_common_options(function: Function[P]) -> Callable[..., None]:
    """A function for typer that has the common options as well, and calls `function` if the guard allows it."""
    own = list(inspect.signature(function).parameters.values())[1:]
    option_sets = {each.name: each.annotation for each in own if _is_option_set(each.annotation)}

    def call(context: typer.Context, **values: Any) -> None:
        invocation: Invocation = context.obj
        _merge(invocation, {name: values.pop(name, None) for name in COMMON_NAMES})
        for name, option_set in option_sets.items():
            values[name] = option_set(**{field: values.pop(field) for field in option_set._fields})
        invocation.subcommand = context.invoked_subcommand
        if invocation.subcommand is not None:
            function(invocation, **values)  # type: ignore[call-arg]  # typer has checked the names
            return
        from git_agentos.cli import authorization

        with authorization.authorized(context, invocation):
            function(invocation, **values)  # type: ignore[call-arg]  # typer has checked the names

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    for each in own:
        parameters += _fields(each.annotation) if each.name in option_sets else [each.replace(kind=keyword)]
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in _COMMON
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads the options here
    call.__annotations__ = {}
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def _is_option_set(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields")


def _fields(option_set: Any) -> list[inspect.Parameter]:
    """The options of a NamedTuple; each field has a default."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option_set._field_defaults[name],
            annotation=option_set.__annotations__[name],
        )
        for name in option_set._fields
    ]


def _merge(invocation: Invocation, common: dict[str, object]) -> None:
    """Apply the common options of one level of the command line: the inner level wins, but `-C` add up."""
    directories = common["common_directory"]
    if isinstance(directories, list):
        invocation.directories += directories
    if isinstance(common["common_agent"], str):
        invocation.agent = common["common_agent"]
    invocation.output.json = invocation.output.json or bool(common["common_json"])
    invocation.output.quiet = invocation.output.quiet or bool(common["common_quiet"])
