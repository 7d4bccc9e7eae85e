"""Simple commands: assignments, redirections, functions, builtins, and the programs that a shell starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from git_agentos.guard.shell import builtins, words
from git_agentos.guard.shell.builtins import BUILTINS, DECLARING, SILENT, Builtins
from git_agentos.guard.shell.expansion import combined, commands_in, document, fields, numbers_in, one_of, single
from git_agentos.guard.shell.runners import without_prefix
from git_agentos.guard.shell.state import ANY, Alternatives, State
from git_agentos.guard.shell.syntax import OR, Node, ShellError
from git_agentos.guard.shell.words import FILE, UNKNOWN

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>", "&>|", ">!", ">>|", "&>!"})
_PLAIN_PREFIXES = frozenset({"!", "command", "builtin", "exec", "time", "coproc", "noglob", "nocorrect", "-"})


class Program(NamedTuple):
    """A program that a shell text starts. `cwd_unknown`: `directory` may be another. `stdin` is what it reads, None if
    it reads the shell's own input; `writes` are the files that its output goes to; `file_contents` are those of the
    text's state."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    cwd_unknown: bool = False
    stdin: str | None = None
    writes: tuple[str, ...] = ()
    file_contents: Mapping[str, str] = {}


Start = Callable[[Program], str]
"""Takes note of a program, and returns what it prints; UNKNOWN where that is not known."""


