"""The options and arguments of a command: how its function declares them, and how they are read from there.

A parameter of a command's function is annotated with `Annotated[TYPE, Option(...)]`, or with `Argument(...)`. TYPE says
what is accepted: `bool` a flag, `list[str]` any number of words, `str` one word. A parameter whose type is a NamedTuple
stands for one option for each of its fields.

`app` makes the typer application of these declarations, and `direct` binds a plain command line to them without typer.
So nothing here imports typer, or `inspect`, which takes longer to import than a command line to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from git_agentos.util.named_tuple import NamedTuple


class Option:
    """`names` are those that users type; `--guard/--no-guard` is a flag with its opposite."""

    def __init__(self, *names: str, help: str, metavar: str | None = None) -> None:  # noqa: A002 (typer's name)
        self.declared = names
        self.names = tuple(name.partition("/")[0] for name in names)
        self.opposites = tuple(opposite for name in names if (opposite := name.partition("/")[2]))
        self.metavar = metavar
        self.help = help


class Argument:
    """`metavar` is how the usage line shows it: `ID`, `[PATH...]`."""

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar


class Parameter(NamedTuple):
    """One option or argument. `type` is its type without `Annotated`; an argument without a default is required."""

    name: str
    declaration: Option | Argument
    type: Any
    default: Any
    is_required: bool

    @property
    def is_flag(self) -> bool:
        return bool in (self.type, *get_args(self.type))

    @property
    def is_list(self) -> bool:
        return any(each == list[str] for each in (self.type, *get_args(self.type)))

    def switched_on_by(self, name: str) -> bool:
        """The value that this name of a flag gives it: `--no-guard` switches off."""
        return not (isinstance(self.declaration, Option) and name in self.declaration.opposites)


class Signature(NamedTuple):
    """The parameters of a command's function; `option_sets` are the NamedTuples that several of them make up, by the
    name of the function's parameter."""

    parameters: tuple[Parameter, ...]
    option_sets: Mapping[str, Any]

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, from the values of all parameters by name."""
        rest = dict(values)
        sets = {
            name: kind(**{field: rest.pop(field) for field in kind._fields}) for name, kind in self.option_sets.items()
        }
        return {**rest, **sets}


def read(function: Callable[..., None]) -> Signature:
    """The parameters that a command's function declares, without its first, which is the invocation."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    values = function.__defaults__ or ()
    defaults = {**dict(zip(names[count - len(values) : count], values, strict=True)), **(function.__kwdefaults__ or {})}
    found: list[Parameter] = []
    option_sets = {}
    for name in names[1:]:
        annotation = function.__annotations__[name]
        if hasattr(annotation, "_fields"):
            option_sets[name] = annotation
            annotations = annotation.__annotations__
            found += [_parameter(field, annotations[field], annotation._field_defaults) for field in annotation._fields]
        else:
            found.append(_parameter(name, annotation, defaults))
    return Signature(tuple(found), option_sets)


def _parameter(name: str, annotation: Any, defaults: Mapping[str, Any]) -> Parameter:
    declaration = annotation.__metadata__[0]
    return Parameter(name, declaration, annotation.__origin__, defaults.get(name), name not in defaults)
