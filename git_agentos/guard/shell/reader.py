"""The commands in a shell text, found without running anything: which programs it starts, with which arguments.

Every command is read, in the order of the text, and every branch. Literal text is followed: variables, functions,
`eval` and `-c` texts, loops over words, here-documents, what `echo` and `printf` print into a pipe, and `cd`. What runs
perhaps leaves alternatives: the values of a variable with it and without it. Everything else is `UNKNOWN` in an
argument (`words`); syntax that cannot be followed raises ShellError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell import builtins, words
from git_agentos.guard.shell.builtins import BUILTINS, DECLARING, MOST_OUTPUT, SILENT, Builtins, script
from git_agentos.guard.shell.expansion import combined, commands_in, document, fields, literal, one_of, single, some_of
from git_agentos.guard.shell.runners import without_prefix
from git_agentos.guard.shell.state import ANY, UNSET, Alternatives, State, after_any, checked
from git_agentos.guard.shell.syntax import OR, Node, ShellError, parse
from git_agentos.guard.shell.words import FILE
from git_agentos.util.named_tuple import NamedTuple

_MOST_COMMANDS = 5000
_DEEPEST = 40
# These practically never fail.
_SURE = frozenset({"true", ":", "echo", "printf", "export"})
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


class Reader(Builtins):
    """Reads texts; each program that they start is given to `start`."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start
        self.commands = 0
        self.depth = 0

    def text(self, text: str, state: State, stdin: str | None = None) -> str:
        """Read a text; the result is what it prints."""
        return self.statements(parse(script(text)), state, stdin)

    def statements(self, found: Iterable[Node], state: State, stdin: str | None = None) -> str:
        printed = [self.statement(each, state, stdin) for each in found]
        output = "".join(printed)
        return UNKNOWN if OR in output and len(list(filter(None, printed))) > 1 else output

    def statement(self, node: Node, state: State, stdin: str | None = None) -> str:
        self.depth += 1
        self.commands += 1
        if self.depth > _DEEPEST:
            raise ShellError("its commands are nested too deeply")
        if self.commands > _MOST_COMMANDS:
            raise ShellError("it runs too many commands")
        try:
            inner = state.copy() if node.get("Background") or node.get("Coprocess") else state
            output = self._statement(node, inner, stdin)
        finally:
            self.depth -= 1
        return output if len(output) <= MOST_OUTPUT else UNKNOWN

    def _statement(self, node: Node, state: State, stdin: str | None) -> str:
        command, redirects = node.get("Cmd"), node.get("Redirs") or []
        stdin, writes = self._redirects(redirects, state, stdin)
        if command is None:
            self._write(writes, state)
            return "" if writes else stdin or ""
        kind = command["Type"]
        if kind == "CallExpr":
            output = self._simple(command, state, stdin, writes)
        else:
            handle = getattr(self, "_of_" + kind.lower(), None)
            if handle is None:
                raise ShellError(f"it has a '{kind}' that is not supported")
            output = handle(command, state.copy() if kind == "Subshell" else state, stdin)
            self._write(writes, state)
        self._keep(writes, output, redirects, state)
        return "" if writes else output

    # -- compound commands -----------------------------------------------------------------------------------------

    def _of_block(self, node: Node, state: State, stdin: str | None) -> str:
        return self.statements(node.get("Stmts") or [], state, stdin)

    _of_subshell = _of_block

    def _of_binarycmd(self, node: Node, state: State, stdin: str | None) -> str:
        # A list nests to the left, as deep as it is long.
        is_pipe = node["Op"] in ("|", "|&")
        if not is_pipe and node["Op"] not in ("&&", "||"):
            raise ShellError(f"it has a '{node['Op']}' that is not supported")
        rest, left = [(node["Op"], node["Y"])], node["X"]
        while (
            not any(left.get(key) for key in ("Redirs", "Negated", "Background", "Coprocess"))
            and (left.get("Cmd") or {}).get("Type") == "BinaryCmd"
            and (left["Cmd"]["Op"] in ("|", "|&")) == is_pipe
        ):
            rest.insert(0, (left["Cmd"]["Op"], left["Cmd"]["Y"]))
            left = left["Cmd"]["X"]
        return (self._pipeline if is_pipe else self._list)(left, rest, state, stdin)

    def _pipeline(self, first: Node, rest: list[tuple[str, Node]], state: State, stdin: str | None) -> str:
        output = self.statement(first, inner := state.copy(), stdin)
        for _, part in rest:
            output = self.statement(part, inner := state.copy(), UNKNOWN if OR in output else output)
        # Some shells run the last part in themselves.
        state.merge(inner)
        return output

    def _list(self, first: Node, rest: list[tuple[str, Node]], state: State, stdin: str | None) -> str:
        """`a && b || c`: each part begins where those before it have succeeded, or failed."""
        success = state.copy()
        failures: list[State] = []
        printed = []
        for operator, part in [("&&", first), *rest]:
            before = after_any(failures) if operator == "||" and failures else success
            branch = before.copy()
            printed.append(self.statement(part, branch, stdin))
            failed = [] if self._is_sure(part, branch) else [branch]
            if operator == "&&":
                success, failures = branch, failures + failed
            elif failures:  # else the part is never reached
                success, failures = after_any([success, branch]), failed
        state.become([success, *failures])
        return some_of(printed)

    def _is_sure(self, node: Node, state: State) -> bool:
        """Whether a command that has led to `state` practically never fails."""
        name = _name(node)
        is_sure = name in _SURE or (BUILTINS.get(name or "") == "cd" and not state.cwd_unknown)
        return is_sure and not (node.get("Negated") or name in self.functions or name in self.aliases)

    def _of_ifclause(self, node: Node, state: State, stdin: str | None) -> str:
        condition = node.get("Cond") or []
        output = self.statements(condition, state, stdin)
        then, otherwise = state.copy(), state.copy()
        printed = [self.statements(node.get("Then") or [], then, stdin)]
        if condition:
            printed.append(self._of_ifclause(node["Else"], otherwise, stdin) if node.get("Else") else "")
            state.become([then, otherwise])
        else:  # it is an `else`
            state.become([then])
        return one_of(printed) if not output else UNKNOWN

    def _of_whileclause(self, node: Node, state: State, stdin: str | None) -> str:
        return self._loop([*(node.get("Cond") or []), *(node.get("Do") or [])], state, stdin)

    def _of_forclause(self, node: Node, state: State, stdin: str | None) -> str:
        loop, body = node["Loop"], node.get("Do") or []
        if loop["Type"] != "WordIter":
            commands_in(loop, state, self._inside)
            return self._loop(body, state, stdin)
        name = loop["Name"]["Value"]
        if "InPos" in loop or loop.get("Items"):
            given = combined([fields(word, state, self._inside) for word in loop.get("Items") or []])
        else:
            given = [list(state.positional) if state.positional is not None else [UNKNOWN]]
        inner = state.copy()
        for item in (item for items in given for item in items):
            inner.variables[name] = ((item,),)
            if words.known(item) and not node.get("Select"):
                self.statements(body, inner, stdin)
            else:
                self._loop(body, inner, stdin)
        inner.may_have_left = state.may_have_left
        state.merge(inner)
        return UNKNOWN

    def _loop(self, body: list[Node], state: State, stdin: str | None) -> str:
        """Read a first round, and a second one for all others: what the first has changed may be anything in it."""
        first = state.copy()
        output = self.statements(body, first, stdin)
        other = state.copy()
        other.merge(first)
        for name, values in first.variables.items():
            if values != (state.values(name) or UNSET):
                other.variables[name] = (*other.variables[name], *ANY)
        other.may_have_left = first.may_have_left = state.may_have_left
        state.merge(first)
        self.statements(body, other, stdin)
        other.may_have_left = state.may_have_left
        state.merge(other)
        return output and UNKNOWN

    def _of_caseclause(self, node: Node, state: State, stdin: str | None) -> str:
        fields(node["Word"], state, self._inside)
        ends: list[State] = []
        printed: list[str] = []
        falls = complete = False
        for item in node.get("Items") or []:
            inner = state.copy()
            if falls:
                inner.merge(ends[-1])
            complete = complete or any(literal(pattern) == "*" for pattern in item["Patterns"])
            commands_in(item["Patterns"], state, self._inside)
            output = self.statements(item.get("Stmts") or [], inner, stdin)
            printed.append(UNKNOWN if falls else output)
            ends.append(inner)
            falls = item.get("Op", ";;") != ";;"
        state.become(ends if complete else [state, *ends])
        return one_of(printed if complete else [*printed, ""])

    def _of_funcdecl(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002 (one form for all)
        names = [node["Name"]] if node.get("Name") else node.get("Names") or []
        if not names:
            raise ShellError("it has a function without a name that is not supported")
        for name in names:
            self.functions.setdefault(name["Value"], []).append(node["Body"])
        return ""

    def _of_timeclause(self, node: Node, state: State, stdin: str | None) -> str:
        return self.statement(node["Stmt"], state, stdin) if node.get("Stmt") else ""

    def _of_coprocclause(self, node: Node, state: State, stdin: str | None) -> str:
        self.statement(node["Stmt"], state.copy(), stdin)
        return ""

    def _of_testclause(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002
        commands_in(node, state, self._inside)
        return ""

    _of_arithmcmd = _of_letclause = _of_testclause

    def _of_declclause(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002
        made = [node["Variant"]["Value"]]
        for each in node.get("Args") or []:
            if not each.get("Name"):
                made += [field for found in fields(each["Value"], state, self._inside) for field in found]
            else:
                made.append(each["Name"]["Value"])
                if not each.get("Naked"):
                    value = self._value(each, state)
                    # `declare -a x='(a b)'` makes an array of it.
                    is_array = any(text.startswith("(") for texts in value for text in texts)
                    state.assign(each["Name"]["Value"], ANY if is_array else value)
        self.do_declare(made, state, None)
        return ""

    def _inside(self, found: list[Node], state: State, stdin: str | None = None) -> str:
        """What a substitution prints: it is a subshell."""
        return self.statements(found, state.copy(), stdin)

    # -- simple commands -------------------------------------------------------------------------------------------

    def _simple(self, node: Node, state: State, stdin: str | None, writes: tuple[str, ...]) -> str:
        found = combined([fields(word, state, self._inside) for word in node.get("Args") or []])
        overlay = {}
        for each in node.get("Assigns") or []:
            name, value = each["Name"]["Value"], self._value(each, state)
            if node.get("Args"):
                overlay[name] = value[0][0] if len(value) == 1 and value[0] else UNKNOWN
            else:
                state.assign(name, value)
        printed, ends = [], []
        for argv in found:
            # One of the commands that it may be: each begins in the same state.
            inner = state.copy()
            if argv:
                printed.append(self._start(argv, inner, stdin, writes, overlay))
            else:
                self._write(writes, inner)
            ends.append(inner)
        state.become(ends)
        return one_of(printed)

    def _value(self, node: Node, state: State) -> Alternatives:
        """The value of an assignment."""
        commands_in(node.get("Index"), state, self._inside)
        name = node["Name"]["Value"]
        before = state.values(name) if node.get("Append") else None
        if node.get("Array"):
            elements = node["Array"].get("Elems") or []
            commands_in([each.get("Index") for each in elements], state, self._inside)
            found = combined([fields(e["Value"], state, self._inside) for e in elements if e.get("Value")])
            made = ANY if any(each.get("Index") for each in elements) else tuple(map(tuple, found))
            return made if before is None else tuple((*old, *new) for old in before for new in made)
        made = checked(name, single(node.get("Value"), state, self._inside))
        if node.get("Index"):
            return ANY
        if not node.get("Append"):
            return made
        return tuple(((old or ("",))[0] + new[0], *old[1:]) for old in before or ANY for new in made)

    def _redirects(self, redirects: list[Node], state: State, stdin: str | None) -> tuple[str | None, tuple[str, ...]]:
        """What a command reads, and the files that it writes to."""
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

    def _keep(self, writes: tuple[str, ...], output: str, redirects: list[Node], state: State) -> None:
        """Remember the contents of a file that the text writes: it may be run."""
        output = UNKNOWN if OR in output else output
        adds = any(each["Op"] in (">>", "&>>", "<>") for each in redirects)
        for name in writes:
            path = builtins.resolve_path(name, state.directory)
            if path:
                state.file_contents[path] = state.file_contents.get(path, "") + output if adds else output

    def _write(self, writes: tuple[str, ...], state: State) -> None:
        """A redirection without a program: `> file`."""
        if writes:
            self._program((":",), state, None, writes, {})

    def _start(
        self, argv: list[str], state: State, stdin: str | None, writes: tuple[str, ...], overlay: Mapping[str, str]
    ) -> str:
        name = argv[0]
        is_redefined = name in self.functions or bool(self.aliases.get(name))
        self._expand_alias(argv, state, stdin)
        if name in self.functions:
            self._call(argv, state, stdin)
        if BUILTINS.get(name) == "cd" and (is_redefined or overlay.get("CDPATH")):
            state.cwd_unknown = True
            return ""
        if argv[:2] == ["command", "-v"] and len(argv) == 3:
            self._write(writes, state)
            return argv[2] + "\n"
        while argv and argv[0] in _PLAIN_PREFIXES:
            argv = without_prefix(argv)
        if not argv:
            self._write(writes, state)
            return UNKNOWN
        if argv[0] in SILENT:
            leaves = argv[0] in ("break", "continue") or (argv[0] == "return" and state.local is not None)
            state.may_have_left = state.may_have_left or leaves
            self._program((":", *argv[1:]), state, None, writes, {})
            return ""
        builtin = getattr(self, "do_" + ("declare" if argv[0] in DECLARING else BUILTINS.get(argv[0], "")), None)
        if builtin is not None:
            output: str = builtin(argv, state, stdin)
            self._write(writes, state)
            return output
        return self._program(tuple(argv), state, stdin, writes, overlay)

    def _expand_alias(self, argv: list[str], state: State, stdin: str | None) -> None:
        """Read what an alias stands for, in which the alias itself is none."""
        texts = self.aliases.pop(argv[0], [])
        try:
            for text in texts:
                self.perhaps(" ".join([text, *map(words.requoted, argv[1:])]), state, stdin)
        finally:
            if texts:
                self.aliases[argv[0]] = texts

    def _call(self, argv: list[str], state: State, stdin: str | None) -> None:
        """Call a function: any of those that it may be."""
        outer, ends = state.copy(), []
        for body in self.functions[argv[0]]:
            inner = state.copy()
            inner.positional, inner.may_have_left, inner.local = tuple(argv[1:]), False, set()
            self.statement(body, inner, stdin)
            inner.variables |= dict.fromkeys(inner.local, ANY)
            ends.append(inner)
        state.become(ends)
        state.positional, state.may_have_left, state.local = outer.positional, outer.may_have_left, outer.local

    def perhaps(self, text: str, state: State, stdin: str | None) -> None:
        """Read a text that may run at any time, or never."""
        inner = state.copy()
        self.text(text, inner, stdin)
        state.merge(inner)

    def starts(self, argv: tuple[str, ...], state: State) -> None:
        self._program(argv, state, None, (), {})

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


def _name(node: Node) -> str | None:
    """The name of the program or builtin that a command starts; None if it starts none, or the name is not literal."""
    command = node.get("Cmd") or {}
    if command.get("Type") == "DeclClause":
        return str(command["Variant"]["Value"])
    if command.get("Type") != "CallExpr" or not command.get("Args"):
        return None
    return literal(command["Args"][0])