class SimpleCommands(Builtins):
    """Splits simple commands; each program that they start is given to `start`."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start

    def statement(self, node: Node, state: State, stdin: str | None = None) -> str:
        raise NotImplementedError

    def _inside(self, found: list[Node], state: State, stdin: str | None = None) -> str:
        raise NotImplementedError

    def _command(self, node: Node, redirects: list[Node], state: State, stdin: str | None) -> str:
        stdin, writes = self._redirects(redirects, state, stdin)
        found = combined([fields(word, state, self._inside) for word in node.get("Args") or []])
        overlay = {}
        for each in node.get("Assigns") or []:
            value = self._value(each, state)
            if node.get("Args"):
                overlay[each["Name"]["Value"]] = value[0][0] if len(value) == 1 and value[0] else UNKNOWN
            else:
                state.assign(each["Name"]["Value"], value)
        if not node.get("Args"):
            self._written(writes, state)
            return stdin if stdin is not None and not writes else ""
        printed, begin, ends = [], state.subshell(), []
        for argv in found:
            # One of the commands that it may be: each begins in the same state.
            inner = begin.subshell()
            if argv:
                printed.append(self._start(argv, inner, stdin, writes, overlay))
            else:
                self._written(writes, inner)
            ends.append(inner)
        state.replace_with(ends[0])
        for end in ends[1:]:
            state.merge(end)
        output = one_of(printed)
        self.keep(writes, output, redirects, state)
        return "" if writes else output

    def _value(self, node: Node, state: State) -> Alternatives:
        """The value of an assignment."""
        numbers_in(node.get("Index"), state, self._inside)
        before = state.values(node["Name"]["Value"]) if node.get("Append") else None
        made: Alternatives
        if node.get("Array"):
            elements = node["Array"].get("Elems") or []
            made = tuple(
                map(tuple, combined([fields(e["Value"], state, self._inside) for e in elements if e.get("Value")]))
            )
            if any(each.get("Index") for each in elements):
                commands_in([each.get("Index") for each in elements], state, self._inside)
                made = ANY
            return made if before is None else tuple((*old, *new) for old in before for new in made)
        made = single(node.get("Value"), state, self._inside)
        if node.get("Index"):
            return ANY
        if not node.get("Append"):
            return made
        return tuple(((old or ("",))[0] + new[0], *old[1:]) for old in before or ANY for new in made)

    def _redirects(self, redirects: list[Node], state: State, stdin: str | None) -> tuple[str | None, tuple[str, ...]]:
        writes: list[str] = []
        for each in redirects:
            operator = each["Op"]
            given: str | None = None
            if operator in ("<<", "<<-"):
                given = document(each, state, self._inside)
            else:
                targets = [value[0] for value in single(each.get("Word"), state, self._inside)]
                target = targets[0] if len(targets) == 1 else UNKNOWN
                if operator == "<<<":
                    given = target + "\n"
                elif operator == "<":
                    given = state.file_contents.get(target, FILE)
                elif operator == "<&":
                    given = UNKNOWN if target not in ("-", "0") else None
                elif operator in _WRITING:
                    writes += [t for t in targets if not t.isdigit() and t != "-" and t not in state.file_contents]
                else:
                    raise ShellError(f"it has a '{operator}' that is not supported")
            if given is not None and (each.get("N") or {}).get("Value", "0") == "0":
                stdin = given
        return stdin, tuple(writes)

    def keep(self, writes: tuple[str, ...], output: str, redirects: list[Node], state: State) -> None:
        """Remember the contents of a file that the text writes: it may be run."""
        output = UNKNOWN if OR in output else output
        adds = any(each["Op"] in (">>", "&>>", "<>") for each in redirects)
        for name in writes:
            path = builtins.resolve_path(name, state)
            if path is not None:
                state.file_contents[path] = state.file_contents.get(path, "") + output if adds else output

    def starts(self, argv: tuple[str, ...], state: State) -> None:
        self._program(argv, state, None, (), {})

    def _written(self, writes: tuple[str, ...], state: State) -> None:
        """A redirection without a program: `> file`."""
        if writes:
            self._program((":",), state, None, writes, {})

    def _start(
        self, argv: list[str], state: State, stdin: str | None, writes: tuple[str, ...], overlay: Mapping[str, str]
    ) -> str:
        name = argv[0]
        if name in state.aliases:
            text = " ".join([state.aliases[name], *map(words.requoted, argv[1:])])
            inner = state.subshell()
            inner.aliases.pop(name)
            self.text(text, inner, stdin)
            state.merge(inner)
        if name in state.functions:
            self._call(argv, state, stdin)
        if BUILTINS.get(name) == "cd" and (name in state.functions or name in state.aliases):
            state.cwd_unknown = True
            return ""
        if argv[:2] == ["command", "-v"] and len(argv) == 3:
            self._written(writes, state)
            return argv[2] + "\n"
        while argv and argv[0] in _PLAIN_PREFIXES:
            argv = without_prefix(argv)
        if not argv:
            self._written(writes, state)
            return UNKNOWN
        if argv[0] in ("exit", "return", "break", "continue"):
            _leave(argv[0], state)
        if argv[0] in SILENT:
            self._program((":", *argv[1:]), state, None, writes, {})
            return ""
        if overlay.get("CDPATH") and BUILTINS.get(argv[0]) == "cd":
            state.cwd_unknown = True
            return ""
        how = "declare" if argv[0] in DECLARING else BUILTINS.get(argv[0], "")
        builtin = getattr(self, "do_" + how, None)
        if builtin is not None:
            output: str = builtin(argv, state, stdin)
            self._written(writes, state)
            return output
        return self._program(tuple(argv), state, stdin, writes, overlay)

    def _call(self, argv: list[str], state: State, stdin: str | None) -> None:
        """Call a function: any of those that it may be."""
        begin, ends = state.subshell(), []
        for body in begin.functions[argv[0]]:
            inner = begin.subshell()
            inner.positional, inner.left_function, inner.local = tuple(argv[1:]), [], set()
            self.statement(body, inner, stdin)
            if inner.ended == "return":
                inner.ended = "exit"  # `left_function` has the states in which it was left
            for each in inner.left_function or []:
                inner.merge(each)
            for name in inner.local or ():
                inner.variables[name] = ANY
            ends.append(inner)
        state.replace_with(ends[0])
        for end in ends[1:]:
            state.merge(end)
        state.positional, state.left_function, state.local = begin.positional, begin.left_function, begin.local

    def _program(
        self,
        argv: tuple[str, ...],
        state: State,
        stdin: str | None,
        writes: tuple[str, ...],
        overlay: Mapping[str, str],
    ) -> str:
        environment = dict(state.environment)
        for name, values in state.variables.items():
            if name in environment or name in state.exported:
                if all(not value for value in values):
                    environment.pop(name, None)
                else:
                    environment[name] = values[0][0] if len(values) == 1 and values[0] else UNKNOWN
        environment.update(overlay)
        return self.start(
            Program(argv, environment, state.directory, state.cwd_unknown, stdin, writes, state.file_contents)
        )


def _leave(how: str, state: State) -> None:
    """`exit`, `return`, `break` and `continue`, if they do something here."""
    left = state.left_function if how == "return" else state.left_loop
    if how == "exit":
        state.ended = how
    elif left is not None:
        left.append(state.subshell())
        state.ended = how
