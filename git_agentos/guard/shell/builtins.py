"""What a shell does itself, without starting a program: `cd`, `read`, `alias` and the like, on a `State`."""

from __future__ import annotations

import os

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.paths import is_below
from git_agentos.guard.shell import words
from git_agentos.guard.shell.state import ANY, UNSET, State
from git_agentos.guard.shell.syntax import Node, ShellError
from git_agentos.guard.shell.words import FILE

MOST_OUTPUT = 1 << 16
DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset", "integer", "float"})
SILENT = frozenset(
    """: true false [ test let shopt unalias wait return exit break continue umask ulimit jobs fg bg disown kill
    times logout history bind complete compopt enable dirs setopt unsetopt autoload""".split()
)
# Unknown parts of a text are parsed as this variable, which is never set.
_HOLE = "AGENTOS_NOT_KNOWN_"
_READ_FOR_VARIABLES = frozenset({"activate", ".bashrc", ".bash_profile", ".profile", ".zshrc", "nvm.sh"})


def script(text: str) -> str:
    """A text of which parts are unknown, as a shell could parse it."""
    return text.replace(UNKNOWN, "${" + _HOLE + "}")


class Builtins:
    """The builtins of a shell; `text` reads the text that one of them runs."""

    def __init__(self) -> None:
        self.changed: set[str] = set()  # folders that programs delete or move
        # Every definition in the text: which of them is the last, and in which shells it is known, is not followed.
        self.functions: dict[str, list[Node]] = {}
        self.aliases: dict[str, list[str]] = {}

    def text(self, text: str, state: State, stdin: str | None = None) -> str:
        raise NotImplementedError

    def starts(self, argv: tuple[str, ...], state: State) -> None:
        """Add a script that runs and is not read."""
        raise NotImplementedError

    def perhaps(self, text: str, state: State, stdin: str | None) -> None:
        raise NotImplementedError

    def do_cd(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002 (one form for all)
        targets = [word for word in argv[1:] if not (word.startswith("-") and word != "-") and not word.startswith("+")]
        if argv[0] == "popd" or (argv[0] == "pushd" and not targets) or len(targets) > 1:
            state.cwd_unknown = True
            return ""
        target = targets[0] if targets else state.value_of("HOME")
        if target == "-":
            target = state.value_of("OLDPWD")
        state.assign("OLDPWD", ((UNKNOWN if state.cwd_unknown else state.directory,),))
        if state.value_of("CDPATH") not in ("", UNKNOWN) or "CDPATH" in state.variables:
            target = target if target.startswith(("/", "./", "../")) or target in (".", "..") else UNKNOWN
        self.move(state, target, physical="-P" in argv)
        return ""

    def move(self, state: State, target: str, *, physical: bool = False) -> None:
        """Change the folder. It becomes unknown if the target does not exist (yet), or if an earlier command may have
        removed it."""
        path = os.path.join(state.directory, target) if words.known(target) else ""
        if path:
            path = os.path.realpath(path) if physical else os.path.normpath(path)
        if path and os.path.isdir(path) and not any(is_below(path, changed) for changed in self.changed):
            state.cwd_unknown = (state.cwd_unknown and not os.path.isabs(target)) or state.may_have_left
            state.directory = path
        else:
            state.cwd_unknown = True

    def do_eval(self, argv: list[str], state: State, stdin: str | None) -> str:
        return self.text(" ".join(argv[1:]), state, stdin)

    def do_source(self, argv: list[str], state: State, stdin: str | None) -> str:
        name = argv[1] if len(argv) > 1 else ""
        given = state.file_contents.get(name, state.file_contents.get(resolve_path(name, state.directory)))
        if given is not None and given != FILE:
            return self.text(given, state, stdin)
        if name in ("/dev/stdin", "/dev/fd/0") and stdin is not None and stdin != FILE:
            return self.text(stdin, state)
        # The file is not read, so what it sets is unknown. Its git commands are assessed when it runs.
        state.forget_variables()
        if name not in _READ_FOR_VARIABLES and os.path.basename(name) not in _READ_FOR_VARIABLES:
            self.starts(tuple(argv), state)
            state.cwd_unknown = True
        return UNKNOWN

    def do_trap(self, argv: list[str], state: State, stdin: str | None) -> str:
        words_ = [word for word in argv[1:] if word not in ("-p", "-l", "--")]
        if len(words_) > 1 and words_[0] not in ("-", ""):
            self.perhaps(words_[0], state, stdin)
        return ""

    def do_alias(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        for word in argv[1:]:
            name, equals, value = word.partition("=")
            if equals:
                self.aliases.setdefault(name, []).append(value)
        return ""

    def do_hash(self, argv: list[str], state: State, stdin: str | None) -> str:
        if argv[1:2] == ["-p"] and len(argv) > 3:
            self.do_alias(["alias", f"{argv[3]}={words.requoted(argv[2])}"], state, stdin)
        return ""

    def do_unset(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        for word in argv[1:]:
            if not word.startswith("-") and words.known(word):
                state.assign(word, UNSET)
        return ""

    def do_set(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        rest = argv[1:]
        while rest and rest[0] != "--" and rest[0][:1] in ("-", "+"):
            rest = rest[2:] if rest[0] in ("-o", "+o") else rest[1:]
        if rest or "--" in argv:
            state.positional = tuple(rest[1:] if rest[:1] == ["--"] else rest)
        return ""

    def do_declare(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        options = "".join(word for word in argv[1:] if word.startswith("-"))
        if argv[0] != "export" and "n" in options:
            raise ShellError("it has a variable that is another name of one")
        names = set()
        for word in argv[1:]:
            name, equals, value = word.partition("=")
            if name[:1] not in ("-", "+"):
                names.add(name.removesuffix("+"))
                if equals:
                    state.assign(name, ((value,),) if name[-1:] != "+" else ANY)
        if argv[0] == "export" or "x" in options:
            state.exported |= names
        elif state.local is not None and argv[0] != "readonly" and "g" not in options:
            state.local |= names
        return ""

    def do_shift(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        count = argv[1] if len(argv) > 1 else "1"
        if state.positional is not None:
            state.positional = state.positional[int(count) :] if count.isdigit() else None
        return ""

    def do_read(self, argv: list[str], state: State, stdin: str | None) -> str:
        names = [word for word in argv[1:] if word.isidentifier()]
        is_plain = argv[0] == "read" and all(word in (*names, "-r", "-s") for word in argv[1:])
        fields = None
        # Of several lines, the next round of a loop reads another one.
        if (
            is_plain
            and stdin
            and words.known(stdin)
            and "\n" not in stdin.rstrip("\n")
            and "IFS" not in state.variables
        ):
            fields = [*stdin.split(None, max(len(names) - 1, 0)), *("" for _ in names)]
        for n, name in enumerate(names):
            state.assign(name, ANY if fields is None else ((fields[n].strip(),),))
        return ""

    def do_echo(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        rest = argv[1:]
        escapes = False
        while rest and rest[0].startswith("-") and rest[0][1:] and set(rest[0][1:]) <= set("neE"):
            escapes = "e" in rest[0]
            rest = rest[1:]
        text = " ".join(rest)
        return (words.ansi(text) if escapes and words.known(text) else text) + "\n"

    def do_printf(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        if len(argv) > 2 and argv[1] == "-v":
            output = words.printf(argv[3:])
            state.assign(argv[2], ((UNKNOWN if output is None else output,),))
            return ""
        output = words.printf(argv[1:])
        return UNKNOWN if output is None else output

    def do_pwd(self, argv: list[str], state: State, stdin: str | None) -> str:  # noqa: ARG002
        return UNKNOWN if state.cwd_unknown else state.directory + "\n"


def resolve_path(name: str, directory: str) -> str:
    """The path that a file's name means in a folder; empty if the name is not known."""
    return os.path.normpath(os.path.join(directory, name)) if name and words.known(name) else ""


BUILTINS = {
    "cd": "cd", "pushd": "cd", "popd": "cd", "chdir": "cd", "eval": "eval", "source": "source", ".": "source",
    "trap": "trap", "alias": "alias", "hash": "hash", "unset": "unset", "set": "set", "shift": "shift", "echo": "echo",
    "printf": "printf", "pwd": "pwd", "read": "read", "mapfile": "read", "readarray": "read", "getopts": "read",
}  # fmt: skip
