"""The syntax of shell text, as much of it as running it without running it (`shell_run`) takes.

Conditions are commands that run, branches are what may run.
"""

from __future__ import annotations

from typing import NamedTuple, Union


class ShellError(Exception):
    """A shell text is not understood; the text says why."""


class Text(NamedTuple):
    """Characters; quoted ones are not split, and no brace or tilde among them is expanded."""

    text: str
    quoted: bool = False


class Parameter(NamedTuple):
    """`$NAME`, `${NAME OPERATOR word}`. `subscript` is what is between brackets, empty where nothing is."""

    name: str
    operator: str = ""
    word: tuple[Part, ...] = ()
    subscript: str = ""
    quoted: bool = False
    inner: tuple[Node, ...] = ()


class Substitution(NamedTuple):
    """`$(body)`; a `feed` is `<(body)`."""

    body: Node
    quoted: bool = False
    feed: bool = False


class Opaque(NamedTuple):
    """A value that is not computed (arithmetic), and what runs for it."""

    inner: tuple[Node, ...] = ()


Part = Union[Text, Parameter, Substitution, Opaque]  # noqa: UP007 (a string in it, for Python 3.10)
Word = tuple[Part, ...]


class Assignment(NamedTuple):
    name: str
    value: Word
    items: tuple[Word, ...] | None = None
    append: bool = False
    element: bool = False


class Redirect(NamedTuple):
    """`operator` is `<`, `>`, `>>`, `<<` (`target` is the document), `<<<`, `>&` …"""

    operator: str
    target: Word


class Command(NamedTuple):
    """`inner` runs with it: `time (…)`, substitutions in `[[ … ]]`. `declares` is `export`, `local` …"""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    inner: tuple[Node, ...] = ()
    declares: str = ""


class Pipeline(NamedTuple):
    parts: tuple[Node, ...]


class Chain(NamedTuple):
    parts: tuple[Node, ...]


class Tried(NamedTuple):
    """`a && b || c`: the first runs, each of the others may, as `operators` say (one fewer than there are parts)."""

    parts: tuple[Node, ...]
    operators: tuple[str, ...]


class Maybe(NamedTuple):
    """`first` runs, each of `branches` may."""

    first: Node
    branches: tuple[Node, ...]


class Group(NamedTuple):
    """`{ … }`, or with `own` `( … )`: nothing that is set in it is seen outside."""

    body: Node
    redirects: tuple[Redirect, ...] = ()
    own: bool = False


class Each(NamedTuple):
    """`for NAME in words`; None for the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


class While(NamedTuple):
    condition: Node
    body: Node


class Function(NamedTuple):
    name: str
    body: Node


Node = Union[Command, Pipeline, Chain, Tried, Maybe, Group, Each, While, Function]  # noqa: UP007
NOTHING = Chain(())


# -- putting together what the parser puts elsewhere -------------------------------------------------------------------


def attach(node: Node, redirect: Redirect) -> Node:
    """`node`, whose last command has one more redirection: the parser gives that of `a | b > f` to the whole."""
    if isinstance(node, Command | Group):
        return node._replace(redirects=(*node.redirects, redirect))
    if isinstance(node, Pipeline):
        return Pipeline((*node.parts[:-1], attach(node.parts[-1], redirect)))
    if isinstance(node, Tried):
        return node._replace(parts=(*node.parts[:-1], attach(node.parts[-1], redirect)))
    return Group(node, (redirect,))


def argument(node: Node, word: Word) -> Node:
    """`node`, whose last command has one more argument: the parser gives what is behind a redirection to that."""
    if isinstance(node, Command) and not node.declares:
        return node._replace(words=(*node.words, word))
    if isinstance(node, Pipeline | Tried):
        return node._replace(parts=(*node.parts[:-1], argument(node.parts[-1], word)))
    raise ShellError("it has a redirection that is not understood")


def prepend(node: Node, first: Node) -> Node:
    """`first | node`, where `node` is what stands behind the pipe: the parser puts `b && c` of `a | b && c` there."""
    if isinstance(node, Tried):
        return node._replace(parts=(prepend(node.parts[0], first), *node.parts[1:]))
    if isinstance(node, Chain) and node.parts:
        return Chain((prepend(node.parts[0], first), *node.parts[1:]))
    if isinstance(node, Pipeline):
        return Pipeline((first, *node.parts))
    return Pipeline((first, node))
