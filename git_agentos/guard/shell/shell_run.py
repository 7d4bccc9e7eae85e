"""Running a shell text without running anything: which programs it would start, with which arguments.

Every branch is taken, loops over known words are run word by word, functions and `eval` are followed, and the output of
`echo`, `printf`, `cat` and whatever the starter knows goes through pipes, `$(…)` and `<(…)`. What cannot be known is
`UNKNOWN` in an argument (`words`); what cannot be followed is a ShellError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from git_agentos.guard.shell import words
from git_agentos.guard.shell.programs import without_prefix
from git_agentos.guard.shell.shell import parse
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
    Tried,
    While,
    Word,
)
from git_agentos.guard.shell.words import UNKNOWN

FILE = UNKNOWN + UNKNOWN
"""The input of a program that reads a file."""

_MOST_STARTS = 3000
_DEEPEST = 40
_MOST_OUTPUT = 1 << 16
# A text that is not known to its end goes on being parsed: this is a variable that nobody has set.
_HOLE = "AGENTOS_NOT_KNOWN_"
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


def script(text: str) -> str:
    """A text of which parts are not known, as a shell could read it."""
    return text.replace(UNKNOWN, "${" + _HOLE + "}")


class Shell:
    """Runs texts; each program that they start is handed to `start`."""

    def __init__(self, start: Start) -> None:
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
        return said if len(said) <= _MOST_OUTPUT else UNKNOWN

    def _run(self, node: Node, state: State, stdin: str | None) -> str:
        if isinstance(node, Command):
            return self._command(node, state, stdin)
        if isinstance(node, Chain):
            return "".join(self.run(part, state, stdin) for part in node.parts)
        if isinstance(node, Pipeline):
            for n, part in enumerate(node.parts):
                stdin = self.run(part, state.inner(), stdin if n == 0 else stdin or "")
            return stdin or ""
        if isinstance(node, Maybe | Tried):
            first, others = (node.first, node.branches) if isinstance(node, Maybe) else (node.parts[0], node.parts[1:])
            said = self.run(first, state, stdin)
            for branch in others:
                said += self._perhaps(branch, state, stdin)
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
            said = self.run(node.condition, inner, stdin) + self.run(node.body, inner, stdin)
            said += self.run(node.condition, inner, stdin) + self.run(node.body, inner, stdin)
            state.join(inner)
            return said and UNKNOWN
        state.functions[node.name] = node.body
        return ""

    def _perhaps(self, node: Node, state: State, stdin: str | None) -> str:
        inner = state.inner()
        said = self.run(node, inner, stdin)
        state.join(inner)
        return said

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
                self.run(node.body, inner, stdin)
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
        for argv in found:
            if argv:
                said += self._start(argv, state, stdin, writes, overlay)
        return "" if writes else said

    def _expand(self, word: Word, state: State) -> list[list[str]]:
        return expand(word, state, self.run)

    def _assigned(self, assignments: Sequence[Assignment], state: State, *, own: bool) -> dict[str, str]:
        """Make assignments: in the shell itself, or (`own` False) for one command, whose variables are returned."""
        overlay: dict[str, str] = {}
        for each in assignments:
            if not own:
                found = single(each.value, state, self.run) if each.items is None else ((UNKNOWN,),)
                overlay[each.name] = found[0][0] if len(found) == 1 else UNKNOWN
                continue
            state.assign(each.name, self._value(each, state))
        return overlay

    def _value(self, each: Assignment, state: State) -> Alternatives:
        if each.element:
            single(each.value, state, self.run)
            return ((UNKNOWN,),)
        before = state.values(each.name) if each.append else None
        if each.items is not None:
            made: Alternatives = tuple(map(tuple, combined([self._expand(word, state) for word in each.items])))
            return made if before is None else tuple((*old, *new) for old in before for new in made)
        made = single(each.value, state, self.run)
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
            targets = [value[0] for value in single(each.target, state, self.run)]
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
        while argv and argv[0] in _PLAIN_PREFIXES:
            argv = without_prefix(argv)
        if not argv:
            self._written(writes, state)
            return UNKNOWN
        if argv[0] in _SILENT:
            self._program((":", *argv[1:]), state, None, writes, {})
            return ""
        builtin = getattr(self, "_do_" + _BUILTINS.get(argv[0], ""), None)
        if builtin is not None:
            said: str = builtin(argv, state, stdin)
            self._written(writes, state)
            return said
        return self._program(tuple(argv), state, stdin, writes, overlay)

    def _call(self, argv: list[str], state: State, stdin: str | None) -> None:
        before, state.positional = state.positional, tuple(argv[1:])
        self.run(state.functions[argv[0]], state, stdin)
        state.positional = before

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

    # -- what the shell does itself

    def _do_cd(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002 (one form for all)
        targets = [word for word in argv[1:] if not (word.startswith("-") and word != "-") and not word.startswith("+")]
        if argv[0] == "popd" or (argv[0] == "pushd" and not targets):
            state.lost = True
            return ""
        target = targets[0] if targets else (state.values("HOME") or ((UNKNOWN,),))[0][0]
        if target == "-":
            target = (state.values("OLDPWD") or ((UNKNOWN,),))[0][0]
        state.assign("OLDPWD", ((UNKNOWN if state.lost else state.directory,),))
        self.move(state, target)
        return ""

    def move(self, state: State, target: str) -> None:
        """Go to a folder; where it is not there (yet), it is not known where the shell stands."""
        place = os.path.normpath(os.path.join(state.directory, target)) if words.known(target) else ""
        if place and os.path.isdir(place):
            state.lost = state.lost and not os.path.isabs(target)
            state.directory = place
        else:
            state.lost = True

    def _do_eval(self, argv: list[str], state: State, stdin: str | None) -> str:
        return self.text(" ".join(argv[1:]), state, stdin)

    def _do_source(self, argv: list[str], state: State, stdin: str | None) -> str:
        name = argv[1] if len(argv) > 1 else ""
        if name in state.feeds:
            return self.text(state.feeds[name], state, stdin)
        if name in ("/dev/stdin", "/dev/fd/0") and stdin is not None and stdin != FILE:
            return self.text(stdin, state)
        return UNKNOWN  # a file: it is not read

    def _do_trap(self, argv: list[str], state: State, stdin: str | None) -> str:
        words_ = [word for word in argv[1:] if word not in ("-p", "-l", "--")]
        if len(words_) > 1 and words_[0] not in ("-", ""):
            self._perhaps(parse(script(words_[0])), state, stdin)
        return ""

    def _do_alias(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        for word in argv[1:]:
            name, equals, value = word.partition("=")
            if equals:
                state.aliases[name] = value
        return ""

    def _do_hash(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        if argv[1:2] == ["-p"] and len(argv) > 3:
            state.aliases[argv[3]] = words.requoted(argv[2])
        return ""

    def _do_unset(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        for word in argv[1:]:
            if not word.startswith("-") and words.known(word):
                state.assign(word, (("",),))
        return ""

    def _do_set(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        rest = argv[1:]
        while rest and rest[0] != "--" and rest[0][:1] in ("-", "+"):
            rest = rest[2:] if rest[0] in ("-o", "+o") else rest[1:]
        if rest or "--" in argv:
            state.positional = tuple(rest[1:] if rest[:1] == ["--"] else rest)
        return ""

    def _do_shift(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        count = argv[1] if len(argv) > 1 else "1"
        if state.positional is not None:
            state.positional = state.positional[int(count) :] if count.isdigit() else None
        return ""

    def _do_read(self, argv: list[str], state: State, stdin: str | None) -> str:
        names = [word for word in argv[1:] if word.isidentifier()]
        line = (stdin or UNKNOWN).split("\n", 1)[0]
        fields = (
            line.split(None, max(len(names) - 1, 0)) if words.known(line) and "IFS" not in state.variables else None
        )
        many = argv[0] != "read" or any(word.startswith("-") and word not in ("-r", "-s") for word in argv[1:])
        for n, name in enumerate(names):
            value = UNKNOWN if fields is None or many else fields[n].strip() if n < len(fields) else ""
            # The next round of a loop reads another line.
            state.assign(name, ((value,),) if stdin and "\n" not in stdin.rstrip("\n") else ((UNKNOWN,),))
        return ""

    def _do_echo(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        rest = argv[1:]
        escapes = False
        while rest and rest[0].startswith("-") and rest[0][1:] and set(rest[0][1:]) <= set("neE"):
            escapes = "e" in rest[0]
            rest = rest[1:]
        text = " ".join(rest)
        return (words.ansi(text) if escapes and words.known(text) else text) + "\n"

    def _do_printf(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        if len(argv) > 2 and argv[1] == "-v":
            said = words.printf(argv[3:])
            state.assign(argv[2], ((UNKNOWN if said is None else said,),))
            return ""
        said = words.printf(argv[1:])
        return UNKNOWN if said is None else said

    def _do_pwd(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        return UNKNOWN if state.lost else state.directory + "\n"


_BUILTINS = {
    "cd": "cd", "pushd": "cd", "popd": "cd", "chdir": "cd", "eval": "eval", "source": "source", ".": "source",
    "trap": "trap", "alias": "alias", "hash": "hash", "unset": "unset", "set": "set", "shift": "shift", "read": "read",
    "mapfile": "read", "readarray": "read", "echo": "echo", "printf": "printf", "pwd": "pwd",
}  # fmt: skip
