"""The commands in a shell text, found without running anything: which programs it starts, with which arguments.

Literal text is followed: variables, functions, `eval` and `-c` texts, loops over words, here-documents, what `echo` and
`printf` print into a pipe, and `cd`. Every branch is taken. Everything else is `UNKNOWN` in an argument (`words`);
syntax that cannot be followed raises ShellError.
"""

from __future__ import annotations

from collections.abc import Iterable

from git_agentos.guard.shell import words
from git_agentos.guard.shell.builtins import BUILTINS, MOST_OUTPUT, script
from git_agentos.guard.shell.expansion import combined, commands_in, fields, literal, numbers_in, one_of
from git_agentos.guard.shell.simple_commands import SimpleCommands, Start
from git_agentos.guard.shell.state import ANY, State
from git_agentos.guard.shell.syntax import OR, Node, ShellError, parse
from git_agentos.guard.shell.words import UNKNOWN

_MOST_COMMANDS = 5000
_DEEPEST = 40
_MOST_ROUNDS = 8
# These practically never fail.
_SURE = frozenset({"true", ":", "echo", "printf", "export"})


class Reader(SimpleCommands):
    """Reads texts; each program that they start is given to `start`."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.commands = 0
        self.depth = 0

    def text(self, text: str, state: State, stdin: str | None = None) -> str:
        """Read a text; the result is what it prints."""
        return self.statements(parse(script(text)), state, stdin)

    def statements(self, found: Iterable[Node], state: State, stdin: str | None = None) -> str:
        # What follows `exit` is read, and changes nothing.
        printed = [self.statement(each, state.subshell() if state.ended else state, stdin) for each in found]
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
            inner = state.subshell() if node.get("Background") or node.get("Coprocess") else state
            output = self._statement(node, inner, stdin)
        finally:
            self.depth -= 1
        return output if len(output) <= MOST_OUTPUT else UNKNOWN

    def _statement(self, node: Node, state: State, stdin: str | None) -> str:
        command = node.get("Cmd")
        redirects = node.get("Redirs") or []
        kind = command["Type"] if command is not None else ""
        if command is not None and kind == "CallExpr":
            return self._command(command, redirects, state, stdin)
        stdin, writes = self._redirects(redirects, state, stdin)
        if command is None:
            self._written(writes, state)
            return stdin if stdin is not None and not writes else ""
        handle = getattr(self, "_of_" + kind.lower(), None)
        if handle is None:
            raise ShellError(f"it has a '{kind}' that is not supported")
        inner = state.subshell() if kind == "Subshell" else state
        output: str = handle(command, inner, stdin)
        self._written(writes, state)
        self.keep(writes, output, redirects, state)
        return "" if writes else output

    # -- compound commands

    def _of_block(self, node: Node, state: State, stdin: str | None) -> str:
        return self.statements(node.get("Stmts") or [], state, stdin)

    _of_subshell = _of_block

    def _of_binarycmd(self, node: Node, state: State, stdin: str | None) -> str:
        # A list nests to the left, as deep as it is long.
        is_pipe = node["Op"] in ("|", "|&")
        if not is_pipe and node["Op"] not in ("&&", "||"):
            raise ShellError(f"it has a '{node['Op']}' that is not supported")
        parts: list[Node] = [node["Y"]]
        operators: list[str] = [node["Op"]]
        left = node["X"]
        while (
            not any(left.get(key) for key in ("Redirs", "Negated", "Background", "Coprocess"))
            and (left.get("Cmd") or {}).get("Type") == "BinaryCmd"
            and (left["Cmd"]["Op"] in ("|", "|&")) == is_pipe
        ):
            parts.append(left["Cmd"]["Y"])
            operators.append(left["Cmd"]["Op"])
            left = left["Cmd"]["X"]
        parts = [left, *reversed(parts)]
        return self._pipeline(parts, state, stdin) if is_pipe else self._list(parts, operators[::-1], state, stdin)

    def _pipeline(self, parts: list[Node], state: State, stdin: str | None) -> str:
        inner = state
        for n, part in enumerate(parts):
            inner = state.subshell()
            given = stdin if n == 0 else UNKNOWN if OR in (stdin or "") else stdin or ""
            stdin = self.statement(part, inner, given)
        # Some shells run the last part in themselves.
        inner.ended = ""
        state.merge(inner)
        return stdin or ""

    def _list(self, parts: list[Node], operators: list[str], state: State, stdin: str | None) -> str:
        """`a && b || c`: the state afterwards joins those in which the list succeeds and fails."""
        output, success, failure = self._attempt(parts[0], state.subshell(), stdin)
        # What is printed if it succeeds, and if it fails: then it may be nothing.
        prints = ([output] if success else [], ["", output] if failure else [])
        for operator, part in zip(operators, parts[1:], strict=True):
            start, other = (success, failure) if operator == "&&" else (failure, success)
            # A part that is never reached is read all the same.
            more, then, otherwise = self._attempt(part, (start or other or state).subshell(), stdin)
            if start is None:
                then = otherwise = None
            before, rest = prints if operator == "&&" else prints[::-1]
            done, failed = [each + more for each in before], [text + m for text in before for m in ("", more)]
            done, failed = done if then else [], failed if otherwise else []
            prints = (done, rest + failed) if operator == "&&" else (rest + done, failed)
            success, failure = (
                (then, _merged(other, otherwise)) if operator == "&&" else (_merged(other, then), otherwise)
            )
        end = _merged(success, failure)
        if end is None:
            state.ended = "exit"
        else:
            state.replace_with(end)
        return one_of([text if text.count(OR) == 0 else UNKNOWN for text in (*prints[0], *prints[1])])

    def _attempt(self, node: Node, state: State, stdin: str | None) -> tuple[str, State | None, State | None]:
        """Read a part; the result is what it prints, and the states if it succeeds and if it fails, None if it does
        not."""
        before = state.subshell()
        output = self.statement(node, state, stdin)
        if state.ended:
            return output, None, None
        success: State | None = state
        failure: State | None = state
        name = _name(node)
        if name is None or name in before.functions or name in before.aliases:
            return output, success, failure
        if name in _SURE:
            failure = None
        elif name == "false":
            success = None
        elif BUILTINS.get(name) == "cd":
            failure = before if state.cwd_unknown else None
        return (output, failure, success) if node.get("Negated") else (output, success, failure)

    def _of_ifclause(self, node: Node, state: State, stdin: str | None) -> str:
        condition = node.get("Cond") or []
        if not condition:  # else
            return self.statements(node.get("Then") or [], state, stdin)
        output = self.statements(condition[:-1], state, stdin)
        more, success, failure = self._attempt(condition[-1], state.subshell() if state.ended else state, stdin)
        then, otherwise = (success or state).subshell(), (failure or state).subshell()
        printed = [self.statements(node.get("Then") or [], then, stdin)]
        printed.append(self._of_ifclause(node["Else"], otherwise, stdin) if node.get("Else") else "")
        output = one_of(printed) if not output + more else UNKNOWN
        end = _merged(then if success is not None else None, otherwise if failure is not None else None)
        if end is None:
            state.ended = "exit"
        else:
            state.replace_with(end)
        return output

    def _of_whileclause(self, node: Node, state: State, stdin: str | None) -> str:
        return self._loop([*(node.get("Cond") or []), *(node.get("Do") or [])], state, stdin)

    def _of_forclause(self, node: Node, state: State, stdin: str | None) -> str:
        loop, body = node["Loop"], node.get("Do") or []
        if loop["Type"] != "WordIter":
            numbers_in(loop, state, self._inside)
            return self._loop(body, state, stdin)
        name = loop["Name"]["Value"]
        if "InPos" in loop or loop.get("Items"):
            given = combined([fields(word, state, self._inside) for word in loop.get("Items") or []])
        else:
            given = [list(state.positional) if state.positional is not None else [UNKNOWN]]
        inner = state.subshell()
        left: list[State] = []
        for item in (item for items in given for item in items):
            inner.assign(name, ((item,),))
            if words.known(item) and not node.get("Select"):
                self._round(body, inner, stdin, left)
            else:
                self._loop(body, inner, stdin)
        for each in (inner, *left):
            state.merge(each)
        return UNKNOWN

    def _loop(self, body: list[Node], state: State, stdin: str | None) -> str:
        """Read rounds, as long as one leads to a new state."""
        output = ""
        left: list[State] = []
        for n in range(_MOST_ROUNDS):
            before = state.snapshot()
            inner = state.subshell()
            if n == _MOST_ROUNDS - 1:
                inner.forget_variables()
                inner.cwd_unknown = True
            output += self._round(body, inner, stdin, left)
            for each in (inner, *left):
                state.merge(each)
            if state.snapshot() == before:
                break
        return output and UNKNOWN

    def _round(self, body: list[Node], state: State, stdin: str | None, left: list[State]) -> str:
        """Read one round of a loop. The states in which the loop is left are added to `left`. A round that ends the
        shell is not taken as the last."""
        before, outer = state.subshell(), state.left_loop
        state.left_loop = left
        output = self.statements(body, state, stdin)
        if state.ended:
            state.replace_with(before)
        for each in left:
            state.merge(each)
        state.left_loop = outer
        return output

    def _of_caseclause(self, node: Node, state: State, stdin: str | None) -> str:
        fields(node["Word"], state, self._inside)
        begin, printed, falls = state.subshell(), [], False
        ends: list[State] = []
        complete = False
        for item in node.get("Items") or []:
            inner = begin.subshell()
            if falls:
                inner.merge(ends[-1])
            for pattern in item["Patterns"]:
                complete = complete or literal(pattern) == "*"
                commands_in(pattern, state, self._inside)
            output = self.statements(item.get("Stmts") or [], inner, stdin)
            printed.append(UNKNOWN if falls else output)
            ends.append(inner)
            falls = item.get("Op", ";;") != ";;"
        first, *rest = ends if complete else [begin, *ends]
        for each in rest:
            first.merge(each)
        state.replace_with(first)
        return one_of(printed if complete else [*printed, ""])

    def _of_funcdecl(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002 (one form for all)
        names = [node["Name"]] if node.get("Name") else node.get("Names") or []
        if not names:
            raise ShellError("it has a function without a name that is not supported")
        for name in names:
            state.functions[name["Value"]] = (node["Body"],)
        return ""

    def _of_timeclause(self, node: Node, state: State, stdin: str | None) -> str:
        return self.statement(node["Stmt"], state, stdin) if node.get("Stmt") else ""

    def _of_coprocclause(self, node: Node, state: State, stdin: str | None) -> str:
        self.statement(node["Stmt"], state.subshell(), stdin)
        return ""

    def _of_testclause(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002
        commands_in(node, state, self._inside)
        return ""

    def _of_arithmcmd(self, node: Node, state: State, stdin: str | None) -> str:  # noqa: ARG002
        numbers_in(node, state, self._inside)
        return ""

    _of_letclause = _of_arithmcmd

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
        return self.statements(found, state.subshell(), stdin)

    def perhaps(self, text: str, state: State, stdin: str | None) -> None:
        """Read a text that may run at any time, or never."""
        inner = state.subshell()
        self.text(text, inner, stdin)
        state.merge(inner)


def _merged(one: State | None, other: State | None) -> State | None:
    """The state after either of two."""
    if one is None or other is None or one is other:
        return one if other is None else other
    joined = one.subshell()
    joined.ended = one.ended
    joined.merge(other)
    return joined


def _name(node: Node) -> str | None:
    """The name of the program or builtin that a command starts; None if it starts none, or the name is not literal."""
    command = node.get("Cmd") or {}
    if command.get("Type") == "DeclClause":
        return str(command["Variant"]["Value"])
    if command.get("Type") != "CallExpr" or not command.get("Args"):
        return None
    return literal(command["Args"][0])
