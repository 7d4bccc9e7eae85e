"""Running a shell text without running anything: which programs it would start, with which arguments.

Every branch is taken, loops over known words are run word by word, functions and `eval` are followed, and the output of
`echo`, `printf`, `cat` and whatever the starter knows goes through pipes, `$(…)` and `<(…)`. What cannot be known is
`UNKNOWN` in an argument (`words`); what cannot be followed is a ShellError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from git_agentos.guard.shell import words
from git_agentos.guard.shell.programs import without_prefix
from git_agentos.guard.shell.shell import parse
from git_agentos.guard.shell.shell_builtins import BUILTINS, MOST_OUTPUT, Builtins, script
from git_agentos.guard.shell.shell_state import Alternatives, State, combined, expand, single
from git_agentos.guard.shell.shell_syntax import (
    Assignment,
    Chain,
    Command,
    Each,
    Group,
    Maybe,
    Node,
    Pipeline,
    Redirect,
    ShellError,
    Substitution,
    Text,
    Tried,
    While,
    Word,
)
from git_agentos.guard.shell.words import FILE, UNKNOWN

_MOST_STARTS = 3000
_DEEPEST = 40
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
_SILENT = frozenset(
    """: true false [ test let shopt unalias wait return exit break continue umask ulimit jobs fg bg disown kill
    times getopts logout history bind complete compopt enable dirs""".split()
)
_PLAIN_PREFIXES = frozenset({"!", "command", "builtin", "exec", "time", "coproc", "noglob", "nocorrect", "-"})


class Program(NamedTuple):
    """A program that a shell text starts. `lost`: it is not known where. `stdin` is what it reads, None where that is
    what the shell itself reads; `writes` are the files that its output goes to."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    lost: bool = False
    stdin: str | None = None
    writes: tuple[str, ...] = ()
    feeds: Mapping[str, str] = {}


Start = Callable[[Program], str]
"""Takes note of a program, and tells what it prints; UNKNOWN where that is not known."""


class Shell(Builtins):
    """Runs texts; each program that they start is handed to `start`."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start
        self.starts = 0
        self.depth = 0

    def text(self, text: str, state: State, stdin: str | None = None) -> str:
        """What a text prints."""
        return self.run(parse(script(text)), state, stdin)

    def run(self, node: Node, state: State, stdin: str | None = None) -> str:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ShellError("it calls itself too often")
        try:
            said = self._run(node, state, stdin)
        finally:
            self.depth -= 1
        return said if len(said) <= MOST_OUTPUT else UNKNOWN

    def _run(self, node: Node, state: State, stdin: str | None) -> str:
        if isinstance(node, Command):
            return self._command(node, state, stdin)
        if isinstance(node, Chain):
            # What is behind an `exit` is looked at, and changes nothing.
            return "".join(self.run(part, state.inner() if state.ended else state, stdin) for part in node.parts)
        if isinstance(node, Pipeline):
            return self._pipeline(node, state, stdin)
        if isinstance(node, Tried):
            return self._tried(node, state, stdin)
        if isinstance(node, Maybe):
            said = self.run(node.first, state, stdin)
            begin = state.inner()
            for branch in node.branches:
                inner = begin.inner()
                said += self.run(branch, inner, stdin)
                state.join(inner)
            return said
        if isinstance(node, Group):
            inner = state.inner() if node.own else state
            stdin, writes = self._redirects(node.redirects, inner, stdin)
            said = self.run(node.body, inner, stdin)
            self._written(writes, inner)
            state.feeds.update(inner.feeds)
            return "" if writes else said
        if isinstance(node, Each):
            return self._each(node, state, stdin)
        if isinstance(node, While):
            inner = state.inner()
            # Twice: what the first round sets is there in the second.
            said = self._round(node.condition, inner, stdin) + self._round(node.body, inner, stdin)
            said += self._round(node.condition, inner, stdin) + self._round(node.body, inner, stdin)
            state.join(inner)
            return said and UNKNOWN
        state.functions[node.name] = node.body
        return ""

    def _pipeline(self, node: Pipeline, state: State, stdin: str | None) -> str:
        inner = state
        for n, part in enumerate(node.parts):
            inner = state.inner()
            stdin = self.run(part, inner, stdin if n == 0 else stdin or "")
        # Some shells run the last part themselves.
        inner.ended = ""
        state.join(inner)
        return stdin or ""

    def _tried(self, node: Tried, state: State, stdin: str | None) -> str:
        """`a && b || c`: what is known after it is what is known where it succeeds, and where it fails."""
        said, success, failure = self._attempt(node.parts[0], state.inner(), stdin)
        for operator, part in zip(node.operators, node.parts[1:], strict=True):
            start, other = (success, failure) if operator == "&&" else (failure, success)
            # What is never reached is looked at all the same.
            more, then, otherwise = self._attempt(part, (start or other or state).inner(), stdin)
            said += more
            if start is None:
                then = otherwise = None
            success, failure = (
                (then, _either(other, otherwise)) if operator == "&&" else (_either(other, then), otherwise)
            )
        end = _either(success, failure)
        if end is None:
            state.ended = "exit"
        else:
            state.become(end)
        return said

    def _attempt(self, node: Node, state: State, stdin: str | None) -> tuple[str, State | None, State | None]:
        """What a part prints, and what is known where it succeeds, and where it fails; None where it does not."""
        before = state.inner()
        said = self.run(node, state, stdin)
        if state.ended:
            return said, None, None
        name = _literal_name(node)
        if name is None or name in before.functions:
            return said, state, state
        if name in _SURE:
            return said, state, None
        if name == "false":
            return said, None, state
        if BUILTINS.get(name) == "cd":
            return said, state, before if state.lost else None
        return said, state, state

    def _round(self, node: Node, state: State, stdin: str | None) -> str:
        """One round of a loop; one that ends the shell is not the last that was run."""
        before = state.inner()
        said = self.run(node, state, stdin)
        if state.ended:
            state.become(before)
        return said

    def _inside(self, node: Node, state: State) -> str:
        """What a substitution prints: it is a shell of its own."""
        return self.run(node, state.inner())

    def perhaps(self, text: str, state: State, stdin: str | None) -> None:
        """Run a text that may run at any time, or never."""
        inner = state.inner()
        self.text(text, inner, stdin)
        state.join(inner)

    def _each(self, node: Each, state: State, stdin: str | None) -> str:
        given: list[list[str]]
        if node.words is None:
            given = [list(state.positional) if state.positional is not None else [UNKNOWN]]
        else:
            given = combined([self._expand(word, state) for word in node.words])
        inner = state.inner()
        for fields in given:
            for item in fields:
                inner.assign(node.name, ((item,),))
                self._round(node.body, inner, stdin)
        state.join(inner)
        return UNKNOWN

    # -- commands

    def _command(self, node: Command, state: State, stdin: str | None) -> str:
        for each in node.inner:
            self.run(each, state, stdin)
        if node.declares:
            self._declare(node, state)
            return ""
        said = ""
        stdin, writes = self._redirects(node.redirects, state, stdin)
        found = combined([self._expand(word, state) for word in node.words])
        overlay = self._assigned(node.assignments, state, own=not node.words)
        if not node.words:
            self._written(writes, state)
            return stdin if stdin is not None and not writes else ""
        begin = state.inner()
        for n, argv in enumerate(argv for argv in found if argv):
            if n == 0:
                said += self._start(argv, state, stdin, writes, overlay)
            else:
                # One of several that it may be: each begins where this one does.
                inner = begin.inner()
                said += self._start(argv, inner, stdin, writes, overlay)
                state.join(inner)
        return "" if writes else said

    def _expand(self, word: Word, state: State) -> list[list[str]]:
        return expand(word, state, self._inside)

    def _assigned(self, assignments: Sequence[Assignment], state: State, *, own: bool) -> dict[str, str]:
        """Make assignments: in the shell itself, or (`own` False) for one command, whose variables are returned."""
        overlay: dict[str, str] = {}
        for each in assignments:
            if not own:
                found = single(each.value, state, self._inside) if each.items is None else ((UNKNOWN,),)
                overlay[each.name] = found[0][0] if len(found) == 1 else UNKNOWN
                continue
            state.assign(each.name, self._value(each, state))
        return overlay

    def _value(self, each: Assignment, state: State) -> Alternatives:
        if each.element:
            single(each.value, state, self._inside)
            return ((UNKNOWN,),)
        before = state.values(each.name) if each.append else None
        if each.items is not None:
            made: Alternatives = tuple(map(tuple, combined([self._expand(word, state) for word in each.items])))
            return made if before is None else tuple((*old, *new) for old in before for new in made)
        made = single(each.value, state, self._inside)
        if not each.append:
            return made
        return tuple(((old or ("",))[0] + new[0], *old[1:]) for old in before or ((UNKNOWN,),) for new in made)

    def _declare(self, node: Command, state: State) -> None:
        self._assigned(node.assignments, state, own=True)
        names = [each.name for each in node.assignments]
        for fields in combined([self._expand(word, state) for word in node.words]):
            for field in fields:
                name, equals, value = field.partition("=")
                if equals and not name.startswith("-"):
                    state.assign(name, ((value,),))
                names.append(name)
        if node.declares == "export" or any("x" in name for name in names if name.startswith("-")):
            state.exported |= {name for name in names if not name.startswith("-")}

    def _redirects(
        self, redirects: Sequence[Redirect], state: State, stdin: str | None
    ) -> tuple[str | None, tuple[str, ...]]:
        writes: list[str] = []
        for each in redirects:
            if each.operator == "<" and len(each.target) == 1 and isinstance(each.target[0], Substitution):
                stdin = self.run(each.target[0].body, state.inner())
                continue
            targets = [value[0] for value in single(each.target, state, self._inside)]
            if each.operator == "<<":
                stdin = targets[0] if len(targets) == 1 else UNKNOWN
            elif each.operator == "<<<":
                stdin = targets[0] + "\n" if len(targets) == 1 else UNKNOWN
            elif each.operator == "<":
                stdin = FILE
            elif each.operator in _WRITING:
                writes += [target for target in targets if not target.isdigit() and target != "-"]
        return stdin, tuple(writes)

    def _written(self, writes: tuple[str, ...], state: State) -> None:
        """A program that does nothing but write what it is told: `> file`."""
        if writes:
            self._program((":",), state, None, writes, {})

    def _start(
        self, argv: list[str], state: State, stdin: str | None, writes: tuple[str, ...], overlay: Mapping[str, str]
    ) -> str:
        name = argv[0]
        if name in state.aliases:
            text = " ".join([state.aliases[name], *map(words.requoted, argv[1:])])
            inner = state.inner()
            inner.aliases.pop(name)
            self.text(text, inner, stdin)
            state.join(inner)
        if name in state.functions:
            self._call(argv, state, stdin)
        if BUILTINS.get(name) == "cd" and (name in state.functions or name in state.aliases):
            state.lost = True
            return ""
        while argv and argv[0] in _PLAIN_PREFIXES:
            argv = without_prefix(argv)
        if not argv:
            self._written(writes, state)
            return UNKNOWN
        if argv[0] in ("exit", "return"):
            state.ended = argv[0]
        if argv[0] in _SILENT:
            self._program((":", *argv[1:]), state, None, writes, {})
            return ""
        if overlay.get("CDPATH") and BUILTINS.get(argv[0]) == "cd":
            state.lost = True
            return ""
        builtin = getattr(self, "do_" + BUILTINS.get(argv[0], ""), None)
        if builtin is not None:
            said: str = builtin(argv, state, stdin)
            self._written(writes, state)
            return said
        return self._program(tuple(argv), state, stdin, writes, overlay)

    def _call(self, argv: list[str], state: State, stdin: str | None) -> None:
        before, state.positional = state.positional, tuple(argv[1:])
        self.run(state.functions[argv[0]], state, stdin)
        state.positional = before
        state.ended = "" if state.ended == "return" else state.ended

    def _program(
        self,
        argv: tuple[str, ...],
        state: State,
        stdin: str | None,
        writes: tuple[str, ...],
        overlay: Mapping[str, str],
    ) -> str:
        self.starts += 1
        if self.starts > _MOST_STARTS:
            raise ShellError("it starts too many programs")
        environment = dict(state.environment)
        for name, values in state.variables.items():
            if name in environment or name in state.exported:
                environment[name] = values[0][0] if len(values) == 1 and values[0] else UNKNOWN
        environment.update(overlay)
        made = Program(argv, environment, state.directory, state.lost, stdin, writes, state.feeds)
        return self.start(made)


# What fails so rarely that nobody writes the other case.
_SURE = frozenset({"true", ":", "echo", "printf", "export"})


def _either(one: State | None, other: State | None) -> State | None:
    """What is known where the shell goes on from one of two states."""
    if one is None or other is None or one is other:
        return one if other is None else other
    joined = one.inner()
    joined.join(other)
    return joined


def _literal_name(node: Node) -> str | None:
    """The name of the program or builtin that a command starts; None where it is none, or not written out."""
    if not isinstance(node, Command) or not node.words or len(node.words[0]) != 1:
        return None
    part = node.words[0][0]
    return part.text if isinstance(part, Text) else None
